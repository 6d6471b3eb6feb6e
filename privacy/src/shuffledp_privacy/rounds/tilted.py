"""Convolution of privacy loss distributions under an exponential tilt, precise at any δ. Pure.

A Fourier transform errs by about 1e-16 of the largest entries. Untilted, that error is absolute in
δ, grows with the number of rounds, and hides every δ below it. Here the laws are first multiplied
by e^(θ loss), θ such that the tilted sum is centred where δ is read: there the error is relative to
Chernoff's bound of δ (docs/accounting.md, C4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import ELEMENTARY, UNIT, down, up
from shuffledp_privacy.numerics.search import bisect_magnitude

NEGLIGIBLE = 42.0
"""-ln of the largest tilted mass outside the window on each side."""

LARGEST_EXPONENT = 300.0
"""Largest θ times the largest loss of one round: keeps every power within a double's range."""

RAISED = 2.0**-42
"""Relative outward margin on each tilted mass: its exponent has up to about 2 * `LARGEST_EXPONENT`
units of error.
"""

SUMMED = 1e-8
"""Relative outward margin for sums of up to 2^24 positive terms."""

STEP = 1e-10
"""Relative step by which an ε is moved up for the rounding of the two ways in which its δ is
computed.
"""

TRIES = 4
"""Most tilts tried for one ε; the first is nearly always good enough."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LossLaw:
    """Privacy loss distribution of one round on multiples of the grid's gap, with its repetitions.

    Attributes:
        nodes: multiples, ascending.
        masses: P-mass at each, above 0; in all at most 1 and a little.
        infinity: P-mass of infinite loss.
        times: runs, at least 1.
    """

    nodes: NDArray[np.int64]
    masses: Floats
    infinity: float
    times: int


@dataclass(frozen=True, slots=True)
class _Moments:
    """Logarithm of the composed moment generating function at θ, with its mean and variance.

    Also ln M of each law.
    """

    log: float
    mean: float
    variance: float
    by_law: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Tail:
    """Composed law on a window of the grid, without the tilt, and the error of its δ.

    Attributes:
        first: the window's first multiple.
        gap: grid step, nats.
        theta: the tilt, >= 0.
        masses: P-mass at each multiple, never below the truth but for `slack`.
        slack: error of δ by the transform's rounding, per unit of the weight e^(K - θε).
        weights: that weight at each multiple.
        constant: mass above the window and of infinite losses.
    """

    first: int
    gap: float
    theta: float
    masses: Floats
    slack: float
    weights: Floats
    constant: float

    @property
    def losses(self) -> Floats:
        return self.gap * (self.first + np.arange(self.masses.size, dtype=np.float64))

    def delta(self, epsilon: float, log_moment: float) -> float:
        """Upper bound of δ at ε; 1 below the window of a tilted law."""
        losses = self.losses
        # Below the window of a tilted law the masses are not there, however large they are untilted
        # (C4).
        if self.theta > 0 and epsilon < losses[0]:
            return 1.0
        # ε moved down, every loss up: their rounding can only raise δ.
        shown = -np.expm1(
            np.minimum(down(epsilon) - losses * (1 + ELEMENTARY * UNIT * np.sign(losses)), 0.0)
        )
        rounding = self.slack * math.exp(min(log_moment - self.theta * epsilon, 700.0))
        return min(1.0, float(self.masses @ shown) * (1 + SUMMED) + rounding + self.constant)

    def epsilon(self, delta: float) -> tuple[float, bool]:
        """Approximate least ε with δ(ε) <= delta, and True if the tilt is suitable for it.

        `math.inf` where there is none.
        """
        # At a multiple i: Σ_{j>i} w_j (1 - e^-(j-i)g) = (1 - e^-g) Σ_{l>i} S_l, S_l = Σ_{j>=l} w_j
        # e^-(j-m)g.
        above = np.append(_discount(self.masses, self.gap)[1:], 0.0)
        curve = np.cumsum(above[::-1])[::-1] * (-math.expm1(-self.gap) * (1 + SUMMED))
        lacking = self.slack * self.weights + self.constant
        good = np.flatnonzero(curve + lacking <= delta)
        if not good.size:
            return math.inf, False
        right = int(good[0])
        if right == 0:
            return self.gap * self.first, False
        # Between two multiples no mass lies: there δ is linear in e^ε.
        left = right - 1
        fall = float(curve[left] - curve[right])
        part = (float(curve[left] + lacking[left]) - delta) / fall if fall > 0 else 1.0
        inside = math.log1p(min(part, 1.0) * math.expm1(self.gap))
        return self.gap * (self.first + left) + inside, bool(
            lacking[left] - self.constant <= 1e-3 * delta
        )


@dataclass(frozen=True, slots=True)
class Composed:
    """Composition of several rounds' losses.

    No δ read from it is below that of the pairs they came from.

    Attributes:
        laws: at least one.
        gap: grid step, nats, common to all.
    """

    laws: tuple[LossLaw, ...]
    gap: float

    def delta(self, epsilon: float) -> float:
        """Upper bound of δ at ε (nats, >= 0), in [0, 1]."""
        if epsilon >= self._largest_loss:
            return self._infinite
        theta = self._centre_tilt(epsilon)
        moments = self._moments(theta)
        return self._tail(theta, moments).delta(epsilon, moments.log)

    def epsilon(self, delta: float) -> float:
        """Smallest ε with δ(ε) <= delta, rounded up; `math.inf` where there is none. Nats, >= 0."""
        goal = math.log(delta)
        # δ(ε) <= e^(K - θε) θ^θ/(1+θ)^(1+θ): the θ whose best ε has this bound at `delta`.
        theta = self._solve(
            lambda moments, theta: goal - moments.log + theta * moments.mean + math.log1p(theta)
        )
        # From the largest finite loss on only infinite ones count, whatever the transform's error
        # is.
        best = self._largest_loss if self._infinite <= delta else math.inf
        for _ in range(TRIES):
            moments = self._moments(theta)
            tail = self._tail(theta, moments)
            epsilon, suits = tail.epsilon(delta)
            if theta == 0 and tail.delta(0.0, moments.log) <= delta:
                return 0.0
            best = min(
                best,
                self._raise_until_seen(tail, moments.log, max(0.0, epsilon) * (1 + STEP), delta),
            )
            if suits or not math.isfinite(epsilon):
                break
            theta = self._centre_tilt(epsilon)
        return best

    def _centre_tilt(self, epsilon: float) -> float:
        """Tilt θ of the least Chernoff bound at this ε; the tilted mean is about 1/θ above ε."""
        return self._solve(
            lambda moments, theta: moments.mean - math.log1p(1 / max(theta, 1e-300)) - epsilon
        )

    @property
    def _largest_loss(self) -> float:
        """Largest finite loss, rounded up: from this ε on only infinite losses count."""
        highest = self.gap * sum(int(law.nodes[-1]) * law.times for law in self.laws)
        return max(0.0, up(highest))

    @property
    def _infinite(self) -> float:
        """P-mass of an infinite loss in some round, rounded up."""
        return min(1.0, up(math.fsum(law.times * law.infinity for law in self.laws)))

    @staticmethod
    def _raise_until_seen(tail: _Tail, log_moment: float, epsilon: float, delta: float) -> float:
        """Raise ε until its computed δ is at most `delta`."""
        step = STEP
        while math.isfinite(epsilon) and tail.delta(epsilon, log_moment) > delta:
            epsilon += step * (1 + epsilon)
            step *= 2
            if step > 1e3:
                return math.inf
        return epsilon

    def _moments(self, theta: float) -> _Moments:
        by_law: list[float] = []
        mean, variance = 0.0, 0.0
        for law in self.laws:
            losses = self.gap * law.nodes
            exponents = theta * losses + np.log(law.masses)
            # Taken out first: the steps of `_window` go beyond the largest tilt, where e^(θ loss)
            # may overflow.
            top = float(exponents.max())
            tilted = np.exp(exponents - top)
            total = float(tilted.sum())
            middle = float(tilted @ losses) / total
            by_law.append(top + math.log(total))
            mean += law.times * middle
            variance += law.times * float(tilted @ (losses - middle) ** 2) / total
        log = math.fsum(law.times * single for law, single in zip(self.laws, by_law, strict=True))
        return _Moments(log, mean, variance, tuple(by_law))

    def _solve(self, rising: Callable[[_Moments, float], float]) -> float:
        """Tilt θ, at most the largest allowed, at which a function of the moments changes sign.

        Any θ is sound.
        """
        if rising(self._moments(0.0), 0.0) >= 0:
            return 0.0
        largest = self._largest_tilt()
        negligible = 1e-12 * largest
        theta = bisect_magnitude(
            lambda theta: rising(self._moments(theta), theta) >= 0,
            largest,
            smallest=negligible,
            shrink=8,
        )
        return 0.0 if theta <= negligible else theta

    def _largest_tilt(self) -> float:
        farthest = max(int(np.abs(law.nodes[[0, -1]]).max()) for law in self.laws)
        return LARGEST_EXPONENT / (self.gap * max(1, farthest))

    def _window(self, theta: float, moments: _Moments) -> tuple[int, int, float]:
        """Window by Chernoff's bound: first and last multiple, and the untilted mass above it."""
        lowest = sum(int(law.nodes[0]) * law.times for law in self.laws)
        highest = sum(int(law.nodes[-1]) * law.times for law in self.laws)
        scale = (
            min(1 / math.sqrt(moments.variance), self._largest_tilt())
            if moments.variance > 0
            else 1.0
        )
        steps = [scale * 2.0**k for k in range(-2, 5)]
        up = [self._moments(theta + step).log for step in steps]
        down = [self._moments(theta - step).log for step in steps]
        reach = min(
            (log - moments.log + NEGLIGIBLE) / step for log, step in zip(up, steps, strict=True)
        )
        back = max(
            (moments.log - log - NEGLIGIBLE) / step for log, step in zip(down, steps, strict=True)
        )
        first = min(max(lowest, math.floor(back / self.gap)), highest)
        last = max(min(highest, math.ceil(reach / self.gap)), lowest, first)
        if last == highest:
            return first, last, 0.0
        above = min(
            log - (theta + step) * self.gap * last for log, step in zip(up, steps, strict=True)
        )
        return first, last, min(1.0, 1.01 * math.exp(min(above, 0.0)))

    def _tail(self, theta: float, moments: _Moments) -> _Tail:
        first, last, above = self._window(theta, moments)
        points = 1 << max(5, (last - first).bit_length())
        product = np.ones(points // 2 + 1, dtype=np.complex128)
        error = 0.0
        for law, log in zip(self.laws, moments.by_law, strict=True):
            tilted = law.masses * np.exp(theta * (self.gap * law.nodes) - log) * (1 + RAISED)
            # Wrapped around the circle: what lies outside the window is negligible under the tilt
            # (`NEGLIGIBLE`).
            folded = np.bincount(law.nodes % points, weights=tilted, minlength=points)
            product *= _power(np.fft.rfft(folded), law.times)
            error += (law.times + 8) * float(np.linalg.norm(folded))
        size = last - first + 1
        circle = np.maximum(np.fft.irfft(product, points), 0.0)
        window = circle[(first + np.arange(size)) % points]
        weights = np.exp(
            np.minimum(moments.log - theta * (self.gap * (first + np.arange(size))), 700.0)
        )
        # The slack is Cauchy and Schwarz on the transform's error, with (1 - e^-y) e^(-θy) <=
        # 1/(1+θ) (C4).
        return _Tail(
            first,
            self.gap,
            theta,
            window * weights,
            1.01 * 8 * UNIT * math.log2(points) * error * math.sqrt(points) / (1 + theta),
            weights,
            min(1.0, (self._infinite + above) * (1 + SUMMED) + 1e-300),
        )


def _power(transform: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Raise each entry to the power `times`.

    Those below e^-60 become 0: most of them, for many rounds.
    """
    result = np.zeros_like(transform)
    counts = np.abs(transform) > math.exp(-60 / times)
    result[counts] = transform[counts] ** times
    return result


def _discount(masses: Floats, gap: float) -> Floats:
    """Discounted sums S_l = Σ_{j>=l} w_j e^-(j-l)g for every l, in blocks that do not overflow."""
    block = max(1, int(LARGEST_EXPONENT / gap))
    result = np.empty_like(masses)
    carried = 0.0
    for stop in range(masses.size, 0, -block):
        start = max(0, stop - block)
        decay = np.exp(-gap * np.arange(stop - start, dtype=np.float64))
        result[start:stop] = np.cumsum((masses[start:stop] * decay)[::-1])[::-1] / decay
        # From the block's end on: e^-(stop - m)g of what was carried.
        result[start:stop] += carried * math.exp(-gap) * decay[::-1]
        carried = float(result[start])
    return result
