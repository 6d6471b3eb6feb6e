"""The special functions that certificates use, against mpmath and scipy."""

from __future__ import annotations

import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from scipy import special

from shuffledp_privacy.calibration.proposal import NoiseShares, clamping, next_fast_length
from shuffledp_privacy.numerics.special import (
    log_beta,
    log_gamma,
    log_incomplete_beta,
    log_normal_cdf,
    normal_quantile,
)


@pytest.mark.parametrize(
    "points", [np.linspace(-60.0, 9.0, 277), np.array([-1e4, -30.0, -29.999, -37.6, 0.0, 38.0])]
)
def test_the_normal_law_errs_by_less_than_it_says(points: np.ndarray) -> None:
    with mpmath.workdps(40):
        for x in points.tolist():
            true = mpmath.log(mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2)
            assert abs(log_normal_cdf(x) - true) <= 2.0**-50 * (1 + abs(true))


def test_normal_quantiles_err_by_less_than_they_say() -> None:
    small = np.array([5e-324, 1e-310, 1e-200, 1e-12, 0.02, 0.075, 0.4, 0.499999])
    probabilities = np.concatenate((small, [0.50001, 0.8, 1 - 2.0**-30, 1 - 2.0**-53]))
    for probability, quantile in zip(
        probabilities.tolist(), normal_quantile(probabilities).tolist(), strict=True
    ):
        with mpmath.workdps(60):
            # One step of Newton from there, in the smaller tail, is exact to twice the digits.
            x = mpmath.mpf(quantile)
            sign = 1 if probability <= 0.5 else -1
            tail = mpmath.mpf(probability) if sign > 0 else 1 - mpmath.mpf(probability)
            value = mpmath.erfc(-sign * x / mpmath.sqrt(2)) / 2
            error = (value - tail) / mpmath.npdf(x)
            assert abs(error) <= 2.0**-48 * abs(x)
    assert normal_quantile(np.array([0.0, 0.5, 1.0])).tolist() == [-math.inf, 0.0, math.inf]


def test_the_incomplete_beta_agrees_with_scipy_in_both_halves() -> None:
    generator = np.random.default_rng(20)
    a = np.exp(generator.uniform(0, 9, 4000))
    b = np.exp(generator.uniform(0, 9, 4000))
    logit = np.log(a / b) + generator.normal(size=4000) * 3 * np.sqrt(1 / a + 1 / b)
    logs, slopes = log_incomplete_beta(a, b, logit, log_beta(a, b))
    x = special.expit(logit)
    expected = special.betainc(a, b, x)
    seen = (expected > 1e-290) & (x < 1)
    assert seen.sum() > 2000
    sizes = 1 + (a + b) * np.log(a + b + 2) + np.abs(logit) * (a + b)
    error = np.abs(logs - np.log(np.maximum(expected, 1e-300)))
    assert np.all(error[seen] <= 2.0**-44 * sizes[seen])
    ahead, _ = log_incomplete_beta(a, b, logit + 1e-6, log_beta(a, b))
    change = (ahead - logs)[seen] / 1e-6
    assert np.allclose(change, slopes[seen], rtol=1e-2, atol=1e-2)


def test_log_gamma_agrees_with_scipy() -> None:
    values = np.concatenate((np.linspace(1e-3, 5, 100), [1e3, 1e6 + 0.5, 1e12]))
    assert np.allclose(log_gamma(values), special.gammaln(values), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("share", [1.0, 0.1, 1e-3, 1e-6])
@pytest.mark.parametrize("rate", [3.0, 0.5, 0.01])
def test_estimates_of_clamping_agree_with_scipy(share: float, rate: float) -> None:
    ratio = math.exp(-rate)
    for padding in (0, 3, 40, 700):
        tail = 2 * special.betainc(padding + 1.0, share, ratio) * (1 + ratio) ** -share
        found = clamping(NoiseShares(rate, share, 50), padding)
        assert found == pytest.approx(min(1.0, 50 * tail), rel=1e-6)


def test_a_fast_length_is_the_least_without_other_factors() -> None:
    smooth = sorted(
        2**two * 3**three * 5**five for two in range(13) for three in range(9) for five in range(7)
    )
    for length in range(1, 2000):
        assert next_fast_length(length) == next(size for size in smooth if size >= length)


def test_no_package_that_calculates_imports_scipy() -> None:
    code = (
        "import importlib, pkgutil, sys\n"
        "for name in ('shuffledp_privacy', 'shuffledp_core', 'shuffledp'):\n"
        "    package = importlib.import_module(name)\n"
        "    for found in pkgutil.walk_packages(package.__path__, name + '.'):\n"
        "        if not found.name.endswith('__main__'):\n"
        "            importlib.import_module(found.name)\n"
        "print('scipy' in sys.modules, len(sys.modules) > 100)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.split() == ["False", "True"]
