"""Shuffled local Laplace noise: against the full matrix, all small datasets, and its own claims."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import Present
from shuffledp_core.bounds import noise
from shuffledp_core.mechanisms import LocalLaplace
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    certified_epsilon,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.sums.local_laplace import CLOSE, local_laplace_round

Floats = NDArray[np.float64]

SHAPES = [(1, Fraction(2, 3)), (2, Fraction(1)), (3, Fraction(1, 2)), (6, Fraction(1, 4))]


@cache
def law(spec: LocalLaplace, value: int) -> Floats:
    """Noise summed outcome by outcome, and what leaves the range put on its ends."""
    ratio = math.exp(-float(spec.epsilon_geo))
    chances = np.zeros(spec.max_value + 1)
    for size in range(-600, 601):
        place = min(max(value + size, 0), spec.max_value)
        chances[place] += (1 - ratio) / (1 + ratio) * ratio ** abs(size)
    return chances


def as_matrix(spec: LocalLaplace) -> LocalMatrix:
    """All laws, rounded to 2^-60: exact rows of sum 1."""
    rows = []
    for value in range(spec.domain):
        row = [Fraction(round(chance * 2**60), 2**60) for chance in law(spec, value).tolist()]
        row[value] += 1 - sum(row)
        rows.append(tuple(row))
    return LocalMatrix(tuple(rows))


def boards(spec: LocalLaplace, values: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the sorted reports of these values."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for value in values:
        chances = law(spec, value)
        after: dict[tuple[int, ...], float] = {}
        for board, weight in found.items():
            for report, chance in enumerate(chances.tolist()):
                key = tuple(sorted((*board, report)))
                after[key] = after.get(key, 0.0) + weight * chance
        found = after
    return found


def true_delta(spec: LocalLaplace, honest: int, distance: int, epsilon: float) -> float:
    """The largest δ over all datasets of `honest` users and all changes by this distance."""
    worst = 0.0
    for others in combinations_with_replacement(range(spec.domain), honest - 1):
        laws = [boards(spec, (*others, value)) for value in range(spec.domain)]
        for before, after in permutations(range(spec.domain), 2):
            if abs(before - after) == distance:
                gained = sum(
                    max(chance - math.exp(epsilon) * laws[after][board], 0.0)
                    for board, chance in laws[before].items()
                )
                worst = max(worst, gained)
    return worst


@pytest.mark.parametrize(("top", "rate"), SHAPES[1:])
@pytest.mark.parametrize("honest", [30, 10_000])
def test_the_certificate_is_that_of_the_worst_pair_of_the_whole_matrix(
    top: int, rate: Fraction, honest: int
) -> None:
    spec = LocalLaplace(max_value=top, epsilon_geo=rate)
    whole = certified_epsilon(as_matrix(spec), Setting(honest, honest), 1e-6)
    assert certified_epsilon(spec, Setting(honest, honest), 1e-6) == pytest.approx(whole, rel=2e-5)


@pytest.mark.parametrize(
    ("top", "rate", "honest"),
    [(1, Fraction(2, 3), 4), (2, Fraction(1), 3), (3, Fraction(1, 2), 1), (3, Fraction(1, 2), 2)],
)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_every_dataset_of_few_users_lies_between_the_bounds(
    top: int, rate: Fraction, honest: int, share: float
) -> None:
    spec = LocalLaplace(max_value=top, epsilon_geo=rate)
    for adjacency in Adjacency:
        metric = adjacency is Adjacency.METRIC
        setting = Setting(honest, honest, adjacency)
        epsilon = share * float(rate) * (1 if metric else top)
        truth = max(
            true_delta(spec, honest, distance, epsilon * (distance if metric else 1))
            for distance in range(1, top + 1)
        )
        bounds = delta_bounds(spec, setting, epsilon)
        assert bounds.attained <= truth * (1 + 1e-9)
        assert bounds.certified >= truth * (1 - 1e-9)


@pytest.mark.parametrize(
    ("top", "rate", "honest"),
    [(2, Fraction(1), 4), (2, Fraction(1, 2), 5), (3, Fraction(1, 2), 4)],
)
@pytest.mark.parametrize(("share", "missed"), [(0.1, 0.025), (0.6, 1e-6)])
def test_the_attained_delta_is_about_that_of_the_worst_dataset_of_few_users(
    top: int, rate: Fraction, honest: int, share: float, missed: float
) -> None:
    spec = LocalLaplace(max_value=top, epsilon_geo=rate)
    epsilon = share * float(rate) * top
    truth = true_delta(spec, honest, top, epsilon)
    attained = delta_bounds(spec, Setting(honest, honest), epsilon).attained
    # At small ε others at both ends are slightly worse than others at one end.
    assert truth * (1 - missed) <= attained <= truth * (1 + 1e-9)


@pytest.mark.parametrize("rate", [Fraction(1, 250), Fraction(2, 3), Fraction(9, 4), Fraction(12)])
@pytest.mark.parametrize("honest", [1, 2, 5, 60])
def test_one_bit_is_certified_by_every_composition_of_the_others(
    rate: Fraction, honest: int
) -> None:
    spec = LocalLaplace(max_value=1, epsilon_geo=rate)
    for adjacency in Adjacency:
        for share in (0.1, 0.5, 0.9):
            epsilon = share * float(rate)
            truth = max(binary_delta(float(rate), honest, ones, epsilon) for ones in range(honest))
            bounds = delta_bounds(spec, Setting(honest, honest, adjacency), epsilon)
            # The transform's error, 1e-15 or so, is all that is added.
            assert truth * (1 - 1e-9) <= bounds.certified <= truth * (1 + 1e-6) + 1e-13
            assert truth * (1 - 1e-6) - 1e-13 <= bounds.attained <= truth * (1 + 1e-9)


def binary_delta(rate: float, honest: int, ones: int, epsilon: float) -> float:
    """δ of a change from 1 to 0 among `honest` users, `ones` of the others hold a 1."""
    sends_one = [1 / (1 + math.exp(rate)), 1 / (1 + math.exp(-rate))]
    others = np.ones(1)
    for value in [1] * ones + [0] * (honest - 1 - ones):
        others = np.convolve(others, [1 - sends_one[value], sends_one[value]])
    laws = [np.convolve(others, [1 - chance, chance]) for chance in sends_one]
    return float(np.maximum(laws[1] - math.exp(epsilon) * laws[0], 0.0).sum())


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("top", "rate"),
    [
        (2, Fraction(14_995, 100)),
        (10, Fraction(2_999, 100)),
        (300, Fraction(9_995, 10_000)),
        (1000, Fraction(3, 10)),
        (290, Fraction(1)),
    ],
)
def test_outputs_too_rare_for_the_sum_are_charged(
    top: int, rate: Fraction, adjacency: Adjacency
) -> None:
    spec = LocalLaplace(max_value=top, epsilon_geo=rate)
    honest = 1000
    total = 0.7 * top * float(rate)
    epsilon = total / top if adjacency is Adjacency.METRIC else total
    # All others hold k: is any report 0? The chance is 1/(1 + φ), or at most h φ^k.
    ratio = math.exp(-float(rate))
    seen = 1 / (1 + ratio) - honest * math.exp(total - top * float(rate))
    assert seen > 0.5
    assert delta_bounds(spec, Setting(honest, honest, adjacency), epsilon).certified >= seen


@pytest.mark.parametrize("honest", [10_000, 10**6])
@pytest.mark.parametrize("rate", [Fraction(2, 3), Fraction(12)])
def test_one_bit_among_many_users_is_certified_closely(rate: Fraction, honest: int) -> None:
    bounds = epsilon_bounds(
        LocalLaplace(max_value=1, epsilon_geo=rate), Setting(honest, honest), 1e-6
    )
    assert bounds.attained <= bounds.certified <= 1.002 * bounds.attained


def stop_losses(spec: LocalLaplace, before: int, after: int, growth: float, at: Floats) -> Floats:
    """Σ γ_y (V_y - t)_+ of a change, V = (a - u b)/γ, for each t of `at`."""
    rows = [law(spec, value) for value in range(spec.domain)]
    blanket = np.min(rows, axis=0)
    values = (rows[before] - growth * rows[after]) / blanket
    return np.asarray(np.maximum(values - at[:, None], 0.0) @ blanket)


@pytest.mark.parametrize("top", [3, 8])
@pytest.mark.parametrize("rate", [Fraction(1, 9), Fraction(1, 2), Fraction(2)])
def test_no_change_is_larger_in_convex_order_than_those_at_the_end(
    top: int, rate: Fraction
) -> None:
    spec = LocalLaplace(max_value=top, epsilon_geo=rate)
    size = math.exp(float(rate) * top)
    above = np.geomspace(1e-4, size, 60)
    below = -above
    for distance in range(1, top + 1):
        for share in (0.0, 0.3, 0.9):
            growth = math.exp(share * float(rate) * distance)
            upper = stop_losses(spec, 0, distance, growth, above)
            lower = stop_losses(spec, distance, 0, growth, below)
            for before, after in permutations(range(top + 1), 2):
                if 1 <= abs(before - after) <= distance:
                    gains = stop_losses(spec, before, after, growth, above)
                    assert (gains <= upper * (1 + 1e-9) + 1e-12).all()
                    # The means agree, so that the lower tails are compared by the same function.
                    losses = stop_losses(spec, before, after, growth, below)
                    assert (losses <= lower * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize(
    ("top", "rate", "honest"),
    [
        (40, Fraction(1, 10), 5000),
        (300, Fraction(1, 60), 10**6),
        (10**6, Fraction(1, 10**5), 10**5),
    ],
)
def test_certified_is_above_attained_and_not_far(top: int, rate: Fraction, honest: int) -> None:
    spec = LocalLaplace(max_value=top, epsilon_geo=rate)
    bounds = epsilon_bounds(spec, Setting(honest, honest), 1e-6)
    assert bounds.attained <= bounds.certified <= 1.6 * bounds.attained


def test_per_unit_the_certificate_covers_every_distance() -> None:
    spec = LocalLaplace(max_value=30, epsilon_geo=Fraction(1, 10))
    setting = Setting(2000, 2000, Adjacency.METRIC)
    item = local_laplace_round(spec, setting)
    certified = certified_epsilon(spec, setting, 1e-6)
    worst = max(item.certified_delta(distance, certified * distance) for distance in range(1, 31))
    assert worst <= 1e-6
    looser = certified / (1 + 3 * CLOSE)
    assert max(item.certified_delta(d, looser * d) for d in range(1, 31)) > 1e-6


def test_the_curve_reflects_and_is_the_certificate() -> None:
    spec = LocalLaplace(max_value=10, epsilon_geo=Fraction(1, 5))
    setting = Setting(500, 500)
    epsilons = np.array([-0.5, 0.0, 0.2, 0.5, 2.5])
    curve = certified_curve(spec, setting, 10, epsilons)
    assert curve[0] == pytest.approx(1 - math.exp(-0.5) * (1 - curve[3]))
    assert curve[2] == pytest.approx(delta_bounds(spec, setting, 0.2).certified)
    assert curve[-1] == 0.0


def outcomes(spec: LocalLaplace, values: tuple[int, ...]) -> Iterator[tuple[float, list[int]]]:
    """Chances of the boards of these values, with their counts."""
    for board, chance in boards(spec, values).items():
        yield chance, spec.counts_of(np.array(board, dtype=np.int64)).tolist()


@pytest.mark.parametrize("values", [(0, 0, 0), (0, 3, 5), (2, 2, 3, 3), (5, 5, 5, 5)])
def test_the_estimate_is_unbiased_its_variance_known_and_its_interval_covers(
    values: tuple[int, ...],
) -> None:
    spec = LocalLaplace(max_value=5, epsilon_geo=Fraction(1, 2))
    answers = [
        (chance, spec.estimate(counts, Present(Fraction(len(values)))))
        for chance, counts in outcomes(spec, values)
    ]
    truth = sum(values)
    assert sum(c * a.values[0] for c, a in answers) == pytest.approx(truth, abs=1e-9)
    variance = sum(c * (a.values[0] - truth) ** 2 for c, a in answers)
    stated = sum(c * a.standard_errors[0] ** 2 for c, a in answers)
    assert stated == pytest.approx(variance)
    assert sum(c for c, a in answers if a.lows[0] <= truth <= a.highs[0]) >= 0.95


def negative_binomial_difference(shape: int, ratio: float) -> Floats:
    """Law of Y on -3000..3000, by convolving single noises."""
    one = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-300, 301))
    table = np.ones(1)
    for _ in range(shape):
        table = np.convolve(table, one)
    return table


@pytest.mark.parametrize("shape", [1, 4, 9])
@pytest.mark.parametrize("tail", [0.025, 0.2])
def test_the_mean_of_a_tail_is_that_of_its_largest_share(shape: int, tail: float) -> None:
    table = negative_binomial_difference(shape, math.exp(-0.5))
    points = np.arange(table.size) - table.size // 2
    exact = min(cut + float(np.maximum(points - cut, 0.0) @ table) / tail for cut in range(100))
    found = noise.mean_of_tail(shape, 0.5, tail)
    assert exact <= found <= exact * (1 + 1e-4)


def test_the_mean_of_a_tail_beyond_all_tables_is_the_normal_one() -> None:
    deviation = noise.standard_deviation(1e12, 1e-3)
    assert noise.mean_of_tail(1e12, 1e-3, 0.025) == pytest.approx(2.3378 * deviation, rel=1e-3)
    assert noise.probabilities(1e12, 1e-3) is None


@pytest.mark.parametrize(("rate", "top"), [(600, 3), (740, 1), (2000, 1), (3, 1000)])
@pytest.mark.parametrize("users", [1, 5])
def test_nothing_above_one_report_is_attained_where_e_to_epsilon_overflows(
    rate: int, top: int, users: int
) -> None:
    """The round shows no more than the one report does: at most d ε_geo + ln(1 - δ) at δ.

    Before: e^E was taken for e^700 above 700 nats.
    """
    spec = LocalLaplace(max_value=top, epsilon_geo=Fraction(rate))
    # Pure d ε_geo implies δ(E) <= 1 - e^(E - d ε_geo).
    most = rate * top + math.log(0.5)
    bounds = epsilon_bounds(spec, Setting(users, users), 0.5)
    assert most - 3 <= bounds.attained <= most * (1 + 1e-12) <= bounds.certified * (1 + 1e-9)
