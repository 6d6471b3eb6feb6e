"""Pairs of laws under a changed value, and lower bounds on their adaptive composition.

A concrete dataset's pair is attained: what it costs is never above the truth. Outcomes may be
merged, losses moved down and masses dropped: each lowers every hockey-stick divergence, so that
what is left is a lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.primitives.tails import binomial_window, inward

Floats = NDArray[np.float64]

TAIL: Final = 1e-22
"""Mass that a window of a binomial law may leave out on each side."""

POINTS: Final = 2**15
"""Most points of a composed law, about: losses are moved down by the grid's gap at most, where they
are put on it.
"""

LOST: Final = 1e-17
"""Mass that may be dropped, or moved down, at each end of a composed law."""

UNIT: Final = 2.0**-53


@dataclass(frozen=True, slots=True)
class LawPair:
    """The laws of the adversary's view before and after a change of one value.

    Attributes:
        first: masses under the dataset with x0, each above 0.
        second: masses of the same outcomes under the dataset with x1.
        without: masses of the same outcomes if another user reports instead of the changed one.
    """

    first: Floats
    second: Floats
    without: Floats

    def reverse(self) -> Self:
        """Return the pair with both laws exchanged."""
        return type(self)(self.second, self.first, self.without)

    def sample(self, rate: Fraction) -> Self:
        """The pair if a random subset reports, the changed user with probability `rate`."""
        share = float(rate)
        rest = (1 - share) * self.without
        return type(self)(share * self.first + rest, share * self.second + rest, self.without)

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence at ε, by one sum."""
        return float(np.maximum(self.first - math.exp(epsilon) * self.second, 0.0).sum())


def third_symbol(symbols: int, p: float, q: float, honest: int) -> LawPair:
    """k-RR, k >= 3, others at a third symbol: the law of the counts of x0 and x1 (K5).

    All other counts are merged.

    Args:
        symbols: k.
        p: chance of the true symbol.
        q: probability of each other one, p + (k-1) q = 1.
        honest: h, the changed user among them.
    """
    a, b, weight = _cells(honest, q)
    # c counts the third symbol, d the k - 3 others; merged, each stands at its mean given a and b.
    others = (honest - a - b) * (q + (symbols - 3) * q) / (1 - 2 * q)
    first = weight * (p / q * a + b + others) / honest
    return LawPair(first, weight * (p / q * b + a + others) / honest, weight)


def clones(epsilon0: float, honest: int, cell: float) -> LawPair:
    """The pair of Feldman, McMillan and Talwar, Theorem 3.1.

    Clones of either value with chance `cell` each (K10).

    Args:
        epsilon0: local parameter, nats.
        honest: h, the changed user among them.
        cell: e^-ε0/2 for any ε0-LDP randomiser; 1/(1 + e^ε0) for the pair of 2-RR.
    """
    a, b, weight = _cells(honest, cell)
    likely = 1 / (1 + math.exp(-epsilon0))
    first = weight * (likely * a + (1 - likely) * b) / (honest * cell)
    second = weight * (likely * b + (1 - likely) * a) / (honest * cell)
    seen = first > 0
    # Who takes the place may hold either value: the pair of Koskela et al. puts the second dataset
    # there.
    return LawPair(first[seen], second[seen], second[seen])


@lru_cache(maxsize=2)
def _cells(honest: int, q: float) -> tuple[Floats, Floats, Floats]:
    """Counts a and b of a multinomial law (h; q, q, 1 - 2q) and their probabilities.

    Windows leave out 1e-22.
    """
    outer = binomial_window(honest, q, TAIL)
    rows = [binomial_window(honest - int(a), q / (1 - q), TAIL) for a in outer.support]
    sizes = [row.pmf.size for row in rows]
    weight = np.repeat(outer.pmf, sizes) * np.concatenate([row.pmf for row in rows])
    a = np.repeat(outer.support, sizes)
    b = np.concatenate([row.support for row in rows])
    likely = weight > LOST * LOST
    return a[likely].astype(np.float64), b[likely].astype(np.float64), weight[likely]


@dataclass(frozen=True, slots=True)
class LossGrid:
    """Privacy losses of several rounds on a grid, rounded down.

    Attributes:
        first: the lowest multiple of the gap.
        masses: probabilities at this and the following multiples.
        gap: gap of the grid, nats.
        error: bound on what the transforms may have added to a sum of masses.
    """

    first: int
    masses: Floats
    gap: float
    error: float = 0.0

    @classmethod
    def of(cls, pair: LawPair, points: int = POINTS, *, nearest: bool = False) -> Self:
        """Losses of one round, each rounded down to a multiple of the grid's gap.

        With `nearest`, to the nearest multiple, which is no bound.
        """
        losses = np.log(pair.first / pair.second)
        order = np.argsort(losses)
        losses, masses = losses[order], pair.first[order]
        # What is rare at the ends would only widen the grid.
        low = int(np.searchsorted(np.cumsum(masses), LOST))
        high = losses.size - int(np.searchsorted(np.cumsum(masses[::-1]), LOST))
        rounded = np.minimum(losses[low:], losses[max(high - 1, low)])
        gap = max(float(rounded[-1] - rounded[0]) / points, 1e-12)
        places = np.floor(rounded / gap + (0.5 if nearest else 0.0)).astype(np.int64)
        first = int(places[0])
        return cls(first, np.bincount(places - first, weights=masses[low:]).astype(np.float64), gap)

    def compose(self, times: int, points: int = POINTS) -> LossGrid:
        """The losses of `times` rounds, by repeated squaring.

        The grid grows coarser as the law grows wider.
        """
        if times == 1:
            return self
        twice = self.plus(self, points).compose(times // 2, points)
        return twice if times % 2 == 0 else twice.plus(self._at(twice.gap), points)

    def delta(self, epsilon: float) -> float:
        """δ at ε, never above that of the composed pair."""
        # Down by more than the masses' and the exponential's rounding.
        start = min(max(0, math.floor(epsilon / self.gap) - self.first), self.masses.size)
        values = self.gap * np.arange(self.first + start, self.first + self.masses.size) - 1e-13
        shown = -np.expm1(np.minimum(epsilon - values, 0.0))
        return max(0.0, inward(float(self.masses[start:] @ shown)) - self.error)

    def epsilon(self, delta: float) -> float:
        """Lower bound of the least ε for `delta`: an ε at which δ is still above it.

        Nats, >= 0.
        """
        low, high = 0.0, max(0.0, self.gap * (self.first + self.masses.size))
        while high - low > 1e-7 * (1e-3 + high):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low

    def _at(self, gap: float) -> LossGrid:
        coarse = self
        while coarse.gap < gap * (1 - 1e-9):
            coarse = coarse._coarser()
        return coarse

    def _coarser(self) -> LossGrid:
        """Double the gap: every second loss is rounded down by one step."""
        padded = np.pad(self.masses, (self.first % 2, (self.first + self.masses.size) % 2))
        return LossGrid(
            self.first // 2, padded.reshape(-1, 2).sum(axis=1), 2 * self.gap, self.error
        )

    def plus(self, other: LossGrid, points: int = POINTS) -> LossGrid:
        """The losses of both grids together, for independent rounds."""
        from scipy.signal import fftconvolve  # here: scipy is slow to import

        masses = np.maximum(fftconvolve(self.masses, other.masses), 0.0)
        # Higham's bound of a transform's error, for a sum of any of the masses (docs/accounting.md,
        # K0).
        norms = float(np.linalg.norm(self.masses)), float(np.linalg.norm(other.masses))
        error = (
            math.sqrt(masses.size)
            * (math.log2(masses.size) + 2)
            * 8
            * UNIT
            * (sum(norms) + min(norms))
        )
        below = np.cumsum(masses)
        above = np.cumsum(masses[::-1])
        low = int(np.searchsorted(below, LOST))
        high = masses.size - int(np.searchsorted(above, LOST))
        high = max(high, low + 1)
        window = masses[low:high].copy()
        window[-1] += masses[high:].sum()
        combined = LossGrid(
            self.first + other.first + low, window, self.gap, self.error + other.error + error
        )
        while combined.masses.size > points:
            combined = combined._coarser()
        return combined
