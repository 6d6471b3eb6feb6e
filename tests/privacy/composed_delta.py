"""δ of several rounds at ε, from the curves that `compose_epsilon` composes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import delta_bounds
from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.rounds import composition
from shuffledp_privacy.rounds.composition import Round, at_common_distance, largest_distance
from shuffledp_privacy.rounds.cover import worst_over_distances
from shuffledp_privacy.rounds.loss_distribution import RESOLVED_DELTA, STEPS
from shuffledp_privacy.rounds.shifts import Shifts


def compose_delta(rounds: Sequence[Round], epsilon: float) -> float:
    """Certified δ of all rounds together at ε, rounded up.

    ε in nats, >= 0; per unit under metric adjacency.

    Never below the truth; at least about 1e-13, the resolution of the method (proposition C4).

    Raises:
        UsageError: for no rounds, mixed adjacency, or a negative ε.
    """
    adjacency = composition._adjacency(rounds)
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, not {epsilon}")
    if composition._is_single(rounds):
        return delta_bounds(rounds[0].spec, rounds[0].setting, epsilon).certified
    rounds = at_common_distance(rounds)
    d_max = largest_distance(rounds)
    shifts = composition._shifts(rounds, d_max) if adjacency is Adjacency.METRIC else None

    def resolved_at(scale: float) -> float:
        if shifts is not None and not shifts.is_costly(scale):
            return delta_of_shifts(shifts, epsilon, scale)
        if adjacency is Adjacency.STANDARD:
            return composition._compose(rounds, 1, d_max, scale).delta(epsilon)
        return worst_over_distances(
            lambda a, b: composition._compose(rounds, a, b, scale).delta(epsilon * a), d_max
        )

    # The grid is made for one δ: a first answer tells which, a second is read on a grid made for
    # it. Both are sound.
    coarse = resolved_at(1e-6)
    if coarse >= 1e-7:
        return coarse
    return min(coarse, resolved_at(max(coarse, RESOLVED_DELTA)))


def delta_of_shifts(shifts: Shifts, epsilon: float, resolved: float) -> float:
    """δ for every distance at ε per unit, rounded up.

    `resolved` is the δ at which the grid is good.
    """
    # Down: the δ of a smaller ε is larger.
    total = down(epsilon * shifts.sums[0].d_max, units=4)
    losses = shifts._losses(resolved)
    try:
        delta = shifts.compose(resolved, losses, STEPS).delta(total) + math.fsum(losses)
    except CannotCertify:
        # Some round's kept noise hides nothing, such as one that is shorter than the distance.
        return 1.0
    return min(1.0, up(delta))
