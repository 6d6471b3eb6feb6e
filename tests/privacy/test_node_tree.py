"""Bins and their groups behind one node's dummies, against the enumeration of every view.

The views are written out from the definition, as in `test_node_noise`: all numbers of dummies of
both columns, under the condition of each, and the counts that all messages together have.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

from shuffledp import simulate
from shuffledp_core.errors import CannotCertify, ParameterError
from shuffledp_core.mechanisms import NodeHistogram, NodeTree
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import (
    Setting,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

Law = dict[tuple[int, ...], float]

TREES = [
    NodeTree(symbols=3, noise_epsilon=Fraction(1, 2), mean=1, spare=3, width=2),
    NodeTree(symbols=3, noise_epsilon=Fraction(2, 3), mean=1, spare=1, width=2),
    NodeTree(symbols=4, noise_epsilon=Fraction(1), mean=1, spare=2, width=2),
    NodeTree(symbols=3, noise_epsilon=Fraction(1), mean=2, spare=0, width=2),
    NodeTree(symbols=3, noise_epsilon=Fraction(2, 3), mean=2, spare=3, width=1),
]


@cache
def dummies_of(spec: NodeTree) -> Law:
    """Counts of a node's dummies, an "empty" behind each column, by the definition."""
    weights = {
        z: math.exp(-float(spec.noise_epsilon) * abs(z)) for z in range(-spec.mean, spec.mean + 1)
    }
    groups = [] if spec.width == 1 else [math.ceil(spec.symbols / spec.width)]
    law: Law = {(): 1.0}
    for size in [*groups, spec.symbols]:
        total = size * spec.mean + min(spec.spare, size * spec.mean)
        column: Law = {}
        for drawn in itertools.product(weights, repeat=size):
            empty = total - sum(spec.mean + z for z in drawn)
            if empty >= 0:
                counts = (*(spec.mean + z for z in drawn), empty)
                column[counts] = math.prod(weights[z] for z in drawn)
        scale = math.fsum(column.values())
        law = {
            (*before, *counts): mass * more / scale
            for before, mass in law.items()
            for counts, more in column.items()
        }
    return law


def view(spec: NodeTree, values: tuple[int, ...]) -> Law:
    """Law of the counts of all messages behind one honest node."""
    own: Counter[int] = Counter()
    groups = 0 if spec.width == 1 else math.ceil(spec.symbols / spec.width) + 1
    for value in values:
        own[groups + value] += 1
        if groups:
            own[value // spec.width] += 1
    return {
        tuple(count + own[symbol] for symbol, count in enumerate(counts)): mass
        for counts, mass in dummies_of(spec).items()
    }


def delta_of(one: Law, other: Law, epsilon: float) -> float:
    growth = math.exp(epsilon)
    return math.fsum(max(0.0, mass - growth * other.get(key, 0.0)) for key, mass in one.items())


@pytest.mark.parametrize("rest", [(), (0,), (2,)])
@pytest.mark.parametrize("spec", TREES, ids=str)
def test_certified_and_attained_are_the_worst_of_all_changes(
    spec: NodeTree, rest: tuple[int, ...]
) -> None:
    views = [view(spec, (value, *rest)) for value in range(spec.symbols)]
    for epsilon in (0.0, 0.3, 1.0, 1.7, 3.0):
        truth = max(delta_of(a, b, epsilon) for a, b in itertools.permutations(views, 2))
        for setting in (Setting(1 + len(rest), 1), Setting(10**9, 5)):
            bounds = delta_bounds(spec, setting, epsilon)
            assert bounds.certified == pytest.approx(truth, rel=1e-8, abs=1e-14)
            assert bounds.attained <= truth * (1 + 1e-12) + 1e-15
            assert truth <= bounds.certified * (1 + 1e-12)
            assert bounds.attained == pytest.approx(truth, rel=1e-8, abs=1e-14)


def test_a_change_within_a_group_costs_no_more_than_the_bins_alone() -> None:
    spec = TREES[2]
    alone = NodeHistogram(
        symbols=4, noise_epsilon=spec.noise_epsilon, mean=1, dummies=spec.column_dummies[1]
    )
    within = delta_of(view(spec, (0,)), view(spec, (1,)), 0.5)
    assert within == pytest.approx(delta_bounds(alone, Setting(1, 1), 0.5).certified, rel=1e-9)
    assert within < delta_bounds(spec, Setting(1, 1), 0.5).certified


def test_rounds_compose_as_the_exact_losses_do() -> None:
    """Two rounds of one tree are four columns: the same losses, combined once more."""
    spec = calibrate("node-tree", Target(2.0, 1e-4, users=50, honest=50, symbols=100))
    assert isinstance(spec, NodeTree)
    exact = spec.losses.combine(spec.losses)
    composed = compose_epsilon([Round(spec, Setting(50, 50), 2)], 1e-3)
    assert exact.attained_delta(composed) <= 1e-3
    assert exact.attained_delta(composed * 0.97) > 1e-3


@pytest.mark.parametrize("spec", TREES[:3], ids=str)
def test_a_node_draws_the_certified_law(spec: NodeTree) -> None:
    """Each column, and a count of one beside a count of the other.

    Chi-square at 1e-12, cells below 200 together: below 1e-9 (see `test_sampling`).
    """
    draws = 10_000
    law = dummies_of(spec)
    integers = RandomIntegers()
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        dummies = spec.sample_dummies(integers)
        assert dummies.shape == (spec.dummies_per_node,)
        seen[tuple(spec.counts_of(dummies).tolist())] += 1
    assert set(seen) <= set(law)
    groups = spec.column_starts[1]
    for part in (slice(groups), slice(groups, None), slice(0, None, groups)):
        cells: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for counts, mass in law.items():
            cells[counts[part]][0] += seen[counts]
            cells[counts[part]][1] += mass * draws
        large = [cell for cell in cells.values() if cell[1] >= 200]
        statistic = sum((count - mean) ** 2 / mean for count, mean in large)
        assert statistic <= chi2.isf(1e-12, len(large))


def test_calibration_chooses_groups_where_they_serve_quantiles() -> None:
    widths = {}
    for bins in (2, 16, 100, 1024):
        spec = calibrate("node-tree", Target(1.0, 1e-6, users=10_000, honest=10_000, symbols=bins))
        assert isinstance(spec, NodeTree)
        widths[bins] = spec.width
        bounds = epsilon_bounds(spec, Setting(10_000, 1), 1e-6)
        assert 0.999 < bounds.attained <= bounds.certified <= 1.0
    assert widths == {2: 1, 16: 1, 100: 10, 1024: 32}


def test_with_every_node_corrupt_nothing_hides_a_value() -> None:
    assert corrupted_bounds(TREES[0], Setting(10, 10), 1e-6).epsilon == math.inf


def test_a_simulated_round_states_the_error_of_all_nodes() -> None:
    spec = NodeTree(symbols=9, noise_epsilon=Fraction(1), mean=12, spare=100, width=3)
    answer = simulate(spec, np.repeat(np.arange(9), 3), nodes=3)
    expected = math.sqrt(3) * spec.node_noise
    assert np.asarray(answer.total_standard_error) == pytest.approx(np.full(9, expected))
    assert standard_error(spec, 27, 3) == pytest.approx(expected)
    # The dummies of a node are at most 2 mean of each cell: no error is larger, in any draw.
    assert np.abs(np.asarray(answer.total) - 3).max() <= 3 * 12 * 2


def test_columns_that_are_none_are_refused() -> None:
    with pytest.raises(ParameterError, match="width"):
        NodeTree(symbols=4, noise_epsilon=Fraction(1), mean=1, spare=0, width=4)
    with pytest.raises(ParameterError, match="spare"):
        NodeTree(symbols=4, noise_epsilon=Fraction(1), mean=2, spare=9, width=2)
    with pytest.raises(CannotCertify, match="ends of the noise"):
        epsilon_bounds(TREES[0], Setting(10, 10), 1e-6)
