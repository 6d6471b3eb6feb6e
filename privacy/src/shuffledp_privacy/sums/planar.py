"""Planar locations as two sums, one for each axis (Athanasiou et al. 2025, Appendix D).

Each axis with (ε/√2, δ/2) under metric adjacency gives (ε, δ) for the Euclidean distance.
docs/accounting.md, Proposition S15.
"""

from __future__ import annotations

import math

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics.rounding import down, up


def axis_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Budget (ε, δ) of each axis for a guarantee of the plane: (ε/√2, δ/2), rounded down.

    Proposition S15.

    Args:
        epsilon: ε of the plane, at least 0 and finite, nats per unit of distance.
        delta: δ of the plane, in [0, 1).

    Raises:
        UsageError: an argument is outside its range.
    """
    _check(epsilon, delta)
    return math.nextafter(down(epsilon / math.sqrt(2), units=4), 0.0), delta / 2


def plane_guarantee(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Guarantee of two axes in Euclidean distance: (sqrt(ε1² + ε2²), δ1 + δ2), rounded up.

    Proposition S15.

    ε1 d1 + ε2 d2 <= sqrt(ε1² + ε2²) sqrt(d1² + d2²) by Cauchy and Schwarz; equal axes give √2 ε.

    Args:
        first: (ε, δ) of one axis.
        second: (ε, δ) of the other.

    Raises:
        UsageError: an ε or δ outside its range, or δ1 + δ2 is not below 1.
    """
    for axis in (first, second):
        _check(*axis)
    delta = first[1] + second[1]
    # The sum of two zeros is exact, and the guarantee stays pure.
    plane = up(math.hypot(first[0], second[0])), math.nextafter(delta, 1.0) if delta else 0.0
    _check(*plane)
    return plane


def _check(epsilon: float, delta: float) -> None:
    if not 0 <= epsilon < math.inf:
        raise UsageError(f"epsilon must be at least 0 and finite, not {epsilon}")
    if not 0 <= delta < 1:
        raise UsageError(f"delta must be from 0 to below 1, not {delta}")
