"""Several columns behind one node's dummies, against the enumeration of every view."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp_core.answering.estimates import Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
from shuffledp_core.errors import ParameterError, UsageError
from shuffledp_core.mechanisms import NodeColumns
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate

Law = dict[tuple[int, ...], float]

COLUMNS = [
    NodeColumns(symbols=4, noise_epsilon=Fraction(1, 2), mean=1, spare=1, columns=(2, 2)),
    NodeColumns(symbols=6, noise_epsilon=Fraction(2, 3), mean=1, spare=2, columns=(3, 2)),
    NodeColumns(symbols=8, noise_epsilon=Fraction(1), mean=1, spare=2, columns=(2, 2, 2)),
    NodeColumns(symbols=4, noise_epsilon=Fraction(1), mean=2, spare=1, columns=(2, 2)),
]


@cache
def dummies_of(spec: NodeColumns) -> Law:
    """Counts of a node's dummies, an "empty" behind each column, by the definition."""
    places = range(-spec.mean, spec.mean + 1)
    law: Law = {(): 1.0}
    for size in spec.columns:
        total = size * spec.mean + min(spec.spare, size * spec.mean)
        column: Law = {}
        for drawn in itertools.product(places, repeat=size):
            empty = total - sum(spec.mean + z for z in drawn)
            if empty >= 0:
                weight = math.exp(-float(spec.noise_epsilon) * sum(map(abs, drawn)))
                column[(*(spec.mean + z for z in drawn), empty)] = weight
        scale = math.fsum(column.values())
        law = {
            (*before, *counts): mass * more / scale
            for before, mass in law.items()
            for counts, more in column.items()
        }
    return law


def view(spec: NodeColumns, cells: tuple[int, ...]) -> Law:
    """Law of the counts of one person's messages and the dummies."""
    starts = [sum(spec.columns[:place]) + place for place in range(len(cells))]
    own = Counter(start + cell for start, cell in zip(starts, cells, strict=True))
    return {
        tuple(count + own[symbol] for symbol, count in enumerate(counts)): mass
        for counts, mass in dummies_of(spec).items()
    }


def delta_of(one: Law, other: Law, epsilon: float) -> float:
    growth = math.exp(epsilon)
    return math.fsum(max(0.0, mass - growth * other.get(key, 0.0)) for key, mass in one.items())


@pytest.mark.parametrize("spec", COLUMNS, ids=str)
def test_certified_and_attained_are_the_worst_of_all_changes(spec: NodeColumns) -> None:
    cells = list(itertools.product(*map(range, spec.columns)))
    views = [view(spec, place) for place in cells]
    assert len(views) == spec.symbols
    for epsilon in (0.0, 0.4, 1.3, 2.5, 4.0):
        truth = max(delta_of(a, b, epsilon) for a, b in itertools.permutations(views, 2))
        bounds = delta_bounds(spec, Setting(1, 1), epsilon)
        assert bounds.certified == pytest.approx(truth, rel=1e-8, abs=1e-14)
        assert bounds.attained == pytest.approx(truth, rel=1e-8, abs=1e-14)
        assert bounds.attained <= truth * (1 + 1e-12) + 1e-15
        assert truth <= bounds.certified * (1 + 1e-12)


@pytest.mark.parametrize("columns", [(7,), (7, 5), (2, 100, 3), (2,) * 8])
def test_calibration_divides_epsilon_among_the_columns(columns: tuple[int, ...]) -> None:
    target = Target(1.0, 1e-6, 5000, 5000, symbols=math.prod(columns), columns=columns)
    spec = calibrate("node-columns", target)
    assert isinstance(spec, NodeColumns)
    assert spec.columns == columns
    assert float(spec.noise_epsilon) >= 0.999 / (2 * len(columns))
    bounds = epsilon_bounds(spec, Setting(5000, 1), 1e-6)
    assert 0.998 < bounds.attained <= bounds.certified <= 1.0


def test_columns_that_do_not_make_the_symbols_are_refused() -> None:
    with pytest.raises(UsageError, match="combinations"):
        Target(1.0, 1e-6, 100, 100, symbols=10, columns=(2, 4))
    with pytest.raises(ParameterError, match="product"):
        NodeColumns(symbols=5, noise_epsilon=Fraction(1), mean=1, spare=0, columns=(2, 2))
    with pytest.raises(ParameterError, match="1 to 16"):
        NodeColumns(symbols=1, noise_epsilon=Fraction(1), mean=1, spare=0, columns=())
    with pytest.raises(UsageError, match="leave out symbols and max-value"):
        sdp.calibrate(
            "node-columns", epsilon=1, delta=1e-6, setting=Setting(9, 1), symbols=4, columns=(2, 2)
        )


def test_a_value_is_one_cell_of_each_column() -> None:
    spec = COLUMNS[1]
    cells = list(itertools.product(range(3), range(2)))
    assert [spec.value_of(place) for place in cells] == list(range(6))
    assert spec.cells_of(np.arange(6)).tolist() == [list(place) for place in cells]
    assert [list(spec.encode(value)) for value in (0, 5)] == [[0, 4], [2, 5]]
    for wrong in ((1,), (3, 0), (0, -1)):
        with pytest.raises(ParameterError):
            spec.value_of(wrong)
    values = np.array([0, 1, 5, 5])
    assert spec.split(spec.truth(values).tolist()) == [[2, 0, 2], [1, 3]]


def test_every_count_is_unbiased_and_its_interval_covers_by_the_law_of_the_noise() -> None:
    """Of one node, exactly: each number of dummies with its probability."""
    spec = NodeColumns(symbols=6, noise_epsilon=Fraction(1), mean=8, spare=16, columns=(3, 2))
    values = np.array([0] * 30 + [5] * 20 + [3] * 10)
    truth = spec.truth(values)
    alone = spec.count(values[np.newaxis])[0]
    law = bounded_laplace_law(spec.noise_epsilon, spec.mean)
    cells = [symbol for symbol in range(spec.alphabet) if symbol not in (3, 6)]
    for place, symbol in enumerate(cells):
        covered = mean = 0.0
        for noise, mass in enumerate(law):
            counts = alone.copy()
            counts[cells] += spec.mean
            counts[symbol] += noise - spec.mean
            found = spec.estimate(counts.tolist(), Present(Fraction(60), 1))
            covered += mass * (found.lows[place] <= truth[place] <= found.highs[place])
            mean += mass * found.values[place]
        assert covered >= 0.95
        assert mean == pytest.approx(truth[place], abs=0.02)  # less than the condition's own


def test_lost_messages_may_have_been_of_any_column() -> None:
    spec = COLUMNS[1]
    counts = spec.count(np.array([[0, 1, 5, 5]]))[0]
    counts[0] -= 1
    counts[5] -= 1
    found = estimate(spec, counts.tolist(), 4, lost=2)
    truth = spec.truth(np.array([0, 1, 5, 5]))
    assert (np.array(found.lows) <= truth).all()
    assert (np.array(found.highs) >= truth).all()


def test_two_columns_are_simulated_in_one_round() -> None:
    """Dummies of a cell are at most 2 mean: no error is larger, in any draw."""
    plan = sdp.calibrate(
        "node-columns", epsilon=1, delta=1e-6, setting=sdp.Setting(900, 1), columns=(3, 2)
    )
    spec = plan.spec
    assert isinstance(spec, NodeColumns)
    values = [spec.value_of((person % 3, person % 2)) for person in range(900)]
    answer = sdp.simulate(plan, values)
    first, second = spec.split(np.asarray(answer.total).tolist())
    assert first == pytest.approx([300] * 3, abs=2 * spec.mean)
    assert second == pytest.approx([450] * 2, abs=2 * spec.mean)
    assert np.asarray(answer.true_total).tolist() == [300, 300, 300, 450, 450]
