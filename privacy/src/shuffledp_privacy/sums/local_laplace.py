"""Bounds for shuffled reports of local discrete Laplace noise, clamped to 0..k.

Certified: the hidden-flag blanket of the reports (K11), with a law that is at least as large in
convex order as that of every change by at most d (docs/accounting.md, S24); for k = 1 also every
composition of the others (K6). Attained: all others hold one value, exact; for k = 1 the worst of
all compositions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product
from typing import Final

import numpy as np

from shuffledp_core.mechanisms import LocalLaplace
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.histogram.binary import TwoOutputs
from shuffledp_privacy.local.flags import COARSE, LEAST_BLANKET, MARGIN, RARE, Indices, Pair
from shuffledp_privacy.numerics.rounding import UNIT, down, up
from shuffledp_privacy.primitives.excess import Draw, mean_excess
from shuffledp_privacy.primitives.inversion import TOLERANCE, attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.noise import LEAST_RATIO, rounded_ratio
from shuffledp_privacy.primitives.tails import Floats, outward
from shuffledp_privacy.sums.common import chord, distances, is_metric, probes

LARGEST_EXPONENT: Final = 300.0
"""Largest k ε_geo at which other users' reports are counted on: e^300 keeps its square a double."""

MOST_BLOCKS: Final = 48
"""Most outputs, or blocks of outputs, that gain or lose by the change: more change ε by 1e-4."""

SAMPLED: Final = 4096
"""Outputs at which the importance of longer blocks is looked at."""

CLOSE: Final = 0.01
"""Share by which the ε of the worst distance may be missed, per unit."""

CLOSE_IN_DELTA: Final = 0.1
"""Share by which the δ of the worst distance may be missed."""

ROUGHLY: Final = 1e-3
"""Relative width to which the ε of one of many distances is computed."""

CURVE_NODES: Final = 80
"""Points at which a long curve is computed."""

MOST_DATASETS: Final = 6
"""Most datasets whose δ is computed."""


@dataclass(frozen=True, slots=True)
class ClampedReport:
    """The law of one clamped report, in blocks of outputs.

    A few units of roundoff off, whatever the distance: ε_geo is split so that its products with
    distances are exact.

    Attributes:
        high: ε_geo to 26 bits.
        low: the rest of it.
        max_value: k.
    """

    high: float
    low: float
    max_value: int

    def power(self, steps: Indices) -> Floats:
        """φ^steps."""
        return np.asarray(np.exp(-self.high * steps) * np.exp(-self.low * steps))

    def chances(self, value: int, first: Indices, last: Indices) -> Floats:
        """Probability that the report of `value` is in first..last.

        Each block lies on one side of the value, and holds an end only by itself.
        """
        rate = self.high + self.low
        nearest = np.where(last <= value, value - last, first - value)
        inside = -np.expm1(-rate * (last - first + 1.0))
        at_end = (first == 0) | (last == self.max_value)
        return self.power(nearest) * np.where(at_end, 1.0, inside) / (1.0 + math.exp(-rate))


@dataclass(frozen=True, slots=True)
class LocalLaplaceRound:
    """A local-laplace round for the analysis.

    Attributes:
        rate: ε_geo, nats per unit.
        report: the law of a report.
        honest: h.
        d_max: largest distance.
        metric: whether ε counts per unit of distance.
    """

    rate: Fraction
    report: ClampedReport
    honest: int
    d_max: int
    metric: bool

    @property
    def counts_on_others(self) -> bool:
        """True if the bound uses the reports of others."""
        most = float(self.rate * self.report.max_value)
        return self.honest > 1 and most <= LARGEST_EXPONENT

    def units(self, distance: int) -> int:
        """Factor that converts ε into total ε: the distance if metric, else 1."""
        return distance if self.metric else 1

    def pure(self, distance: int) -> float:
        """Total ε of one report for a change by d at δ = 0, rounded up."""
        return up(float(self.rate * distance))

    def local(self) -> float:
        """The pure ε of one report, per unit under metric adjacency."""
        return self.pure(1 if self.metric else self.d_max)

    # Certified.

    def certified_delta(
        self, distance: int, epsilon: float, goal: float = 0.0, coarse: float = 1.0
    ) -> float:
        """δ at total ε = E >= 0 for all changes by 1..d, never below the truth.

        Args:
            distance: d.
            epsilon: E.
            goal: as in `mean_excess`, like `coarse`.
            coarse: above 1 for a looser bound in less time.
        """
        if epsilon >= self.pure(distance):
            return 0.0
        alone = self._of_one_report(distance, epsilon)
        if not self.counts_on_others:
            return min(1.0, outward(alone))
        draw, rare = self._worst_draw(distance, epsilon)
        shuffled = rare
        if draw.masses.size:
            shuffled += mean_excess(draw, self.honest, goal - rare, coarse)[1]
        bound = outward(min(alone, shuffled))
        if self.report.max_value == 1:
            # K6 has the outward margin itself.
            bound = min(bound, two_outputs(self.rate, self.honest).upper(epsilon))
        return min(1.0, bound)

    def curve(
        self, distance: int, epsilons: Floats, most: int = CURVE_NODES, coarse: float = 1.0
    ) -> Floats:
        """δ at each total ε >= 0 for all changes by at most d; chords in e^E between `most` points.

        Chords are upper bounds: the curve of each pair of datasets is convex in e^E.
        """
        nodes = np.unique(epsilons)
        if nodes.size > most:
            spaced = np.quantile(nodes, np.linspace(0, 1, most))
            nodes = np.unique(np.concatenate([spaced, nodes[[0, -1]]]))
        values = [self.certified_delta(distance, float(node), coarse=coarse) for node in nodes]
        return chord(nodes, np.minimum.accumulate(values), epsilons)

    def delta(self, epsilon: float) -> float:
        """Certified δ for all distances up to d_max; ε is per unit if metric, else total.

        δ rises with the distance and falls with E: the farthest change of an interval of distances
        at the interval's least E bounds all of it.
        """
        if epsilon >= self.local():
            return 0.0
        if not self.metric:
            return self.certified_delta(self.d_max, epsilon)
        return self._cover(
            lambda low, high: self.certified_delta(high, down(epsilon * low), coarse=COARSE),
            CLOSE_IN_DELTA,
        )

    def epsilon(self, delta: float) -> float:
        """Certified ε at δ; ε is per unit if metric, else total.

        E at δ rises with the distance: that of the farthest change of an interval of distances,
        per unit of the nearest one, bounds all of it.
        """
        if delta == 0.0:
            return self.local()
        if not self.metric:
            return self._total(self.d_max, delta, TOLERANCE)
        totals = lru_cache(maxsize=None)(partial(self._total, delta=delta, tolerance=ROUGHLY))
        if totals(1) * (1 + CLOSE) >= self.local():
            return self.local()
        worst = self._cover(lambda low, high: totals(high) / low, CLOSE)
        return min(up(worst), self.local())

    def _total(self, distance: int, delta: float, tolerance: float) -> float:
        """Certified total ε at δ for all changes by at most `distance`."""
        coarse = COARSE if tolerance > TOLERANCE else 1.0
        upper = partial(self.certified_delta, distance, goal=delta, coarse=coarse)
        return certified_epsilon(upper, delta, self.pure(distance), tolerance)

    def _cover(self, bound: Callable[[int, int], float], close: float) -> float:
        """A bound for all distances, from `bound` on intervals of distances.

        The interval with the largest bound is divided until it is close to that of some distance.
        """
        best = max(bound(1, 1), bound(self.d_max, self.d_max))
        intervals = [(-bound(1, self.d_max), 1, self.d_max)]
        while True:
            largest, low, high = intervals[0]
            if low == high or -largest <= best * (1 + close):
                return max(best, -largest)
            heapq.heappop(intervals)
            middle = math.isqrt(low * high)
            best = max(best, bound(middle, middle))
            for part in ((low, middle), (middle + 1, high)):
                heapq.heappush(intervals, (-bound(*part), *part))

    def _of_one_report(self, distance: int, epsilon: float) -> float:
        """δ of one report: HS_E of N against N + d, the largest over thresholds."""
        rate = float(self.rate)
        growth = math.exp(min(epsilon, 700.0))
        # The best threshold but for rounding; its neighbours cover that.
        best = math.floor(max(0.0, distance - epsilon / rate) / 2)
        cuts = np.arange(max(0, best - 1), best + 2)
        # P(N <= c) and P(N + d <= c) for 0 <= c < d.
        above = self.report.power(cuts + 1) / (1 + math.exp(-rate))
        below = self.report.power(distance - cuts) / (1 + math.exp(-rate))
        return float((1.0 - above - growth * below * (1 - MARGIN)).max()) + MARGIN

    def _worst_draw(self, distance: int, epsilon: float) -> tuple[Draw, float]:
        """The law of V that is largest in convex order, and δ of the outputs too rare for it.

        Its positive values are those of the change from 0 to d, its negative ones those of the
        change from d to 0 (S24).
        """
        growth = math.exp(epsilon)
        # One gains where 2y < d - E/ε_geo, the other loses where 2y < d + E/ε_geo.
        reach = epsilon / float(self.rate)
        gaining = min(distance - 1, math.floor((distance - reach) / 2) + 1)
        losing = min(distance - 1, math.floor((distance + reach) / 2) + 1)
        laws = [
            self._atoms(0, distance, max(0, gaining), growth, 1.0),
            self._atoms(distance, 0, max(0, losing), growth, -1.0),
        ]
        masses = np.concatenate([law[0] for law in laws])
        values = np.concatenate([law[1] for law in laws])
        # What is left out of the sum is charged in full: its values may be as large as 1/mass.
        often = (masses * self.honest > RARE / max(1, masses.size)) & (masses > LEAST_BLANKET)
        rare = float((np.maximum(values, 0.0) * masses)[~often].sum()) * (1 + MARGIN)
        return Draw(masses[often], values[often]), rare

    def _atoms(
        self, before: int, after: int, last: int, growth: float, sign: float
    ) -> tuple[Floats, Floats]:
        """Masses and values of V of one sign at outputs 0..last, with long blocks spread out.

        A block's values are moved to those at its ends without changing their mean, which makes
        the law larger in convex order.
        """
        firsts, lasts = self._blocks(last)
        top = self.report.max_value
        mass = np.minimum(
            self.report.chances(0, firsts, lasts), self.report.chances(top, firsts, lasts)
        )

        def values(first: Indices, last: Indices) -> Floats:
            shared = np.minimum(
                self.report.chances(0, first, last), self.report.chances(top, first, last)
            )
            gained = self.report.chances(before, first, last) / shared
            given = self.report.chances(after, first, last) / shared
            return np.asarray(gained * (1 + MARGIN) - given * (growth * (1 - MARGIN)))

        left = values(firsts, firsts)
        right = values(lasts, lasts)
        middle = values(firsts, lasts)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(firsts < lasts, (middle - right) / (left - right), 1.0)
        share = np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)
        all_masses = np.concatenate([mass * share, mass * (1 - share)])
        all_values = np.concatenate([left, right])
        usable = (all_masses > 0) & (sign * all_values > 0)
        # Less mass than there is, by more than all rounding: a looser bound.
        return all_masses[usable] * (1 - MARGIN / 4), all_values[usable]

    def _blocks(self, last: int) -> tuple[Indices, Indices]:
        """First and last output of each block of 0..last: 0 alone, and none across the middle.

        Single outputs where there are few, else blocks of about the same importance.
        """
        half = self.report.max_value // 2
        if last <= MOST_BLOCKS:
            single = np.arange(last + 1)
            return single, single
        sampled = np.unique(np.linspace(1, last, SAMPLED).astype(np.int64))
        exponents = np.minimum(sampled, 2 * half - sampled)
        # The cube root of mass times squared value, φ^(k-y) φ^(2(2y-k)) up to the middle.
        importance = np.cumsum(self.report.power(np.maximum(exponents, 0)))
        goals = np.linspace(0.0, importance[-1], MOST_BLOCKS)
        starts = np.unique(
            np.concatenate([[0, 1, half + 1], sampled[np.searchsorted(importance, goals)]])
        )
        starts = starts[starts <= last]
        return starts, np.append(starts[1:] - 1, last)

    # Attained.

    def attained_delta(self, epsilon: float) -> float:
        """δ at ε on the worst of a few datasets, never above the truth."""
        return max(
            lower(epsilon * self.units(distance), 0.0) for distance, lower in self._lower_bounds()
        )

    def attained_epsilon(self, delta: float, certified: float) -> float:
        """ε at δ on the dataset that is the worst near the certified ε."""
        near = 0.9 * certified
        distance, lower = max(
            self._lower_bounds(), key=lambda item: item[1](near * self.units(item[0]), 0.0)
        )
        units = self.units(distance)
        return attained_epsilon(lambda epsilon: lower(epsilon * units, delta), delta, certified)

    def _lower_bounds(self) -> list[tuple[int, Callable[[float, float], float]]]:
        """Distances, each with a function from (total ε, goal) to a lower bound of δ."""
        pairs = self._datasets()
        bounds: list[tuple[int, Callable[[float, float], float]]] = [
            (distance, partial(pair.lower, self.honest)) for distance, pair in pairs
        ]
        if self.report.max_value == 1 and self.counts_on_others:
            two = two_outputs(self.rate, self.honest, noisier=True)
            bounds.append((1, lambda epsilon, _: two.lower(epsilon)))
        apart = {1, self.d_max} if self.metric else {self.d_max}
        return bounds + [(distance, partial(self._seen_alone, distance)) for distance in apart]

    def _seen_alone(self, distance: int, epsilon: float, goal: float) -> float:
        """Attained δ of a change from 0 to d, others at k, by the event "some report <= c".

        Others make that likelier by h - 1 times the chance of each at most.
        """
        del goal
        rate = float(self.rate)
        best = math.floor(max(0.0, distance - epsilon / rate) / 2)
        cuts = np.arange(max(0, best - 1), best + 2)
        cuts = cuts[cuts < distance]
        scale = 1 + math.exp(-rate)
        above = self.report.power(cuts + 1) / scale
        # e^E times chances, by the sum of the exponents: e^E alone may overflow.
        least = epsilon * (1 + 4 * UNIT) - rate * np.array(
            [distance - cuts, self.report.max_value - cuts]
        )
        below, others = np.exp(np.minimum(least, 700.0)) / scale
        seen = 1.0 - above - MARGIN - (1 + MARGIN) * (below + others * (self.honest - 1))
        return max(0.0, float(seen.max(initial=0.0)))

    def _datasets(self) -> list[tuple[int, Pair]]:
        """Likely worst changes between 0 and d, with all others at an end or at d.

        At many users they are those with the largest Σ (a - b)²/o (K11), per squared unit.
        """
        top = self.report.max_value
        candidates: list[tuple[float, int, Pair]] = []
        for distance in probes(self.d_max) if self.metric else [self.d_max]:
            others = sorted({0, distance, top})
            for (before, after), other in product(((0, distance), (distance, 0)), others):
                pair = _dataset(self.report, before, after, other)
                spread = float(pair.mass @ (pair.gained - pair.given) ** 2)
                candidates.append((spread / self.units(distance) ** 2, distance, pair))
        candidates.sort(key=lambda item: -item[0])
        return [(distance, pair) for _, distance, pair in candidates[:MOST_DATASETS]]


@lru_cache(maxsize=128)
def _dataset(report: ClampedReport, before: int, after: int, other: int) -> Pair:
    """The change of one value if all others hold `other`, with neighbouring outputs joined."""
    top = report.max_value
    inner = np.linspace(1, top, min(top, 2 * MOST_BLOCKS)).astype(np.int64)
    breaks = [
        value + step
        for value in (before, after, other)
        for step in (0, 1)
        if 0 < value + step < top
    ]
    starts = np.unique(np.concatenate([[0], inner, np.array(breaks, dtype=np.int64), [top]]))
    lasts = np.append(starts[1:] - 1, top)
    laws = [report.chances(value, starts, lasts) for value in (before, after, other)]
    covered = laws[2] >= LEAST_BLANKET
    mass = laws[2][covered]
    return Pair(
        mass,
        laws[0][covered] / mass,
        laws[1][covered] / mass,
        np.array([laws[0][~covered], laws[1][~covered]]),
        up((report.high + report.low) * abs(before - after)),
    )


@lru_cache(maxsize=8)
def two_outputs(rate: Fraction, honest: int, *, noisier: bool = False) -> TwoOutputs:
    """The round of k = 1, binary randomised response that sends the other bit at φ/(1 + φ) (K6).

    A report at a larger φ is one at a smaller φ, of which some are flipped: φ is rounded down, or
    up if `noisier`, for attained numbers.
    """
    ratio = Fraction(rounded_ratio(rate))
    if noisier:
        # One below `LEAST_RATIO` was taken for 0, others were rounded down by 5 + 2 ε_geo units.
        ratio = max(ratio, Fraction(LEAST_RATIO))
        ratio = min(Fraction(1), ratio * (1 + math.ceil(8 + 4 * rate) * Fraction(1, 2**53)))
    low = ratio / (1 + ratio)
    return TwoOutputs(1 - low, low, honest)


def local_laplace_round(spec: LocalLaplace, setting: Setting) -> LocalLaplaceRound:
    """Parameters of a round for the analysis."""
    mantissa, exponent = math.frexp(float(spec.epsilon_geo))
    high = math.ldexp(math.floor(mantissa * 2**26), exponent - 26)
    low = float(spec.epsilon_geo - Fraction(high))
    return LocalLaplaceRound(
        spec.epsilon_geo,
        ClampedReport(high, low, spec.max_value),
        setting.honest,
        distances(spec.max_value, setting),
        is_metric(setting),
    )
