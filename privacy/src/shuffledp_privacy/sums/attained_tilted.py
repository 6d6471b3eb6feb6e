"""Lower bounds for noisy sums at large total ε: clamped reports under an exponential tilt.

A transform's error is absolute. At a total ε of E an event of the second dataset counts e^E times,
so that the plain sum of `attained` shows nothing beyond E of about 15. Tilted by e^(sy) the laws of
both datasets lie where they are compared, and the error is relative to that (docs/accounting.md,
Proposition S9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.sums.attained import LONGEST, reach

PARTS = (0.0, 0.4, 0.7, 1.0)
"""Parts of the way to the first mean by which tilts move the second; neighbouring windows overlap.
"""

MOST_RATES = 4.0
"""Largest tilt, in rates of the noise: from one rate on reports lie at the ends of their range."""

FROM = 6.0
"""Total ε from which the tilted sum is asked."""

_LOST = 1e-20
"""Largest tilted mass that may wrap around the window."""


@dataclass(frozen=True, slots=True)
class ComparedReports:
    """Logarithms of a lower bound of P(y) and of an upper bound of Q(y), at some points y."""

    low: Floats
    high: Floats

    def delta(self, epsilon: float) -> float:
        """Lower bound of Σ (P - e^E Q)_+ over these points, never above HS_E(P‖Q)."""
        gap = np.minimum(epsilon + self.high - self.low, 0.0)
        # Each summand is certain, so that any choice of points is an event.
        return float((np.exp(self.low) * -np.expm1(gap)).sum()) * (1 - 1e-9)

    def epsilon(self, delta: float) -> float:
        """Approximate largest E at which `delta` is reached; 0 if it never is."""
        if not self.low.size or self.delta(0.0) < delta:
            return 0.0
        # There no point of the first law is above the second.
        largest = max(0.0, float((self.low - self.high).max()))
        reached = bisect(lambda epsilon: self.delta(epsilon) >= delta, 0.0, largest, steps=60)
        return reached * (1 - 1e-12)


@dataclass(frozen=True, slots=True)
class Reports:
    """One user's clamped report, with probabilities as logarithms so that none underflows.

    Attributes:
        log_pmf: ln P(N = m) of the symmetric noise, m = 0, 1, ..., at least to k + c.
        log_tail: ln P(N >= m); same shape.
        padding: c.
        max_value: k.
        rate: about how fast the noise falls, nats per unit; with a larger tilt reports lie at the
            ends.
        relative: error of each logarithm, at most.
    """

    log_pmf: Floats
    log_tail: Floats
    padding: int
    max_value: int
    rate: float
    relative: float

    @property
    def points(self) -> int:
        """Number of different reports, k + 2c + 1."""
        return self.max_value + 2 * self.padding + 1

    def tilted_law(self, value: int, tilt: float) -> tuple[Floats, Floats, float]:
        """Points of clamp(value + N, -c, k + c), their law times e^(tilt y), ln of its divisor."""
        support = np.arange(-self.padding, self.max_value + self.padding + 1, dtype=np.float64)
        steps = np.abs(support - value).astype(np.int64)
        logs = self.log_pmf[steps]
        logs[[0, -1]] = self.log_tail[steps[[0, -1]]]
        exponents = logs + tilt * support
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        return support, weights / total, top + math.log(total)


def two_datasets(user: Reports, honest: int, distance: int) -> tuple[ComparedReports, ...]:
    """Lower bounds for a change by `distance`, both orders, others all at 0 or mid-domain."""
    return tuple(
        pair
        for common_value in (0, user.max_value // 2)
        for pair in compare_reports(user, honest, common_value, distance)
    )


def compare_reports(
    user: Reports, honest: int, common_value: int, distance: int
) -> list[ComparedReports]:
    """Lower bounds for a change from 0 to `distance`, others at `common_value`, in both orders.

    Empty where a window is too long.

    Any tilt gives valid bounds. P(y) is large about P's mean, far from Q's; each tilt moves Q's
    mean a part of the way.

    Args:
        user: one user's report.
        honest: number of users, the changed one among them.
        common_value: value of the others.
        distance: largest change.
    """
    pairs = []
    for near, far, sign in ((0, distance, -1.0), (distance, 0, 1.0)):
        sums = _Sums(user, honest, common_value, (near, far))
        shown = sums.likely_sums()
        low = np.full(shown.size, -np.inf)
        high = np.zeros(shown.size)
        for part in PARTS:
            laws = _laws(sums, sums.tilt(part, sign * MOST_RATES * user.rate), shown)
            if laws is not None:
                low, high = np.maximum(low, laws.low), np.minimum(high, laws.high)
        keep = np.isfinite(low)
        pairs.append(ComparedReports(low[keep], high[keep]))
    return pairs


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sum of all reports on two datasets: others at `held`, one user at each of `values`."""

    user: Reports
    honest: int
    held: int
    values: tuple[int, int]

    def mean(self, value: int, tilt: float) -> float:
        """Mean of the tilted sum with the changed user at `value`."""
        support, others, _ = self.user.tilted_law(self.held, tilt)
        _, changed, _ = self.user.tilted_law(value, tilt)
        return float(((self.honest - 1) * others + changed) @ support)

    def tilt(self, part: float, largest: float) -> float:
        """Tilt between 0 and `largest` that moves the second mean part of the way to the first."""
        near, far = (self.mean(value, 0.0) for value in self.values)
        goal = far + part * (near - far)
        sign = math.copysign(1.0, largest)
        share = bisect(
            lambda share: sign * (self.mean(self.values[1], share * largest) - goal) < 0,
            passing=0.0,
            failing=1.0,
            steps=16 if part else 0,
        )
        return share * largest

    def likely_sums(self) -> Floats:
        """Sums that have nearly all the probability on the first dataset."""
        support, others, _ = self.user.tilted_law(self.held, 0.0)
        mean = float(others @ support)
        down, up = _reaches(others, support - mean, self.honest)
        middle = (self.honest - 1) * mean
        first = math.floor(middle - down + support[0])
        last = math.ceil(middle + up + support[-1])
        # Any selection of sums gives a lower bound.
        return np.arange(first, min(last + 1, first + LONGEST), dtype=np.float64)


def _reaches(law: Floats, offset: Floats, honest: int) -> tuple[int, int]:
    """Distances of the sum of `honest` reports from its mean, each way, up to a mass of `_LOST`."""
    down, up = (reach(law, sign * offset, honest, 1) for sign in (-1, 1))
    return min(down, math.ceil(-honest * float(offset[0]))), min(
        up, math.ceil(honest * float(offset[-1]))
    )


def _laws(sums: _Sums, tilt: float, shown: Floats) -> ComparedReports | None:
    """Bounds of both laws at the sums `shown`, from one transform.

    None if its window would be too long.
    """
    user, honest, common_value = sums.user, sums.honest, sums.held
    support, common, log_common = user.tilted_law(common_value, tilt)
    mean = float(common @ support)
    wide = max(_reaches(common, support - mean, honest))
    points = 1 << max(4, math.ceil(math.log2(2 * (wide + 2 * user.points))))
    if points > LONGEST:
        return None
    others = np.fft.rfft(_row(support, common, points)) ** (honest - 1)
    norm = math.sqrt(2 * float((np.abs(others) ** 2).sum()) / points)
    slack = (honest + 8) * 16 * UNIT * math.log2(points) * norm + 4 * _LOST
    error = honest * (user.relative + UNIT * (4 * abs(tilt) * user.points + 16))
    # With the exponent's own rounding.
    error += 8 * UNIT * (honest * abs(log_common) + float(np.abs(tilt * shown).max()) + 8)
    # Beyond the window only what wraps around is known: less than is lost.
    inside = np.abs(shown - honest * mean) < points // 2 - user.points
    logs = []
    for value, side in zip(sums.values, (-1.0, 1.0), strict=True):
        _, changed, log_own = user.tilted_law(value, tilt)
        law = np.fft.irfft(others * np.fft.rfft(_row(support, changed, points)), points)
        at = np.where(inside, law[shown.astype(np.int64) % points], 0.0)
        with np.errstate(divide="ignore"):
            scaled = np.log(np.maximum(at + side * slack, 0.0))
        logs.append(scaled + (honest - 1) * log_common + log_own - tilt * shown + side * error)
    return ComparedReports(logs[0], np.minimum(logs[1], 0.0))


def _row(support: Floats, law: Floats, points: int) -> Floats:
    row = np.zeros(points)
    np.add.at(row, support.astype(np.int64) % points, law)
    return row
