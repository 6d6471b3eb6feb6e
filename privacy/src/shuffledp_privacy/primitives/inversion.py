"""Inversion of a falling curve δ(ε): rigorous bounds of ε at a given δ.

A certified ε is a point where the UPPER bound of δ was found to be small enough, an attained ε one
where the LOWER bound was found to be large enough. Because the true curve falls, both are sound for
any rounding or grid of the bounds; the search determines only how tight they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from shuffledp_core.errors import CannotCertify
from shuffledp_privacy.bounds import check_delta

Curve = Callable[[float], float]

TOLERANCE = 1e-6
"""Relative width of the final bracket, in ε: below printed precision."""

MAX_STEPS = 200
"""Most steps: at least every eighth halves the bracket; in practice 10 to 15 are enough."""


def certified_epsilon(
    upper: Curve, delta: float, ceiling: float, tolerance: float = TOLERANCE
) -> float:
    """The smallest ε in [0, ceiling] found with upper(ε) <= delta. Nats; never below the truth.

    Args:
        upper: an upper bound of δ at each ε >= 0.
        delta: target, 1e-12 <= δ < 1.
        ceiling: an ε known to hold at δ = 0 (the local ε0), or `math.inf`: then the bracket is
            doubled from 1.
        tolerance: relative width of the final bracket; a larger one is a looser ε in less time.

    Raises:
        UsageError: δ out of range.
        CannotCertify: no ε up to 1e4 is enough.
    """
    check_delta(delta)
    if upper(0.0) <= delta:
        return 0.0
    # The ceiling itself is not evaluated: it holds at δ = 0, whatever a bound of the shuffle says
    # there.
    bad, good = 0.0, ceiling
    if math.isinf(ceiling):
        good = 1.0
        while upper(good) > delta:
            bad, good = good, 2 * good
            if good > 1e4:
                raise CannotCertify(f"no epsilon up to {good / 2:g} reaches delta {delta:g}")
    # The end whose δ was seen to be small enough.
    return _narrow(upper, delta, bad, good, tolerance)[1]


def attained_epsilon(lower: Curve, delta: float, ceiling: float) -> float:
    """The largest ε in [0, ceiling] found with lower(ε) >= delta; 0 without one.

    Nats; never above the truth.

    Args:
        lower: a lower bound of δ at each ε >= 0, exact on a concrete dataset.
        delta: target, 1e-12 <= δ < 1.
        ceiling: an ε beyond which nothing is claimed (the local ε0), or `math.inf`.

    Raises:
        UsageError: δ out of range.
    """
    check_delta(delta)
    if lower(0.0) < delta:
        return 0.0
    good, bad = 0.0, ceiling
    if math.isinf(ceiling):
        bad = 1.0
        while lower(bad) >= delta and bad < 1e4:
            good, bad = bad, 2 * bad
    return _narrow(lower, delta, good, bad)[0]  # the end whose δ was seen to be large enough


def _narrow(
    curve: Curve, delta: float, left: float, right: float, tolerance: float = TOLERANCE
) -> tuple[float, float]:
    """A bracket of relative width `tolerance` with probed curve(left) > delta >= curve(right).

    Illinois steps on ln δ (order 1.44), kept off the ends by a part of the tolerance so that both
    ends move in. Until the right end is near, and whenever eight steps were not enough, the bracket
    is cut instead.
    """
    goal = math.log(delta)
    high, low, last = _log(curve(left)) - goal, -math.inf, 0
    for step in range(MAX_STEPS):
        if right - left <= tolerance * right:
            break
        edge = 0.45 * tolerance * right
        # While δ at the right end is far too small, or rounds to 0, a secant through it would
        # hardly move.
        if low < -4 * abs(goal) - 10:
            middle = left + (right - left) * (0.1 if step < 6 else 0.5)
        elif step % 8 == 7:
            middle = left + (right - left) / 2
        else:
            middle = min(
                max(left + (right - left) * high / (high - low), left + edge), right - edge
            )
        value = curve(middle)
        side = 1 if value > delta else -1
        if side > 0:
            left, high = middle, _log(value) - goal
            # Illinois: an end that stays has its value halved, or false position would only ever
            # move the other one.
            low = low / 2 if last > 0 else low
        else:
            right, low = middle, _log(value) - goal
            high = high / 2 if last < 0 else high
        last = side
    return left, right


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf
