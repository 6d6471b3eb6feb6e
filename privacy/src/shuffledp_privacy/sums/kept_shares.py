"""Shares of noise that are left to protect a sum when it is told whose share was clamped, at large
δ (Proposition S6b).

At a large δ what clamping adds to it, δ1 (1 + e^E), is much of ε, since the curve is flat there.
The kept shares have no log-concave law, but one that is symmetric and falls to both sides, so that
the farthest change is the worst at every E (Proposition S1(d)); per unit of distance every distance
is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT, down
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.table import NoiseTable
from shuffledp_privacy.primitives.truncated import ShortLaws
from shuffledp_privacy.sums.kept import Cells, cells

LARGE = 0.01
"""δ from which on this is asked, a choice: no calibrated case of the fuzz that S6 left loose had a
smaller one.
"""

LONGEST = 12_000
"""Most points of a law that is tabulated."""

MOST_DISTANCES = 100
"""Most distances that are looked at one by one."""

STEPS = 24
"""Halvings of the ε that S6 certifies: the last is below a millionth of it."""


@dataclass(frozen=True, slots=True)
class KeptShares:
    """E HS_E(W_M‖W_M+d), W_m the sum of m shares kept within [-c, c], M of the honest ones.

    Never below the truth.
    """

    cells: Cells
    laws: ShortLaws

    def _divergence(self, distance: int, total: float) -> float:
        at = np.array([total])
        parts = [
            self.laws.divergence(index, distance, at)[0] for index in range(self.cells.counts.size)
        ]
        return float(
            min(1.0, (self.cells.masses @ np.array(parts) + self.cells.lost) * (1 + 1e-13))
        )

    def delta(self, d_max: int, epsilon: float, *, metric: bool) -> float:
        """Certified δ at ε (per unit if `metric`) for every change by at most d_max.

        1 where that is too much to do.
        """
        if not metric:
            return self._at(d_max, 1, epsilon)
        if d_max > MOST_DISTANCES:
            return 1.0
        return max(self._at(d, d, epsilon) for d in range(1, d_max + 1))

    def epsilon(self, d_max: int, delta: float, known: float, *, metric: bool) -> float:
        """Certified ε at δ, at most the `known` one.

        What is returned was seen to be enough at every distance.
        """
        if known == 0.0 or self.delta(d_max, known, metric=metric) > delta:
            return known
        certified = 0.0
        # The farthest is mostly the worst, so that the others are asked once each.
        for distance in range(d_max, 0, -1) if metric else (d_max,):
            units = distance if metric else 1
            if not self._is_met(distance, units, delta, certified):
                certified = bisect(
                    partial(self._is_met, distance, units, delta), known, certified, STEPS
                )
        return certified

    def _is_met(self, distance: int, units: int, delta: float, epsilon: float) -> bool:
        return not self._at(distance, units, epsilon) > delta

    def _at(self, distance: int, units: int, epsilon: float) -> float:
        # Rounded down: the δ of a smaller ε is larger.
        return self._divergence(distance, down(epsilon * units, units=4))


def kept_shares(law: NoiseTable, padding: int, honest: int, tail: float) -> KeptShares | None:
    """The shares that are left; None where their law is too long.

    Args:
        law: of one share, φ and r <= 1 rounded down by 16 units and ε more of their last places at
            most.
        padding: c.
        honest: users.
        tail: P(|N| > c), rounded up.
    """
    if honest * (2 * padding + 1) > LONGEST or padding > law.last or tail >= 1.0:
        return None
    half = np.exp(law.log_pmf[: padding + 1])
    # ln P(j | kept) moves with ln φ and with ln r by c + 2φ²/(1-φ²) at most (S6b).
    square = law.ratio * law.ratio
    slope = padding + 4.0 * square / max(1.0 - square, UNIT)
    rounded = 64 * UNIT * (1.0 - np.log(law.ratio)) * slope
    parts = cells(honest, tail)
    # Every ln P errs by at most the margin, and so does that of what they add up to.
    inexact = float(2 * law.margin + rounded + 4 * UNIT * (padding + 8))
    weights: Floats = np.concatenate([half[:0:-1], half])
    laws = ShortLaws.summed(weights, inexact, np.zeros_like(parts.counts), parts.counts)
    return KeptShares(parts, laws)
