"""Noise that still protects a sum if clamped users are revealed, at no factor e^E (S6b).

The adversary is told for every honest user whether |N_i| > c, and the report of those where it is.
That does not depend on the values. The others are not clamped at all, and their noises are discrete
Laplace kept within [-c, c]. So δ(E) <= 𝔼 HS_E(W_M || W_M + d), M ~ Bin(h, 1 - τ), τ = P(|N| > c),
W_g the sum of g such noises. Fewer noises protect less, so a range of M may be replaced by its
smallest value.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.noise import SumNoise, sum_noise
from shuffledp_privacy.primitives.pairs import hockey_stick
from shuffledp_privacy.primitives.tails import MARGIN, TAIL, binomial_window
from shuffledp_privacy.primitives.truncated import (
    ShortLaws,
    TruncatedLaw,
    TruncatedNoise,
    TruncatedPair,
)
from shuffledp_privacy.primitives.truncated_table import kept_table
from shuffledp_privacy.sums.clamping import geo_tail

LOOSE = 2e-4
"""About the share of ε that the cells may cost altogether."""

NARROW = 0.9
"""A cell's smallest number of noises is at least this share of its largest, but for the farthest.
"""

NEVER = 1e-18
"""Chance of so few noises that they are counted as none."""

LARGEST_RATE = 100.0
"""ε of one noise beyond which it is next to nothing, and everything rests on one report alone (S8).
"""

REACH = 0.85
"""E is looked at up to this share of d times the largest tilt: near the end few digits are left."""

TOLERANCE = 1e-6
"""Relative width to which E is searched; `rechecking.SLACK` forgives twice as much."""

_MOST_STEPS = 60

_TRIED = np.array([0.5, 0.95, 0.999, 1.002, 1.006, 1.02, 1.06, 1.2, 1.6, 3.0, 10.0])
"""Multiples of the E that is needed without clamping, at which the search looks first."""

CURVE = 24
"""Points from which on a table is made, which takes as long as a dozen of them."""

FEWEST = 4
"""Of so few noises, or fewer, the characteristic function falls too slowly for sums: they are
tabulated, or counted as none.
"""

_AT_ONCE = 4096
"""Rows of (cell, ε) evaluated together, which bounds memory."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Numbers of remaining noises, in cells: the smallest of each cell, and its mass, rounded up.

    Mass beyond the cells has no noise.
    """

    counts: Floats
    masses: Floats
    lost: float


def cells(honest: int, tail: float) -> Cells:
    """Cells of M = honest - F, F ~ Bin(honest, tail).

    `tail` rounded up, so that M is smaller in law than in truth.

    Each takes in smaller M until it costs its share of `LOOSE`: x noises less of h cost about
    x/(2h) of ε.
    """
    law = binomial_window(honest, tail)
    masses = law.pmf * (1.0 + MARGIN)
    counts = honest - law.support
    budget = LOOSE * honest / 3.0
    lowest, shares, start = [], [], 0
    while start < masses.size and counts[start] > 0 and float(masses[start:].sum()) > NEVER:
        part, rest = masses[start:], counts[start:]
        # Σ w (m - lowest) of a cell that ends at each place.
        lacking = np.cumsum(part * rest) - np.cumsum(part) * rest
        fits = (lacking <= budget) & (rest >= np.maximum(NARROW * rest[0], 1.0))
        size = fits.size if fits.all() else max(1, int(np.argmin(fits)))
        lowest.append(float(rest[size - 1]))
        shares.append(float(part[:size].sum()))
        start += size
    lost = (float(masses[start:].sum()) + 2 * TAIL) * (1 + MARGIN)
    return Cells(np.array(lowest), np.array(shares) * (1 + MARGIN), lost)


@dataclass(frozen=True, slots=True)
class KeptNoise(ABC):
    """`SumNoise` of the M unclamped noises if M is known, from which S6b bounds δ."""

    cells: Cells
    unclamped: SumNoise

    @abstractmethod
    def _mean(self, distance: NDArray[np.int64], epsilon: Floats) -> Floats:
        """Σ w HS_E(W_g‖W_g+d) over the cells, row by row, never below the truth."""

    @abstractmethod
    def _largest(self, distance: int) -> float:
        """Largest E that the search tries."""

    @property
    @abstractmethod
    def log_concave(self) -> bool:
        """True if the laws are log-concave, so that the largest distance is the worst (S5)."""

    def divergence(self, distance: NDArray[np.int64], epsilon: Floats) -> tuple[Floats, Floats]:
        """Upper bounds of Σ w HS_E(W_g‖W_g+d) for each pair of d and E; zeros as lower bounds."""
        upper = np.full(epsilon.shape, self.cells.lost)
        step = max(1, _AT_ONCE // max(1, self.cells.counts.size))
        for start in range(0, epsilon.size, step):
            part = slice(start, start + step)
            upper[part] += self._mean(distance[part], epsilon[part])
        return np.minimum(upper * (1.0 + 1e-13), 1.0), np.zeros_like(epsilon)

    def least(
        self, distance: NDArray[np.int64], delta: Floats | float, clamped: float
    ) -> tuple[Floats, Floats]:
        """Approximate smallest E with δ(E) <= δ, row by row; inf if there is none.

        `clamped` must be 0. The second result, for attained bounds, is all zeros.
        """
        if clamped != 0.0:
            raise ValueError(
                "this noise already includes clamping, which must not be charged a second time: "
                "clamped must be 0"
            )
        goals = np.broadcast_to(np.asarray(delta, dtype=np.float64), distance.shape)
        totals = [self._least(int(d), float(goal)) for d, goal in zip(distance, goals, strict=True)]
        return np.array(totals), np.zeros(distance.shape)

    def _least(self, distance: int, delta: float) -> float:
        """Smallest tried E at which the bound is at most δ.

        The search affects only tightness.
        """
        if self.cells.lost > delta:
            return math.inf  # no E takes that away

        def excess(epsilons: Floats) -> Floats:
            upper = self.divergence(np.full(epsilons.shape, distance), epsilons)[0]
            return np.asarray(np.log(upper / delta), dtype=np.float64)

        roof = self._largest(distance)
        # Without clamping a little less is needed: there the search begins.
        hint = max(float(self.unclamped.least(np.array([distance]), delta, 0.0)[0][0]), 1e-9 * roof)
        grid = np.unique(np.minimum(np.append(_TRIED * min(hint, roof), 0.0), roof))
        values = excess(grid)
        if not (values <= 0.0).any():
            far = np.geomspace(grid[-1], roof, 5)
            grid, values = np.append(grid, far), np.append(values, excess(far))
        if not (values <= 0.0).any():
            return math.inf
        first = int(np.argmax(values <= 0.0))
        if first == 0:
            return 0.0
        bad = float(grid[first - 1])
        good = float(grid[first])
        high = float(values[first - 1])
        low = float(values[first])
        last = 0
        for step in range(_MOST_STEPS):
            if good - bad <= TOLERANCE * good or low >= -0.3 * TOLERANCE:
                break
            # Illinois steps on ln δ, which is nearly a parabola; a far end would hold them up.
            share = 0.5 if step % 6 == 5 else min(max(high / (high - low), 0.02), 0.98)
            middle = bad + (good - bad) * share
            value = float(excess(np.array([middle]))[0])
            if value > 0.0:
                bad, high, low, last = middle, value, low / (2 if last > 0 else 1), 1
            else:
                good, low, high, last = middle, value, high / (2 if last < 0 else 1), -1
        return good


@dataclass(frozen=True, slots=True)
class KeptLaplace(KeptNoise):
    """Remaining whole discrete Laplace noises, as in geo-shuffle.

    Attributes:
        noise: the law of one noise that is kept.
        short: tables of the laws of the last cells, those of the fewest noises; None for none.
    """

    noise: TruncatedNoise
    short: ShortLaws | None

    @property
    def _contour_counts(self) -> Floats:
        """Numbers of noises of the cells whose laws are not in `short`."""
        tabulated = len(self.short.laws) if self.short else 0
        return self.cells.counts[: self.cells.counts.size - tabulated]

    @property
    def log_concave(self) -> bool:
        """Always True, because the weights φ^|j| are log-concave."""
        return True

    def _largest(self, distance: int) -> float:
        every = self._contour_counts.size == 0
        return distance * (self.noise.rate if every else REACH * self.noise.widest_tilt)

    def _mean(self, distance: NDArray[np.int64], epsilon: Floats) -> Floats:
        summed = self._contour_counts.size
        mean = self._long(distance, epsilon) if summed else np.zeros_like(epsilon)
        if self.short is None:
            return mean
        for step in np.unique(distance).tolist():
            rows = distance == step
            for index, mass in enumerate(self.cells.masses[summed:].tolist()):
                mean[rows] += mass * self.short.divergence(index, step, epsilon[rows])
        return mean

    def _long(self, distance: NDArray[np.int64], epsilon: Floats) -> Floats:
        """HS at many E for one distance: from tables for whole curves, by sums for a few points."""
        counts, masses = self._contour_counts, self.cells.masses[: self._contour_counts.size]
        far = int(distance.max(initial=1))
        if epsilon.size >= CURVE and (distance == far).all():
            reach = 1 << (far - 1).bit_length()
            tables = [kept_table(self.noise, int(count), reach) for count in counts]
            complete = [table for table in tables if table is not None]
            if len(complete) == len(tables):
                curves = [table.divergence(far, epsilon) for table in complete]
                return np.asarray(masses @ np.array(curves), dtype=np.float64)
        return self._sum_laws(distance.astype(np.float64), epsilon)

    def _sum_laws(self, distance: Floats, epsilon: Floats) -> Floats:
        counts = self._contour_counts
        size = counts.size
        law = TruncatedLaw(self.noise, np.repeat(counts, epsilon.size))
        pair = TruncatedPair.of(law, np.tile(distance, size))
        # δ falls: beyond the tilts at which digits are left, that of a smaller E is taken.
        inside = np.minimum(epsilon, REACH * self.noise.widest_tilt * distance)
        upper = hockey_stick(pair, np.tile(inside, size)).upper
        masses = self.cells.masses[:size]
        return np.asarray(masses @ upper.reshape(size, epsilon.size), dtype=np.float64)


def resolvable_honest(spec: GeoShuffle, honest: int, distance: int) -> int:
    """Number of noises, at most `honest`, at which rounding does not hide likelihood ratios.

    The likelihood ratios are those of a change by `distance`.

    With more noises the roundings add up while a change has less effect, so some noises are given
    up (Proposition S6b (d)).
    """
    noise = TruncatedNoise.of(spec.epsilon_geo, spec.padding)
    if noise.rate > LARGEST_RATE or noise.padding == 0 or noise.widest_tilt <= 0.0:
        return honest
    single = TruncatedLaw(noise, np.ones(1))
    centre = np.zeros(1)
    # A ratio is bracketed by four such errors; a 64th of a deviation away it must be clear of them.
    blurred = float(4 * single.cumulant_error(centre)[0] + 4 * noise.slack(single.count)[0])
    clear = distance / (64.0 * math.sqrt(float(single.variance(centre)[0])))
    most = (clear / max(blurred, 1e-300)) ** (2.0 / 3.0)
    return honest if most >= honest else max(1, math.floor(most))


@lru_cache(maxsize=32)
def kept_noise(spec: GeoShuffle, honest: int) -> KeptNoise | None:
    """The noise of geo-shuffle that remains after clamping; None if too much is cut off."""
    noise = TruncatedNoise.of(spec.epsilon_geo, spec.padding)
    if noise.rate > LARGEST_RATE or noise.padding == 0 or noise.widest_tilt <= 0.0:
        return None
    parts = cells(honest, geo_tail(spec.epsilon_geo, spec.padding))
    unclamped = sum_noise(Fraction(honest), spec.epsilon_geo)
    short = ShortLaws.of(noise, parts.counts)
    if short is None:
        summed = int((parts.counts > FEWEST).sum())
        few = parts.counts[summed:]
        short = ShortLaws.of(noise, few) if few.size else None
        if short is None:
            parts = _first_cells(parts, summed)
    return KeptLaplace(parts, unclamped, noise, short)


def _first_cells(parts: Cells, size: int) -> Cells:
    """The first `size` cells; the others count as no noise at all, which protects less."""
    lost = (parts.lost + float(parts.masses[size:].sum())) * (1 + MARGIN)
    return Cells(parts.counts[:size], parts.masses[:size], lost)
