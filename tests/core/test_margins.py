"""Cross tables: margins add up, and intervals cover, by enumeration of all that may be drawn."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.answering.margins import TableEstimate, fit_table
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
from shuffledp_core.mechanisms import (
    DummyHistogram,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    NodeHistogram,
)
from shuffledp_core.mechanisms.liars import largest_shift

OPEN_NODE = NodeHistogram(symbols=5, noise_epsilon=Fraction(1, 2), mean=4, dummies=24)
NODE = NodeHistogram(
    symbols=5, noise_epsilon=Fraction(1, 2), mean=4, dummies=24, blanket=Fraction(1, 4)
)
KRR = KRRHistogram(symbols=5, blanket=Fraction(1, 4))
OPEN_DUMMY = DummyHistogram(symbols=5, slots=2, fill=Fraction(1, 3))
DUMMY = DummyHistogram(symbols=5, slots=2, fill=Fraction(1, 3), blanket=Fraction(1, 4))
USERS = 40


def table_of(mechanism: Mechanism, counts: NDArray[np.int64], nodes: int = 0) -> TableEstimate:
    answer = estimate(mechanism, counts, USERS, nodes=nodes)
    present = Present(Fraction(USERS), nodes)
    table = fit_table(mechanism, answer, (2, 2), present, has_others=True)
    assert table is not None
    return table


def draw_counts(mechanism: Mechanism, nodes: int, seed: int) -> NDArray[np.int64]:
    """Some counts that the mechanism may give; which is all the same."""
    random = np.random.default_rng(seed)
    users = random.multinomial(USERS, np.full(5, 0.2))
    if isinstance(mechanism, NodeHistogram):
        dummies = random.integers(2, 6, (nodes, 5)).sum(axis=0)
        empty = nodes * mechanism.dummies - dummies.sum()
        return np.append(users + dummies, empty)
    if isinstance(mechanism, DummyHistogram):
        dummies = random.multinomial(30, np.full(5, 0.2))
        return np.append(users + dummies, mechanism.slots * USERS - 30)
    return np.asarray(users)


@pytest.mark.parametrize("mechanism", [OPEN_NODE, NODE, KRR, OPEN_DUMMY, DUMMY])
@pytest.mark.parametrize("seed", range(3))
def test_margins_are_sums_of_cells_and_add_up_to_the_answers(
    mechanism: Mechanism, seed: int
) -> None:
    nodes = 2 if mechanism.dummies_per_node else 0
    table = table_of(mechanism, draw_counts(mechanism, nodes, seed), nodes)
    cells = np.array(table.cells.values[:4]).reshape(2, 2)
    np.testing.assert_allclose(table.margin(0).values, cells.sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(table.margin(1).values, cells.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(table.margin(1, 0).values, cells.ravel(), atol=1e-9)
    (in_cells,) = table.in_cells.values
    assert in_cells == pytest.approx(cells.sum())
    assert in_cells + table.cells.values[4] == pytest.approx(USERS)
    for margin in (table.margin(0), table.margin(1), table.in_cells, table.cells):
        assert all(low <= high for low, high in zip(margin.lows, margin.highs, strict=True))


def test_the_fit_is_that_of_least_squares() -> None:
    """Against numpy's solution of cells as they were estimated, under the known total."""
    counts = draw_counts(OPEN_NODE, 2, 7)
    values = np.array(estimate(OPEN_NODE, counts, USERS, nodes=2).values)
    basis = np.linalg.svd(np.ones((1, 5)))[2][1:].T  # differences that keep the total
    start = np.full(5, USERS / 5)
    steps = np.linalg.lstsq(basis, values - start, rcond=None)[0]
    fitted = table_of(OPEN_NODE, counts, 2).cells.values
    np.testing.assert_allclose(fitted, start + basis @ steps, atol=1e-9)


def test_a_table_needs_a_mechanism_whose_counts_add_up() -> None:
    spec = HadamardHistogram(symbols=5, blanket=Fraction(1, 2))
    answer = estimate(spec, [5] * 8, USERS)
    assert fit_table(spec, answer, (2, 2), Present(Fraction(USERS)), has_others=True) is None
    answer = estimate(KRR, [8] * 5, USERS)
    with pytest.raises(ValueError, match="needs one value per cell, not 5"):
        fit_table(KRR, answer, (2, 3), Present(Fraction(USERS)), has_others=False)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("cells", [1, 2, 4])
def test_intervals_cover_whatever_the_nodes_draw(nodes: int, cells: int) -> None:
    """Over every pair of a group's noise and the total that all nodes together can draw."""
    joint = joint_noise(OPEN_NODE, nodes, cells)
    group = np.arange(cells)[np.newaxis]
    missed = 0.0
    for (inside, total), chance in joint.items():
        if chance < 1e-13:
            continue
        # People in the group: 20 of 40, all others hold the last symbol.
        noise = np.zeros(5, dtype=np.int64)
        noise[0], noise[4] = inside, total - inside
        counts = np.array([20, 0, 0, 0, 20]) + noise
        values = counts.astype(np.float64)  # of a noise without bias by the room
        shift = OPEN_NODE._noise(nodes).mean
        answer = OPEN_NODE.pool(values - shift, group, Present(Fraction(USERS), nodes))
        assert answer.values[0] == pytest.approx(20 + inside - total * cells / 5)
        missed += chance * (not answer.lows[0] <= 20 <= answer.highs[0])
    assert sum(joint.values()) == pytest.approx(1)
    assert missed <= 0.05


def joint_noise(spec: NodeHistogram, nodes: int, cells: int) -> dict[tuple[int, int], float]:
    """Probabilities of a group's noise and of all noise, by enumeration of each node's."""
    law = bounded_laplace_law(spec.noise_epsilon, spec.mean)
    reach = range(-spec.mean, spec.mean + 1)
    single: dict[tuple[int, int], float] = {}
    for drawn in itertools.product(reach, repeat=spec.symbols):
        if sum(drawn) <= spec.dummies - spec.symbols * spec.mean:
            key = (sum(drawn[:cells]), sum(drawn))
            chance = float(np.prod([law[number + spec.mean] for number in drawn]))
            single[key] = single.get(key, 0.0) + chance
    room = sum(single.values())
    single = {key: chance / room for key, chance in single.items()}
    both = single
    for _ in range(nodes - 1):
        more: dict[tuple[int, int], float] = {}
        for (a, b), (c, d) in itertools.product(both, single):
            key = (a + c, b + d)
            more[key] = more.get(key, 0.0) + both[a, b] * single[c, d]
        both = more
    return both


@pytest.mark.parametrize("holding", [0, 1, 7, 20, 40])
@pytest.mark.parametrize("cells", [2, 4])
def test_intervals_of_randomised_responses_cover(holding: int, cells: int) -> None:
    uniform = KRR.blanket * cells / 5
    inside = binom.pmf(np.arange(holding + 1), holding, float(1 - KRR.blanket + uniform))
    others = binom.pmf(np.arange(USERS - holding + 1), USERS - holding, float(uniform))
    group = np.arange(cells)[np.newaxis]
    missed = 0.0
    for count, chance in enumerate(np.convolve(inside, others)):
        counts = np.array([count, 0, 0, 0, USERS - count])
        values = np.array(estimate(KRR, counts, USERS).values)
        answer = KRR.pool(values, group, Present(Fraction(USERS)))
        missed += chance * (not answer.lows[0] <= holding <= answer.highs[0])
    assert missed <= 0.05


@pytest.mark.parametrize("cells", [1, 2, 4])
def test_intervals_cover_whatever_dummies_users_draw(cells: int) -> None:
    slots = USERS * OPEN_DUMMY.slots
    group = np.arange(cells)[np.newaxis]
    missed = 0.0
    for filled in range(slots + 1):
        likely = float(binom.pmf(filled, slots, float(OPEN_DUMMY.fill)))
        if likely < 1e-9:
            continue
        for inside in range(filled + 1):
            chance = likely * float(binom.pmf(inside, filled, cells / 5))
            counts = np.array([20 + inside, 0, 0, 0, 20 + filled - inside, slots - filled])
            values = np.array(estimate(OPEN_DUMMY, counts, USERS).values)
            answer = OPEN_DUMMY.pool(values, group, Present(Fraction(USERS)))
            missed += chance * (not answer.lows[0] <= 20 <= answer.highs[0])
    assert missed <= 0.05


@pytest.mark.parametrize("mechanism", [OPEN_NODE, NODE, KRR, OPEN_DUMMY, DUMMY])
@pytest.mark.parametrize("cells", [1, 2, 4])
def test_a_liar_moves_a_margin_no_further_than_a_count(mechanism: Mechanism, cells: int) -> None:
    """Over every symbol that a device may send in all its messages."""
    nodes = 2 if mechanism.dummies_per_node else 0
    counts = draw_counts(mechanism, nodes, 1)
    moved = []
    for symbol in range(mechanism.alphabet):
        changed = counts.copy()
        changed[4] -= 1  # the device's value; its other messages are all empty
        if isinstance(mechanism, DummyHistogram):
            changed[5] -= mechanism.slots
        changed[symbol] += mechanism.messages_per_user
        table = table_of(mechanism, changed, nodes)
        moved.append(sum(table.cells.values[:cells]))
    bound = largest_shift(mechanism, 1)
    assert bound is not None
    assert max(moved) - min(moved) <= float(bound) + 1e-9


def test_a_total_that_no_honest_node_draws_still_has_honest_ends() -> None:
    answer: Estimate = OPEN_NODE.pool(
        np.array([20.0, 0.0, 0.0, 0.0, 500.0]), np.array([[0]]), Present(Fraction(USERS), 1)
    )
    assert answer.lows[0] <= answer.highs[0]
