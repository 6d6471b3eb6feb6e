from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

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
from shuffledp_privacy.primitives.bits import BitPair, BitSum
from shuffledp_privacy.primitives.contour import log_cdf, log_pmf
from shuffledp_privacy.primitives.pairs import hockey_stick
from shuffledp_privacy.sums import rr


def _sum(bits: int, ones: int, flip: float) -> NDArray[np.float64]:
    """Law of the number of ones shown, of `ones` true ones among `bits` bits, one bit after the
    other."""
    law = np.ones(1)
    for index in range(bits):
        chance = 1 - flip if index < ones else flip
        law = np.convolve(law, np.array([1 - chance, chance]))
    return law


def _true_delta(spec: RRShuffle, users: int, epsilon: float, *, metric: bool) -> float:
    """Worst divergence over all datasets (only the sum of the values matters) and both
    directions."""
    flip, k = float(spec.randomise) / 2, spec.max_value
    laws = [_sum(users * k, ones, flip) for ones in range(users * k + 1)]
    worst = 0.0
    for x, y in itertools.permutations(range(k + 1), 2):
        growth = math.exp(epsilon * (abs(x - y) if metric else 1))
        for rest in range((users - 1) * k + 1):
            worst = max(worst, float(np.maximum(laws[rest + x] - growth * laws[rest + y], 0).sum()))
    return worst


@pytest.mark.parametrize("users", [1, 2, 3, 6])
@pytest.mark.parametrize("randomise", [Fraction(1, 10), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_certified_truth_and_attained_are_in_order_on_all_datasets(
    users: int, randomise: Fraction, adjacency: Adjacency
) -> None:
    spec = RRShuffle(max_value=3, randomise=randomise)
    for epsilon in (0.05, 0.6, 2.0):
        truth = _true_delta(spec, users, epsilon, metric=adjacency is Adjacency.METRIC)
        found = delta_bounds(spec, Setting(users, users, adjacency), epsilon)
        assert found.attained <= truth * (1 + 1e-9)
        assert found.certified >= truth * (1 - 1e-9)
        assert found.certified <= truth * 1.05 + 1e-12


def test_the_contour_sum_of_bits_agrees_with_fifty_digits() -> None:
    with mpmath.workdps(50):
        masses = [
            mpmath.binomial(900, m) * mpmath.mpf("0.125") ** m * mpmath.mpf("0.875") ** (900 - m)
            for m in range(901)
        ]
        law = BitSum(np.array([900.0]), np.array([0.0]), 0.125)
        for point in (0, 3, 60, 112, 150, 300):
            mass, below = (
                log_pmf(law, np.array([float(point)])),
                log_cdf(law, np.array([float(point)])),
            )
            for found, truth in ((mass, masses[point]), (below, mpmath.fsum(masses[: point + 1]))):
                assert found.low[0] <= float(mpmath.log(truth)) <= found.high[0]
                assert found.high[0] - found.low[0] < 1e-9


@pytest.mark.parametrize(
    ("bits", "flip", "flipped"),
    [(10**8, 1e-9, 3), (10**6, 1e-7, 9), (10**9, 1e-3, 1_007_000), (10**4, 1e-9, 40)],
)
def test_ones_that_hardly_ever_flip_agree_with_sixty_digits(
    bits: int, flip: float, flipped: int
) -> None:
    with mpmath.workdps(60):
        chance = mpmath.mpf(flip)
        truth = mpmath.log(mpmath.binomial(bits, flipped)) + flipped * mpmath.log(chance)
        truth += (bits - flipped) * mpmath.log(1 - chance)
        # Counted from the number of ones.
        found = log_pmf(
            BitSum(np.array([0.0]), np.array([float(bits)]), flip), np.array([float(-flipped)])
        )
        assert found.low[0] <= truth <= found.high[0]
    assert found.high[0] - found.low[0] < 1e-5


def test_mixed_bits_agree_with_their_convolution() -> None:
    direct = _sum(400, 150, 0.2)
    pair = BitPair(np.array([243.0]), np.array([150.0]), np.array([7.0]), 0.2)
    other = _sum(400, 157, 0.2)
    for epsilon in (0.0, 0.5, 1.5, 4.0):
        truth = float(np.maximum(direct - math.exp(epsilon) * other, 0).sum())
        found = hockey_stick(pair, np.array([epsilon]))
        assert found.lower[0] <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper[0] <= truth * (1 + 1e-6)


def test_a_large_round_agrees_with_binomials() -> None:
    """All others 0, n = 1e4, k = 10: P = Bin(nk, p/2) against Bin(nk - k, p/2) + Bin(k, 1 -
    p/2)."""
    spec, bits = RRShuffle(max_value=10, randomise=Fraction(1, 4)), 100_000
    points = np.arange(10_000, 15_001)
    near = binom.pmf(points, bits, 0.125)
    far = sum(binom.pmf(j, 10, 0.875) * binom.pmf(points - j, bits - 10, 0.125) for j in range(11))
    epsilon = 0.35
    truth = float(np.maximum(near - math.exp(epsilon) * far, 0).sum())
    found = delta_bounds(spec, Setting(10**4, 10**4), epsilon)
    assert found.attained >= truth * (1 - 1e-6)
    assert found.certified >= truth * (1 - 1e-6)
    assert found.certified <= found.attained * 1.05


def test_theorem_3_1_is_loose_near_and_false_far() -> None:
    """n = 23, k = 1000, δ = 1e-4, p so that Theorem 3.1 prints 0.5: it first fails at distance
    438."""
    low, high = 1e-3, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        printed = rr.published_epsilon(
            RRShuffle(max_value=1000, randomise=Fraction(middle)), 23, 1e-4
        )
        low, high = (middle, high) if printed is None or printed > 0.5 else (low, middle)
    flip, bits = high / 2, 23_000
    failing = []
    for distance in (1, 437, 438):
        others = float(bits - distance)
        pair = BitPair(
            np.array([others, 0.0]), np.array([0.0, others]), np.full(2, float(distance)), flip
        )
        failing.append(float(hockey_stick(pair, np.full(2, 0.5 * distance)).lower.max()) > 1e-4)
    assert failing == [False, False, True]
    spec = RRShuffle(max_value=1000, randomise=Fraction(high).limit_denominator(10**9))
    near = epsilon_bounds(spec, Setting(23, 23, Adjacency.METRIC, 1), 1e-4)
    assert near.certified < 0.5 / 5
    far = epsilon_bounds(spec, Setting(23, 23, Adjacency.METRIC), 1e-4)
    assert far.attained > 0.5


def test_theorem_3_1_is_not_evaluated_outside_its_conditions() -> None:
    assert rr.published_epsilon(RRShuffle(max_value=2, randomise=Fraction(1, 10)), 50, 1e-6) is None


def test_one_bit_alone_has_the_local_epsilon_of_the_page() -> None:
    """docs/accounting.md of Theorem 7.1: p = .393 and k ordered bits give 1.408 a unit, not
    .764."""
    bit = corrupted_bounds(
        RRShuffle(max_value=1, randomise=Fraction(393, 1000)), Setting(50, 50), 0.0
    )
    exact = mpmath.log(mpmath.mpf(2000 - 393) / 393)  # a bit is flipped with probability 393/2000
    assert bit.epsilon == pytest.approx(float(exact), rel=1e-12)
    page = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text()
    assert f"one bit by itself has ln((2-γ)/γ) = {float(exact):.3f}." in page
    assert f".764 is printed, {float(exact):.3f} is true" in page


def _true_local_epsilon(spec: RRShuffle, distance: int, delta: float) -> float:
    """Total ε at δ of the number of ones that one device sends, over all its values.

    Scipy's binomials.
    """
    flip, k = float(spec.randomise) / 2, spec.max_value
    worst = 0.0
    for low in {0, (k - distance) // 2, k - distance}:
        laws = [
            np.convolve(
                np.asarray(binom.pmf(range(x + 1), x, 1 - flip)),
                np.asarray(binom.pmf(range(k - x + 1), k - x, flip)),
            )
            for x in (low, low + distance)
        ]
        # The ratio is monotone, so that the worst events are tails.
        for likely, unlikely in (laws, (laws[1][::-1], laws[0][::-1])):
            first, second = np.cumsum(likely), np.cumsum(unlikely)
            seen = first > delta
            worst = max(worst, float(np.log((first[seen] - delta) / second[seen]).max()))
    return worst


@pytest.mark.parametrize(("distance", "per_unit"), [(1, 0.024), (10, 0.092), (100, 0.246)])
def test_a_corrupted_users_report_is_a_number_of_ones(distance: int, per_unit: float) -> None:
    """Nodes see how many ones a device sends, not which of its bits are ones: S10 (g)."""
    spec = RRShuffle(max_value=1000, randomise=Fraction(3926, 10000))
    exact = _true_local_epsilon(spec, distance, 1e-2)
    assert exact / distance == pytest.approx(per_unit, abs=6e-4)
    for adjacency, units in ((Adjacency.STANDARD, 1), (Adjacency.METRIC, distance)):
        found = corrupted_bounds(spec, Setting(50, 50, adjacency, distance), 1e-2)
        assert exact * (1 - 1e-9) <= found.epsilon * units <= exact * (1 + 1e-3)
        assert found.delta == 1e-2


def test_a_corrupted_users_largest_change_costs_what_two_binomials_do() -> None:
    """From 0 to k = 1000: one report shows Bin(k, p/2) or Bin(k, 1-p/2), .936 per unit at δ = .01
    instead of 1.41."""
    spec, counts = RRShuffle(max_value=1000, randomise=Fraction(3926, 10000)), np.arange(1001)
    laws = [
        np.logaddexp.accumulate(binom.logpmf(counts, 1000, chance)) for chance in (0.1963, 0.8037)
    ]
    seen = laws[0] > math.log(1e-2)
    exact = float((np.log(np.exp(laws[0][seen]) - 1e-2) - laws[1][seen]).max())
    assert exact / 1000 == pytest.approx(0.936, abs=5e-4)
    for adjacency, units in ((Adjacency.STANDARD, 1), (Adjacency.METRIC, 1000)):
        found = corrupted_bounds(spec, Setting(50, 50, adjacency), 1e-2)
        assert exact * (1 - 1e-9) <= found.epsilon * units <= exact * (1 + 1e-3)


def test_what_a_corrupted_user_keeps_is_attained_by_that_user_alone() -> None:
    for value, delta in ((1, 0.0), (1, 1e-6), (5, 0.0), (100, 1e-6), (1000, 1e-2)):
        spec = RRShuffle(max_value=value, randomise=Fraction(1, 3))
        found, alone = (
            corrupted_bounds(spec, Setting(9, 9), delta),
            epsilon_bounds(spec, Setting(1, 1), delta),
        )
        assert alone.attained <= found.epsilon * (1 + 1e-9)
        assert alone.attained >= found.epsilon * 0.99


def test_a_delta_that_saves_nothing_leaves_the_local_guarantee_pure() -> None:
    found = corrupted_bounds(RRShuffle(max_value=1, randomise=Fraction(1, 3)), Setting(9, 9), 1e-6)
    assert found.delta == 0.0
    assert found.epsilon == pytest.approx(math.log(5))


def test_enough_randomness_is_pure_for_one_user() -> None:
    p = Fraction(rr.pure_randomise(0.7)).limit_denominator(10**6) + Fraction(1, 10**5)
    spec = RRShuffle(max_value=4, randomise=p)
    assert epsilon_bounds(spec, Setting(1, 1, Adjacency.METRIC), 0.0).certified <= 0.7
    flip = float(p) / 2
    for ones in range(4):
        ratio = np.abs(np.log(_sum(4, ones, flip) / _sum(4, ones + 1, flip)))
        assert float(ratio.max()) <= 0.7


def test_a_billion_users_are_certified_from_both_sides() -> None:
    spec = RRShuffle(max_value=20, randomise=Fraction(1, 10**6))
    found = epsilon_bounds(spec, Setting(10**9, 10**9), 1e-6)
    assert found.attained <= found.certified <= found.attained * 1.005


def test_the_worst_distance_is_found_under_metric_adjacency() -> None:
    spec = RRShuffle(max_value=60, randomise=Fraction(1, 5))
    found = epsilon_bounds(spec, Setting(40, 40, Adjacency.METRIC), 1e-5)
    alone = [
        epsilon_bounds(spec, Setting(40, 40, Adjacency.STANDARD, d), 1e-5).attained / d
        for d in (1, 5, 23, 41, 60)
    ]
    assert max(alone) <= found.certified <= max(alone) * 1.01


def test_the_curve_bounds_the_truth_at_any_sign() -> None:
    spec, flip = RRShuffle(max_value=3, randomise=Fraction(1, 2)), 0.25
    epsilons = np.linspace(-4, 4, 33)
    curve = certified_curve(spec, Setting(4, 4), 2, epsilons)
    laws = [_sum(12, ones, flip) for ones in range(13)]
    for epsilon, value in zip(epsilons, curve, strict=True):
        for low in range(11):
            for first, second in ((laws[low], laws[low + 2]), (laws[low + 2], laws[low])):
                assert value >= float(np.maximum(first - math.exp(epsilon) * second, 0).sum()) * (
                    1 - 1e-9
                )


def test_the_standard_error_is_that_of_the_debiased_sum() -> None:
    spec, law = RRShuffle(max_value=3, randomise=Fraction(1, 2)), _sum(12, 5, 0.25)
    points = np.arange(13)
    variance = float(law @ points**2 - (law @ points) ** 2) / (1 - 0.5) ** 2
    assert standard_error(spec, 4) == pytest.approx(math.sqrt(variance))
    assert math.isinf(standard_error(RRShuffle(max_value=3, randomise=Fraction(1)), 4))


@settings(deadline=None, max_examples=6)
@given(
    honest=st.integers(1, 200),
    k=st.integers(1, 25),
    p=st.fractions(Fraction(1, 50), Fraction(9, 10)),
    exponent=st.floats(-8, -2),
)
def test_epsilon_moves_the_right_way(honest: int, k: int, p: Fraction, exponent: float) -> None:
    spec, delta = RRShuffle(max_value=25, randomise=p), 10.0**exponent
    base = epsilon_bounds(spec, Setting(honest, honest, Adjacency.STANDARD, k), delta)
    assert base.attained <= base.certified
    assert (
        epsilon_bounds(spec, Setting(2 * honest, 2 * honest, Adjacency.STANDARD, k), delta).attained
        <= base.certified
    )
    assert (
        epsilon_bounds(spec, Setting(honest, honest, Adjacency.STANDARD, k), 2 * delta).attained
        <= base.certified
    )
    assert base.attained <= epsilon_bounds(spec, Setting(honest, honest), delta).certified


def test_arguments_out_of_range_are_refused() -> None:
    spec = RRShuffle(max_value=3, randomise=Fraction(1, 2))
    with pytest.raises(UsageError, match="epsilon"):
        delta_bounds(spec, Setting(3, 3), -1.0)
    with pytest.raises(UsageError, match="distance"):
        certified_curve(spec, Setting(3, 3), 4, np.zeros(1))
    with pytest.raises(UsageError, match="epsilon"):
        rr.pure_randomise(0.0)


@pytest.mark.parametrize(
    ("value", "randomise", "users", "delta"),
    [(1, "1/250", 30, 0.5), (1, "1/50", 8, 0.3), (3, "219/500", 8, 0.3), (12, "99/1000", 200, 0.9)],
)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_epsilon_at_a_large_delta_is_where_delta_falls_to_it(
    value: int, randomise: str, users: int, delta: float, adjacency: Adjacency
) -> None:
    spec, setting = (
        RRShuffle(max_value=value, randomise=Fraction(randomise)),
        Setting(users, users, adjacency),
    )
    found = epsilon_bounds(spec, setting, delta).certified
    assert delta_bounds(spec, setting, found).certified <= delta * (1 + 1e-6)
    assert found == 0 or delta_bounds(spec, setting, found * (1 - 1e-3)).certified > delta


def test_a_sum_of_bits_that_hardly_vary_keeps_its_digits() -> None:
    """29 other bits, nearly all ones, flipped with 1/500: P(Y <= t) about the mean is 1 less a
    tail."""
    zeros, ones = np.full(5, 5.0), np.full(5, 25.0)
    thresholds = np.arange(23.0, 28.0)
    first, _ = BitPair(zeros - 1, ones, np.ones(5), 0.002).cdf(thresholds)
    exact = np.log(np.cumsum(_sum(30, 25, 0.002))[23:28])
    assert np.all(first.low <= exact + 1e-15)
    assert np.all(exact <= first.high + 1e-15)
    assert np.all(first.high - first.low < 1e-6)
