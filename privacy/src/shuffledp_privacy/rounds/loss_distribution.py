"""Privacy loss distributions from certified curves, composable, with directed rounding.

The steps (docs/accounting.md, propositions C1 to C4), each never below the truth:
1. probe the curve to find where it becomes negligible, and choose the grid;
2. evaluate it at ε >= 0 on the grid and reflect it to ε < 0 (C2);
3. take the lower convex hull in e^ε (C3);
4. connect the dots (Doroshenko et al. 2022) and convolve the laws (`tilted`), adding to every δ the
   margin that covers floating point (C4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_privacy.numerics.hull import lower_hull
from shuffledp_privacy.numerics.rounding import UNIT, down
from shuffledp_privacy.rounds.subsampling import Curve, reflect_curve
from shuffledp_privacy.rounds.tilted import Composed, LossLaw
from shuffledp_privacy.splitting import beyond_grid

RESOLVED_DELTA = 1e-13
"""Smallest δ that a composition resolves; single rounds are certified down to
`bounds.SMALLEST_DELTA`, and several need no less.
"""

STEPS = 800
"""Grid steps on [0, ε_hi] for the average round; of the outer two thirds only some are evaluated.
"""

MOST_STEPS = 2**16
"""Grid nodes on [0, ε_hi] of the widest round; keeps memory and time bounded for very unequal
rounds.
"""

MASS_ROUNDING = 128 * UNIT
"""Relative outward margin on each mass, against the rounding of two divisions and a difference."""

SHORTEST_REACH = 1e-9
"""Smallest ε_hi, for curves that are negligible already at ε = 0."""

_PROBES = np.geomspace(1e-7, 80.0, 18)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A curve at ε >= 0 (nats) of a round that is run `times` times."""

    curve: Curve
    times: int


def reach(curve: Curve, tail: float) -> float:
    """Approximate smallest ε beyond which the curve is below `tail`, or near its minimum."""
    probes = _PROBES
    for _ in range(2):
        deltas = curve(probes)
        # A curve may level off above `tail`, at the δ that clamping leaves.
        enough = max(tail, 1.01 * float(np.min(deltas)))
        first = int(np.argmax(deltas <= enough))
        probes = np.linspace(probes[first - 1] if first else 0.0, probes[first], 8)
    return max(float(probes[int(np.argmax(curve(probes) <= enough))]), SHORTEST_REACH)


def _nodes(top: int) -> NDArray[np.int64]:
    """Grid nodes 0 to top: all in the inner third, then every second, then every fourth."""
    inner = top // 3
    outer = 2 * top // 3
    nodes = (*range(inner), *range(inner, outer, 2), *range(outer, top, 4), top)
    return np.array(nodes, dtype=np.int64)


def _law(item: Repeated, gap: float, top: int) -> LossLaw:
    """Loss law on {-top, ..., top} times `gap` that interpolates the curve's hull (C2 to C4).

    The mass of P at a vertex is e^ε times the change of slope of the hull there, rounded up, so the
    total may exceed 1 by about 1e-12; every δ of the pair is at least the hull's.

    Raises:
        CannotCertify: a curve never falls below 1.
    """
    above = _nodes(top)
    epsilons: NDArray[np.float64] = gap * above.astype(np.float64)
    # The truth falls in ε: where a bound at a smaller ε is better, it holds here as well.
    # Evaluated a little to the left: a node's rounding must not lower its bound (C4).
    upper = np.minimum.accumulate(np.clip(item.curve(down(epsilons)), 0.0, 1.0))
    nodes = np.concatenate((-above[:0:-1], above))
    deltas = np.minimum.accumulate(np.concatenate((reflect_curve(upper, epsilons)[:0:-1], upper)))
    if not deltas[-1] < 1:
        raise CannotCertify(
            "a round's curve stays at delta 1 (or is not a number): it guarantees nothing"
        )
    vertices = lower_hull(np.exp(gap * nodes), deltas)
    nodes = nodes[vertices]
    deltas = deltas[vertices]
    drops = np.diff(deltas)
    steps = gap * np.diff(nodes)
    left = np.append(1 - deltas[0], drops / np.expm1(-steps))
    right = np.append(drops / np.expm1(steps), 0.0)
    # `right` is at most 0, so left - right is the a + b of C4, to which the rounding of the
    # difference is relative.
    masses = np.maximum(left + right, 0.0) + MASS_ROUNDING * (left - right)
    shown = masses > 0
    return LossLaw(nodes[shown], masses[shown], float(deltas[-1]), item.times)


def _gap(reaches: Sequence[float], times: Sequence[int], steps: int) -> float:
    mean_square = sum(r * r * t for r, t in zip(reaches, times, strict=True)) / sum(times)
    return max(math.sqrt(mean_square) / steps, max(reaches) / MOST_STEPS)


def _check(rounds: Sequence[Repeated], delta: float) -> None:
    if not rounds or any(r.times < 1 for r in rounds):
        raise UsageError("composition needs at least one round, each repeated at least once")
    if not RESOLVED_DELTA <= delta <= 1:
        raise CannotCertify(
            f"composition resolves delta from {RESOLVED_DELTA:g} to 1, not {delta:g}; "
            "ask for a larger delta or fewer rounds"
        )


def compose_curves(rounds: Sequence[Repeated], delta: float, steps: int = STEPS) -> Composed:
    """Compose the curves adaptively, with fine resolution near the given δ.

    Args:
        rounds: at least one.
        delta: the δ at which the answer will be read; affects the grid, not the soundness.
        steps: grid steps on [0, ε_hi] for the average round; fewer are faster and looser, never
            unsound.

    Raises:
        UsageError: without rounds.
        CannotCertify: δ is outside [`RESOLVED_DELTA`, 1].
    """
    _check(rounds, delta)
    total = sum(r.times for r in rounds)
    reaches = [reach(r.curve, beyond_grid(delta, total)) for r in rounds]
    gap = _gap(reaches, [r.times for r in rounds], steps)
    laws = [
        _law(r, gap, max(1, math.ceil(reach / gap)))
        for r, reach in zip(rounds, reaches, strict=True)
    ]
    return Composed(tuple(laws), gap)
