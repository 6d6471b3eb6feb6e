"""Bisection that always returns an end at which the condition holds.

A bound read off at that end is a bound, however rounding bends the condition in between. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def bisect(holds: Callable[[float], bool], passing: float, failing: float, steps: int) -> float:
    """Passing end of the interval after `steps` halvings, for a monotone condition.

    Args:
        holds: the condition; it changes once between the ends.
        passing: end at which it holds, above or below the other one; not evaluated.
        failing: end at which it does not hold; not evaluated.
        steps: halvings.
    """
    for _ in range(steps):
        middle = 0.5 * (passing + failing)
        if holds(middle):
            passing = middle
        else:
            failing = middle
    return passing


def bisect_whole(holds: Callable[[int], bool], passing: int, failing: int) -> int:
    """Last whole number, from `passing` towards `failing`, at which a monotone condition holds.

    Arguments as in `bisect`; `passing` where the condition holds nowhere in between.
    """
    while abs(passing - failing) > 1:
        middle = (passing + failing) // 2
        if holds(middle):
            passing = middle
        else:
            failing = middle
    return passing


def bisect_magnitude(
    holds: Callable[[float], bool], passing: float, *, smallest: float, shrink: float
) -> float:
    """Smallest positive number, to a thousandth, at which a condition that fails near 0 holds.

    The threshold may be smaller than `passing` by orders of magnitude: the end is divided by
    `shrink` until the condition fails, and then bisected in the logarithm. A result of at most
    `smallest` means that the condition holds all the way down there.
    """
    failing = 0.0
    while passing - failing > 1e-3 * passing and passing > smallest:
        middle = math.sqrt(failing * passing) if failing > 0 else passing / shrink
        if holds(middle):
            passing = middle
        else:
            failing = middle
    return passing
