"""Law of the sum of all users' noise: SGDL(r, φ), the difference of two negative binomials NB(r).

Every r > 0, whole or not. E is the total ε of a change by d, nats; HS_E(d) means HS_E(Y || Y + d),
which equals HS_E(Y || Y - d) by symmetry and rises with d (docs/accounting.md, Propositions S1 and
S2). φ is rounded down, which only takes noise away (Proposition S2), so a certified number of the
rounded law holds for the true one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify
from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats, LogValues, log_cdfs, log_pmfs, twice
from shuffledp_privacy.primitives.pairs import hockey_stick, least_epsilon
from shuffledp_privacy.primitives.table import NoiseTable, build_table

LONGEST_TABLE = 250_000
"""Most lattice points of a tabulated law; building one takes about 0.1 s."""

LONGEST_SMALL_TABLE = 2_000_000
"""Most lattice points for r < 1, where there is no other way."""

SHORT_TABLE = 10_000
"""Length up to which a table is the fastest way for every r."""

CONTOUR_FROM = 64.0
"""Smallest r for the contour sum: the law is then close to a Gaussian and few nodes are enough."""


LEAST_RATIO: Final = 1e-290
"""Smallest φ that counts as noise: its product with a shape of 1e-9 still has all its digits."""


def rounded_ratio(epsilon: Fraction) -> float:
    """φ = exp(-epsilon) as a float, rounded down, so that the noise is never overstated.

    Below `LEAST_RATIO` it is 0, which is no noise.
    """
    rate = float(epsilon)
    # The rounding of ε to a double is relative, so that φ may be off by ε 2^-53 of itself.
    ratio = math.exp(-rate) * (1.0 - (4 + 2 * rate) * UNIT)
    return ratio if ratio >= LEAST_RATIO else 0.0


class SumNoise(Protocol):
    """Law of the total noise of the honest users, as analyses use it."""

    def divergence(self, distance: NDArray[np.int64], epsilon: Floats) -> tuple[Floats, Floats]:
        """Upper and lower bound of HS_E(d) for E >= 0, row by row: (certified, attained)."""

    def least(
        self, distance: NDArray[np.int64], delta: Floats | float, clamped: float
    ) -> tuple[Floats, Floats]:
        """Smallest E with HS_E(d) + c (1 + e^E) <= δ by row: (certified, attained with c = 0)."""


@dataclass(frozen=True, slots=True)
class SgdlLaw:
    """Law SGDL(r, φ) by its generating function [(1-φ)²/((1-φz)(1-φ/z))]^r.

    A `TiltedLaw`, the same in each row.
    """

    shape: float
    ratio: float

    @property
    def node_cost(self) -> float:
        """Work of one quadrature node: 2, measured in nodes of a sum of flipped bits."""
        return 2.0

    def rows(self, index: NDArray[np.intp]) -> SgdlLaw:  # noqa: ARG002
        """The law itself, because all rows are alike."""
        return self

    @property
    def rest(self) -> float:
        """1 - φ."""
        # Exact for φ >= 1/2 (Sterbenz), which is where a difference could lose digits.
        return 1.0 - self.ratio

    def saddle(self, threshold: Floats) -> Floats:
        """The tilt with the given mean, from the quadratic equation for e^s."""
        size = np.abs(threshold)
        square = self.ratio * self.ratio
        difference = self.rest * (1.0 + self.ratio)
        # Solved for |t|, with the sign put back: all terms are then positive, and none cancels.
        root = np.sqrt((size * difference) ** 2 + 4 * square * self.shape**2)
        above = np.log((size * (1.0 + square) + root) / (2 * self.ratio * (self.shape + size)))
        return np.asarray(np.sign(threshold) * np.maximum(above, 0.0), dtype=np.float64)

    def _odds(self, tilt: Floats) -> Floats:
        """Odds φ e^s/(1 - φ e^s), with 1 - φ e^s computed without cancellation."""
        gap = self.rest - self.ratio * np.expm1(tilt)
        return np.asarray(self.ratio * np.exp(tilt) / gap, dtype=np.float64)

    def cumulant(self, tilt: Floats) -> Floats:
        """-r ln(1 - 4φ sinh²(s/2)/(1-φ)²)."""
        inner = 4 * self.ratio * np.sinh(0.5 * tilt) ** 2 / self.rest**2
        return np.asarray(
            -self.shape * np.log1p(-np.minimum(inner, 1.0 - 2.0**-52)), dtype=np.float64
        )

    def cumulant_error(self, tilt: Floats) -> Floats:
        """Rounding error of the argument of ln(1 - x), magnified by 1/(1 - x)."""
        inner = 4 * self.ratio * np.sinh(0.5 * tilt) ** 2 / self.rest**2
        return np.asarray(8 * UNIT * self.shape * inner * self.condition(tilt), dtype=np.float64)

    def condition(self, tilt: Floats) -> Floats:
        """Error growth near the largest tilt: (1 - φ + φu) / (1 - φ - φu), u = e^|s| - 1.

        It is at least 1.
        """
        grown = self.ratio * np.expm1(np.abs(tilt))
        gap = np.maximum(self.rest - grown, UNIT * self.rest)
        return np.asarray(1.0 + (self.rest + grown) / gap, dtype=np.float64)

    def mean(self, tilt: Floats) -> Floats:
        """r (a - b), a and b the odds at s and -s."""
        return self.shape * (self._odds(tilt) - self._odds(-tilt))

    def variance(self, tilt: Floats) -> Floats:
        """r (a(1+a) + b(1+b)), a and b as in `mean`."""
        up = self._odds(tilt)
        down = self._odds(-tilt)
        return np.asarray(self.shape * (up * (1 + up) + down * (1 + down)), dtype=np.float64)

    def room(self, tilt: Floats, sign: int) -> Floats:
        """Distance that s may move in the direction `sign` within |s| < -ln φ.

        At the ends the generating function becomes infinite.
        """
        return -math.log(self.ratio) - sign * tilt

    def log_modulus(self, tilt: Floats, angle: Floats) -> Floats:
        """-(r/2) [ln(1 + 2a(1+a)t) + ln(1 + 2b(1+b)t)] with t = 1 - cos θ."""
        up = self._odds(tilt)
        down = self._odds(-tilt)
        chord = 4 * np.sin(0.5 * angle) ** 2
        both = np.log1p(up * (1 + up) * chord) + np.log1p(down * (1 + down) * chord)
        return np.asarray(-0.5 * self.shape * both, dtype=np.float64)

    def phase(self, tilt: Floats, angle: Floats) -> tuple[Floats, Floats]:
        """r (arctan of the rising part - arctan of the falling part), and the parts' size."""
        up = self._odds(tilt)
        down = self._odds(-tilt)
        sine = np.sin(angle)
        versine = 2 * np.sin(0.5 * angle) ** 2
        rising = self.shape * np.arctan2(up * sine, 1 + up * versine)
        falling = self.shape * np.arctan2(down * sine, 1 + down * versine)
        return rising - falling, rising + falling


@dataclass(frozen=True, slots=True)
class ShiftedPair:
    """Pair (Y, Y + d) for Y ~ SGDL(r, φ), r >= 1: an `OrderedPair` with a row for each d."""

    law: SgdlLaw
    distance: Floats

    def rows(self, index: NDArray[np.intp]) -> ShiftedPair:
        """The pairs of the rows with these indices."""
        return ShiftedPair(self.law, self.distance[index])

    def count(self) -> int:
        """Number of rows."""
        return len(self.distance)

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(Y <= t), ln P(Y <= t - d)."""
        return log_cdfs(twice(self.law, self.count()), threshold, threshold - self.distance)

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/P(t - d).

        Infinite where less than e^-100 remains below t, which is charged to `TINY`.
        """
        floor = -float(table_length(self.law.shape, self.law.ratio))
        inside = np.maximum(threshold, floor)
        near, far = log_pmfs(twice(self.law, self.count()), inside, inside - self.distance)
        lost = threshold < floor
        low = near.low - far.high
        high = near.high - far.low
        return LogValues(np.where(lost, np.inf, low), np.where(lost, np.inf, high))

    def guess(self, epsilon: Floats) -> Floats:
        """First guess of the threshold: midpoint of the tilted means at s = -E/d."""
        # Inside the range of tilts: at its end the tilted mean is infinite.
        tilt = -np.minimum(epsilon / self.distance, 0.999 * self.law.room(np.zeros(1), 1))
        return self.law.mean(tilt) + 0.5 * self.distance

    def spread(self) -> Floats:
        """Standard deviation of Y."""
        return np.full_like(self.distance, math.sqrt(float(self.law.variance(np.zeros(1))[0])))

    def shift(self) -> Floats:
        """Difference of the means, d."""
        return self.distance


@dataclass(frozen=True, slots=True)
class ContourNoise:
    """`SumNoise` for large r, by contour sums."""

    law: SgdlLaw

    def divergence(self, distance: NDArray[np.int64], epsilon: Floats) -> tuple[Floats, Floats]:
        """Upper and lower bounds of HS_E(d): (certified, attained)."""
        brackets = hockey_stick(ShiftedPair(self.law, distance.astype(np.float64)), epsilon)
        return np.minimum(brackets.upper, self._variation(distance)), brackets.lower

    def least(
        self, distance: NDArray[np.int64], delta: Floats | float, clamped: float
    ) -> tuple[Floats, Floats]:
        """Smallest E for δ, (certified, attained)."""
        goal = np.broadcast_to(np.asarray(delta, dtype=np.float64), distance.shape)
        variation = self._variation(distance)
        # Noise so wide that the change does not show at all: no ε is needed, and none found.
        certified = np.zeros(distance.shape)
        attained = np.zeros(distance.shape)
        shown = np.flatnonzero(variation + 2.0 * clamped * (1.0 + 1e-12) > goal)
        if shown.size:
            pair = ShiftedPair(self.law, distance[shown].astype(np.float64))
            certified[shown], attained[shown] = least_epsilon(pair, goal[shown], clamped)
        return certified, attained

    def _variation(self, distance: NDArray[np.int64]) -> Floats:
        """d P(0), a bound of HS_0(d), with P(0) at most (1-φ)/(1+φ) of one discrete Laplace draw.

        Rounded up (S4).
        """
        largest = self.law.rest / (1.0 + self.law.ratio) * (1.0 + 1e-12)
        return np.asarray(np.minimum(1.0, largest * distance), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class NoNoise:
    """`SumNoise` if φ is taken for 0 (ε above 667), so that the sum is revealed."""

    def divergence(self, distance: NDArray[np.int64], epsilon: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Trivial bounds of HS_E: 1 from above, 0 from below."""
        return np.ones_like(epsilon), np.zeros_like(epsilon)

    def least(
        self,
        distance: NDArray[np.int64],
        delta: Floats | float,  # noqa: ARG002
        clamped: float,  # noqa: ARG002
    ) -> tuple[Floats, Floats]:
        """Trivial bounds of the least E for δ: infinity (certified) and 0 (attained)."""
        return np.full(len(distance), np.inf), np.zeros(len(distance))


def rounded_shape(shape: Fraction) -> float:
    """r as a float, rounded down: never more noise than in truth."""
    return math.nextafter(float(shape), 0.0) if Fraction(float(shape)) > shape else float(shape)


@lru_cache(maxsize=16)
def sum_noise(shape: Fraction, epsilon: Fraction) -> SumNoise:
    """Law SGDL(r, exp(-epsilon)), in the fastest representation that is exact enough.

    Args:
        shape: r = honest users times their share, in (0, 1e9].
        epsilon: nats, > 0.

    Raises:
        CannotCertify: r < 1 and ε so small that the law has more than two million relevant points.
    """
    ratio = rounded_ratio(epsilon)
    size = rounded_shape(shape)
    if ratio == 0.0:
        return NoNoise()
    needed = table_length(size, ratio)
    if needed <= SHORT_TABLE:
        return build_table(size, ratio, needed)
    if size >= CONTOUR_FROM or (size >= 8 and needed > LONGEST_TABLE):
        return ContourNoise(SgdlLaw(size, ratio))
    if size >= 1 and needed > LONGEST_TABLE:
        # SGDL(r) = SGDL(1) + independent noise: certifying the smaller noise is sound, only looser.
        # Without a table only the pure guarantee is certified.
        needed = table_length(1.0, ratio)
        return build_table(1.0, ratio, needed) if needed <= LONGEST_SMALL_TABLE else NoNoise()
    # Only r < 1 is still so wide here: it is not log-concave, and the contour pairs rest on S1,
    # which needs that.
    if needed > LONGEST_SMALL_TABLE:
        raise CannotCertify(
            f"the noise of {shape} shares at epsilon {float(epsilon):g} per share has about "
            f"{needed} relevant values, above {LONGEST_SMALL_TABLE}; take a larger epsilon or "
            "more honest users"
        )
    return build_table(size, ratio, needed)


def table_length(shape: float, ratio: float) -> int:
    """Length of a table beyond which less than e^-100 of the mass lies.

    By Chernoff's bound at nine tenths of the largest tilt.
    """
    rate = -math.log(ratio)
    # 1.7 is above -ln(1 - 0.9²) = 1.66, the cumulant for each unit of r at that tilt for small ε,
    # where it is largest.
    return math.ceil((100.0 + 1.7 * shape) / (0.9 * rate)) + 8


__all__ = ["ContourNoise", "NoiseTable", "SumNoise", "rounded_ratio", "rounded_shape", "sum_noise"]
