"""Bounds for a `NoisySum` over all distances, from bounds at single distances.

The largest distance is the worst where the noise is log-concave and is not clamped (Proposition
S5); elsewhere all distances are searched.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.supremum import FEW, Boxes, certified_maximum, distance_boxes
from shuffledp_privacy.splitting import clamping_nearby
from shuffledp_privacy.sums.common import UNNOTICED, NoisySum, probes


def tried_distances(item: NoisySum) -> list[int]:
    """Distances at which attained bounds are computed."""
    return probes(item.d_max) if item.metric else [item.d_max]


def worst_delta(item: NoisySum, epsilon: float) -> float:
    """Certified δ at ε (per unit under metric adjacency)."""
    if not item.metric:
        return float(item.curve(np.array([item.d_max]), np.array([epsilon]))[0])
    if epsilon >= item.local(1):
        return 0.0
    if item.kept is not None and not item.kept.log_concave:
        # What clamping leaves need not be the worst at the largest distance.
        coupled = worst_delta(replace(item, kept=None), epsilon)
        costly = _costs(item, epsilon * item.d_max, coupled)
        return min(coupled, _searched_delta(item, epsilon, coupled)) if costly else coupled
    most = item.pure_cost() if epsilon >= item.pure else 1.0
    total = math.nextafter(epsilon * item.d_max, 0.0)  # down: the δ of a smaller ε is larger
    # From local(d_max) on S8 cuts the curve at d_max, and a smaller distance may be worse: all
    # are searched then.
    if item.log_concave and total < item.local(item.d_max):
        # The largest distance is the worst (Proposition S5).
        return min(most, float(item.shuffled_delta(np.array([item.d_max]), np.array([total]))[0]))
    return min(most, _searched_delta(item, epsilon, most))


def _searched_delta(item: NoisySum, epsilon: float, coupled: float) -> float:
    """Certified δ at ε per unit over all distances; `coupled` is a known bound."""

    def bound(boxes: Boxes) -> Floats:
        # δ rises with the distance and falls with ε: the farthest change at the smallest total
        # covers the box.
        return item.curve(boxes.d_high, down(epsilon * boxes.d_low.astype(np.float64)))

    probe = np.array(probes(item.d_max))
    start = float(item.curve(probe, epsilon * probe).max())
    if start >= coupled:
        return coupled
    boxes = distance_boxes(1, item.d_max)
    return certified_maximum(boxes, start, 1e-3, lambda box, target: bound(box) <= target, bound)


def _near_distance(item: NoisySum, delta: float) -> int:
    """A distance below d_max up to which S6 costs little of δ; 0 without one."""
    if item.kept is None or not item.log_concave or item.clamped <= 0.0:
        return 0
    room = clamping_nearby(delta) / item.clamped - 1.0
    farthest = math.floor(math.log(room) / item.pure) if room > 1.0 else 0
    return min(farthest, item.d_max - 1)


def _costs(item: NoisySum, total: float, delta: float) -> bool:
    """True if clamping costs so much of δ at total ε that another bound may be better."""
    return item.clamped * (1.0 + math.exp(min(total, 700.0))) > UNNOTICED * delta


def worst_epsilon(item: NoisySum, delta: float) -> float:
    """Certified ε at δ (per unit under metric adjacency)."""
    if not item.metric:
        total = float(item.least_epsilons(np.array([item.d_max]), delta)[0])
        # The brackets of a wide noise's excess do not end at its pure ε, where the excess does.
        return min(total, up(_pure(item, delta) * item.d_max))
    if delta == 0.0:
        return item.local(1)
    if item.kept is None or item.kept.log_concave:
        return _farthest_epsilon(item, delta)
    # What clamping leaves need not be the worst at the largest distance.
    coupled = worst_epsilon(replace(item, kept=None), delta)
    costly = _costs(item, coupled * item.d_max, delta)
    return min(coupled, _searched_epsilon(item, delta, coupled)) if costly else coupled


def _farthest_epsilon(item: NoisySum, delta: float) -> float:
    """Certified ε per unit at δ > 0 from the largest distance, if that is the worst."""
    if item.log_concave:
        total = float(item.needed_epsilons(np.array([item.d_max]), delta)[0])
        if total < item.local(item.d_max):
            # The largest distance is the worst (Proposition S5).
            return min(up(total / item.d_max, units=4), item.local(1), _pure(item, delta))
        if item.local(item.d_max) >= item.d_max * item.local(1) * (1 - 2.0**-40):
            # A report alone is as good as that, and no worse at any distance.
            return min(item.local(1), _pure(item, delta))
        if math.isinf(total) and math.isfinite(pure := _pure(item, delta)):
            # Beyond every float S6 has this much to say, and no distance less.
            return min(item.local(1), pure)
    return _searched_epsilon(item, delta, math.inf)


def _searched_epsilon(item: NoisySum, delta: float, coupled: float) -> float:
    """Certified ε per unit at δ over all distances; `coupled` is a known bound."""

    def holds(boxes: Boxes, target: float) -> NDArray[np.bool_]:
        # local(d)/d falls (S8): what covers distance 1 covers every distance.
        if target >= item.local(1):
            return np.ones(len(boxes), dtype=np.bool_)
        return item.curve(boxes.d_high, down(target * boxes.d_low.astype(np.float64))) <= delta

    def needed_epsilons(boxes: Boxes) -> Floats:
        # On a box a..b E(d)/d is at most E(b)/a (S5).
        return up(item.least_epsilons(boxes.d_high, delta) / boxes.d_low)

    probe = np.array(probes(item.d_max))
    start = float((item.least_epsilons(probe, delta) / probe).max())
    settled = _near_distance(item, delta)
    near = worst_epsilon(replace(item, kept=None, d_max=settled), delta) if settled else 0.0
    start = max(start, near)
    if start >= coupled:
        return coupled
    boxes = distance_boxes(settled + 1, item.d_max)
    # Points of tables are cheap, and inverting them is not.
    slack, few = (2e-4, FEW) if item.kept is None else (1e-3, 0)
    certified = certified_maximum(boxes, start, slack, holds, needed_epsilons, few=few)
    return min(max(near, certified), item.local(1), _pure(item, delta))


def _pure(item: NoisySum, delta: float) -> float:
    """Pure ε per unit if clamping alone costs at most δ, else inf."""
    return item.pure if item.pure_cost() <= delta else math.inf
