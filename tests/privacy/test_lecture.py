"""The lecture's mechanisms against enumeration, quadrature and Monte Carlo."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.local.lecture import (
    LaplaceMean,
    OneBitMean,
    binary_response,
    cheu_binary_sum,
    mean_variance,
)
from shuffledp_privacy.local.rappor import RapporPermanent, RapporReport, rappor_epsilon
from shuffledp_privacy.local.rdp import published_rdp_epsilon, published_shuffle_rdp
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

STANDARD = Setting(1, 1)
METRIC = Setting(1, 1, Adjacency.METRIC)


def chance_of_one(epsilon: float, value: int, largest: int) -> float:
    """The lecture's formula, as printed above (9.2)."""
    grown = math.exp(epsilon)
    return 1 / (grown + 1) + value / largest * (grown - 1) / (grown + 1)


def brute_one_bit_delta(epsilon: float, largest: int, target: float, setting: Setting) -> float:
    worst = 0.0
    for x, y in itertools.permutations(range(largest + 1), 2):
        distance = abs(x - y)
        total = target * (distance if setting.adjacency is Adjacency.METRIC else 1)
        p, q = chance_of_one(epsilon, x, largest), chance_of_one(epsilon, y, largest)
        delta = max(p - math.exp(total) * q, 0.0) + max(1 - p - math.exp(total) * (1 - q), 0.0)
        worst = max(worst, delta)
    return worst


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 4.0),
    st.integers(1, 9),
    st.floats(0.0, 1.0),
    st.sampled_from([STANDARD, METRIC]),
)
def test_one_bit_delta_brackets_brute_force_over_all_pairs(
    epsilon: float, largest: int, share: float, setting: Setting
) -> None:
    exact = brute_one_bit_delta(epsilon, largest, share * epsilon, setting)
    found = delta_bounds(OneBitMean(epsilon, largest), setting, share * epsilon)
    assert found.attained <= exact + 1e-15
    assert found.certified >= exact - 1e-15
    assert found.certified == pytest.approx(exact, rel=1e-9, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.05, 4.0),
    st.integers(1, 9),
    st.floats(0.0, 0.3),
    st.sampled_from([STANDARD, METRIC]),
)
def test_one_bit_epsilon_is_where_brute_force_reaches_delta(
    epsilon: float, largest: int, delta: float, setting: Setting
) -> None:
    found = epsilon_bounds(OneBitMean(epsilon, largest), setting, delta)
    assert found.attained <= found.certified
    assert brute_one_bit_delta(epsilon, largest, found.certified, setting) <= delta + 1e-14
    if found.attained > 1e-6:
        assert brute_one_bit_delta(epsilon, largest, found.attained * (1 - 1e-6), setting) >= delta


def laplace_delta_by_quadrature(loss: float, total: float) -> float:
    """HS of Laplace(0, 1) and Laplace(loss, 1), integrated between the kinks with 30 digits."""
    mpmath.mp.dps = 30

    def excess(y: mpmath.mpf) -> mpmath.mpf:
        return max(
            mpmath.exp(-abs(y)) / 2 - mpmath.exp(total) * mpmath.exp(-abs(y - loss)) / 2,
            mpmath.mpf(0),
        )

    kinks = sorted({-60.0, 0.0, (loss - total) / 2, loss, loss + 60.0})
    return float(mpmath.quad(excess, kinks))


@pytest.mark.parametrize(
    ("epsilon", "largest", "distance", "total"),
    [(1.0, 1, 1, 0.3), (2.0, 4, 3, 1.0), (0.5, 5, 1, 0.05)],
)
def test_laplace_curve_is_the_integral(
    epsilon: float, largest: int, distance: int, total: float
) -> None:
    exact = laplace_delta_by_quadrature(distance * epsilon / largest, total)
    found = certified_curve(LaplaceMean(epsilon, largest), STANDARD, distance, np.array([total]))[0]
    assert exact - 1e-14 <= found <= exact + 1e-9


@pytest.mark.parametrize("spec", [OneBitMean(1.3, 4), LaplaceMean(1.3, 4), RapporPermanent(2, 0.4)])
def test_curves_at_negative_epsilon_follow_from_the_positive_ones(spec: object) -> None:
    epsilons = np.linspace(0.0, 2.0, 21)
    above, below = (certified_curve(spec, STANDARD, 4, s * epsilons) for s in (1.0, -1.0))
    assert below == pytest.approx(1 - np.exp(-epsilons) * (1 - above), rel=1e-9)


def test_laplace_costs_the_same_per_unit_at_every_distance_when_pure() -> None:
    found = epsilon_bounds(LaplaceMean(2.0, 10), METRIC, 0.0)
    assert found.attained <= 0.2 <= found.certified
    assert found.certified == pytest.approx(0.2, rel=1e-9)


def test_the_lectures_hundred_answers_cost_a_hundred_epsilons() -> None:
    rounds = [Round(binary_response(math.log(3)), STANDARD, 100)]
    assert compose_epsilon(rounds, 0.0) == pytest.approx(100 * math.log(3), rel=1e-9)
    assert compose_epsilon(rounds, 1e-6) < 100 * math.log(3)


@pytest.mark.parametrize("spec", [OneBitMean(1.0, 5), LaplaceMean(1.0, 5)])
def test_local_mechanisms_keep_everything_when_all_nodes_are_corrupt(
    spec: OneBitMean | LaplaceMean,
) -> None:
    local = corrupted_bounds(spec, STANDARD, 1e-6)
    assert local.delta == 0
    assert local.epsilon == pytest.approx(1.0, rel=1e-9)


def test_one_bit_variance_is_that_of_all_possible_answers() -> None:
    values, epsilon, largest = [0, 2, 3, 1], 0.8, 3
    grown = math.exp(epsilon)
    mean = square = 0.0
    for bits in itertools.product((0, 1), repeat=len(values)):
        chances = [chance_of_one(epsilon, x, largest) for x in values]
        weight = math.prod(c if b else 1 - c for b, c in zip(bits, chances, strict=True))
        estimate = largest / len(values) * sum((b * (grown + 1) - 1) / (grown - 1) for b in bits)
        mean, square = mean + weight * estimate, square + weight * estimate**2
    assert mean == pytest.approx(1.5, rel=1e-12)
    assert mean_variance(OneBitMean(epsilon, largest), values) == pytest.approx(
        square - mean**2, rel=1e-12
    )


def test_laplace_variance_agrees_with_a_million_draws() -> None:
    # 10^6 Laplace draws: the sample variance has relative standard deviation sqrt(5/1e6); 7 of them
    # fail with probability below 3e-12.
    draws = np.random.default_rng(1).laplace(scale=4 / 0.5, size=10**6)
    exact = mean_variance(LaplaceMean(0.5, 4), [0])
    assert abs(float(draws.var()) / exact - 1) < 7 * math.sqrt(5e-6)


def test_the_standard_error_is_the_worst_over_all_values() -> None:
    for largest in (1, 2, 5):
        spec = OneBitMean(0.7, largest)
        worst = max(mean_variance(spec, [x] * 9) for x in range(largest + 1))
        assert standard_error(spec, 9) == pytest.approx(9 * math.sqrt(worst), rel=1e-12)
    assert standard_error(LaplaceMean(0.5, 4), 100) == pytest.approx(
        10 * math.sqrt(2) * 8, rel=1e-12
    )


def brute_rappor(low: float, high: float, hashes: int, total: float) -> float:
    first, second = [high] * hashes + [low] * hashes, [low] * hashes + [high] * hashes
    delta = 0.0
    for bits in itertools.product((0, 1), repeat=2 * hashes):
        p, q = (
            math.prod(c if b else 1 - c for b, c in zip(bits, side, strict=True))
            for side in (first, second)
        )
        delta += max(p - math.exp(total) * q, 0.0)
    return delta


@pytest.mark.parametrize("hashes", [1, 2, 3])
@pytest.mark.parametrize("total", [0.0, 0.4, 1.7])
def test_rappor_delta_brackets_enumeration_of_all_reports(hashes: int, total: float) -> None:
    fake, when_zero, when_one = 0.5, 0.25, 0.75
    for spec, low, high in (
        (RapporPermanent(hashes, fake), 0.25, 0.75),
        (RapporReport(hashes, fake, when_zero, when_one), 0.375, 0.625),
    ):
        exact = brute_rappor(low, high, hashes, total)
        found = delta_bounds(spec, STANDARD, total)
        assert found.attained <= exact * (1 + 1e-12)
        assert found.certified >= exact * (1 - 1e-12)
        assert found.certified == pytest.approx(exact, rel=1e-8, abs=1e-11)


def test_rappor_epsilons_are_the_largest_likelihood_ratios() -> None:
    # Erlingsson 2014, figure of the lecture: h = 4, f = 1/2, p = 1/4, q = 3/4.
    assert rappor_epsilon(RapporPermanent(4, 0.5)) == pytest.approx(8 * math.log(3), rel=1e-9)
    ratio = (0.625 / 0.375) ** 4 * ((1 - 0.375) / (1 - 0.625)) ** 4
    assert rappor_epsilon(RapporReport(4, 0.5, 0.25, 0.75)) == pytest.approx(
        math.log(ratio), rel=1e-9
    )


def test_reports_that_share_a_kept_filter_are_not_composed() -> None:
    with pytest.raises(UsageError, match="compose"):
        compose_epsilon([Round(RapporReport(2, 0.5, 0.25, 0.75), STANDARD, 10)], 1e-6)


def test_rappor_counts_have_the_error_of_their_bits() -> None:
    # 1 - f halves the signal, and the response lies between 3/8 and 5/8.
    expected = math.sqrt(1000 * 0.375 * 0.625) / 0.25
    assert standard_error(RapporReport(2, 0.5, 0.25, 0.75), 1000) == pytest.approx(
        expected, rel=1e-12
    )


def test_cheus_sum_is_a_one_bit_shuffle_with_the_printed_probability() -> None:
    spec = cheu_binary_sum(10_000, 0.5, 1e-6)
    printed = math.log(1e6) / (10_000 * 0.25)
    assert isinstance(spec, RRShuffle)
    assert spec.messages_per_user == 1
    assert printed <= spec.randomise <= printed + Fraction(1, 2**39)


@pytest.mark.parametrize(
    ("users", "epsilon", "delta"), [(10, 0.1, 1e-6), (0, 1.0, 0.1), (10, 0.0, 0.1), (10, 1.0, 1.0)]
)
def test_cheus_sum_refuses_what_the_formula_does_not_cover(
    users: int, epsilon: float, delta: float
) -> None:
    with pytest.raises(UsageError):
        cheu_binary_sum(users, epsilon, delta)


@pytest.mark.parametrize(
    "build",
    [
        lambda: OneBitMean(0.0),
        lambda: OneBitMean(101.0),
        lambda: LaplaceMean(1.0, 0),
        lambda: RapporPermanent(0, 0.5),
        lambda: RapporPermanent(1, 1.0),
        lambda: RapporReport(1, 0.5, 0.7, 0.3),
        lambda: mean_variance(OneBitMean(1.0, 3), [4]),
        lambda: mean_variance(OneBitMean(1.0, 3), []),
        lambda: published_shuffle_rdp(1.0, 100, 1),
        lambda: published_rdp_epsilon(1.0, 100, 0.0),
        lambda: delta_bounds(LaplaceMean(1.0), STANDARD, -1.0),
        lambda: epsilon_bounds(LaplaceMean(1.0), STANDARD, -1.0),
    ],
)
def test_parameters_out_of_range_are_usage_errors(build: object) -> None:
    with pytest.raises(UsageError):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("epsilon0", "reports", "order", "rate"),
    [(1, 1000, 5, 1), (2, 1000, 20, 0.1), (0.1, 10**4, 64, 0.01)],
)
def test_the_printed_renyi_bound_is_girgis_formula(
    epsilon0: float, reports: int, order: int, rate: float
) -> None:
    mpmath.mp.dps = 50
    grown, share = mpmath.exp(mpmath.mpf(epsilon0)), mpmath.mpf(rate)
    blocks = mpmath.floor((reports - 1) / (2 * grown)) + 1
    total = 1 + 4 * mpmath.binomial(order, 2) * share**2 * (grown - 1) ** 2 / (blocks * grown)
    for j in range(3, order + 1):
        spread = 2 * (grown**2 - 1) ** 2 / (blocks * grown**2)
        total += (
            mpmath.binomial(order, j)
            * share**j
            * j
            * mpmath.gamma(mpmath.mpf(j) / 2)
            * spread ** (mpmath.mpf(j) / 2)
        )
    rare = share * (grown**2 - 1) / (2 * grown)
    total += ((1 + rare) ** order - 1 - order * rare) * mpmath.exp(-(reports - 1) / (8 * grown))
    printed = float(mpmath.log(total) / (order - 1))
    assert published_shuffle_rdp(epsilon0, reports, order, rate) == pytest.approx(printed, rel=1e-6)


def test_more_rounds_cost_more_in_the_printed_renyi_bound() -> None:
    costs = [published_rdp_epsilon(1.0, 10_000, 1e-6, rounds=t) for t in (1, 10, 100)]
    assert costs == sorted(costs)
    assert published_rdp_epsilon(1.0, 10_000, 1e-6, rounds=100, rate=0.1) < costs[2]
