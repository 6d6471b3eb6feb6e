"""The worst distance, from bounds on intervals of distances (docs/accounting.md, proposition C7).

Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

COVER_TOLERANCE = 0.01
"""Relative slack at which the search over distances stops refining its cover."""

ACCEPTED = 0.002
"""Relative excess over a single distance at which an interval is left as it is."""


def worst_over_distances(
    ceiling: Callable[[int, int], float], d_max: int, near: int = 0, settled: float = 0.0
) -> float:
    """Upper bound of max over d in 1..d_max of v(d), from bounds on intervals (proposition C7).

    `ceiling(low, high)` bounds v on all of low..high. Intervals are split, the worst first, until
    the worst one is a single distance, too short for a split to gain more than `COVER_TOLERANCE`,
    or hardly above what some single distance has: the rest would cost many compositions and gain
    less than `ACCEPTED`. Up to the distance `near` the bound `settled` is known.
    """
    heap: list[tuple[float, int, int]] = []
    single = max(settled, ceiling(d_max, d_max))
    low = near + 1
    while low <= d_max:
        # Each interval bounds E(d)/d by E_b/a, which is loose by less than 2 here (C7).
        high = min(2 * low - 1, d_max)
        heapq.heappush(heap, (-ceiling(low, high), low, high))
        low = high + 1
    while True:
        worst, low, high = heap[0]
        if low == high:
            single = max(single, -worst)
        if high <= low * (1 + COVER_TOLERANCE) or -worst <= single * (1 + ACCEPTED):
            return -worst
        middle = (low + high) // 2
        heapq.heapreplace(heap, (-ceiling(low, middle), low, middle))
        heapq.heappush(heap, (-ceiling(middle + 1, high), middle + 1, high))
