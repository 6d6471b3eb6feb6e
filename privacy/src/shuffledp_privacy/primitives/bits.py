"""Sums of independently flipped bits, the output of rr-shuffle, by their generating function.

A zero bit becomes 1 with probability a = p/2, a one bit with probability 1 - a. p is rounded down: less
randomisation, of which the true one is a post-processing (docs/accounting.md, Proposition S10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.primitives.contour import UNIT, Floats, LogValues, log_cdf, log_pmf


@dataclass(frozen=True, slots=True)
class BitSum:
    """Law of Bin(zeros, a) - Bin(ones, a), a row for each pair of counts; a `TiltedLaw`. 0 < a <= 1/2.

    It is the sum of all flipped bits less the number of ones: counted so, a trillion bits of which few are flipped have
    small phases, small tilts times thresholds, and keep their digits.
    """

    zeros: Floats
    ones: Floats
    flip: float

    def rows(self, index: NDArray[np.intp]) -> BitSum:
        """The laws of some rows."""
        return BitSum(self.zeros[index], self.ones[index], self.flip)

    def saddle(self, threshold: Floats) -> Floats:
        """The tilt with the given mean, from the quadratic equation for e^s."""
        bits, product = self.zeros + self.ones, self.flip * (1 - self.flip)
        # At the ends of the support the tilt would be infinite; any tilt is sound.
        inside = np.minimum(0.4, 0.4 * bits)
        wanted = np.clip(threshold, inside - self.ones, self.zeros - inside)
        square, rest = self.flip**2, (1 - self.flip) ** 2
        linear = (self.zeros - self.ones) * square - wanted * (square + rest)
        leading, constant = product * (self.zeros - wanted), product * (self.ones + wanted)
        root = np.sqrt(linear * linear + 4 * leading * constant)
        large, small = np.abs(linear) + root, np.maximum(2 * leading, 1e-300)
        # Of the two forms of the root the one without a difference of nearly equal numbers.
        weight = np.where(linear > 0, 2 * constant / large, large / small)
        return np.asarray(np.log(weight), dtype=np.float64)

    def _tilted(self, tilt: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Tilted probabilities that a zero and a one bit are flipped, each with its complement; nothing cancels."""
        up, down, rest = self.flip * np.exp(tilt), self.flip * np.exp(-tilt), 1 - self.flip
        return up / (rest + up), rest / (rest + up), down / (rest + down), rest / (rest + down)

    def _cumulants(self, tilt: Floats) -> tuple[Floats, Floats]:
        up, down = np.log1p(self.flip * np.expm1(tilt)), np.log1p(self.flip * np.expm1(-tilt))
        return self.zeros * up, self.ones * down

    def cumulant(self, tilt: Floats) -> Floats:
        """Σ ln(1 + a (e^s - 1)) over zeros, and over ones with -s."""
        up, down = self._cumulants(tilt)
        return np.asarray(up + down, dtype=np.float64)

    def cumulant_error(self, tilt: Floats) -> Floats:
        """Bound from a few roundings of each bit's argument, and of each of the two sums."""
        up, down = self._cumulants(tilt)
        left = self.zeros * np.minimum(self.flip * np.abs(np.expm1(tilt)), 1.0)
        right = self.ones * np.minimum(self.flip * np.abs(np.expm1(-tilt)), 1.0)
        return np.asarray(UNIT * (16 * (left + right) + 4 * (np.abs(up) + np.abs(down))), dtype=np.float64)

    def condition(self, tilt: Floats) -> Floats:
        """1: nothing cancels."""
        return np.ones_like(tilt)

    def mean(self, tilt: Floats) -> Floats:
        """Mean of the tilted law."""
        first, _, second, _ = self._tilted(tilt)
        return self.zeros * first - self.ones * second

    def variance(self, tilt: Floats) -> Floats:
        """Sum of the tilted variances."""
        first, not_first, second, not_second = self._tilted(tilt)
        return self.zeros * first * not_first + self.ones * second * not_second

    def room(self, tilt: Floats, sign: int) -> Floats:  # noqa: ARG002
        """Any tilt is allowed."""
        return np.full_like(tilt, 700.0)

    def log_modulus(self, tilt: Floats, angle: Floats) -> Floats:
        """Σ (1/2) ln(1 - 2 q (1 - q)(1 - cos θ)), q the tilted probability."""
        first, not_first, second, not_second = self._tilted(tilt)
        chord = 4 * np.sin(0.5 * angle) ** 2
        zeros, ones = _column(self.zeros, tilt), _column(self.ones, tilt)
        with np.errstate(divide="ignore"):
            left = np.log1p(-np.minimum(first * not_first * chord, 1.0 - 2.0**-53))
            right = np.log1p(-np.minimum(second * not_second * chord, 1.0 - 2.0**-53))
        return np.asarray(0.5 * (zeros * left + ones * right), dtype=np.float64)

    def phase(self, tilt: Floats, angle: Floats) -> tuple[Floats, Floats]:
        """Σ arctan(q sin θ / (1 - q (1 - cos θ))) over zeros, less that over ones."""
        first, _, second, _ = self._tilted(tilt)
        sine, versine = np.sin(angle), 2 * np.sin(0.5 * angle) ** 2
        left = _column(self.zeros, tilt) * np.arctan2(first * sine, 1 - first * versine)
        right = _column(self.ones, tilt) * np.arctan2(second * sine, 1 - second * versine)
        return left - right, left + right


def _column(counts: Floats, tilt: Floats) -> Floats:
    return counts[:, None] if tilt.ndim == 2 else counts


@dataclass(frozen=True, slots=True)
class BitPair:
    """Pair of laws with d bits that are 0 under P and 1 under Q, besides equal ones; an `OrderedPair` with rows."""

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
    def _bits(self) -> Floats:
        return self.zeros + self.ones + self.distance

    def rows(self, index: NDArray[np.intp]) -> BitPair:
        """The pairs of some rows."""
        return BitPair(self.zeros[index], self.ones[index], self.distance[index], self.flip)

    def count(self) -> int:
        """Number of rows."""
        return len(self.zeros)

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(Y <= t) and ln Q(Y <= t); minus infinity below 0, zero from the number of bits on."""
        inside = np.clip(threshold, 0.0, self._bits - 1)
        first = log_cdf(self._first, inside - self.ones)
        second = log_cdf(self._second, inside - self.ones - self.distance)
        return self._at(first, threshold), self._at(second, threshold)

    def _at(self, found: LogValues, threshold: Floats) -> LogValues:
        def replace(values: Floats) -> Floats:
            return np.where(threshold < 0, -np.inf, np.where(threshold >= self._bits, 0.0, values))

        return LogValues(replace(found.low), replace(found.high))

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/Q(t); +inf below 0, -inf above the number of bits."""
        inside = np.clip(threshold, 0.0, self._bits)
        near = log_pmf(self._first, inside - self.ones)
        far = log_pmf(self._second, inside - self.ones - self.distance)

        def replace(values: Floats) -> Floats:
            return np.where(threshold < 0, np.inf, np.where(threshold > self._bits, -np.inf, values))

        return LogValues(replace(near.low - far.high), replace(near.high - far.low))

    def guess(self, epsilon: Floats) -> Floats:
        """Midpoint of the tilted means where the generating functions differ by e^-E."""
        size = np.minimum(epsilon / self.distance, 0.999999 * np.log((1 - self.flip) / self.flip) + 1e-12)
        drop = np.exp(-size)
        below = np.maximum(1 - self.flip - self.flip * drop, 1e-300)
        weight = np.maximum(((1 - self.flip) * drop - self.flip) / below, 1e-12)
        tilt = np.log(weight)
        middle = 0.5 * (self._first.mean(tilt) + self._second.mean(tilt) + self.distance)
        return np.clip(self.ones + middle, 0.0, self._bits)

    def spread(self) -> Floats:
        """Standard deviation of P."""
        return np.sqrt(self._bits * self.flip * (1 - self.flip))

    def shift(self) -> Floats:
        """d (1 - p)."""
        return self.distance * (1 - 2 * self.flip)
