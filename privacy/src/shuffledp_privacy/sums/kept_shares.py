"""Shares of noise that still protect a sum if the clamped shares are revealed (S6b).

The kept shares have no log-concave law, but one that is symmetric and falls to both sides, so that
the farthest change is the worst at every E (Proposition S1(d)); per unit of distance every distance
is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.even_sums import EvenSum, tabulate_even_sum
from shuffledp_privacy.primitives.noise import SumNoise
from shuffledp_privacy.primitives.table import NoiseTable
from shuffledp_privacy.primitives.truncated_table import KeptTable
from shuffledp_privacy.sums.kept import KeptNoise, cells

GRIDS = 4
"""Grids of a search, each of a cell of the one before: 1e-7 of the first one's width is left."""

POINTS = 65
"""Points of each."""


@dataclass(frozen=True, slots=True)
class KeptShares(KeptNoise):
    """Remaining shares of noise, as in sgdl-shuffle.

    Attributes:
        share: the law of one share that is kept.
        local: d -> total ε of one clamped report, beyond which it is not needed.
        tables: a law for each cell, made when it is first needed.
    """

    share: Callable[[int], EvenSum]
    local: Callable[[int], float]
    farthest: int
    tables: list[KeptTable | None] = field(default_factory=list)

    @property
    def log_concave(self) -> bool:
        """Always False, because shares have a spike at 0."""
        return False

    def _largest(self, distance: int) -> float:
        return min(self.local(distance), 700.0)

    def _least(self, distance: int, delta: float) -> float:
        """Smallest tried E at which the bound is at most δ, on successively finer grids.

        A table answers many points as fast as one.
        """
        low = 0.0
        high = self._largest(distance)
        for _ in range(GRIDS):
            grid = np.linspace(low, high, POINTS)
            upper = self.divergence(np.full(grid.shape, distance), grid)[0]
            enough = np.flatnonzero(upper <= delta)
            if not enough.size:
                return math.inf
            first = int(enough[0])
            high = float(grid[first])
            low = float(grid[max(first - 1, 0)])
        return high

    def _mean(self, distance: NDArray[np.int64], epsilon: Floats) -> Floats:
        tables = self.tables
        if not tables:
            tables = [
                tabulate_even_sum(self.share(int(count)), self.farthest)
                for count in self.cells.counts
            ]
            # At once: another thread sees all of them or none.
            self.tables[:] = tables
        mean = np.zeros_like(epsilon)
        for step in np.unique(distance).tolist():
            rows = distance == step
            for table, mass in zip(tables, self.cells.masses.tolist(), strict=True):
                # Without a table nothing is claimed of these shares.
                cost = 1.0 if table is None else table.divergence(step, epsilon[rows])
                mean[rows] += mass * cost
        return mean


def kept_shares(
    law: NoiseTable,
    padding: int,
    honest: int,
    tail: float,
    *,
    unclamped: SumNoise,
    local: Callable[[int], float],
    farthest: int,
) -> KeptShares | None:
    """The shares that remain after clamping; None if too many are cut off for a bound.

    Args:
        law: law of one share, φ and r <= 1 rounded down by 16 units and ε more of their last places
            at most.
        padding: c.
        honest: users.
        tail: P(|N| > c), rounded up.
        unclamped: the noise of all honest users, as if no user were clamped.
        local: total ε of one clamped report.
        farthest: largest distance that is asked about.
    """
    if padding > law.last or tail >= 1.0:
        return None
    half = np.exp(law.log_pmf[: padding + 1])
    half /= 2.0 * math.fsum(half) - half[0]
    # ln P(j | kept) moves with ln φ and with ln r by c + 2φ²/(1-φ²) at most (S6b).
    square = law.ratio * law.ratio
    slope = padding + 4.0 * square / max(1.0 - square, UNIT)
    rounded = 64 * UNIT * (1.0 - np.log(law.ratio)) * slope
    # Every ln P errs by at most the margin, and so does that of what they add up to.
    inexact = float(2 * law.margin + rounded + 4 * UNIT * (padding + 8))
    share = partial(EvenSum, half, inexact, rate=-math.log(law.ratio))
    return KeptShares(cells(honest, tail), unclamped, share, local, farthest)
