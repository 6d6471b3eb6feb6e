"""The largest value of a function of a whole number, certified by monotone bounds and branching.

Metric privacy asks for the worst distance d of up to 1e5 or more; the function is dear, so intervals are
bounded by their ends and only those that may hold the maximum are cut (docs/accounting.md, Proposition S5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

TOLERANCE = 5e-4
"""Relative gap between bound and best value at which branching stops."""

_ROUNDS = 40
_WIDEST = 48
"""Intervals cut in one round at most: those with the largest bounds."""


@dataclass(frozen=True, slots=True)
class Supremum:
    """An upper bound of the maximum, a value that is attained, and where."""

    upper: float
    lower: float
    where: int


def supremum(
    bound: Callable[[Integers, Integers], Floats],
    value: Callable[[Integers], Floats],
    low: int,
    high: int,
) -> Supremum:
    """Bracket max of f over the integers low..high, low <= high.

    Args:
        bound: (a, b) -> something not below f at any integer of a..b; vectorised. It should tend to f as the
            interval shrinks.
        value: d -> something not above f(d); vectorised.
        low: first integer.
        high: last integer.
    """
    edges = np.unique(np.concatenate([np.round(np.geomspace(max(low, 1), max(high, 1), 24)), [low, high + 1]]))
    edges = edges.astype(np.int64)
    first, last = edges[:-1], edges[1:] - 1
    bounds = bound(first, last)
    values = value(last)
    best = float(values.max())
    where = int(last[int(values.argmax())])
    for _ in range(_ROUNDS):
        slack = best + TOLERANCE * abs(best)
        chosen = np.flatnonzero((bounds > slack) & (last > first))
        if not chosen.size:
            break
        chosen = chosen[np.argsort(bounds[chosen])[::-1][:_WIDEST]]
        middle = (first[chosen] + last[chosen]) // 2
        new_first = np.concatenate([first[chosen], middle + 1])
        new_last = np.concatenate([middle, last[chosen]])
        parents = np.concatenate([bounds[chosen], bounds[chosen]])
        # A bound that rounding made larger than its parent's is replaced by the parent's.
        new_bounds = np.minimum(bound(new_first, new_last), parents)
        found = value(middle)
        if float(found.max()) > best:
            best, where = float(found.max()), int(middle[int(found.argmax())])
        keep = np.setdiff1d(np.arange(len(bounds)), chosen)
        first, last = np.concatenate([first[keep], new_first]), np.concatenate([last[keep], new_last])
        bounds = np.concatenate([bounds[keep], new_bounds])
    return Supremum(float(bounds.max()), best, where)
