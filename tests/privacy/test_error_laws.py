"""Laws of errors against sums written out, and against mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_privacy.bounds import standard_error
from shuffledp_privacy.sums.errors import bits_error, error_law, sgdl_error, sgdl_log_mass


def mass_by_series(shape: float, epsilon: float, point: int) -> float:
    """P(Y = m) by the series that Athanasiou et al. 2025 print in section 4.1.1, with 40 digits."""
    with mpmath.workdps(40):
        phi = mpmath.exp(-mpmath.mpf(epsilon))
        terms = mpmath.nsum(
            lambda k: (
                mpmath.binomial(shape + k + point - 1, k + point)
                * mpmath.binomial(shape + k - 1, k)
                * phi ** (2 * k + point)
            ),
            [0, mpmath.inf],
        )
        return float(mpmath.log((1 - phi) ** (2 * shape) * terms))


@pytest.mark.parametrize(
    ("shape", "epsilon", "point"),
    [(10, math.log(2), 10), (0.01, 0.1, 3), (0.01, 0.1, 0), (50, 0.2, 300), (3, 1.0, 90)],
)
def test_the_log_mass_is_that_of_the_printed_series(
    shape: float, epsilon: float, point: int
) -> None:
    found = sgdl_log_mass(shape, epsilon, np.array([point, -point]))
    np.testing.assert_allclose(found, mass_by_series(shape, epsilon, point), rtol=0, atol=1e-9)


def test_one_discrete_laplace_has_the_closed_form_of_its_mean_absolute_error() -> None:
    law = sgdl_error(1.0, 0.1)
    phi = math.exp(-0.1)
    assert law.mean_absolute() == pytest.approx(2 * phi / (1 - phi**2), rel=1e-9)
    assert law.root_mean_square() == pytest.approx(math.sqrt(2 * phi) / (1 - phi), rel=1e-9)
    # P(|Y| <= h) = 1 - 2 φ^(h+1)/(1+φ)
    least = next(h for h in range(1000) if 1 - 2 * phi ** (h + 1) / (1 + phi) >= 0.75)
    assert law.quantile(0.75) == least
    assert law.mass.sum() == pytest.approx(1.0, abs=1e-9)


def test_few_bits_are_those_counted_one_by_one() -> None:
    bits, ones, p = 7, 3, 0.3
    law = bits_error(bits, ones, p)
    expected: dict[float, float] = {}
    for pattern in np.ndindex(*(2,) * bits):
        flips = sum(pattern)
        count = sum((i < ones) != bool(flip) for i, flip in enumerate(pattern))
        error = round((count - bits * p / 2) / (1 - p) - ones, 9)
        expected[error] = expected.get(error, 0.0) + (p / 2) ** flips * (1 - p / 2) ** (
            bits - flips
        )
    found = dict(zip(np.round(law.errors, 9).tolist(), law.mass.tolist(), strict=True))
    assert found == pytest.approx(expected, abs=1e-12)


def test_every_law_agrees_with_the_stated_standard_error_of_its_mechanism() -> None:
    for spec in (
        GeoShuffle(max_value=50, epsilon_geo=Fraction(1, 4), padding=400),
        SGDLShuffle(max_value=50, noise_epsilon=Fraction(1, 4), shares=80, padding=400),
        RRShuffle(max_value=50, randomise=Fraction(1, 8)),
    ):
        law = error_law(spec, 100, 2345)
        assert law.root_mean_square() == pytest.approx(standard_error(spec, 100), rel=1e-6)
        assert law.mass @ law.errors == pytest.approx(0.0, abs=1e-6)


def test_samples_follow_the_law() -> None:
    law = sgdl_error(5.0, 0.5)
    draws = law.sample(100_000, np.random.default_rng(1))
    # Ten standard errors of a mean of 100,000: a false alarm below 1e-20; and the seed is fixed.
    assert abs(
        np.abs(draws).mean() - law.mean_absolute()
    ) < 10 * law.root_mean_square() / math.sqrt(100_000)


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in (
        lambda: sgdl_error(0.0, 1.0),
        lambda: sgdl_error(1.0, 1e-8),
        lambda: sgdl_log_mass(1.0, 0.0, np.array([1])),
        lambda: sgdl_log_mass(1.0, 1.0, np.array([10**7])),
        lambda: bits_error(3, 4, 0.1),
        lambda: sgdl_error(1.0, 1.0).quantile(2.0),
        lambda: error_law(KRRHistogram(symbols=3, blanket=Fraction(1, 2)), 3, 1),
    ):
        with pytest.raises(UsageError):
            wrong()
