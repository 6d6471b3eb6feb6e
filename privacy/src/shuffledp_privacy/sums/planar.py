"""Planar locations as two sums, one for each axis (Athanasiou et al. 2025, Appendix D).

Each axis with (ε/√2, δ/2) under metric adjacency gives (ε, δ) for the Euclidean distance.
docs/accounting.md, Proposition S15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics.rounding import down, up


@dataclass(frozen=True, slots=True)
class PlaneGuarantee:
    """Guarantee (ε, δ) with ε in nats per unit of distance."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise UsageError(f"epsilon must be at least 0 and finite, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise UsageError(f"delta must be from 0 to below 1, not {self.delta}")


def axis_budget(plane: PlaneGuarantee) -> PlaneGuarantee:
    """Budget of each axis for a guarantee of the plane: (ε/√2, δ/2), rounded down.

    Proposition S15.
    """
    return PlaneGuarantee(
        math.nextafter(down(plane.epsilon / math.sqrt(2), units=4), 0.0), plane.delta / 2
    )


def plane_guarantee(first: PlaneGuarantee, second: PlaneGuarantee) -> PlaneGuarantee:
    """Guarantee of two axes for the Euclidean distance: (sqrt(ε1² + ε2²), δ1 + δ2), rounded up.

    Proposition S15.

    ε1 d1 + ε2 d2 <= sqrt(ε1² + ε2²) sqrt(d1² + d2²) by Cauchy and Schwarz; equal axes give √2 ε.

    Raises:
        UsageError: δ1 + δ2 is not below 1.
    """
    epsilon = up(math.hypot(first.epsilon, second.epsilon))
    # The sum of two zeros is exact, and the guarantee stays pure.
    return PlaneGuarantee(
        epsilon,
        math.nextafter(first.delta + second.delta, 1.0) if first.delta + second.delta else 0.0,
    )
