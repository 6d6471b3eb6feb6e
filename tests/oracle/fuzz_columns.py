"""Cases of several columns in one submission, and the laws of what they show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import shuffle_oracle as oracle

from shuffledp_core.mechanisms import NodeColumns, NodeTree
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.calibrate import Target, calibrate

MOST_CELLS = 500_000
"""Largest law of a column that is written out."""


def column_pairs(
    rate: Fraction, mean: int, columns: Sequence[tuple[int, int]], changes: Sequence[Sequence[bool]]
) -> list[oracle.Pair]:
    """The counts of all columns, behind one node's dummies, which columns draw independently.

    Args:
        rate: ε of the noise in one count.
        mean: of a node's dummies of each cell.
        columns: cells of each column, and dummies of the node in it.
        changes: which columns two values differ in.
    """
    alone = [oracle.node_counts_pairs(rate, mean, size, dummies)[0] for size, dummies in columns]
    shown = [_of_equal_ratios(pair) for pair in alone]
    pairs = []
    for moved in changes:
        one = other = np.ones(1, dtype=np.longdouble)
        for pair in itertools.compress(shown, moved):
            one = np.multiply.outer(one, pair.one).ravel()
            other = np.multiply.outer(other, pair.other).ravel()
        pairs.append(oracle.Pair(one, other))
    return pairs


def _of_equal_ratios(pair: oracle.Pair) -> oracle.Pair:
    """The same pair with outcomes put together that are told apart by nothing: no δ changes."""
    known = (pair.one > 0) | (pair.other > 0)
    one, other = pair.one[known], pair.other[known]
    with np.errstate(divide="ignore"):
        ratios = np.round(np.log(one / other).astype(np.float64), 11)
    _, place = np.unique(ratios, return_inverse=True)
    merged = np.zeros((2, place.max() + 1), dtype=np.longdouble)
    np.add.at(merged[0], place, one)
    np.add.at(merged[1], place, other)
    return oracle.Pair(merged[0], merged[1])


def tree_case(
    case: Callable[..., Any], numbers: np.random.Generator, setting: Setting, delta: float
) -> Any:
    """A tree that calibration chose, or one of any noise, room and width."""
    bins = int(numbers.integers(2, 10))
    epsilon = math.exp(numbers.uniform(math.log(0.1), math.log(8)))
    goal: float | None = None
    if numbers.random() < 0.5:
        goal = epsilon
        target = Target(
            epsilon, delta, setting.users, setting.honest, setting.adjacency, symbols=bins
        )
        spec: Any = calibrate("node-tree", target)
    else:
        mean = int(numbers.integers(1, 30))
        spec = NodeTree(
            symbols=bins,
            noise_epsilon=Fraction(max(1, round(1024 * epsilon)), 4096),
            mean=mean,
            spare=int(numbers.integers(0, mean * bins + 1)),
            width=int(numbers.integers(1, bins)),
        )
    return _written_out(case, spec, setting, delta, goal)


def columns_case(
    case: Callable[..., Any], numbers: np.random.Generator, setting: Setting, delta: float
) -> Any:
    """One to three columns that calibration prices, or ones of any noise and room."""
    sizes = tuple(int(size) for size in numbers.integers(2, 6, int(numbers.integers(1, 4))))
    epsilon = math.exp(numbers.uniform(math.log(0.1), math.log(8)))
    if numbers.random() < 0.6:
        target = Target(
            epsilon,
            delta,
            setting.users,
            setting.honest,
            setting.adjacency,
            symbols=math.prod(sizes),
            columns=sizes,
        )
        return _written_out(case, calibrate("node-columns", target), setting, delta, epsilon)
    mean = int(numbers.integers(1, 30))
    spec = NodeColumns(
        symbols=math.prod(sizes),
        noise_epsilon=Fraction(max(1, round(1024 * epsilon)), 4096),
        mean=mean,
        spare=int(numbers.integers(0, mean * max(sizes) + 1)),
        columns=sizes,
    )
    return _written_out(case, spec, setting, delta, None)


def _written_out(
    case: Callable[..., Any], spec: Any, setting: Setting, delta: float, goal: float | None
) -> Any:
    """The case with the laws of every kind of change; None where these are too long."""
    columns = list(zip(spec.column_sizes, spec.column_dummies, strict=True))
    if (2 * spec.mean + 2) ** 2 * (2 * spec.mean * (max(spec.column_sizes) - 2) + 1) > MOST_CELLS:
        return None
    cells = [spec.cells_of(np.array(value)).tolist() for value in range(spec.domain)]
    changes = {
        tuple(a != b for a, b in zip(one, other, strict=True))
        for one, other in itertools.combinations(cells, 2)
    }
    pairs = column_pairs(spec.noise_epsilon, spec.mean, columns, sorted(changes))
    group = spec.kind if goal is None else f"{spec.kind} (calibrated)"
    return case(group, spec, setting, delta, goal, pairs, complete=True)


COLUMN_CASES: Final[dict[str, Callable[..., Any]]] = {
    "node-tree": tree_case,
    "node-columns": columns_case,
}
