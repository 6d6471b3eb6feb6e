"""Certified maximum of a function of one or two whole numbers, by monotone bounds and branching.

Metric privacy requires the worst distance d of up to 1e5 or more, and rr-shuffle also the worst
number j of ones among the other bits. A box of (d, j) is finished if a bound over the whole box is
below the current maximum; otherwise it is split; a single point raises the maximum
(docs/accounting.md, Proposition S5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_AT_ONCE = 512
"""Boxes bounded in one call."""

FEW = 256
"""Number of points up to which all are evaluated, without any slack."""

_MOST = 1_500
"""Boxes bounded before those that are left are taken as they are: speed costs tightness, never
soundness.
"""

_SOUNDED = 64
"""Boxes whose own bound is computed at a time, of those: whether it is more in another takes a
fifth of that to see.
"""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Rows of boxes: distances d_low..d_high and compositions j_low..j_high, both ends included."""

    d_low: Integers
    d_high: Integers
    j_low: Integers
    j_high: Integers

    def __len__(self) -> int:
        return len(self.d_low)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Boxes:
        """The rows selected by an index or a mask."""
        return Boxes(self.d_low[index], self.d_high[index], self.j_low[index], self.j_high[index])

    def join(self, other: Boxes) -> Boxes:
        """Concatenate the rows of both sets of boxes."""
        return Boxes(
            np.concatenate([self.d_low, other.d_low]),
            np.concatenate([self.d_high, other.d_high]),
            np.concatenate([self.j_low, other.j_low]),
            np.concatenate([self.j_high, other.j_high]),
        )

    @property
    def points(self) -> NDArray[np.bool_]:
        """Mask of the boxes that are a single point."""
        return np.asarray((self.d_low == self.d_high) & (self.j_low == self.j_high), dtype=np.bool_)

    def cut(self, compositions: int) -> Boxes:
        """Halve each box along the axis that loses more: ln d, or the share of compositions."""
        # Over d in a..b the bound E(b)/a is loose by up to b/a (S5).
        along = np.log(self.d_high / self.d_low)
        across = 0.5 * (self.j_high - self.j_low) / max(compositions, 1)
        by_d = (self.d_high > self.d_low) & ((along >= across) | (self.j_low == self.j_high))
        d_middle = np.where(by_d, (self.d_low + self.d_high) // 2, self.d_high)
        j_middle = np.where(by_d, self.j_high, (self.j_low + self.j_high) // 2)
        d_next = np.where(by_d, d_middle + 1, self.d_low)
        j_next = np.where(by_d, self.j_low, j_middle + 1)
        left = Boxes(self.d_low, d_middle, self.j_low, j_middle)
        return left.join(Boxes(d_next, self.d_high, j_next, self.j_high))


def distance_boxes(low: int, high: int, compositions: int = 0, blocks: int = 1) -> Boxes:
    """An initial cover of low..high times 0..compositions by boxes."""
    # In geometric steps: what a box loses is about the ratio of its ends.
    edges = np.unique(
        np.concatenate([np.round(np.geomspace(low, high, 24)), [low, high + 1]])
    ).astype(np.int64)
    lines = np.unique(np.round(np.linspace(0, compositions + 1, blocks + 1))).astype(np.int64)
    d = np.repeat(np.arange(len(edges) - 1), len(lines) - 1)
    j = np.tile(np.arange(len(lines) - 1), len(edges) - 1)
    return Boxes(edges[d], edges[d + 1] - 1, lines[j], lines[j + 1] - 1)


def _largest(
    boxes: Boxes,
    holds: Callable[[Boxes, float], NDArray[np.bool_]],
    needed: Callable[[Boxes], Floats],
) -> float:
    """Largest `needed` of all boxes, evaluated only where it may exceed the largest so far.

    0 for no boxes.
    """
    largest = 0.0
    while len(boxes) and np.isfinite(largest):
        some = np.zeros(len(boxes), dtype=np.bool_)
        some[:: -(-len(boxes) // _SOUNDED)] = True
        largest = max(largest, float(needed(boxes.take(some)).max()))
        rest = boxes.take(~some)
        boxes = rest.take(~holds(rest, largest)) if len(rest) else rest
    return largest


def certified_maximum(
    boxes: Boxes,
    start: float,
    slack: float,
    holds: Callable[[Boxes, float], NDArray[np.bool_]],
    needed: Callable[[Boxes], Floats],
    compositions: int = 0,
    few: int = FEW,
) -> float:
    """Upper bound of max f, which is hardly above max(f, start (1 + slack)).

    Args:
        boxes: a cover of all points.
        start: a value that f is believed to reach; it affects tightness only.
        slack: relative.
        holds: mask of the boxes on all of which f <= target is certain; monotone in the target.
        needed: a bound of f on each box, tight where it is one point.
        compositions: range of j, for deciding how to cut.
        few: up to this number of points, `needed` is evaluated at each.
    """
    if int(((boxes.d_high - boxes.d_low + 1) * (boxes.j_high - boxes.j_low + 1)).sum()) <= few:
        while not boxes.points.all():
            boxes = boxes.take(boxes.points).join(boxes.take(~boxes.points).cut(compositions))
        return float(needed(boxes).max())
    target, spent = start * (1.0 + slack), 0
    while len(boxes):
        now = np.arange(min(len(boxes), _AT_ONCE))
        rest = boxes.take(np.arange(len(now), len(boxes)))
        current = boxes.take(now)
        open_boxes = current.take(~holds(current, target))
        spent += len(current)
        if spent > _MOST:
            return max(target, _largest(rest.join(open_boxes), holds, needed))
        single = open_boxes.points
        if (
            single.any()
        ):  # nothing left to cut: the target is raised, and boxes that are done stay done
            target = max(target, float(needed(open_boxes.take(single)).max()))
        boxes = rest.join(open_boxes.take(~single).cut(compositions))
        if not np.isfinite(target):
            return float("inf")
    return target
