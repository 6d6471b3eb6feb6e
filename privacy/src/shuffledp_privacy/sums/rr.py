"""Bounds for rr-shuffle: each bit of each unary code is randomised independently.

Source: Athanasiou et al. 2025, Algorithm 2.

With the other bits known to hold j ones, the two neighbours differ by d bits that are 0 or 1, and
the sum of all bits has an exact divergence; the certificate takes the worst j and the worst d
(docs/accounting.md, Propositions S1, S3, S4, S5, S10). Published: Theorem 3.1 of Athanasiou et al.
2025 (S11).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_privacy.bounds import (
    Setting,
)
from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.primitives.bit_tables import bit_divergence, bits_are_few
from shuffledp_privacy.primitives.bits import BitPair, BitSum, OrderedSums
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.pairs import Divergence, hockey_stick, least_epsilon
from shuffledp_privacy.primitives.supremum import Boxes, Integers, certified_maximum, distance_boxes
from shuffledp_privacy.sums.common import (
    NODES,
    chord,
    distances,
    is_metric,
    probes,
)

BLOCKS = 16
"""Number of blocks into which the numbers of ones are first cut; more where the maximum is."""

TILTED = 64
"""Most intervals of the numbers of zeros that C12 (c) asks about; each adds 1/64 of the distance,
if it counts.
"""

FARTHEST_TILT = 600.0
"""Largest tilt of a flip's chance, nats."""

CONTINUED_NODES = 40
"""Points at which those are computed; chords between them are above."""

SLACK = 5e-4
"""Accepted relative gap between certified and attained ε: blocks of compositions lose noise."""

WORTH_A_DELTA = 0.99
"""Share of the pure ε_L below which the one at the plan's δ is stated instead."""


@dataclass(frozen=True, slots=True)
class BitShuffle:
    """Parameters of an rr-shuffle round: honest bits, flip probability p/2, d_max, adjacency."""

    bits: int
    flip: float
    per_unit: float
    d_max: int
    metric: bool

    def pair(self, first: Integers, last: Integers, distance: int) -> BitPair:
        """Dominating pair for first..last ones among the others, by their common bits (S10)."""
        steps = np.full(len(first), distance, dtype=np.int64)
        return self._pairs(Boxes(steps, steps, first, last))

    def _cover(self) -> tuple[Boxes, Boxes]:
        """Boxes of all numbers of ones at the largest distance, and at smaller distances.

        At smaller distances only the largest number of ones is included.

        No other point is worse (S10 (f)). Under standard adjacency the largest distance is the
        worst (S10 (c)).
        """
        largest = distance_boxes(self.d_max, self.d_max, self.bits - self.d_max, BLOCKS)
        smaller = (
            distance_boxes(1, self.d_max - 1)
            if self.metric and self.d_max > 1
            else largest.take(np.arange(0))
        )
        all_ones = np.full(
            len(smaller), self.bits, dtype=np.int64
        )  # clipped to what exists at each distance
        return largest, Boxes(smaller.d_low, smaller.d_high, all_ones, all_ones)

    def _maximum(
        self,
        start: float,
        slack: float,
        holds: Callable[[Boxes, float], NDArray[np.bool_]],
        needed: Callable[[Boxes], Floats],
    ) -> float:
        """Certified maximum over both parts of the cover."""
        largest, smaller = self._cover()
        found = certified_maximum(largest, start, slack, holds, needed, self.bits - self.d_max)
        # Rarely the worst: that it is below the first is all there is to see.
        if not len(smaller) or bool(holds(smaller, found).all()):
            return found
        return max(
            found,
            certified_maximum(smaller, max(start, found / (1 + slack)), slack, holds, needed),
        )

    def _pairs(self, boxes: Boxes) -> BitPair:
        """Dominating pair of each box: d_high bits differ, with all possible compositions."""
        # Bits whose value differs between the compositions of a box are given to the adversary:
        # less noise, so a bound.
        others = self.bits - boxes.d_high
        last = np.minimum(boxes.j_high, others)
        first = np.minimum(boxes.j_low, last)
        zeros, ones = (others - last).astype(np.float64), first.astype(np.float64)
        return BitPair(zeros, ones, boxes.d_high.astype(np.float64), self.flip)

    def _ends(self, distance: Integers) -> BitPair:
        """Pairs of two datasets for each distance: the other bits are all 0, or all 1."""
        steps = np.repeat(distance, 2).astype(np.float64)
        others = self.bits - steps
        zero = np.tile([True, False], len(distance))
        return BitPair(np.where(zero, others, 0.0), np.where(zero, 0.0, others), steps, self.flip)

    def _unit(self, distance: Integers) -> Floats:
        """Factor that converts ε into total ε: the distance if metric, else 1."""
        return distance.astype(np.float64) if self.metric else np.ones(len(distance))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(certified, attained) δ at ε; ε is per unit if metric, else total."""

        def bound(boxes: Boxes) -> Floats:
            return hockey_stick(self._pairs(boxes), down(epsilon * self._unit(boxes.d_low))).upper

        low = self.known_delta(epsilon)

        def holds(boxes: Boxes, target: float) -> NDArray[np.bool_]:
            return bound(boxes) <= target

        return min(1.0, self._maximum(max(low, 1e-300), 8 * SLACK, holds, bound)), low

    def known_delta(self, epsilon: float) -> float:
        """Attained δ at ε, never above the truth; ε is per unit if metric, else total."""
        probe = self._probes()
        return float(self.known_divergence(probe, epsilon * self._unit(probe)).lower.max())

    def epsilon(self, delta: float) -> tuple[float, float]:
        """(certified, attained) ε at δ; ε is per unit if metric, else total."""
        # Attained by concrete datasets, and where the search begins: the cover below is sound
        # whatever it begins with.
        probe = self._probes()
        low = float((self.attained_epsilons(probe, delta) / self._unit(probe)).max())
        limit = self.per_unit * (1 if self.metric else self.d_max)
        if low == 0.0 and self.delta(0.0)[0] <= delta:
            return 0.0, 0.0

        def holds(boxes: Boxes, target: float) -> NDArray[np.bool_]:
            if target >= limit:
                return np.ones(len(boxes), dtype=np.bool_)
            totals = down(target * self._unit(boxes.d_low))
            return hockey_stick(self._pairs(boxes), totals).upper <= delta

        def needed_epsilons(boxes: Boxes) -> Floats:
            return up(least_epsilon(self._pairs(boxes), delta)[0] / self._unit(boxes.d_low))

        # From 0 a relative slack leads nowhere: every box would be cut down to single points.
        start = max(low, 1e-9 * limit)
        return min(self._maximum(start, SLACK, holds, needed_epsilons), limit), low

    def covering_pairs(self, distance: Integers) -> tuple[BitPair, int]:
        """Dominating pairs of a fixed cover of numbers of ones, by distance: quick but loose."""
        first, last = _blocks(self.bits)
        steps, rows = np.repeat(distance, len(first)), len(distance)
        return self._pairs(Boxes(steps, steps, np.tile(first, rows), np.tile(last, rows))), len(
            first
        )

    def known_divergence(self, distance: Integers, epsilon: Floats) -> Divergence:
        """Divergence at total ε by distance, in two rows: the others' bits are all 0, or all 1."""
        return hockey_stick(self._ends(distance), np.repeat(epsilon, 2))

    def attained_epsilons(self, distance: Integers, delta: float) -> Floats:
        """Total ε that each distance reaches at δ if the others' bits are all equal."""
        found: Floats = least_epsilon(self._ends(distance), delta)[1].reshape(-1, 2).max(axis=1)
        return found

    def ends_curve(self, distance: int, epsilons: Floats) -> Floats:
        """δ at total ε, same shape, if the other bits are all 0, or all 1: nearly the worst."""
        pairs = self._ends(np.full(len(epsilons), distance, dtype=np.int64))
        found = hockey_stick(pairs, np.repeat(epsilons, 2)).upper.reshape(-1, 2).max(axis=1)
        return np.where(epsilons < self.per_unit * distance, found, 0.0)

    def farthest(self, epsilons: Floats) -> Floats:
        """Certified δ at total ε >= 0, such that composition at d_max covers every distance.

        Same shape (C12 (c)).

        The curve at d_max; and for datasets at smaller distances whose other bits are nearly all 1
        that of what C12 makes of them at d_max, which is hardly ever more.
        """
        nodes, spread = nodes_of(epsilons)
        few, chords = nodes_of(nodes, CONTINUED_NODES)
        return spread(
            np.maximum(block_curve(self, self.d_max, nodes), chords(self._continue_curve(few)))
        )

    def _continue_curve(self, nodes: Floats) -> Floats:
        """Largest δ of i bits at 0 among ones, against ones tilted d_max - i times."""
        best = np.zeros_like(nodes)
        if self.d_max == 1 or self.flip >= 0.5 or not len(nodes):
            return best
        edges = np.unique(np.linspace(1, self.d_max, min(self.d_max - 1, TILTED) + 1).round())
        low, high = edges[:-1], edges[1:] - 1
        whole = np.full(len(low), float(self.bits))
        # Of all i in an interval the most zeros and the most tilts are the worst, and so are fewer
        # flips of these.
        odds = self.flip / (1 - self.flip) * np.exp(-(self.d_max - low) * self._tilt())
        fewer = odds / (1 + odds) * (1 - 2.0**-40)
        orders = (
            OrderedSums(BitSum(high, whole - high, self.flip), BitSum(0 * whole, whole, fewer)),
            OrderedSums(BitSum(whole, 0 * whole, fewer), BitSum(whole - high, high, self.flip)),
        )
        for pairs in orders:
            index = np.repeat(np.arange(len(low)), len(nodes))
            upper = hockey_stick(pairs.rows(index), np.tile(nodes, len(low))).upper
            best = np.maximum(best, upper.reshape(len(low), -1).max(axis=0))
        return best

    @property
    def continues(self) -> bool:
        """True if the tilted laws of C12 (c) differ from certainty in floating point."""
        return self.flip >= 0.5 or self.d_max * self._tilt() < FARTHEST_TILT

    def _tilt(self) -> float:
        """Approximate change of ln P per flip by one more 0: c = (1 - 2a)/(a (1-a) N)."""
        return (1 - 2 * self.flip) / (self.flip * (1 - self.flip) * self.bits)

    def _probes(self) -> Integers:
        return np.array(probes(self.d_max) if self.metric else [self.d_max], dtype=np.int64)


def bit_shuffle(spec: RRShuffle, setting: Setting) -> BitShuffle:
    """Parameters of an rr-shuffle round for the analysis."""
    flip = float(spec.randomise) / 2  # rounded down next: fewer flips are less noise
    # At p = 1 a bit is a fair coin: exact, and there is nothing to round.
    flip = max(math.nextafter(down(flip, units=2), 0.0), 1e-300) if flip < 0.5 else 0.5
    return BitShuffle(
        setting.honest * spec.max_value,
        flip,
        local_epsilon(spec),
        distances(spec.max_value, setting),
        is_metric(setting),
    )


def local_epsilon(spec: RRShuffle) -> float:
    """Local ε = ln((2-p)/p) of one bit, hence of one unit, at δ = 0, whatever the others do.

    Rounded up (S10).
    """
    p = spec.randomise
    # (2-p)/p = 1 + 2(1-p)/p, divided as rationals: near p = 1 the logarithm keeps its digits.
    return up(math.log1p(float(2 * (1 - p) / p)))


def pure_randomise(epsilon: float) -> float:
    """Smallest p with ln((2-p)/p) <= ε; p >= 2/(1+e^ε) gives pure ε per unit for any users (S10).

    Raises:
        UsageError: ε not above 0.
    """
    if not epsilon > 0:
        raise UsageError(f"epsilon must be above 0, not {epsilon}")
    return min(1.0, up(2.0 / (1.0 + math.exp(min(epsilon, 700.0)))))


def published_epsilon(spec: RRShuffle, users: int, delta: float) -> float | None:
    """ε of Theorem 3.1 of Athanasiou et al. 2025 where nk >= λ >= 14 ln(4/δ), λ = pnk.

    None outside this range (S11).
    """
    expected = float(spec.randomise) * users * spec.max_value
    if expected < 14 * math.log(4 / delta):
        return None
    return math.sqrt(
        32 * math.log(4 / delta) / (expected - math.sqrt(2 * expected * math.log(2 / delta)))
    )


TABULATED = 24
"""Points of a curve from which on its laws are tabulated, where they are short."""


def nodes_of(epsilons: Floats, most: int = NODES) -> tuple[Floats, Callable[[Floats], Floats]]:
    """About `most` points at which to compute a convex curve, and a function to interpolate."""
    nodes = np.unique(epsilons)
    if len(nodes) > most:
        nodes = np.unique(
            np.concatenate([np.quantile(nodes, np.linspace(0, 1, most)), nodes[[0, -1]]])
        )
    return nodes, lambda values: chord(nodes, values, epsilons)


def block_curve(item: BitShuffle, distance: int, nodes: Floats) -> Floats:
    """Largest δ over fixed blocks of compositions at each ε, finer towards both ends."""
    starts, ends = _blocks(item.bits - distance)
    # From d ln((2-p)/p) on δ is 0 (S10 (d)).
    best = np.zeros_like(nodes)
    inside = nodes[nodes < item.per_unit * distance]
    if not len(inside):
        return best
    if len(inside) >= TABULATED and bits_are_few(item.bits, item.flip):
        upper = np.zeros_like(inside)
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            zeros = item.bits - distance - last
            upper = np.maximum(upper, bit_divergence(zeros, first, distance, item.flip, inside))
        best[nodes < item.per_unit * distance] = upper
        return best
    rows = [np.repeat(edges, len(inside)) for edges in (starts, ends)]
    upper = hockey_stick(item.pair(rows[0], rows[1], distance), np.tile(inside, len(starts))).upper
    best[nodes < item.per_unit * distance] = upper.reshape(len(starts), -1).max(axis=0)
    return best


def _blocks(others: int) -> tuple[Integers, Integers]:
    """First and last number of ones of blocks that cover 0..others, finer towards both ends."""
    steps = np.round(others * (1 - np.cos(np.linspace(0, np.pi, 2 * BLOCKS + 1))) / 2)
    edges = np.unique(np.concatenate([steps, [others + 1]])).astype(np.int64)
    return edges[:-1], edges[1:] - 1
