"""Law of a sum of discrete Laplace noises, each conditioned on staying within [-c, c].

P(N = j) is proportional to φ^|j| for |j| <= c, φ = exp(-rate). It is log-concave, and so is the sum
W_g of g such noises (docs/accounting.md, Proposition S6b). Laws of few noises are tabulated by
convolution; of many, probabilities come from the generating function by the sums of `contour`.
HS_E is the hockey-stick divergence at a total ε of E, in nats, between the sum and its shift by d.

With a = φe^s, b = φe^-s the tilted generating function of one noise is that of the whole discrete
Laplace law, (1 - φ²)/((1 - az)(1 - b/z)), times 1 - V, V = (a^(c+1) z^(c+1) (1 - b/z) + b^(c+1)
z^-(c+1) (1 - az))/(1 - φ²): the two tails that are cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import UNIT, up
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.primitives.contour import (
    Floats,
    LogValues,
    improve_guess,
    log_cdfs,
    log_pmfs,
    twice,
)
from shuffledp_privacy.primitives.pairs import TINY
from shuffledp_privacy.primitives.work import spend_work

LONGEST_SHORT_LAW = 4000.0
"""Most points of a law that is tabulated by convolution: all up to it take about 10 ms."""

FEW, LONGEST_OF_FEW = 8, 500_000.0
"""Of so few noises longer laws are tabulated: E may be next to the end of their tilts, where sums
have no digits, and calibration asks for many paddings.
"""

POINT_COST = 0.1
"""Work of a point of a tabulated law at one E, as `work` counts it."""

AT_ONCE = 500_000
"""Most points times E that are computed together."""

LARGEST_CUT = 0.9
"""Largest share V(1) of the tilted whole law that is cut off: beyond it digits of 1 - V would be
lost.
"""

LEAST_CHANCE = 1e-290
"""Least chance that counts where it is subtracted: smaller sums of products lose digits."""

_LOST = 100.0
"""-ln of the mass far below that is left out, and charged to `pairs.TINY`."""


@dataclass(frozen=True)
class TruncatedNoise:
    """One user's noise: `rate` nats per unit as a double, `padding` c, and the rate's error."""

    rate: float
    padding: int
    inexact: float

    @classmethod
    def of(cls, epsilon: Fraction, padding: int) -> TruncatedNoise:
        """The noise with rate `epsilon`, kept within [-padding, padding]."""
        rate = float(epsilon)
        return cls(rate, padding, up(float(abs(Fraction(rate) - epsilon))))

    def slack(self, count: Floats) -> Floats:
        """Largest |ln| of the true law of `count` noises over the law with the float rate."""
        # ln P(N = j) moves by at most |j| |Δrate| against its normalisation, which is a mean of
        # such terms.
        return np.asarray(count * up(self.padding * self.inexact), dtype=np.float64)

    def share_cut_off(self, tilt: Floats | float) -> Floats:
        """V(1) at tilt s: the share of the tilted untruncated law outside [-c, c]."""
        upper, lower = self.ends(np.asarray(tilt, dtype=np.float64))
        return upper + lower

    def ends(self, tilt: Floats) -> tuple[Floats, Floats]:
        """The two parts of V(1) at tilt s, upper tail first."""
        square = -math.expm1(-2 * self.rate)
        power = self.padding + 1
        upper = np.exp(power * (tilt - self.rate)) * -np.expm1(-tilt - self.rate) / square
        lower = np.exp(-power * (tilt + self.rate)) * -np.expm1(tilt - self.rate) / square
        return upper, lower

    @cached_property
    def widest_tilt(self) -> float:
        """Largest tilt at which at most `LARGEST_CUT` is cut off; 0 without one."""
        steepest = self.rate * (1 - 1e-3)
        if float(self.share_cut_off(0.0)) > LARGEST_CUT or steepest <= 0:
            return 0.0
        return bisect(
            lambda tilt: float(self.share_cut_off(tilt)) <= LARGEST_CUT,
            passing=0.0,
            failing=steepest,
            steps=40,
        )


@dataclass(frozen=True, slots=True)
class ShortLaws:
    """Laws of W_g on -gc..gc for some small g, each with its relative error."""

    laws: tuple[Floats, ...]
    errors: tuple[float, ...]

    @classmethod
    def of(cls, noise: TruncatedNoise, counts: Floats) -> ShortLaws | None:
        """Laws by convolution of positive terms; None if that takes too long."""
        width = 2 * noise.padding + 1
        most = float(counts.max(initial=0.0))
        if most * width > (LONGEST_OF_FEW if most <= FEW else LONGEST_SHORT_LAW):
            return None
        weights = np.exp(-noise.rate * np.abs(np.arange(-noise.padding, noise.padding + 1)))
        return cls.of_sums(
            weights,
            2 * UNIT * (noise.rate * noise.padding + 8),
            noise.slack(counts),
            counts,
            None if most * width <= LONGEST_SHORT_LAW else partial(_add_noise, noise),
        )

    @classmethod
    def of_sums(
        cls,
        weights: Floats,
        inexact: float,
        slack: Floats,
        counts: Floats,
        add: Callable[[Floats], Floats] | None = None,
    ) -> ShortLaws:
        """Laws of `counts` noises with these weights, inexact by 1 + `inexact` and e^`slack`.

        `add` convolves a law with the weights, up to their total, where it is quicker.
        """
        total = weights.sum()
        weights = weights / total
        wanted, found, law = set(counts.tolist()), {}, np.ones(1)
        for count in range(1, int(counts.max(initial=0.0)) + 1):
            law = np.convolve(law, weights) if add is None else add(law) / total
            if count in wanted:
                found[count] = law
        # Each noise brings the error of its weights, that of their total and of sums of so many
        # terms.
        error = inexact + 4 * UNIT * weights.size
        errors = tuple(
            math.expm1(error * m + s) for m, s in zip(counts.tolist(), slack.tolist(), strict=True)
        )
        return cls(tuple(found[int(m)] for m in counts.tolist()), errors)

    def divergence(self, index: int, distance: int, epsilon: Floats) -> Floats:
        """HS_E(W_g‖W_g+d) at each E >= 0, never below the truth."""
        law, error = (
            self.laws[index],
            self.errors[index] + UNIT * (np.max(epsilon, initial=0.0) + 8),
        )
        # The cap only avoids an overflow; δ falls with E.
        growth = np.exp(np.minimum(epsilon, 700.0))[:, None]
        moved = np.zeros_like(law)
        moved[distance:] = law[: max(law.size - distance, 0)]
        # Chances without all their digits are not subtracted.
        moved[moved < LEAST_CHANCE] = 0.0
        spend_work(POINT_COST * law.size * growth.size)
        rows = max(1, AT_ONCE // law.size)
        above = np.concatenate(
            [
                np.maximum(
                    law * (1 + error) - growth[start : start + rows] * (moved * (1 - error)), 0.0
                ).sum(axis=1)
                for start in range(0, max(1, growth.size), rows)
            ]
        )
        # `TINY` is for probabilities below the smallest double.
        return np.asarray(np.minimum(above * (1 + UNIT * law.size) + TINY, 1.0), dtype=np.float64)


def _add_noise(noise: TruncatedNoise, law: Floats) -> Floats:
    """Convolve a law with φ^|j|, |j| <= c, adding only positive terms.

    Σ_{j < 2m} φ^j law(y - j) is Σ_{j < m} and φ^m times the same m places on: by doublings each
    term is the product of at most log2 c powers of φ, and no sum has more roundings than a direct
    one of c terms.
    """
    size = law.size + 2 * noise.padding
    right, left = np.zeros(size), np.zeros(size)
    # With j >= 0 to the right, with j >= 1 to the left.
    right[noise.padding : noise.padding + law.size] = law
    left[noise.padding + 1 : noise.padding + law.size + 1] = law[::-1]
    both = _running(noise.rate, right, noise.padding + 1)
    both += math.exp(-noise.rate) * _running(noise.rate, left, noise.padding)[::-1]
    return both


def _running(rate: float, values: Floats, length: int) -> Floats:
    """Running sums Σ φ^j values(y - j) over 0 <= j < length, for every y."""
    spend_work(POINT_COST * values.size * length.bit_length())
    total, covered = np.zeros_like(values), 0
    block, size = values.copy(), 1
    while True:
        if length & size:
            total[covered:] += math.exp(-rate * covered) * block[: values.size - covered]
            covered += size
        if 2 * size > length:
            return total
        block[size:] += math.exp(-rate * size) * block[:-size].copy()
        size *= 2


@dataclass(frozen=True, slots=True)
class TruncatedLaw:
    """Law of W_g, a row for each g in `count`: a `TiltedLaw`, for |s| up to `noise.widest_tilt`."""

    noise: TruncatedNoise
    count: Floats

    @property
    def node_cost(self) -> float:
        """Work of one quadrature node: 6, because phases without cancellation take long."""
        return 6.0

    def rows(self, index: NDArray[np.intp]) -> TruncatedLaw:
        """The laws of the rows with these indices."""
        return TruncatedLaw(self.noise, self.count[index])

    def _times(self, tilt: Floats) -> Floats:
        # Rows of thresholds, or of thresholds times nodes.
        return self.count if tilt.ndim == 1 else self.count[:, None]

    def _odds(self, tilt: Floats) -> tuple[Floats, Floats]:
        """Odds a/(1-a) and b/(1-b), without cancellation."""
        rate = self.noise.rate
        return 1.0 / np.expm1(rate - tilt), 1.0 / np.expm1(rate + tilt)

    def saddle(self, threshold: Floats) -> Floats:
        """The tilt with about this mean: the untruncated law's, improved by Newton steps."""
        # Not to the end: what a sum leaves out is bounded from tilts beyond this one.
        rate, widest = self.noise.rate, 0.95 * self.noise.widest_tilt
        # The mean of the whole law, g sinh s/(cosh ε - cosh s), is a quadratic in e^s, which has
        # one root above 1.
        size = np.abs(threshold) / np.maximum(self.count, 1e-300)
        root = np.sqrt(1.0 + (size * math.sinh(rate)) ** 2)
        tilt = np.log((size * math.cosh(rate) + root) / (1.0 + size))
        sign = np.sign(threshold)
        tilt = sign * np.clip(tilt, 0.0, widest)
        for _ in range(3):
            step = (threshold - self.mean(tilt)) / np.maximum(self.variance(tilt), 1e-3)
            tilt = np.clip(tilt + np.clip(step, -0.3 * rate, 0.3 * rate), -widest, widest)
        return np.asarray(tilt, dtype=np.float64)

    def cumulant(self, tilt: Floats) -> Floats:
        """m [-ln(1 - sinh²(s/2)/sinh²(ε/2)) + ln((1 - V_s)/(1 - V_0))]."""
        inner = (np.sinh(0.5 * tilt) / math.sinh(0.5 * self.noise.rate)) ** 2
        rest = self.noise.share_cut_off(0.0)
        remaining = np.log1p((rest - self.noise.share_cut_off(tilt)) / (1.0 - rest))
        return np.asarray(self._times(tilt) * (remaining - np.log1p(-inner)), dtype=np.float64)

    def cumulant_error(self, tilt: Floats) -> Floats:
        """Roundings of both arguments of ln, magnified, of the powers in V, and of ε."""
        inner = (np.sinh(0.5 * tilt) / math.sinh(0.5 * self.noise.rate)) ** 2
        # V is least at tilt 0.
        cut = self.noise.share_cut_off(tilt)
        powers = 16.0 + 4.0 * (self.noise.padding + 1) * self.noise.rate
        size = inner * self.condition(tilt) + 2.0 * cut * powers / (1.0 - cut)
        return np.asarray(8 * UNIT * self._times(tilt) * size, dtype=np.float64)

    def condition(self, tilt: Floats) -> Floats:
        """Error growth of roundings of ε or s in 1 - a: (ε + |s|)/(ε - |s|) and 1, twice."""
        size = np.abs(tilt)
        return np.asarray(
            2.0 * (1.0 + (self.noise.rate + size) / (self.noise.rate - size)), dtype=np.float64
        )

    def mean(self, tilt: Floats) -> Floats:
        """Approximate derivative of `cumulant`."""
        up, down = self._odds(tilt)
        return np.asarray(self._times(tilt) * (up - down - self._bent(tilt)[0]), dtype=np.float64)

    def variance(self, tilt: Floats) -> Floats:
        """Approximate second derivative of `cumulant`."""
        up, down = self._odds(tilt)
        first, second = self._bent(tilt)
        return np.asarray(
            self._times(tilt)
            * np.maximum(up * (1 + up) + down * (1 + down) - second - first * first, 1e-12),
            dtype=np.float64,
        )

    def _bent(self, tilt: Floats) -> tuple[Floats, Floats]:
        """The ratios V'/(1 - V) and V''/(1 - V)."""
        up, down = self.noise.ends(tilt)
        power, (odds, below) = self.noise.padding + 1, self._odds(tilt)
        # b/(1 - b) and a/(1 - a) times the two ends are what the factors 1 - b, 1 - a contribute.
        first = up * (power + below) - down * (power + odds)
        second = up * (power**2 + (2 * power - 1) * below) + down * (
            power**2 + (2 * power - 1) * odds
        )
        remaining = np.maximum(1.0 - up - down, 1.0 - LARGEST_CUT)
        return first / remaining, second / remaining

    def room(self, tilt: Floats, sign: int) -> Floats:
        """Distance that s may move in the direction `sign` within |s| <= `widest_tilt`."""
        return self.noise.widest_tilt - sign * tilt

    def log_modulus(self, tilt: Floats, angle: Floats) -> Floats:
        """ln |G(e^{s+iθ})/G(e^s)|: that of untruncated noise, plus ln |1 - V(z)|/(1 - V(1)).

        It need not fall with θ: see `log_envelope`.
        """
        up, down = self._odds(tilt)
        chord = 4 * np.sin(0.5 * angle) ** 2
        unclamped = -0.5 * (np.log1p(up * (1 + up) * chord) + np.log1p(down * (1 + down) * chord))
        real, imaginary, _ = self._remaining_mass(tilt, angle)
        remaining = 0.5 * np.log1p(
            np.maximum(2 * real + real * real + imaginary * imaginary, -1.0 + 1e-300)
        )
        return np.asarray(self._times(tilt) * (unclamped + remaining), dtype=np.float64)

    def log_envelope(self, tilt: Floats, angle: Floats) -> Floats:
        """Upper bound of `log_modulus` that does not rise with θ on [0, π] (Proposition S6b)."""
        # |G|² is a sum of cos kθ with k <= 2c and positive weights: it falls up to π/(2c).
        edge = math.pi / (2 * max(self.noise.padding, 1))
        beyond = self._by_parts(tilt, np.maximum(angle, edge))
        return np.where(angle <= edge, np.maximum(self.log_modulus(tilt, angle), beyond), beyond)

    def _by_parts(self, tilt: Floats, angle: Floats) -> Floats:
        """Triangle inequality for the law and its two tails, which fall as |1 - az| rises."""
        up, down = self._odds(tilt)
        chord = 4 * np.sin(0.5 * angle) ** 2
        upper_factor, lower_factor = (
            1 / np.sqrt(1 + up * (1 + up) * chord),
            1 / np.sqrt(1 + down * (1 + down) * chord),
        )
        ends = self.noise.ends(tilt)
        bound = (upper_factor * lower_factor + ends[0] * upper_factor + ends[1] * lower_factor) / (
            1.0 - ends[0] - ends[1]
        )
        return np.asarray(self._times(tilt) * np.log(bound), dtype=np.float64)

    def phase(self, tilt: Floats, angle: Floats) -> tuple[Floats, Floats]:
        """Argument of the generating function, and the size of its parts."""
        up, down = self._odds(tilt)
        sine, versine = np.sin(angle), 2 * np.sin(0.5 * angle) ** 2
        rising, falling = (
            np.arctan2(up * sine, 1 + up * versine),
            np.arctan2(down * sine, 1 + down * versine),
        )
        real, imaginary, size = self._remaining_mass(tilt, angle)
        turn = np.arctan2(imaginary, 1 + real)
        times = self._times(tilt)
        return times * (rising - falling + turn), times * (rising + falling + size)

    def _remaining_mass(self, tilt: Floats, angle: Floats) -> tuple[Floats, Floats, Floats]:
        """Real and imaginary part of (V(1) - V(z))/(1 - V(1)), and a size for the roundings."""
        rate, power = self.noise.rate, self.noise.padding + 1
        square = -math.expm1(-2 * rate)
        up, down = np.exp(power * (tilt - rate)) / square, np.exp(-power * (tilt + rate)) / square
        above, below = np.exp(tilt - rate), np.exp(-tilt - rate)
        # 1 - e^(ix) = 2 sin²(x/2) - i sin x, for x = (c + 1) θ and c θ.
        far, near = 2 * np.sin(0.5 * power * angle) ** 2, 2 * np.sin(0.5 * (power - 1) * angle) ** 2
        far_sine, near_sine = np.sin(power * angle), np.sin((power - 1) * angle)
        real = up * (far - below * near) + down * (far - above * near)
        imaginary = -up * (far_sine - below * near_sine) + down * (far_sine - above * near_sine)
        remaining = 1.0 - self.noise.share_cut_off(tilt)
        size = (
            4.0
            * (2.0 + power * rate)
            * power
            * angle
            * (up + down)
            * (2.0 + above + below)
            / remaining
        )
        return real / remaining, imaginary / remaining, size


@dataclass(frozen=True, slots=True)
class TruncatedPair:
    """Pair (W_g, W_g + d), rows of (g, d): an `OrderedPair`."""

    law: TruncatedLaw
    distance: Floats
    floor: Floats

    @classmethod
    def of(cls, law: TruncatedLaw, distance: Floats) -> TruncatedPair:
        """The pairs for these distances, with the points below which e^-100 of the mass remains."""
        # Chernoff at some tilts; nothing is below -g c.
        reach = law.count * law.noise.padding + 1.0
        for share in (0.02, 0.1, 0.3, 0.6, 1.0):
            tilt = np.full_like(distance, share * law.noise.widest_tilt)
            reach = np.minimum(reach, np.ceil((_LOST + law.cumulant(tilt)) / tilt) + 1.0)
        return cls(law, distance, -reach)

    def rows(self, index: NDArray[np.intp]) -> TruncatedPair:
        """The pairs of the rows with these indices."""
        return TruncatedPair(self.law.rows(index), self.distance[index], self.floor[index])

    def count(self) -> int:
        """Number of rows."""
        return len(self.distance)

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(W <= t), ln P(W <= t - d)."""
        slack = self.law.noise.slack(self.law.count)
        near, far = log_cdfs(twice(self.law, self.count()), threshold, threshold - self.distance)
        return _wider(near, slack), _wider(far, slack)

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/P(t - d); infinite below the least resolved point."""
        inside = np.maximum(threshold, self.floor)
        near, far = log_pmfs(twice(self.law, self.count()), inside, inside - self.distance)
        slack, lost = 2 * self.law.noise.slack(self.law.count), threshold < self.floor
        low, high = near.low - far.high - slack, near.high - far.low + slack
        return LogValues(np.where(lost, np.inf, low), np.where(lost, np.inf, high))

    def guess(self, epsilon: Floats) -> Floats:
        """First guess of the threshold: midpoint of the tilted means at s = -E/d."""
        tilt = -np.minimum(epsilon / self.distance, 0.95 * self.law.noise.widest_tilt)
        start = self.law.mean(tilt) + 0.5 * self.distance
        laws = twice(self.law, self.count())
        shifts = (np.zeros_like(start), self.distance)
        return improve_guess(laws, shifts, start, epsilon, (self.floor, np.inf))

    def spread(self) -> Floats:
        """Standard deviation of W."""
        return np.asarray(
            np.sqrt(self.law.variance(np.zeros_like(self.distance))), dtype=np.float64
        )

    def shift(self) -> Floats:
        """Difference of the means, d."""
        return self.distance


def _wider(values: LogValues, slack: Floats) -> LogValues:
    return LogValues(values.low - slack, np.minimum(values.high + slack, 0.0))
