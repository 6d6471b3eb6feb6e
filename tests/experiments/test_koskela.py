"""Koskela et al. 2021 drawn again: verdicts, both sides of every number, and laws against a second
computation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from quick_results import QuickResults
from scipy import integrate, stats

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_experiments.entry import Experiment, Kind, Results
from shuffledp_experiments.koskela import ENTRIES
from shuffledp_experiments.koskela.compositions import (
    LEAST_DRAWN,
    RELEASED_DELTA,
    RELEASED_RDP,
    RELEASED_STRONG,
    strong_curve,
)
from shuffledp_experiments.koskela.gaussian import shuffled_gaussian
from shuffledp_experiments.koskela.pairs import LawPair, LossGrid, clones, third_symbol
from shuffledp_experiments.koskela.terms import lemma_6
from shuffledp_experiments.registry import experiment
from shuffledp_privacy.bounds import Setting, delta_bounds
from shuffledp_privacy.central import gaussian_delta
from shuffledp_privacy.histogram.published import strong_adversary_delta
from shuffledp_privacy.local.clones import LocalRandomiser


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    return QuickResults()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_the_stated_verdicts_come_out_and_it_draws(
    results: dict[str, Results], entry: Experiment
) -> None:
    assert {claim.verdict for claim in results[entry.id].claims} == set(entry.verdicts)
    assert entry.draw(results[entry.id]).axes


def test_every_legend_lies_within_its_picture(results: dict[str, Results]) -> None:
    for entry in ENTRIES:
        figure = entry.draw(results[entry.id])
        figure.canvas.draw()
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert box.x0 >= 0, entry.id
            assert box.x1 <= figure.bbox.width, entry.id


def test_no_curve_of_figure_1_falls_off_a_cliff(results: dict[str, Results]) -> None:
    """Between two points δ falls by a factor that its neighbours show, not to what was not
    resolved."""
    for axes in experiment("004-f1").draw(results["004-f1"]).axes:
        for line in axes.lines:
            assert (np.asarray(line.get_ydata()) >= LEAST_DRAWN).all()


def test_certified_is_never_below_attained(results: dict[str, Results]) -> None:
    for entry in ENTRIES:
        outcome = results[entry.id]
        places: dict[object, dict[Kind, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in outcome.rows:
            point = (row.x, row.y_name, tuple(sorted(row.settings.items(), key=str)))
            places[point][row.kind].append(row.y)
        for kinds in places.values():
            if kinds[Kind.CERTIFIED] and kinds[Kind.ATTAINED]:
                assert min(kinds[Kind.CERTIFIED]) >= max(kinds[Kind.ATTAINED])


def test_the_released_digits_are_those_of_the_formulas(results: dict[str, Results]) -> None:
    first = results["004-f1"]
    for times, digits in RELEASED_DELTA.items():
        plural = "s" if times > 1 else ""
        _, printed = first.series(f"as released, the pair of 2-RR, {times} round{plural}")
        assert printed[0] == pytest.approx(digits, rel=5e-3)
    rounds, printed = results["004-f2"].series("Girgis et al., Rényi")
    for times, value in zip(rounds, printed, strict=True):
        assert value == pytest.approx(RELEASED_RDP[int(times)], abs=1e-6)
    third = [row for row in results["004-f3"].rows if row.settings == {"n": 1000, "rounds": 1}]
    released = [row.y for row in third if row.series == "strong adversary, as released"]
    assert released == pytest.approx(RELEASED_STRONG, rel=1e-4)


def brute_force(symbols: int, p: float, q: float, honest: int, epsilon: float) -> float:
    """Hockey-stick divergence of whole histograms: the changed user's symbol is put on the law of
    the others."""

    def law(value: int) -> dict[tuple[int, ...], float]:
        others = [q] * symbols
        others[2] = p
        result: dict[tuple[int, ...], float] = defaultdict(float)
        for counts in compositions(honest - 1, symbols):
            weight = stats.multinomial.pmf(counts, honest - 1, others)
            for symbol in range(symbols):
                seen = tuple(c + (index == symbol) for index, c in enumerate(counts))
                result[seen] += weight * (p if symbol == value else q)
        return result

    law_of_zero, law_of_one = law(0), law(1)
    return math.fsum(
        max(0.0, mass - math.exp(epsilon) * law_of_one[seen]) for seen, mass in law_of_zero.items()
    )


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(total + 1)
        for rest in compositions(total - first, parts - 1)
    ]


def test_a_third_symbol_dataset_costs_what_its_histograms_say() -> None:
    q = 0.12
    pair = third_symbol(3, 1 - 2 * q, q, 6)
    for epsilon in (0.0, 0.4, 1.1):
        assert pair.delta(epsilon) == pytest.approx(
            brute_force(3, 1 - 2 * q, q, 6, epsilon), rel=1e-9
        )
    # With a fourth symbol the rest of the histogram is merged: never above.
    merged, unmerged = (
        third_symbol(4, 1 - 3 * q, q, 5).delta(0.4),
        brute_force(4, 1 - 3 * q, q, 5, 0.4),
    )
    assert 0.9 * unmerged < merged <= unmerged * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "cell"), [(0.1, math.exp(-3.0) / 2), (0.5, math.exp(-3.0) / 2)]
)
def test_the_clones_are_those_of_the_theorem_word_by_word(epsilon: float, cell: float) -> None:
    epsilon0, honest = 3.0, 60
    likely, growth = 1 / (1 + math.exp(-epsilon0)), math.exp(epsilon)
    laws: list[dict[tuple[int, int], float]] = [defaultdict(float), defaultdict(float)]
    for count in range(honest):
        for ones in range(count + 1):
            mass = stats.binom.pmf(count, honest - 1, 2 * cell) * stats.binom.pmf(ones, count, 0.5)
            for value in (0, 1):
                chance = likely if value else 1 - likely
                seen = (ones + value, count - ones + 1 - value)
                laws[0][seen] += mass * chance
                laws[1][seen] += mass * (1 - chance)
    expected = math.fsum(max(0.0, mass - growth * laws[1][seen]) for seen, mass in laws[0].items())
    assert clones(epsilon0, honest, cell).delta(epsilon) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("times", [1, 2, 3, 5])
def test_composed_losses_are_close_below_the_product_law(times: int) -> None:
    first, second = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    pair = LawPair(first, second, second)
    left, right = np.ones(1), np.ones(1)
    for _ in range(times):
        left, right = np.outer(left, first).ravel(), np.outer(right, second).ravel()
    losses = LossGrid.of(pair).compose(times)
    for epsilon in (0.0, 0.5, 1.3):
        expected = float(np.maximum(left - math.exp(epsilon) * right, 0.0).sum())
        assert expected - 1e-3 <= losses.delta(epsilon) <= expected
    epsilon = losses.epsilon(0.1)
    assert 0.1 <= float(np.maximum(left - math.exp(epsilon) * right, 0.0).sum()) <= 0.101


def test_one_round_attains_what_the_accountant_says_and_clones_certify() -> None:
    epsilon0, honest = 3.0, 1000
    q = 1 / (2 + math.exp(epsilon0))
    bounds = delta_bounds(LocalRandomiser(epsilon0), Setting(honest, honest), 0.3)
    attained = LossGrid.of(third_symbol(3, 1 - 2 * q, q, honest), 2**16).delta(0.3)
    assert attained == pytest.approx(bounds.attained, rel=2e-3)
    certified = clones(epsilon0, honest, 1 / (1 + math.exp(epsilon0))).delta(0.3)
    assert certified == pytest.approx(bounds.certified, rel=1e-3)


def test_who_is_not_drawn_hides_in_both_orders() -> None:
    q = 0.2
    pair, rate = third_symbol(3, 1 - 2 * q, q, 5), Fraction(1, 5)
    sampled = pair.sample(rate)
    # Four of five subsets are the same under both datasets: joint convexity.
    assert 0 < sampled.delta(0.1) <= 0.2 * pair.delta(0.1)
    assert sampled.delta(0.0) == pytest.approx(0.2 * pair.delta(0.0))


def test_the_strong_adversary_as_a_curve_is_the_accountants_point_by_point() -> None:
    spec = KRRHistogram(symbols=4, blanket=Fraction(1, 4))
    epsilons = np.array([0.05, 0.3, 0.8])
    expected = [strong_adversary_delta(spec, 300, epsilon) for epsilon in epsilons.tolist()]
    assert strong_curve(spec, 300)(epsilons).tolist() == pytest.approx(expected, rel=1e-7)
    unweighed = strong_curve(spec, 300, weighed=False)(epsilons)
    assert (0.75 * unweighed).tolist() == pytest.approx(expected, rel=1e-7)


def test_one_shuffled_gaussian_is_the_gaussian_mechanism() -> None:
    low, high = shuffled_gaussian(2.0, 1, 0.5, 300)
    exact = gaussian_delta(2.0, 1.0, 0.5)
    assert low <= exact <= high
    assert high - low < 2e-3 * exact


def test_two_shuffled_gaussians_agree_with_quadrature_in_two_dimensions() -> None:
    sigma, growth = 2.0, math.exp(0.5)

    def inner(x: float) -> float:
        # Where (V(x) + V(y))/2 > growth, y is above this edge; the inner integral is closed.
        v = math.exp((x - 0.5) / sigma**2)
        edge = -math.inf if v >= 2 * growth else 0.5 + sigma**2 * math.log(2 * growth - v)
        above, shifted = stats.norm.sf(edge / sigma), stats.norm.sf((edge - 1) / sigma)
        return float(stats.norm.pdf(x, scale=sigma) * ((v / 2 - growth) * above + shifted / 2))

    one_order, _ = integrate.quad(
        inner, -30, 40, points=[0.5 + sigma**2 * math.log(2 * growth)], limit=200
    )
    low, high = shuffled_gaussian(sigma, 2, 0.5, 300)
    assert one_order <= high
    assert low <= one_order * (1 + 1e-6)
    assert high - low < 5e-3 * high


def test_lemma_6_leaves_out_what_the_tails_have() -> None:
    users, epsilon0, tolerance = 40, 0.5, 1e-3
    terms, outside = lemma_6(epsilon0, users, tolerance)
    share, trials = mpmath.exp(-epsilon0), users - 1
    reach = mpmath.sqrt(mpmath.log(4 / tolerance) / 2)
    mass, count = mpmath.mpf(0), 0
    for c in range(trials + 1):
        if abs(c - trials * share) > reach * mpmath.sqrt(trials):
            continue
        weight = mpmath.binomial(trials, c) * share**c * (1 - share) ** (trials - c)
        for a in range(c + 1):
            if abs(a - mpmath.mpf(c) / 2) <= reach * mpmath.sqrt(c):
                count += 1
                mass += weight * mpmath.binomial(c, a) / mpmath.mpf(2) ** c
    assert terms == count
    assert outside == pytest.approx(float(1 - mass), rel=1e-9)
