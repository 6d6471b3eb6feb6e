"""Noise of nodes: the accountant's numbers against the enumeration of every view.

The views here are written out from the definition, in rationals of e^-rate: all numbers of dummies,
under the condition, and the counts that all messages together have. Nothing of the accountant's
decomposition into two counts is used.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

from shuffledp import simulate
from shuffledp_core.answering.estimates import Present
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law, law_of_sum
from shuffledp_core.bounds.losses import MOST_LOSSES
from shuffledp_core.bounds.node_noise import shift_losses
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import NodeHistogram, NodeSum
from shuffledp_core.privacy import Adjacency
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.calibration.target import certified_epsilon_of

Law = dict[tuple[int, ...], float]

HISTOGRAMS = [
    NodeHistogram(symbols=2, noise_epsilon=Fraction(1, 2), mean=3, dummies=6),
    NodeHistogram(symbols=2, noise_epsilon=Fraction(1, 2), mean=3, dummies=8),
    NodeHistogram(symbols=3, noise_epsilon=Fraction(2, 3), mean=2, dummies=6),
    NodeHistogram(symbols=3, noise_epsilon=Fraction(2, 3), mean=2, dummies=9),
    NodeHistogram(symbols=4, noise_epsilon=Fraction(1), mean=2, dummies=10),
    NodeHistogram(symbols=4, noise_epsilon=Fraction(1), mean=1, dummies=8),
]

SUMS = [
    NodeSum(max_value=3, noise_epsilon=Fraction(1), base=4, mean=3),
    NodeSum(max_value=5, noise_epsilon=Fraction(3, 2), base=6, mean=9),
    NodeSum(max_value=5, noise_epsilon=Fraction(3, 2), base=3, mean=3),
    NodeSum(max_value=7, noise_epsilon=Fraction(2), base=2, mean=2),
    NodeSum(max_value=6, noise_epsilon=Fraction(2), base=4, mean=2),
]


def one_noise(rate: Fraction, reach: int) -> dict[int, float]:
    weights = {z: math.exp(-float(rate) * abs(z)) for z in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {z: weight / total for z, weight in weights.items()}


@cache
def dummies_of(spec: NodeHistogram) -> Law:
    """Counts of a node's dummies, "empty" last, by the definition."""
    noise = one_noise(spec.noise_epsilon, spec.mean)
    law: Law = {}
    for drawn in itertools.product(noise, repeat=spec.symbols):
        empty = spec.dummies - sum(spec.mean + z for z in drawn)
        if empty >= 0:
            law[(*(spec.mean + z for z in drawn), empty)] = math.prod(noise[z] for z in drawn)
    total = math.fsum(law.values())
    return {counts: mass / total for counts, mass in law.items()}


@cache
def dummies_of_sum(spec: NodeSum) -> Law:
    noises = [one_noise(rate, mean) for rate, mean in zip(spec.rates, spec.means, strict=True)]
    law: Law = {}
    for drawn in itertools.product(*noises):
        counts: list[int] = []
        for z, mean in zip(drawn, spec.means, strict=True):
            counts += [mean - z, mean + z]
        law[tuple(counts)] = math.prod(noise[z] for noise, z in zip(noises, drawn, strict=True))
    return law


def view(spec: NodeHistogram | NodeSum, values: tuple[int, ...]) -> Law:
    """Law of the counts of all messages behind one honest node."""
    law = dummies_of(spec) if isinstance(spec, NodeHistogram) else dummies_of_sum(spec)
    own = Counter(symbol for value in values for symbol in spec.encode(value))
    return {
        tuple(count + own[symbol] for symbol, count in enumerate(counts)): mass
        for counts, mass in law.items()
    }


def delta_of(one: Law, other: Law, epsilon: float) -> float:
    growth = math.exp(epsilon)
    return math.fsum(max(0.0, mass - growth * other.get(key, 0.0)) for key, mass in one.items())


def datasets(spec: NodeHistogram | NodeSum, users: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(spec.domain), repeat=users))


def worst(
    spec: NodeHistogram | NodeSum, epsilon: float, users: int, *, metric: bool = False
) -> float:
    found = 0.0
    for rest in datasets(spec, users - 1):
        views = [view(spec, (value, *rest)) for value in range(spec.domain)]
        for a, b in itertools.permutations(range(spec.domain), 2):
            total = epsilon * abs(a - b) if metric else epsilon
            found = max(found, delta_of(views[a], views[b], total))
    return found


@pytest.mark.parametrize("users", [1, 2])
@pytest.mark.parametrize("spec", [*HISTOGRAMS, *SUMS], ids=str)
def test_certified_and_attained_are_the_worst_of_all_datasets(
    spec: NodeHistogram | NodeSum, users: int
) -> None:
    for epsilon in (0.0, 0.1, 0.5, 0.99, 1.0, 1.3, 2.0, 4.0):
        truth = worst(spec, epsilon, users)
        # For a crowd and for nobody else.
        for setting in (Setting(users, 1), Setting(10**9, 5)):
            bounds = delta_bounds(spec, setting, epsilon)
            assert bounds.certified == pytest.approx(truth, rel=1e-8, abs=1e-14)
            assert bounds.attained == pytest.approx(truth, rel=1e-8, abs=1e-14)
            assert bounds.attained <= truth * (1 + 1e-12) + 1e-15
            assert truth <= bounds.certified * (1 + 1e-12)


@pytest.mark.parametrize("spec", SUMS, ids=str)
def test_a_metric_guarantee_is_exact_in_plain_unary_code_and_sound_in_digits(
    spec: NodeSum,
) -> None:
    setting = Setting(2, 1, Adjacency.METRIC)
    is_unary = spec.base > spec.max_value
    for epsilon in (0.05, 0.2, 0.4):
        truth = worst(spec, epsilon, 1, metric=True)
        bounds = delta_bounds(spec, setting, epsilon)
        assert bounds.attained <= truth * (1 + 1e-9) + 1e-15
        assert truth <= bounds.certified * (1 + 1e-9)
        if is_unary:
            assert bounds.certified <= truth * 1.02


@pytest.mark.parametrize("spec", [*HISTOGRAMS, *SUMS], ids=str)
def test_the_curve_of_every_distance_dominates_every_change_of_it(
    spec: NodeHistogram | NodeSum,
) -> None:
    epsilons = np.array([-1.0, 0.0, 0.4, 1.0, 2.5])
    views = [view(spec, (value,)) for value in range(spec.domain)]
    for a, b in itertools.permutations(range(spec.domain), 2):
        curve = certified_curve(spec, Setting(5, 5), abs(a - b), epsilons)
        for epsilon, bound in zip(epsilons.tolist(), curve.tolist(), strict=True):
            assert delta_of(views[a], views[b], epsilon) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("spec", [HISTOGRAMS[2], HISTOGRAMS[4], SUMS[2]], ids=str)
def test_a_node_draws_the_certified_law(spec: NodeHistogram | NodeSum) -> None:
    """Chi-square at 1e-12, cells below 200 together: below 1e-9 (see `test_sampling`)."""
    draws = 20_000
    law = dummies_of(spec) if isinstance(spec, NodeHistogram) else dummies_of_sum(spec)
    integers = RandomIntegers()
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        dummies = spec.sample_dummies(integers)
        assert dummies.shape == (spec.dummies_per_node,)
        seen[tuple(spec.counts_of(dummies).tolist())] += 1
    assert set(seen) <= set(law)
    cells: dict[object, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for counts, mass in law.items():
        cell = cells[counts if mass * draws >= 200 else "rare"]
        cell[0] += seen[counts]
        cell[1] += mass * draws
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells.values())
    assert statistic <= chi2.isf(1e-12, len(cells) - 1)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("spec", [HISTOGRAMS[2], HISTOGRAMS[4], SUMS[1], SUMS[2]], ids=str)
def test_the_answer_is_unbiased_and_its_error_and_interval_are_those_of_the_law(
    spec: NodeHistogram | NodeSum, nodes: int
) -> None:
    law = dummies_of(spec) if isinstance(spec, NodeHistogram) else dummies_of_sum(spec)
    values = tuple(np.arange(40) % spec.domain)
    truth = spec.truth(np.array(values))
    own = Counter(symbol for value in values for symbol in spec.encode(int(value)))
    added = nodes if len(law) < 100 else 1
    total: Law = {(0,) * spec.alphabet: 1.0}
    for _ in range(added):
        after: Law = defaultdict(float)
        for (one, p), (other, q) in itertools.product(total.items(), law.items()):
            after[tuple(np.add(one, other).tolist())] += p * q
        total = after
    mean = np.zeros(truth.size)
    square = np.zeros(truth.size)
    covered = np.zeros(truth.size)
    for counts, mass in total.items():
        board = [count + own[symbol] for symbol, count in enumerate(counts)]
        answer = spec.estimate(board, Present(Fraction(len(values)), added))
        mean += mass * np.array(answer.values)
        square += mass * (np.array(answer.values) - truth) ** 2
        low = np.array(answer.lows) <= truth
        covered += mass * (low & (truth <= np.array(answer.highs)))
    assert mean == pytest.approx(truth, abs=1e-9)
    assert np.sqrt(square) == pytest.approx(np.array(answer.standard_errors), rel=1e-9)
    assert np.sqrt(square) == pytest.approx(
        np.full(truth.size, standard_error(spec, 40) * math.sqrt(added)), rel=1e-9
    )
    assert np.all(covered >= 0.95)


@pytest.mark.parametrize("terms", [0, 1, 2, 5, 40])
@pytest.mark.parametrize(("rate", "reach"), [(Fraction(1, 2), 27), (Fraction(3), 1)])
def test_the_law_of_a_sum_errs_by_less_than_it_says(rate: Fraction, reach: int, terms: int) -> None:
    exact = np.ones(1)
    for _ in range(terms):
        exact = np.convolve(exact, bounded_laplace_law(rate, reach))
    law = law_of_sum(rate, reach, terms)
    sums = np.arange(-reach * terms - 3, reach * terms + 4)
    cumulative = np.concatenate([np.zeros(3), np.cumsum(exact), np.ones(3)])
    assert law.error < 1e-8
    assert np.abs(law.at_most(sums) - cumulative).max() <= law.error + 1e-13


def test_many_losses_are_shortened_outwards() -> None:
    long = shift_losses(Fraction(1, 50), 500, 90)
    both = long.combine(long)
    assert both.most.size <= MOST_LOSSES
    exact = np.add.outer(long.most, long.most).ravel()
    masses = np.outer(long.high, long.high).ravel()
    ends = 1 - (1 - long.infinite_high) ** 2
    for epsilon in (0.0, 1.0, 3.0, 3.6):
        truth = float(masses @ -np.expm1(np.minimum(epsilon - exact, 0))) + ends
        certified = float(both.certified_delta(np.array([epsilon]))[0])
        assert both.attained_delta(epsilon) <= truth * (1 + 1e-9)
        assert truth <= certified * (1 + 1e-9)
        assert certified <= both.attained_delta(epsilon) * 1.01


@pytest.mark.parametrize(
    ("symbols", "epsilon", "delta", "mean", "error"),
    [(21, 1.0, 1e-6, 27, 2.80), (21, 1.0, 1e-8, 36, 2.80), (100_000, 1.0, 1e-6, 27, 2.80)],
)
def test_a_histogram_has_the_trusted_partys_error_without_a_crowd(
    symbols: int, epsilon: float, delta: float, mean: int, error: float
) -> None:
    target = Target(epsilon, delta, users=1000, honest=1, symbols=symbols)
    spec = calibrate("node-histogram", target)
    assert isinstance(spec, NodeHistogram)
    assert spec.mean == mean
    assert spec.dummies < 1.15 * symbols * mean
    assert standard_error(spec, 10**9) < error
    bounds = epsilon_bounds(spec, Setting(10**9, 1), delta)
    assert 0.999 * epsilon < bounds.certified <= epsilon
    assert bounds.certified / bounds.attained < 1.00001


@pytest.mark.parametrize(
    ("largest", "messages", "ratio"), [(20, 20, 1.001), (1000, 62, 1.15), (10**6, 123, 1.16)]
)
def test_a_sum_has_nearly_the_trusted_partys_error_without_a_crowd(
    largest: int, messages: int, ratio: float
) -> None:
    target = Target(1.0, 1e-6, users=1000, honest=1, max_value=largest)
    spec = calibrate("node-sum", target)
    assert spec.messages_per_user == messages
    assert standard_error(spec, 1000) < ratio * math.sqrt(2) * largest
    bounds = epsilon_bounds(spec, Setting(1000, 1), 1e-6)
    assert bounds.certified / bounds.attained < 1.00001


@pytest.mark.parametrize(
    ("kind", "symbols", "largest"), [("node-histogram", 21, None), ("node-sum", None, 20)]
)
def test_several_rounds_compose_and_cost_less_than_their_sum(
    kind: str, symbols: int | None, largest: int | None
) -> None:
    once = Target(1.0, 1e-6, users=100, honest=1, symbols=symbols, max_value=largest)
    target = dataclasses.replace(once, rounds=100)
    spec = calibrate(kind, target)
    assert 0.99 <= certified_epsilon_of(spec, target) <= 1.0
    alone = calibrate(kind, once)
    assert standard_error(spec, 100) < 50 * standard_error(alone, 100)


def test_nothing_is_claimed_without_an_honest_node_or_below_the_ends_of_the_noise() -> None:
    for spec in (HISTOGRAMS[0], SUMS[0]):
        assert math.isinf(corrupted_bounds(spec, Setting(9, 9), 1e-6).epsilon)
        assert math.isinf(spec.local_epsilon(1))
        with pytest.raises(CannotCertify, match="ends of the noise"):
            epsilon_bounds(spec, Setting(9, 9), 1e-6)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_simulation_adds_the_nodes_noise(nodes: int) -> None:
    target = Target(1.0, 1e-6, users=1000, honest=1, max_value=20)
    for kind in ("node-histogram", "node-sum"):
        answer = simulate(calibrate(kind, target), [3] * 500, nodes=nodes)
        error = standard_error(answer.spec, 500) * math.sqrt(nodes)
        assert answer.estimate.standard_errors[0] == pytest.approx(error)
        truth = np.atleast_1d(answer.true_total)
        # Noise of n nodes is bounded: no estimate is further off than all their means.
        means = answer.spec.mean * nodes  # type: ignore[attr-defined]
        assert np.abs(np.array(answer.estimate.values) - truth).max() <= means + 1
    with pytest.raises(UsageError, match="nodes must be at least 1"):
        simulate(answer.spec, [3] * 500, nodes=0)
