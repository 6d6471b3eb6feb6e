"""Lower bounds for noisy sums where the total ε is large: the sum of clamped reports under an exponential tilt.

A transform's error is absolute. At a total ε of E an event of the second dataset counts e^E times, so that the plain
sum of `attained` shows nothing beyond E of about 15. Tilted by e^(sy) the laws of both datasets lie where they are
compared, and the error is relative to that (docs/accounting.md, Proposition S9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp_privacy.primitives.contour import UNIT, Floats
from shuffledp_privacy.sums.attained import LONGEST, Clamped, reach

FROM = 6.0
"""Total ε from which the tilted sum is asked."""

_LOST = 1e-20
"""Largest tilted mass that may wrap around the window."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Logarithms of a lower bound of P(y) and of an upper bound of Q(y), at some points y."""

    low: Floats
    high: Floats

    def delta(self, epsilon: float) -> float:
        """Lower bound of Σ (P - e^E Q)_+ over these points, never above HS_E(P‖Q)."""
        gap = np.minimum(epsilon + self.high - self.low, 0.0)
        # Each summand is certain, so that any choice of points is an event.
        return float((np.exp(self.low) * -np.expm1(gap)).sum()) * (1 - 1e-9)

    def epsilon(self, delta: float) -> float:
        """Largest E, about, at which `delta` is reached; 0 where it never is."""
        low, high = 0.0, 700.0
        if self.delta(low) < delta:
            return 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if self.delta(middle) >= delta:
                low = middle
            else:
                high = middle
        return low * (1 - 1e-12)


def compared(user: Clamped, honest: int, distance: int, tilt: float, relative: float) -> list[Compared]:
    """Everybody at 0 against one at `distance`, in both orders, each under a tilt of this size.

    The total ε over the distance suits. Every probability of one user's law is off by at most the factor
    1 + `relative`; of what the law leaves out less than 1e-30 may be left under the tilt.
    """
    pairs = []
    for values, sign in (((0, distance), -1.0), ((distance, 0), 1.0)):
        found = _laws(user, honest, values, sign * tilt, relative)
        if found is not None:
            pairs.append(found)
    return pairs


def _tilted(user: Clamped, value: int, tilt: float) -> tuple[Floats, Floats, float]:
    """One report's points, its tilted law, and the logarithm by which it was divided."""
    first, law = user.report(value)
    support = first + np.arange(law.size, dtype=np.float64)
    with np.errstate(divide="ignore"):
        exponents = np.log(law) + tilt * support
    top = float(exponents.max())
    weights = np.exp(exponents - top)
    total = float(weights.sum())
    return support, weights / total, top + math.log(total)


def _laws(user: Clamped, honest: int, values: tuple[int, int], tilt: float, relative: float) -> Compared | None:
    support, common, log_common = _tilted(user, 0, tilt)
    mean = float(common @ support)
    wide = max(reach(common, support - mean, honest, 1), reach(common, mean - support, honest, 1))
    width = 2 * (wide + user.max_value + user.pmf.size + user.padding)
    points = 1 << max(4, math.ceil(math.log2(width)))
    if points > LONGEST:
        return None
    others = np.fft.rfft(_row(support, common, points)) ** (honest - 1)
    norm = math.sqrt(2 * float((np.abs(others) ** 2).sum()) / points)
    slack = (honest + 8) * 16 * UNIT * math.log2(points) * norm + 4 * _LOST + honest * 1e-30
    # Points of the window, around the tilted mean.
    middle = round(honest * mean)
    shown = middle + np.arange(-(points // 4), points // 4)
    largest = float(np.abs(support).max()) + user.max_value
    error = honest * (relative + UNIT * (4 * abs(tilt) * largest + 16))
    # With the exponent's own rounding.
    error += 8 * UNIT * (honest * abs(log_common) + float(np.abs(tilt * shown).max()) + 8)
    logs = []
    for value, side in zip(values, (-1.0, 1.0), strict=True):
        places, own, log_own = _tilted(user, value, tilt)
        law = np.fft.irfft(others * np.fft.rfft(_row(places, own, points)), points)[shown % points]
        with np.errstate(divide="ignore"):
            scaled = np.log(np.maximum(law + side * slack, 0.0))
        logs.append(scaled + (honest - 1) * log_common + log_own - tilt * shown + side * error)
    low, high = logs
    keep = np.isfinite(low)
    return Compared(low[keep], high[keep])


def _row(support: Floats, law: Floats, points: int) -> Floats:
    row = np.zeros(points)
    np.add.at(row, support.astype(np.int64) % points, law)
    return row
