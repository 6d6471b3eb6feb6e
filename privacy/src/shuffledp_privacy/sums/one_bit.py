"""Bounds for the shuffled one-bit mean: binary randomised response, diluted.

Ding, Kulkarni, Yekhanin 2017.

A value x of {0..k} is rounded at random to a bit that is 1 with probability x/k, and that bit is
sent by binary randomised response. A change by d reaches the bit with probability d/k at most, and
at a worst dataset exactly so:

    δ_d(E) = (d/k) δ_2RR(ln(1 + (e^E - 1) k/d)),

with δ_2RR the δ of the k-RR histogram for k = 2, bounded from above and below (docs/accounting.md,
S18 and K6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from shuffledp_core.mechanisms import KRRHistogram, OneBitShuffle
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
)
from shuffledp_privacy.histogram.binary import one_symbol, one_symbol_window
from shuffledp_privacy.histogram.blanket import Law, law_of
from shuffledp_privacy.histogram.krr import attained_delta, certified_delta
from shuffledp_privacy.numerics.chords import falling_chord
from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.tails import Floats, inward
from shuffledp_privacy.rounds.subsampling import (
    subsampled_epsilon,
)
from shuffledp_privacy.sums.common import (
    chord,
    distances,
    is_metric,
    probes,
)

NODES = 257
"""Points at which the curve of binary randomised response is computed for a search over distances.
"""

MOST_DISTANCES = 20_000
"""Distances up to which each is looked at by itself; beyond, intervals that lose less than a
thousandth.
"""


@dataclass(frozen=True, slots=True)
class OneBitRound:
    """A one-bit round for the analysis.

    Attributes:
        binary: the randomised response of the rounded bit.
        honest: h.
        max_value: k.
        d_max: largest distance.
        metric: whether ε counts per unit of distance.
    """

    binary: KRRHistogram
    honest: int
    max_value: int
    d_max: int
    metric: bool

    @property
    def law(self) -> Law:
        """Probabilities of the randomised response as floats."""
        return law_of(self.binary)

    def rate(self, distance: int) -> Fraction:
        """Probability d/k that a change by d affects the bit."""
        return Fraction(distance, self.max_value)

    def pure(self, distance: int) -> float:
        """ln(1 + (d/k)(e^ε0 - 1)), total ε of one report for a change by d at δ = 0, rounded up.

        Divided by d, it falls as d grows.
        """
        return (
            subsampled_epsilon(self.law.epsilon0, self.rate(distance))
            if self.law.epsilon0 > 0
            else 0.0
        )

    def local(self) -> float:
        """The pure ε of one report (δ = 0), per unit under metric adjacency."""
        return self.pure(1) if self.metric else self.pure(self.d_max)

    def inner(self, distance: int, epsilon: float) -> float:
        """ln(1 + (e^E - 1) k/d), the ε at which the randomised response is evaluated."""
        return math.log1p(math.expm1(min(epsilon, 700.0)) / float(self.rate(distance)))

    def units(self, distance: int) -> int:
        """Factor that converts ε into total ε: the distance if metric, else 1."""
        return distance if self.metric else 1

    # Certified.

    def certified_delta(self, distance: int, epsilon: float) -> float:
        """δ at total ε = E for a change by d, never below the truth."""
        if epsilon >= self.pure(distance):
            return 0.0
        upper, _ = certified_delta(self.law, self.honest)
        inner_delta = upper(down(self.inner(distance, epsilon)))
        return min(1.0, up(float(self.rate(distance)) * inner_delta))

    def delta(self, epsilon: float) -> float:
        """Certified δ at ε; ε is per unit if metric, else total."""
        if epsilon >= self.local():
            return 0.0
        largest = self.certified_delta(self.d_max, down(epsilon * self.units(self.d_max)))
        if not self.metric or self.d_max == 1:
            return largest
        lows, highs = _intervals(self.d_max - 1)
        with np.errstate(over="ignore"):
            totals = down(np.log1p(np.expm1(epsilon * lows) * (self.max_value / lows)))
        # δ rises with d and falls with ε: the farthest change at the smallest total covers an
        # interval.
        totals = np.minimum(totals, self.law.epsilon0)
        places = np.unique(np.geomspace(1, len(totals), NODES).round().astype(np.int64)) - 1
        nodes = np.unique(totals[places])
        deltas = chord(nodes, self._curve(nodes), totals) * highs / self.max_value
        return min(1.0, max(largest, up(float(deltas.max()))))

    def epsilon(self, delta: float) -> float:
        """Certified ε at δ; ε is per unit if metric, else total."""
        if delta == 0.0 or self.law.epsilon0 == 0.0:
            return self.local()
        units = self.units(self.d_max)
        largest = (
            certified_epsilon(
                partial(self.certified_delta, self.d_max), delta, self.pure(self.d_max)
            )
            / units
        )
        if self.metric and self.d_max > 1:
            largest = max(largest, self._nearer(delta))
        return min(up(largest), self.local())

    def _nearer(self, delta: float) -> float:
        """Certified ε per unit for all changes by less than d_max.

        E(d) = ln(1 + (d/k)(e^E_2 - 1)), E_2 the ε at which the randomised response has δ k/d. On
        an interval a..b of distances E(d)/d is at most E(b)/a.
        """
        upper, _ = certified_delta(self.law, self.honest)
        # What is asked for has a larger δ than the target, hence a smaller ε.
        top = certified_epsilon(upper, delta, self.law.epsilon0)
        if top == 0.0:
            return 0.0
        nodes = np.linspace(0.0, top, NODES)
        values = self._curve(nodes)
        values[-1] = min(values[-1], delta)
        lows, highs = _intervals(self.d_max - 1)
        # Chords in e^E between the nodes are above the curve, and so the point where a chord has δ
        # k/d is sound.
        grown = falling_chord(
            down(delta * (self.max_value / highs)), values[::-1], np.expm1(nodes)[::-1]
        )
        totals = np.log1p(grown * highs / self.max_value)
        return float((totals / lows).max())

    def _curve(self, nodes: Floats) -> Floats:
        """Certified δ of the randomised response at rising ε >= 0."""
        return np.minimum.accumulate(
            certified_curve(self.binary, Setting(self.honest, self.honest), 1, nodes)
        )

    # Attained.

    def attained_delta(self, distance: int, epsilon: float) -> float:
        """δ at total ε = E on a dataset with a change by d from 0, never above the truth."""
        total = up(self.inner(distance, epsilon))
        if total >= self.law.epsilon0:
            return 0.0
        return inward(float(self.rate(distance)) * attained_delta(self.law, self.honest)(total))

    def attained_epsilon(self, distance: int, delta: float) -> float:
        """Total ε that a change by d from 0 reaches at δ."""
        return attained_epsilon(partial(self.attained_delta, distance), delta, self.pure(distance))

    def quick(self, distance: int, epsilon: float) -> float:
        """Approximate δ at total ε: the larger of two datasets', others all at 0 or all at k."""
        total = self.inner(distance, epsilon)
        if total >= self.law.epsilon0:
            return 0.0
        window = one_symbol_window(self.law, self.honest)
        return float(self.rate(distance)) * one_symbol(self.law, self.honest, window, total)

    def ends_curve(self, distance: int, epsilons: Floats) -> Floats:
        """`quick` at many total ε, same shape, without bounds on rounding."""
        window = one_symbol_window(self.law, self.honest)
        rate = float(self.rate(distance))
        growth = 1 + np.expm1(np.minimum(epsilons, 700.0)) / rate
        ratio = self.law.p / self.law.q
        ones = window.support
        density = (ratio * ones + (self.honest - ones) / ratio) / self.honest
        moved = window.pmf * density
        # The density rises: each order of the two datasets gains on one side of a threshold.
        first = np.searchsorted(density, growth)
        gained = _tail_sums(moved)[first] - growth * _tail_sums(window.pmf)[first]
        last = density.size - np.searchsorted(density, 1 / growth)
        lost = _tail_sums(window.pmf[::-1])[last] - growth * _tail_sums(moved[::-1])[last]
        deltas = rate * np.clip(np.maximum(gained, lost), 0.0, 1.0)
        return np.where(epsilons < self.pure(distance), deltas, 0.0)

    def tried_distances(self) -> list[int]:
        """Distances at which attained bounds are computed."""
        return probes(self.d_max) if self.metric else [self.d_max]


def _tail_sums(values: Floats) -> Floats:
    """Sum of the values from each index on, and 0 after the last."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _intervals(last: int) -> tuple[Floats, Floats]:
    """First and last distance of each interval of a cover of 1..last."""
    if last <= MOST_DISTANCES:
        lows = np.arange(1.0, last + 1)
    else:
        lows = np.unique(np.geomspace(1, last, MOST_DISTANCES).round())
    return lows, np.append(lows[1:] - 1, float(last))


def one_bit_round(spec: OneBitShuffle, setting: Setting) -> OneBitRound:
    """Parameters of a round for the analysis."""
    binary = KRRHistogram(symbols=2, blanket=spec.randomise)
    return OneBitRound(
        binary,
        setting.honest,
        spec.max_value,
        distances(spec.max_value, setting),
        is_metric(setting),
    )
