from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import DiscreteLaplacePrivacyLoss
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import CannotCertify
from shuffledp_privacy.primitives import noise
from shuffledp_privacy.primitives.contour import log_cdf, log_pmf
from shuffledp_privacy.primitives.noise import (
    ContourNoise,
    SgdlLaw,
    rounded_ratio,
    sum_noise,
    table_length,
)
from shuffledp_privacy.primitives.table import build_table


def _mass(shape: float, ratio: float, point: int) -> mpmath.mpf:
    """P(m) from the definition: the difference of two negative binomials, summed with 50 digits."""
    with mpmath.workdps(50):
        r, q, m = mpmath.mpf(shape), mpmath.mpf(ratio), abs(point)
        first = (
            (1 - q) ** (2 * r) * mpmath.gamma(r + m) / mpmath.gamma(r) / mpmath.factorial(m) * q**m
        )
        return first * mpmath.hyp2f1(r, r + m, m + 1, q * q)


def _divergence(shape: float, ratio: float, distance: int, epsilon: float, reach: int) -> float:
    masses = [_mass(shape, ratio, m) for m in range(reach + distance + 1)]
    with mpmath.workdps(50):
        growth = mpmath.exp(epsilon)
        terms = (
            masses[abs(y)] - growth * masses[abs(y - distance)] for y in range(-reach, reach + 1)
        )
        return float(mpmath.fsum(term for term in terms if term > 0))


@pytest.mark.parametrize(
    ("shape", "ratio"), [(0.001, 0.9), (0.4, 0.5), (1.0, 0.8), (2.5, 0.3), (40.0, 0.9)]
)
def test_a_tabulated_law_agrees_with_fifty_digits(shape: float, ratio: float) -> None:
    table = build_table(shape, ratio, table_length(shape, ratio))
    points = np.array([0, 1, 2, 7, 30, 90])
    found = table.mass(points.astype(float))
    for index, point in enumerate(points):
        truth = float(mpmath.log(_mass(shape, ratio, int(point))))
        assert found.low[index] <= truth <= found.high[index]
        assert found.high[index] - found.low[index] < 1e-9


@pytest.mark.parametrize("shape", [0.3, 1.0, 3.5])
def test_tabulated_tails_agree_with_fifty_digits(shape: float) -> None:
    ratio = 0.7
    table = build_table(shape, ratio, table_length(shape, ratio))
    masses = [_mass(shape, ratio, m) for m in range(600)]
    for point in (-20, 0, 1, 12, 60):
        truth = float(mpmath.log(mpmath.fsum(masses[abs(y)] for y in range(point, 500))))
        found = table.at_least(np.array([float(point)]))
        assert found.low[0] <= truth + 1e-15
        assert truth - 1e-15 <= found.high[0]
        assert found.high[0] - found.low[0] < 1e-9


def test_the_table_brackets_the_law_far_beyond_its_end() -> None:
    for shape in (0.2, 1.0, 4.0):
        table = build_table(shape, 0.5, 60)
        truth = float(mpmath.log(_mass(shape, 0.5, 200)))
        found = table.mass(np.array([200.0]))
        assert found.low[0] <= truth <= found.high[0]


@pytest.mark.parametrize(
    ("shape", "ratio"), [(64.0, 0.95), (500.0, 0.4), (20_000.0, 0.2), (100.0, 1e-6)]
)
def test_the_contour_sum_agrees_with_fifty_digits(shape: float, ratio: float) -> None:
    law = SgdlLaw(shape, ratio)
    deviation = math.sqrt(2 * shape * ratio) / (1 - ratio)
    for point in {0, round(-2 * deviation), round(-7 * deviation)}:
        found = log_pmf(law, np.array([float(point)]))
        truth = float(mpmath.log(_mass(shape, ratio, point)))
        assert found.low[0] <= truth <= found.high[0]
        assert found.high[0] - found.low[0] < 1e-8


@pytest.mark.parametrize(
    ("shape", "ratio", "point"), [(64.0, 0.9, 4000), (10.0, 0.999, 30_000), (1000.0, 0.2, 3000)]
)
def test_the_contour_sum_holds_in_the_deepest_tails(shape: float, ratio: float, point: int) -> None:
    found = log_pmf(SgdlLaw(shape, ratio), np.array([-float(point)]))
    truth = mpmath.log(_mass(shape, ratio, point))
    assert found.low[0] <= truth <= found.high[0]
    assert found.high[0] - found.low[0] < 1e-9


def test_the_contour_distribution_function_agrees_with_a_sum_of_masses() -> None:
    law = SgdlLaw(200.0, 0.6)
    masses = [_mass(200.0, 0.6, m) for m in range(700)]
    for point in (-200, -100, -30, 0, 40):
        truth = float(mpmath.log(mpmath.fsum(masses[abs(y)] for y in range(-690, point + 1))))
        found = log_cdf(law, np.array([float(point)]))
        assert found.low[0] <= truth <= found.high[0]
        assert found.high[0] - found.low[0] < 1e-8


@pytest.mark.parametrize("shape", [0.05, 0.5, 0.9, 1.0, 1.7, 6.0])
def test_the_divergence_brackets_a_full_sum(shape: float) -> None:
    ratio = 0.6
    table = build_table(shape, ratio, table_length(shape, ratio))
    for distance in (1, 2, 5, 9):
        for epsilon in (0.0, 0.3, 0.51 * distance, 0.9 * distance, 3.0 * distance):
            truth = _divergence(shape, ratio, distance, epsilon, 150)
            upper, lower = table.divergence(np.array([distance]), np.array([epsilon]))
            assert lower[0] <= truth * (1 + 1e-12) + 1e-15
            assert upper[0] >= truth * (1 - 1e-12)
            assert upper[0] - lower[0] <= 1e-8 + 1e-6 * truth


@given(st.fractions(min_value=Fraction(1, 1000), max_value=667, max_denominator=10**6))
@example(Fraction(62_909, 9_077))
@settings(max_examples=300)
def test_the_ratio_of_an_exact_rational_is_never_more_noise_than_there_is(
    epsilon: Fraction,
) -> None:
    """Before: the margin left out the rounding of ε to a double, which counts ε times in φ."""
    with mpmath.workdps(60):
        truth = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        found = mpmath.mpf(rounded_ratio(epsilon))
        assert found <= truth
        assert found >= truth * (1 - (16 + 4 * float(epsilon)) * mpmath.mpf(2) ** -53)


def test_two_representations_of_a_large_sum_agree() -> None:
    ratio = rounded_ratio(Fraction(1, 5))
    table = build_table(150.0, ratio, table_length(150.0, ratio))
    contour = ContourNoise(SgdlLaw(150.0, ratio))
    distances = np.array([1, 10, 300, 1000])
    for delta in (1e-3, 1e-9):
        first, second = (
            table.least(distances, delta, 0.0)[0],
            contour.least(distances, delta, 0.0)[0],
        )
        assert np.allclose(first, second, rtol=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "distance"), [(Fraction(1, 10), 7), (Fraction(1), 1), (Fraction(1, 2), 40)]
)
def test_one_share_is_the_discrete_laplace_mechanism_of_dp_accounting(
    epsilon: Fraction, distance: int
) -> None:
    law = sum_noise(Fraction(1), epsilon)
    other = DiscreteLaplacePrivacyLoss(float(epsilon), sensitivity=distance)
    for part in (0.1, 0.5, 0.93):
        total = part * float(epsilon) * distance
        upper, lower = law.divergence(np.array([distance]), np.array([total]))
        truth = other.get_delta_for_epsilon(total)
        assert lower[0] - 1e-12 <= truth <= upper[0] + 1e-12
        assert upper[0] - lower[0] < 1e-8


@pytest.mark.parametrize(("left", "epsilon"), [(900, 0.146), (500, 0.606)])
def test_missing_shares_are_weak_at_distance_one(left: int, epsilon: float) -> None:
    law = sum_noise(Fraction(left, 1000), Fraction(1, 10))
    certified, attained = law.least(np.array([1]), 1e-6, 0.0)
    assert certified[0] == pytest.approx(epsilon, abs=5e-4)
    assert attained[0] <= certified[0] <= attained[0] * (1 + 1e-6)


def test_a_billion_users_with_little_noise_are_bracketed() -> None:
    law = sum_noise(Fraction(10**9), Fraction(1))
    assert isinstance(law, ContourNoise)
    certified, attained = law.least(np.array([1, 20, 1000]), 1e-6, 0.0)
    assert (attained <= certified).all()
    assert (certified <= attained * (1 + 1e-3)).all()
    # The noise is nearly Gaussian with variance 2 r φ/(1-φ)²: compare with the analytic Gaussian
    # mechanism.
    sigma = math.sqrt(2e9 * math.exp(-1)) / -math.expm1(-1)
    drift = certified[1] * sigma / 20
    gauss = _gauss(10 / sigma - drift) - math.exp(certified[1]) * _gauss(-10 / sigma - drift)
    assert gauss == pytest.approx(1e-6, rel=1e-3)


def test_a_billion_users_with_much_noise_are_bracketed() -> None:
    certified, attained = sum_noise(Fraction(10**9), Fraction(1, 100)).least(
        np.array([1, 20]), 1e-9, 0.0
    )
    assert (attained <= certified).all()
    assert (certified <= attained * 1.01).all()


def _gauss(value: float) -> float:
    return float(mpmath.ncdf(value))


def test_simulated_noise_exceeds_no_bound() -> None:
    """Total variation at shift 3 by 4e6 draws.

    Hoeffding: false alarm below 1e-10 at the tolerance used.
    """
    draws, generator = 4_000_000, np.random.default_rng(7)
    sample = generator.negative_binomial(2.5, 0.4, draws) - generator.negative_binomial(
        2.5, 0.4, draws
    )
    estimate = float((sample <= 1).mean() - (sample + 3 <= 1).mean())
    table = build_table(2.5, 0.6, table_length(2.5, 0.6))
    upper = float(table.divergence(np.array([3]), np.array([0.0]))[0][0])
    tolerance = 2 * math.sqrt(math.log(2 / 2.5e-11) / (2 * draws))
    assert abs(estimate - upper) < tolerance


def test_law_too_wide_for_fewer_than_one_share_is_refused() -> None:
    with pytest.raises(CannotCertify, match="larger epsilon or more honest users"):
        sum_noise(Fraction(1, 3), Fraction(1, 10**6))


def test_without_representable_noise_the_sum_counts_as_revealed() -> None:
    law = sum_noise(Fraction(5), Fraction(800))
    assert isinstance(law, noise.NoNoise)
    assert law.divergence(np.array([1]), np.array([3.0]))[0][0] == 1.0


@settings(deadline=None, max_examples=40)
@given(
    shape=st.fractions(Fraction(1, 50), Fraction(30)),
    more=st.fractions(Fraction(0), Fraction(3)),
    distance=st.integers(1, 60),
    epsilon=st.floats(0, 5),
)
def test_more_noise_a_smaller_change_and_a_larger_epsilon_never_raise_delta(
    shape: Fraction, more: Fraction, distance: int, epsilon: float
) -> None:
    rate = Fraction(2, 5)
    base = sum_noise(shape, rate).divergence(
        np.array([distance, distance + 1, distance]), np.array([epsilon] * 3)
    )
    noisier = sum_noise(shape + more, rate).divergence(np.array([distance]), np.array([epsilon]))
    later = sum_noise(shape, rate).divergence(np.array([distance]), np.array([epsilon + 0.1]))
    assert base[0][1] >= base[1][0]
    assert base[0][0] >= noisier[1][0]
    assert base[0][0] >= later[1][0]
