"""Sums of independently flipped bits, the output of rr-shuffle, by their generating function.

A zero bit becomes 1 with probability a = p/2, a one bit with probability 1 - a. p is rounded down:
less randomisation, of which the true one is a post-processing (docs/accounting.md, Proposition
S10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import (
    Floats,
    LogValues,
    improve_guess,
    log_cdf,
    log_cdfs,
    log_pmfs,
)

VAGUE = 1e-6
"""Width of a bracket of ln P(X <= t) from which the upper tail is asked as well."""


@dataclass(frozen=True, slots=True)
class BitSum:
    """Law of Bin(zeros, a) - Bin(ones, a), a row for each pair of counts; a `TiltedLaw`.

    0 < a <= 1/2, or one per row.

    It is the sum of all flipped bits minus the number of ones. Counted in this way, a trillion bits
    of which few are flipped have small phases and small products of tilt and threshold, which keeps
    precision.
    """

    zeros: Floats
    ones: Floats
    flip: Floats | float

    @property
    def node_cost(self) -> float:
        """Work of one quadrature node: 1, the unit for all laws."""
        return 1.0

    def rows(self, index: NDArray[np.intp]) -> BitSum:
        """The laws of the rows with these indices."""
        flip = self.flip if isinstance(self.flip, float) else self.flip[index]
        return BitSum(self.zeros[index], self.ones[index], flip)

    def and_rows(self, other: BitSum) -> BitSum:
        """Append the rows of another law; probabilities of a flip may differ by row."""
        laws = (self, other)
        flip: Floats | float = self.flip
        if not (isinstance(flip, float) and isinstance(other.flip, float) and flip == other.flip):
            flip = np.concatenate([np.broadcast_to(law.flip, law.zeros.shape) for law in laws])
        zeros = np.concatenate([law.zeros for law in laws])
        ones = np.concatenate([law.ones for law in laws])
        return BitSum(zeros, ones, flip)

    @property
    def total(self) -> Floats:
        """Number of bits."""
        return self.zeros + self.ones

    def saddle(self, threshold: Floats) -> Floats:
        """The tilt with the given mean, from the quadratic equation for e^s."""
        bits = self.zeros + self.ones
        product = self.flip * (1 - self.flip)
        # At the ends of the support the tilt would be infinite; any tilt is sound.
        inside = np.minimum(0.4, 0.4 * bits)
        inner = np.clip(threshold, inside - self.ones, self.zeros - inside)
        square = self.flip**2
        rest = (1 - self.flip) ** 2
        linear = (self.zeros - self.ones) * square - inner * (square + rest)
        leading = product * (self.zeros - inner)
        constant = product * (self.ones + inner)
        root = np.sqrt(linear * linear + 4 * leading * constant)
        large = np.abs(linear) + root
        small = np.maximum(2 * leading, 1e-300)
        # Of the two forms of the root the one without a difference of nearly equal numbers.
        weight = np.where(linear > 0, 2 * constant / large, large / small)
        return np.asarray(np.log(weight), dtype=np.float64)

    def _tilt_bits(self, tilt: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Tilted probabilities of a flip of a zero and of a one, each with its complement.

        Nothing cancels.
        """
        flip = _column(self.flip, tilt)
        up = flip * np.exp(tilt)
        down = flip * np.exp(-tilt)
        rest = 1 - flip
        return up / (rest + up), rest / (rest + up), down / (rest + down), rest / (rest + down)

    def _cumulants(self, tilt: Floats) -> tuple[Floats, Floats]:
        up = np.log1p(self.flip * np.expm1(tilt))
        down = np.log1p(self.flip * np.expm1(-tilt))
        return self.zeros * up, self.ones * down

    def cumulant(self, tilt: Floats) -> Floats:
        """Σ ln(1 + a (e^s - 1)) over zeros, and over ones with -s."""
        up, down = self._cumulants(tilt)
        return np.asarray(up + down, dtype=np.float64)

    def cumulant_error(self, tilt: Floats) -> Floats:
        """Bound on the error of `cumulant`, from a few roundings per argument and per sum."""
        up, down = self._cumulants(tilt)
        left = self.zeros * np.minimum(self.flip * np.abs(np.expm1(tilt)), 1.0)
        right = self.ones * np.minimum(self.flip * np.abs(np.expm1(-tilt)), 1.0)
        return np.asarray(
            UNIT * (16 * (left + right) + 4 * (np.abs(up) + np.abs(down))), dtype=np.float64
        )

    def condition(self, tilt: Floats) -> Floats:
        """Error growth of the tilt, 1: nothing cancels."""
        return np.ones_like(tilt)

    def mean(self, tilt: Floats) -> Floats:
        """Mean of the tilted law."""
        first, _, second, _ = self._tilt_bits(tilt)
        return self.zeros * first - self.ones * second

    def variance(self, tilt: Floats) -> Floats:
        """Sum of the tilted variances."""
        first, not_first, second, not_second = self._tilt_bits(tilt)
        return self.zeros * first * not_first + self.ones * second * not_second

    def room(self, tilt: Floats, sign: int) -> Floats:  # noqa: ARG002
        """Distance that the tilt may move, practically unlimited."""
        return np.full_like(tilt, 700.0)

    def log_modulus(self, tilt: Floats, angle: Floats) -> Floats:
        """Σ (1/2) ln(1 - 2 q (1 - q)(1 - cos θ)), q the tilted probability."""
        first, not_first, second, not_second = self._tilt_bits(tilt)
        chord = 4 * np.sin(0.5 * angle) ** 2
        zeros = _column(self.zeros, tilt)
        ones = _column(self.ones, tilt)
        with np.errstate(divide="ignore"):
            left = np.log1p(-np.minimum(first * not_first * chord, 1.0 - UNIT))
            right = np.log1p(-np.minimum(second * not_second * chord, 1.0 - UNIT))
        return np.asarray(0.5 * (zeros * left + ones * right), dtype=np.float64)

    def phase(self, tilt: Floats, angle: Floats) -> tuple[Floats, Floats]:
        """Σ arctan(q sin θ / (1 - q (1 - cos θ))) over zeros, less that over ones."""
        first, _, second, _ = self._tilt_bits(tilt)
        sine = np.sin(angle)
        versine = 2 * np.sin(0.5 * angle) ** 2
        left = _column(self.zeros, tilt) * np.arctan2(first * sine, 1 - first * versine)
        right = _column(self.ones, tilt) * np.arctan2(second * sine, 1 - second * versine)
        return left - right, left + right


def _bit_cdfs(laws: BitSum, first: Floats, second: Floats) -> tuple[LogValues, LogValues]:
    """`log_cdfs`, by 1 - P(X >= t + 1) if a law near a point mass leaves no digits (S3)."""
    cdfs = log_cdfs(laws, first, second)
    low, high = (np.concatenate([getattr(cdf, side) for cdf in cdfs]) for side in ("low", "high"))
    rows = np.flatnonzero(high - low > VAGUE)
    if rows.size:
        unclear = laws.rows(rows)
        threshold = np.concatenate([first, second])[rows]
        # Of zeros and ones exchanged the law is that of -X.
        above = log_cdf(BitSum(unclear.ones, unclear.zeros, unclear.flip), -threshold - 1)
        with np.errstate(divide="ignore"):
            low[rows] = np.fmax(low[rows], np.log1p(-np.exp(np.minimum(above.high, 0.0))))
            high[rows] = np.fmin(high[rows], np.log1p(-np.exp(np.minimum(above.low, 0.0))) + UNIT)
        low[rows] -= 4 * UNIT
    half = len(first)
    return LogValues(low[:half], high[:half]), LogValues(low[half:], high[half:])


def _column(values: Floats | float, tilt: Floats) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    return values[:, None] if tilt.ndim == 2 and values.ndim else values


@dataclass(frozen=True, slots=True)
class BitPair:
    """Pair (P, Q) of sums of bits: d bits are 0 under P and 1 under Q, the others are equal.

    An `OrderedPair` with rows.
    """

    zeros: Floats
    ones: Floats
    distance: Floats
    flip: float

    @property
    def _first(self) -> BitSum:
        return BitSum(self.zeros + self.distance, self.ones, self.flip)

    @property
    def _second(self) -> BitSum:
        return BitSum(self.zeros, self.ones + self.distance, self.flip)

    @property
    def _both(self) -> BitSum:
        return self._first.and_rows(self._second)

    @property
    def _bits(self) -> Floats:
        return self.zeros + self.ones + self.distance

    def rows(self, index: NDArray[np.intp]) -> BitPair:
        """The pairs of the rows with these indices."""
        return BitPair(self.zeros[index], self.ones[index], self.distance[index], self.flip)

    def count(self) -> int:
        """Number of rows."""
        return len(self.zeros)

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(Y <= t) and ln Q(Y <= t).

        Minus infinity below 0, zero from the number of bits on.
        """
        inside = np.clip(threshold, 0.0, self._bits - 1)
        first, second = _bit_cdfs(
            self._both, inside - self.ones, inside - self.ones - self.distance
        )
        return self._at(first, threshold), self._at(second, threshold)

    def _at(self, cdf: LogValues, threshold: Floats) -> LogValues:
        def replace(values: Floats) -> Floats:
            return np.where(threshold < 0, -np.inf, np.where(threshold >= self._bits, 0.0, values))

        return LogValues(replace(cdf.low), replace(cdf.high))

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/Q(t); +inf below 0, -inf above the number of bits."""
        inside = np.clip(threshold, 0.0, self._bits)
        near, far = log_pmfs(self._both, inside - self.ones, inside - self.ones - self.distance)

        def replace(values: Floats) -> Floats:
            return np.where(
                threshold < 0, np.inf, np.where(threshold > self._bits, -np.inf, values)
            )

        return LogValues(replace(near.low - far.high), replace(near.high - far.low))

    def guess(self, epsilon: Floats) -> Floats:
        """First guess of the threshold: midpoint of the means at the tilt that belongs to ε."""
        size = np.minimum(
            epsilon / self.distance, 0.999999 * np.log((1 - self.flip) / self.flip) + 1e-12
        )
        drop = np.exp(-size)
        below = np.maximum(1 - self.flip - self.flip * drop, 1e-300)
        weight = np.maximum(((1 - self.flip) * drop - self.flip) / below, 1e-12)
        tilt = np.log(weight)
        middle = 0.5 * (self._first.mean(tilt) + self._second.mean(tilt) + self.distance)
        start = np.clip(self.ones + middle, 0.0, self._bits)
        shifts = (self.ones, self.ones + self.distance)
        return improve_guess(self._both, shifts, start, epsilon, (0.0, self._bits))

    def spread(self) -> Floats:
        """Standard deviation of P."""
        return np.sqrt(self._bits * self.flip * (1 - self.flip))

    def shift(self) -> Floats:
        """d (1 - p)."""
        return self.distance * (1 - 2 * self.flip)


@dataclass(frozen=True, slots=True)
class OrderedSums:
    """Pair of sums of equally many flipped bits, in likelihood-ratio order.

    An `OrderedPair` with rows.
    """

    first: BitSum
    second: BitSum

    def rows(self, index: NDArray[np.intp]) -> OrderedSums:
        """The pairs of the rows with these indices."""
        return OrderedSums(self.first.rows(index), self.second.rows(index))

    def count(self) -> int:
        """Number of rows."""
        return len(self.first.zeros)

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(Y <= t) and ln Q(Y <= t).

        Minus infinity below 0, zero from the number of bits on.
        """
        inside = np.clip(threshold, 0.0, self.first.total - 1)
        cdfs = _bit_cdfs(
            self.first.and_rows(self.second), inside - self.first.ones, inside - self.second.ones
        )
        below, above = threshold < 0, threshold >= self.first.total

        def replace(values: Floats) -> Floats:
            return np.where(below, -np.inf, np.where(above, 0.0, values))

        near, far = (LogValues(replace(cdf.low), replace(cdf.high)) for cdf in cdfs)
        return near, far

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/Q(t); +inf below 0, -inf above the number of bits."""
        inside = np.clip(threshold, 0.0, self.first.total)
        near, far = log_pmfs(
            self.first.and_rows(self.second), inside - self.first.ones, inside - self.second.ones
        )

        def replace(values: Floats) -> Floats:
            return np.where(
                threshold < 0, np.inf, np.where(threshold > self.first.total, -np.inf, values)
            )

        return LogValues(replace(near.low - far.high), replace(near.high - far.low))

    def guess(self, epsilon: Floats) -> Floats:
        """First guess of the threshold: Gaussian laws with these means have the ratio e^E there."""
        middle = 0.5 * (self._mean(self.first) + self._mean(self.second))
        start = np.clip(
            middle - epsilon * self.spread() ** 2 / np.maximum(self.shift(), 1e-12),
            0.0,
            self.first.total,
        )
        laws = self.first.and_rows(self.second)
        shifts = (self.first.ones, self.second.ones)
        return improve_guess(laws, shifts, start, epsilon, (0.0, self.first.total))

    def spread(self) -> Floats:
        """Standard deviation of P."""
        return np.sqrt(self.first.variance(np.zeros_like(self.first.zeros)))

    def shift(self) -> Floats:
        """Difference of the means."""
        return self._mean(self.second) - self._mean(self.first)

    @staticmethod
    def _mean(law: BitSum) -> Floats:
        return law.ones + law.mean(np.zeros_like(law.ones))
