"""Tables of the law SGDL(r, φ), point by point, for sums of moderate size and any real r > 0.

With ρ_w = P(w)/P(w-1) the law satisfies ρ_w = φ(w-1+r) / ((1+φ²)w - φ(w+1-r)ρ_{w+1}); run downward
from a bracket of ρ at the far end the recurrence contracts, so it is started anywhere in the
bracket and its error is bounded on the way. No factorials, no cancellation; tails come from the
same run. docs/accounting.md, Proposition S2 (shape of the law) and S3 (error).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats, LogValues
from shuffledp_privacy.primitives.pairs import TINY, hockey_stick, least_epsilon
from shuffledp_privacy.primitives.work import spend_work

STEP_COST = 6
"""Work of one step of the recurrence, in nodes of a contour sum."""

POINT_COST = 0.1
"""Work of one point of a law in closed form."""

LONGEST_REACH = 250_000
"""Most points that a table gets for the sake of large distances, up to a factor of two; about 0.1
s.
"""

_STEP_ERROR = 16 * UNIT
"""Relative rounding error of one step of the recurrence, its denominator included."""


@dataclass(frozen=True, slots=True)
class NoiseTable:
    """Table of ln P(0..W) and ln P(Y >= w), w = 0..W, with one common error `margin`.

    A `SumNoise`.
    """

    shape: float
    ratio: float
    log_pmf: Floats
    log_tail: Floats
    margin: float

    @property
    def last(self) -> int:
        """Largest tabulated point W."""
        return len(self.log_pmf) - 1

    def mass(self, point: Floats) -> LogValues:
        """ln P(|y|).

        Beyond W by the ratios φ and φ(r+w-1)/w between which ρ_w lies (Proposition S2).
        """
        return self._extend(self.log_pmf, np.abs(point))

    def at_least(self, point: Floats) -> LogValues:
        """ln P(Y >= w) for any integer w."""
        right = self._extend(self.log_tail, np.maximum(point, 0.0))
        # By symmetry 1 minus the other tail, which is below 1/2, so that log1p loses no digits.
        inner = self._extend(self.log_tail, np.maximum(1.0 - point, 0.0))
        with np.errstate(divide="ignore"):
            low = np.log1p(-np.exp(np.minimum(inner.high, -1e-300)))
            high = np.log1p(-np.exp(inner.low))
        slack = 4 * UNIT
        return LogValues(
            np.where(point > 0, right.low, low - slack),
            np.where(point > 0, right.high, high + slack),
        )

    def _extend(self, values: Floats, point: Floats) -> LogValues:
        inside = np.minimum(point, self.last).astype(np.int64)
        beyond = np.maximum(point - self.last, 0.0)
        flat = beyond * math.log(self.ratio)
        # Π (1 + (r-1)/i) over W < i <= w is at most (w/W)^(r-1) for r >= 1 and at least that for r
        # < 1.
        bent = flat + (self.shape - 1.0) * np.log(np.maximum(point, self.last) / self.last)
        base = values[inside]
        slack = self.margin + 4 * UNIT * np.abs(flat)
        return LogValues(
            base + np.minimum(flat, bent) - slack, base + np.maximum(flat, bent) + slack
        )

    def divergence(self, distance: NDArray[np.int64], epsilon: Floats) -> tuple[Floats, Floats]:
        """Upper and lower bound of HS_E(d) for E >= 0, row by row: (certified, attained)."""
        table = self._reaching(distance)
        steps = distance.astype(np.float64)
        if table is not self:
            return table.divergence(distance, epsilon)
        if self.shape >= 1.0:
            brackets = hockey_stick(TablePair(self, steps), epsilon)
            return brackets.upper, brackets.lower
        return self._spiky(steps, epsilon)

    def least(
        self, distance: NDArray[np.int64], delta: Floats | float, clamped: float
    ) -> tuple[Floats, Floats]:
        """Smallest E with HS_E(d) + c (1 + e^E) <= δ by row: (certified, attained with c = 0)."""
        table = self._reaching(distance)
        if table is not self:
            return table.least(distance, delta, clamped)
        if self.shape >= 1.0:
            return least_epsilon(TablePair(self, distance.astype(np.float64)), delta, clamped)
        return self._bisect(distance, delta, clamped)

    def _reaching(self, distance: NDArray[np.int64]) -> NoiseTable:
        """A table that extends to all points of Y + d, because tails are only bracketed."""
        # The threshold that decides lies in the inner half of a table that ends where e^-100 is
        # left.
        needed = min(self.last // 2 + int(distance.max(initial=0)), max(self.last, LONGEST_REACH))
        length = self.last  # doubled, so that few different tables are built
        while length < needed:
            length *= 2
        return self if length == self.last else build_table(self.shape, self.ratio, length)

    def _spiky(self, steps: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
        """HS_E for r < 1, where ln P(y)/P(y-d) exceeds ε on an interval around 0 (S2)."""
        peak = self.mass(np.zeros_like(steps)).high - self.mass(steps).low
        left = self._edge(steps, epsilon, -1, np.full_like(steps, self.last))
        # Beyond d/2 the ratio is at most 1 (S2(e)).
        right = self._edge(steps, epsilon, 1, np.floor(steps / 2))
        inner_low = -np.expm1(
            np.logaddexp(self.at_least(left + 1).high, self.at_least(right + 1).high)
        )
        inner_high = -np.expm1(
            np.logaddexp(self.at_least(left + 1).low, self.at_least(right + 1).low)
        )
        near = self.at_least(steps - right)
        far = self.at_least(steps + left + 1)
        # Where the two tails agree in all digits their difference is lost; one point of the run is
        # still there.
        single = self.mass(steps - right).low
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            other_low = np.fmax(near.low + np.log1p(-np.exp(far.high - near.low)), single)
            minus_low = np.exp(np.minimum(epsilon + other_low, 700.0))
            other_high = near.high + np.log1p(-np.exp(far.low - near.high))
            minus_high = np.exp(np.minimum(epsilon + other_high, 700.0)) * (1.0 + 1e-12)
        upper = inner_high - minus_low + 4 * self.margin + 8 * UNIT + TINY
        # Above the largest log ratio no point counts (S2(e)); `TINY` stays for what the table
        # leaves out.
        upper = np.where(epsilon > peak, TINY, np.clip(upper, 0.0, 1.0))
        lower = np.clip(inner_low - minus_high - 8 * UNIT, 0.0, 1.0)
        return upper, lower

    def _edge(self, steps: Floats, epsilon: Floats, sign: int, limit: Floats) -> Floats:
        """The last w in 0..limit whose ln P(±w)/P(±w - d) is at least ε; the ratio falls with w."""
        low = np.zeros_like(steps)
        high = limit + 1
        while (high - low > 1).any():
            middle = np.floor(0.5 * (low + high))
            ratio = self.mass(middle).low - self.mass(sign * middle - steps).low
            holds = (ratio >= epsilon) & (middle <= limit)
            low, high = np.where(holds, middle, low), np.where(holds, high, middle)
        return low

    def _bisect(
        self, distance: NDArray[np.int64], delta: Floats | float, clamped: float
    ) -> tuple[Floats, Floats]:
        """Invert both bounds for r < 1, by bisection below ln P(0)/P(d), where HS is zero."""
        steps = distance.astype(np.float64)
        peak = (self.mass(np.zeros_like(steps)).high - self.mass(steps).low) * (1 + 1e-12) + 1e-12
        with np.errstate(over="ignore"):
            # The bound is convex in e^E: beyond the E where the clamping part alone is delta/2 look
            # no further.
            roof = np.minimum(
                peak,
                np.log(np.maximum(np.asarray(delta) / clamped / 2 - 1, 1.0))
                if clamped > 0
                else np.inf,
            )
        certified = np.zeros_like(steps)
        attained = np.zeros_like(steps)
        best = np.full_like(steps, np.inf)
        high = roof.copy()
        low = roof.copy()
        best = np.where(self._total(distance, roof, clamped) <= delta, roof, best)
        for _ in range(48):
            middle = 0.5 * (certified + high)
            good = self._total(distance, middle, clamped) <= delta
            # Only an E whose bound was seen to be small enough gets here: rounding may make the
            # bound wobble.
            best = np.where(good, np.minimum(best, middle), best)
            certified, high = np.where(good, certified, middle), np.where(good, middle, high)
            middle = 0.5 * (attained + low)
            above = self.divergence(distance, middle)[1] >= delta
            attained, low = np.where(above, middle, attained), np.where(above, low, middle)
        nothing = self._total(distance, np.zeros_like(steps), clamped) <= delta
        return np.where(nothing, 0.0, best), attained

    def _total(self, distance: NDArray[np.int64], epsilon: Floats, clamped: float) -> Floats:
        upper = self.divergence(distance, epsilon)[0]
        if clamped == 0.0:
            return upper
        with np.errstate(over="ignore"):
            return upper + clamped * (1.0 + np.exp(epsilon)) * (1.0 + 1e-12)


@dataclass(frozen=True, slots=True)
class TablePair:
    """Pair (Y, Y + d) for a tabulated Y with r >= 1: an `OrderedPair` with a row for each d."""

    table: NoiseTable
    distance: Floats

    def rows(self, index: NDArray[np.intp]) -> TablePair:
        """The pairs of the rows with these indices."""
        return TablePair(self.table, self.distance[index])

    def count(self) -> int:
        """Number of rows."""
        return len(self.distance)

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """Logarithms of P(Y <= t) and P(Y <= t - d), from the upper tail by symmetry."""
        return self.table.at_least(-threshold), self.table.at_least(self.distance - threshold)

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/P(t - d), with the law continued beyond W by the ratio φ (also log-concave).

        Below -W it is called infinite: that mass is charged to `TINY`, and the search for a
        threshold ends.
        """
        far = threshold - self.distance
        ratio = self.table.mass(threshold).low - self.table.mass(far).low
        beyond = np.maximum(np.maximum(np.abs(threshold), np.abs(far)) - self.table.last, 0.0)
        error = 2 * self.table.margin + 16 * UNIT * beyond * -math.log(self.table.ratio)
        lost = threshold < -self.table.last
        return LogValues(
            np.where(lost, np.inf, ratio - error), np.where(lost, np.inf, ratio + error)
        )

    def guess(self, epsilon: Floats) -> Floats:
        """First guess of the threshold: the middle, where bisection starts."""
        return np.floor(0.5 * self.distance) + 0.0 * epsilon

    def spread(self) -> Floats:
        """Standard deviation of Y."""
        deviation = math.sqrt(2 * self.table.shape * self.table.ratio) / (1 - self.table.ratio)
        return np.full_like(self.distance, deviation)

    def shift(self) -> Floats:
        """Difference of the means, d."""
        return self.distance


@lru_cache(maxsize=8)
def build_table(shape: float, ratio: float, length: int) -> NoiseTable:
    """Tabulates SGDL(r, φ) on 0..length with a stated relative error.

    Pure; r > 0, 0 < φ < 1, length >= 1.

    The error of ρ_w shrinks by |w+1-r|/(w-1+r) ρ_w ρ_{w+1} < 1 in a step and gains one rounding; w
    ratios make P(w), so the margin is the number of points times the largest error. Source:
    Propositions S2 and S3.
    """
    if shape == 1.0:
        return _single_noise(ratio, length)
    # A step multiplies the error by about φ²: the start's is down to about e^-80 of itself where
    # the table ends.
    first = length + math.ceil(40.0 / -math.log(ratio))
    spend_work(STEP_COST * first)
    ratios, tails, worst = _recurrence(shape, ratio, first, length)
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios[1:]))])
    total = math.log1p(2 * ratios[1] * tails[1])
    sums = UNIT * (length * 2.0 + 4 * float(np.abs(logs[-1])) * math.sqrt(length))
    margin = (first + 2) * (worst + 4 * UNIT) + sums + 16 * UNIT
    log_pmf = logs - total
    # The table is cached and shared: no one may write to it.
    log_pmf.setflags(write=False)
    log_tail = log_pmf + np.log(tails)
    log_tail.setflags(write=False)
    return NoiseTable(shape, ratio, log_pmf, log_tail, margin)


def _single_noise(ratio: float, length: int) -> NoiseTable:
    """The table of one discrete Laplace noise, r = 1, in closed form: all ratios are φ.

    ln P(w) = w ln φ + ln((1-φ)/(1+φ)), and P(Y >= w) = P(w)/(1-φ) for w >= 1, P(Y >= 0) = 1/(1+φ).
    Source: Proposition S3.
    """
    spend_work(POINT_COST * length)
    rest = 1.0 - ratio
    falling: Floats = np.arange(length + 1, dtype=np.float64) * math.log(ratio)
    log_pmf: Floats = np.asarray(falling + math.log(rest / (1.0 + ratio)))
    log_tail: Floats = np.asarray(falling - math.log1p(ratio))
    for values in (log_pmf, log_tail):
        # The table is cached and shared: no one may write to it.
        values.setflags(write=False)
    margin = UNIT * (16 + 8 * (abs(float(falling[-1])) - math.log(rest)))
    return NoiseTable(1.0, ratio, log_pmf, log_tail, margin)


def _recurrence(
    shape: float, ratio: float, first: int, length: int
) -> tuple[Floats, Floats, float]:
    """Run the recurrence: ρ_w and P(Y >= w)/P(w) for w = 0..length, and the largest error of ρ_w.

    The error is relative.
    """
    ratios = np.zeros(length + 1)
    tails = np.ones(length + 1)
    square = 1.0 + ratio * ratio
    below = 1.0 - shape
    # Far out the ratio is close to φ (S2(b)), and a tail of ratios φ is a geometric series.
    following, stack = ratio, 1.0 / (1.0 - ratio)
    error, worst = abs(below) / first, 0.0
    for m in range(
        first, 0, -1
    ):  # downward, where the recurrence contracts; upward the other solution would take over
        # Not m - below: at m = 1 that has lost the digits of a small shape.
        weight = (m - 1) + shape
        current = ratio * weight / (square * m - ratio * (m + below) * following)
        error = error * abs(m + below) / weight * current * following + _STEP_ERROR
        if m <= length:
            ratios[m], tails[m] = current, stack
            worst = max(worst, error)
        stack = 1.0 + current * stack
        following = current
    tails[0] = stack
    return ratios, tails, worst
