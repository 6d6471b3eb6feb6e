from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp_core.mechanisms import SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.sums import sgdl
from shuffledp_privacy.sums.clamping import least_padding_sgdl

Law = NDArray[np.float64]
TENTH = Fraction(1, 10)


@cache
def _noise(shares: int, epsilon: Fraction) -> tuple[float, ...]:
    """P(N = m), m >= 0, of one share from the definition, 30 digits."""
    with mpmath.workdps(30):
        r, q = (
            mpmath.mpf(1) / shares,
            mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator),
        )
        return tuple(
            float(
                (1 - q) ** (2 * r)
                * mpmath.rf(r, m)
                / mpmath.factorial(m)
                * q**m
                * mpmath.hyp2f1(r, r + m, m + 1, q * q)
            )
            for m in range(120)
        )


@cache
def _report(spec: SGDLShuffle, value: int) -> tuple[float, ...]:
    masses, top = _noise(spec.shares, spec.noise_epsilon), spec.max_value + 2 * spec.padding
    law = np.zeros(top + 1)
    for noise in range(-119, 120):
        law[min(max(value + noise + spec.padding, 0), top)] += masses[abs(noise)]
    return tuple(law)


def _sum(spec: SGDLShuffle, values: tuple[int, ...]) -> Law:
    law = np.ones(1)
    for value in values:
        law = np.convolve(law, np.array(_report(spec, value)))
    return law


def _true_delta(spec: SGDLShuffle, users: int, epsilon: float, *, metric: bool) -> float:
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(spec.max_value + 1), users - 1):
        laws = [_sum(spec, (*others, value)) for value in range(spec.max_value + 1)]
        for x, y in itertools.permutations(range(spec.max_value + 1), 2):
            total = epsilon * (abs(x - y) if metric else 1)
            worst = max(worst, float(np.maximum(laws[x] - math.exp(total) * laws[y], 0).sum()))
    return worst


@pytest.mark.parametrize(("users", "shares"), [(1, 1), (2, 4), (3, 3), (3, 2), (4, 3)])
@pytest.mark.parametrize("padding", [1, 6, 16])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_certified_truth_and_attained_are_in_order_on_all_datasets(
    users: int, shares: int, padding: int, adjacency: Adjacency
) -> None:
    spec = SGDLShuffle(max_value=3, noise_epsilon=Fraction(3, 4), shares=shares, padding=padding)
    for epsilon in (0.3, 0.75, 1.6):
        truth = _true_delta(spec, users, epsilon, metric=adjacency is Adjacency.METRIC)
        found = delta_bounds(spec, Setting(users, users, adjacency), epsilon)
        assert found.attained <= truth * (1 + 1e-9)
        assert found.certified >= truth * (1 - 1e-9)


@pytest.mark.parametrize(("distance", "delta"), [(1, 2.7e-2), (10, 0.32), (50, 0.94)])
def test_theorem_5_1_fails_with_its_printed_padding(distance: int, delta: float) -> None:
    padding = sgdl.published_padding(TENTH, 1000, 1e-4)
    spec = SGDLShuffle(max_value=1000, noise_epsilon=TENTH, shares=1000, padding=padding)
    found = delta_bounds(spec, Setting(1000, 1000, Adjacency.METRIC, distance), 0.1)
    assert found.attained == pytest.approx(delta, rel=0.02)
    assert found.certified >= found.attained


@pytest.mark.parametrize(
    ("distance", "delta"), [(1, 2.6e-6), (10, 3.4e-5), (50, 2.2e-3), (100, 0.145)]
)
def test_theorem_5_1_fails_at_larger_distances_with_a_correct_padding(
    distance: int, delta: float
) -> None:
    spec = SGDLShuffle(max_value=1000, noise_epsilon=TENTH, shares=1000, padding=77)
    found = delta_bounds(spec, Setting(1000, 1000, Adjacency.METRIC, distance), 0.1)
    assert found.attained == pytest.approx(delta, rel=0.02)
    assert found.certified >= found.attained


def test_enough_padding_keeps_the_central_epsilon() -> None:
    padding = least_padding_sgdl(TENTH, 1000, 1000, 1e-6, 100.0)
    spec = SGDLShuffle(max_value=1000, noise_epsilon=TENTH, shares=1000, padding=padding)
    found = epsilon_bounds(spec, Setting(1000, 1000, Adjacency.METRIC), 1e-6)
    assert found.certified == pytest.approx(0.1, rel=1e-9)
    assert found.published == 0.1
    assert (
        delta_bounds(spec, Setting(1000, 1000, Adjacency.METRIC), found.certified).certified <= 1e-6
    )
    assert found.attained <= found.certified


@pytest.mark.parametrize(("honest", "epsilon"), [(900, 0.146), (500, 0.606)])
def test_with_fewer_honest_users_the_certificate_is_recomputed(honest: int, epsilon: float) -> None:
    spec = SGDLShuffle(max_value=1000, noise_epsilon=TENTH, shares=1000, padding=2000)
    found = epsilon_bounds(spec, Setting(1000, honest, Adjacency.METRIC), 1e-6)
    assert found.certified == pytest.approx(epsilon, abs=1e-3)
    assert found.attained == pytest.approx(epsilon, abs=1e-3)
    assert any(str(honest) in line for line in found.basis)


def test_more_honest_users_than_shares_help_at_positive_delta() -> None:
    spec = SGDLShuffle(max_value=20, noise_epsilon=TENTH, shares=1000, padding=400)
    few = epsilon_bounds(spec, Setting(10**6, 1000), 1e-6)
    many = epsilon_bounds(spec, Setting(10**6, 10**6), 1e-6)
    assert many.certified < 0.2 * few.certified


def test_one_corrupted_report_has_the_epsilon_of_its_largest_ratio() -> None:
    spec = SGDLShuffle(max_value=5, noise_epsilon=Fraction(3, 4), shares=10, padding=8)
    masses = _noise(10, Fraction(3, 4))
    per_unit = corrupted_bounds(spec, Setting(9, 9, Adjacency.METRIC), 0.0).epsilon
    total = corrupted_bounds(spec, Setting(9, 9), 0.0).epsilon
    assert per_unit == pytest.approx(math.log(masses[0] / masses[1]), rel=1e-9)
    assert total == pytest.approx(math.log(masses[0] / masses[5]), rel=1e-9)
    laws = [np.array(_report(spec, value)) for value in range(6)]
    for x, y in itertools.permutations(range(6), 2):
        ratio = float(np.log(laws[x] / laws[y]).max())
        assert ratio <= per_unit * abs(x - y) * (1 + 1e-9)
        assert ratio <= total * (1 + 1e-9)


def test_a_billion_shares_leave_a_corrupted_user_little() -> None:
    spec = SGDLShuffle(max_value=5, noise_epsilon=TENTH, shares=10**9, padding=500)
    found = corrupted_bounds(spec, Setting(10**9, 10**9, Adjacency.METRIC), 0.0)
    assert found.epsilon == pytest.approx(math.log(1e9) + 0.1, rel=1e-3)


def test_the_curve_bounds_the_truth_at_any_sign_with_missing_shares() -> None:
    spec = SGDLShuffle(max_value=3, noise_epsilon=Fraction(3, 4), shares=4, padding=20)
    epsilons = np.linspace(-4, 4, 33)
    curve = certified_curve(spec, Setting(2, 2), 3, epsilons)
    near, far = _sum(spec, (0, 0)), _sum(spec, (0, 3))
    for epsilon, value in zip(epsilons, curve, strict=True):
        for first, second in ((near, far), (far, near)):
            assert value >= float(np.maximum(first - math.exp(epsilon) * second, 0).sum()) * (
                1 - 1e-9
            )


def test_the_standard_error_is_that_of_the_law() -> None:
    spec = SGDLShuffle(max_value=5, noise_epsilon=Fraction(3, 4), shares=10, padding=80)
    variance = 2 * math.fsum(m * m * mass for m, mass in enumerate(_noise(10, Fraction(3, 4))))
    assert standard_error(spec, 30) == pytest.approx(math.sqrt(30 * variance), rel=1e-9)


def test_padding_for_a_thousand_nats_is_found_and_certified() -> None:
    """e^1000 is no float.

    With ε = 1, values 0..1000, δ = 1e-4 the least c with 2 φ^(c+1) (1 + e^1000) <= δ is 1009.
    """
    padding = least_padding_sgdl(Fraction(1), 100, 100, 1e-4, 1000.0)
    assert padding == math.ceil(1000 + math.log(2e4)) - 1 == 1009
    setting = Setting(100, 100, Adjacency.METRIC)
    for bits, epsilon in ((padding, 1.0), (padding - 1, None)):
        spec = SGDLShuffle(max_value=1000, noise_epsilon=Fraction(1), shares=100, padding=bits)
        found = epsilon_bounds(spec, setting, 1e-4)
        assert found.attained <= found.certified
        if epsilon is not None:
            assert found.certified == pytest.approx(epsilon, rel=1e-9)
            assert found.attained >= 0.98
            assert delta_bounds(spec, setting, found.certified).certified <= 1e-4


def test_calibration_for_a_large_change_finds_its_padding() -> None:
    target = Target(1.0, 1e-4, 100, 100, Adjacency.METRIC, None, 1000)
    spec = calibrate("sgdl-shuffle", target)
    assert isinstance(spec, SGDLShuffle)
    assert 0.99 <= epsilon_bounds(spec, target.setting, 1e-4).certified <= 1
    assert 1009 <= spec.padding <= 1030


def test_wide_noise_costs_no_more_than_its_pure_epsilon() -> None:
    """A whole noise of ε 1/3000 a unit, of which the padding cuts next to nothing.

    The brackets of its excess are 1e-4 too wide, so that no plan for ε = 1 was found.
    """
    rate = Fraction(699, 2**21)
    spec = SGDLShuffle(max_value=3000, noise_epsilon=rate, shares=2, padding=43429)
    found = epsilon_bounds(spec, Setting(2, 2), 1e-6)
    assert found.attained <= found.certified <= float(3000 * rate) * (1 + 1e-12) < 1
    target = Target(1.0, 1e-6, 1000, 1000, Adjacency.STANDARD, None, 3000)
    plan = calibrate("sgdl-shuffle", target)
    assert 0.99 < epsilon_bounds(plan, target.setting, 1e-6).certified <= 1
