"""Lower bounds for noisy sums: the real mechanism, with clamping, on one concrete dataset.

All users hold 0, and one changes from 0 to d. The sum of the clamped reports is computed by FFT
with a bound on its error, and compared on threshold events, which any adversary can observe
(docs/accounting.md, Proposition S9). If that is too large to compute, the unclamped sum less δ1 (1
+ e^E) is a lower bound (S6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.noise import SumNoise

LONGEST = 2**18
"""Most points of the FFT window."""

_MANY = 2000
"""Users from which on the power is taken where it keeps its digits."""

_LOST = 1e-20
"""Largest mass that may wrap around the window."""


@dataclass(frozen=True, slots=True)
class Clamped:
    """One user's clamped noise: pmf of N on -L..L, padding, and largest value.

    The mass beyond L is below 1e-30.
    """

    pmf: Floats
    padding: int
    max_value: int

    def report(self, value: int) -> tuple[int, Floats]:
        """Law of clamp(x + N, -c, k + c): its first point and its pmf."""
        reach = (len(self.pmf) - 1) // 2
        first = max(value - reach, -self.padding)
        last = min(value + reach, self.max_value + self.padding)
        left = first - (value - reach)
        right = last - (value - reach)
        law = self.pmf[left : right + 1].copy()
        law[0] += self.pmf[:left].sum()
        law[-1] += self.pmf[right + 1 :].sum()
        return first, law


@dataclass(frozen=True, slots=True)
class ClampedSum:
    """Sum of h clamped reports of 0, one of which can be changed."""

    user: Clamped
    points: int
    others: np.ndarray[tuple[int, ...], np.dtype[np.complex128]]
    error: float
    relative: float

    def law(self, value: int) -> Floats:
        """Pmf of the sum modulo `points`, index shifted by half a window, one user at `value`."""
        first, report = self.user.report(value)
        row = np.zeros(self.points)
        np.add.at(row, (first + np.arange(len(report))) % self.points, report)
        joint = np.fft.irfft(self.others * np.fft.rfft(row), self.points)
        return np.roll(np.maximum(joint, 0.0), self.points // 2)

    def events(self, distance: int) -> tuple[Floats, Floats]:
        """Probabilities of all threshold events on both datasets, in both orders."""
        # Both tails and both orders of the datasets: the true δ is at least what any single event
        # shows.
        near = self.law(0)
        far = self.law(distance)
        low = (np.cumsum(near), np.cumsum(far))
        high = (np.cumsum(far[::-1]), np.cumsum(near[::-1]))
        both = (np.cumsum(near[::-1]), np.cumsum(far[::-1])), (np.cumsum(far), np.cumsum(near))
        pairs = [low, high, *both]
        return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])

    def delta(self, distance: int, epsilon: float) -> float:
        """Largest P(S) - e^E P'(S) over the events, less the error; E total, nats.

        The result is never above the truth.
        """
        if epsilon > 700:
            return 0.0
        near, far = self.events(distance)
        growth = math.exp(epsilon)
        sure = near * (1.0 - self.relative) - growth * far * (1.0 + self.relative)
        return max(0.0, float(sure.max()) - self.error * (1.0 + growth))

    def epsilon(self, distance: int, delta: float) -> float:
        """Largest total E that some event proves necessary at δ. Never above the truth."""
        near, far = self.events(distance)
        near, far = near * (1.0 - self.relative), far * (1.0 + self.relative)
        top = near - self.error - delta
        good = top > 0
        if not good.any():
            return 0.0
        return max(0.0, float(np.log(top[good] / (far[good] + self.error)).max()) - 1e-9)


def clamped_sum(
    user: Clamped, honest: int, d_max: int, inexact: float, relative: float = 0.0
) -> ClampedSum | None:
    """Sum of `honest` reports of 0; None if its window or rounding error were too large.

    The pmf of one user is that of a law whose every probability is off by at most the factor 1 +
    `relative`, and by which `inexact` is lost in total variation.
    """
    first, report = user.report(0)
    support = first + np.arange(len(report), dtype=np.float64)
    wide = max(reach(report, support, honest, 1), reach(report, -support, honest, 1))
    width = 2 * (wide + d_max + len(user.pmf) + user.padding)
    points = 1 << max(4, math.ceil(math.log2(width)))
    if points > LONGEST:
        return None
    row = np.zeros(points)
    np.add.at(row, (first + np.arange(len(report))) % points, report)
    single = np.fft.rfft(row)
    others = single ** (honest - 1)
    # Each value of the transform errs by at most eta; the power multiplies that by h, and
    # Cauchy-Schwarz turns the 2-norm of the error of the pmf into one of its partial sums (Higham,
    # Theorem 24.2).
    eta = 16 * UNIT * math.log2(points)
    norm = math.sqrt(2 * float((np.abs(others) ** 2).sum()))
    power = (honest - 1) * eta * norm
    if honest > _MANY:
        others, power = _many(np.abs(single) + eta, support, report, honest - 1)
    error = power + 5 * eta * norm + 4 * _LOST + points * UNIT + honest * inexact
    # With a larger error the events show nothing at a small δ; the coupling of S6 then stands in.
    # A factor for every user is a factor for every event.
    return (
        ClampedSum(user, points, others, error, math.expm1(honest * relative))
        if error < 1e-3
        else None
    )


def _many(
    modulus: Floats, support: Floats, report: Floats, others: int
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.complex128]], float]:
    """Power of the transform, computed from its distance to 1, and a partial sum's error (S9)."""
    points = 2 * (modulus.size - 1)
    power = np.zeros(modulus.size, dtype=np.complex128)
    # Only low frequencies are left of so many users; what is not is below e^-45 everywhere.
    nodes = np.flatnonzero(others * np.log(np.minimum(modulus, 1.0)) > -45.0)
    middle = round(float(report @ support))
    errors = np.full(modulus.size, math.exp(-45.0))
    # All angles are multiples of 2π/points, and points is a power of 2: one table of them from -π
    # to π is enough.
    half = np.pi / points * (np.arange(points) - points // 2)
    versine = 2 * np.sin(half) ** 2
    sine = np.sin(2 * half)
    large = np.minimum(2 * np.abs(half), 2.0)
    offset = support.astype(np.int64) - middle
    for part in np.array_split(nodes, max(1, nodes.size * support.size // 2**20)):
        at = (np.outer(part, offset) + points // 2) & (points - 1)
        # 1 - e^-ix = 2 sin²(x/2) + i sin x.
        gap = versine[at] @ report + 1j * (sine[at] @ report)
        size = large[at] @ report
        turn = np.exp(-2j * np.pi * ((part * (middle * others % points)) % points) / points)
        power[part] = np.exp(others * np.log1p(-gap)) * turn
        # A term errs by a few roundings of its own size, and a logarithm's slope is at most 1/|φ|.
        errors[part] = np.abs(power[part]) * (
            32 * UNIT * (others * size / np.maximum(modulus[part], 0.1) + 8)
        )
    return power, math.sqrt(2 * float((errors**2).sum())) + UNIT


def reach(report: Floats, support: Floats, honest: int, sign: int) -> int:
    """Threshold T with P(sum > T) <= _LOST, by Chernoff's bound over a few tilts."""
    deviation = math.sqrt(max(float((report * support**2).sum()), 1e-12) * honest)
    best = math.inf
    for step in (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 8.0, 20.0, 60.0):
        tilt = step / deviation
        exponents = sign * tilt * support
        top = float(exponents.max())
        if top > 600:
            continue
        moment = math.log(float((report * np.exp(exponents - top)).sum())) + top
        best = min(best, (honest * moment - math.log(_LOST)) / tilt)
    return math.ceil(min(best, 1e12))


def attained_delta(
    exact: ClampedSum | None, noise: SumNoise, clamped: float, distance: int, epsilon: float
) -> float:
    """Lower bound of δ for one distance at total ε, by the exact sum or by coupling (S6, S9)."""
    low = float(noise.divergence(np.array([distance]), np.array([epsilon]))[1][0])
    lost = float(_clamping_cost(clamped, np.array(epsilon)))
    return max(0.0, low - lost, 0.0 if exact is None else exact.delta(distance, epsilon))


def attained_totals(
    exact: ClampedSum | None, noise: SumNoise, clamped: float, steps: list[int], delta: float
) -> list[float]:
    """Lower bounds of the total ε for some distances at δ > 0 (S6, S9).

    By coupling δ(E) >= HS_E - δ1 (1 + e^E). With E0 the root of HS = δ, E <= E0 for the root E of
    HS = δ + δ1 (1 + e^E0), and there δ(E) >= δ.
    """
    distance = np.array(steps, dtype=np.int64)
    # Never below E0, so that the goal is never too low.
    above, _ = noise.least(distance, delta, 0.0)
    goal = delta * (1.0 + 1e-9) + _clamping_cost(clamped, above)
    reachable = goal < 1.0
    low = np.where(reachable, noise.least(distance, np.where(reachable, goal, 0.5), 0.0)[1], 0.0)
    exactly = [0.0 if exact is None else exact.epsilon(step, delta) for step in steps]
    return [max(pair) for pair in zip(low.tolist(), exactly, strict=True)]


def _clamping_cost(clamped: float, epsilons: Floats) -> Floats:
    """δ1 (1 + e^E) at each total E >= 0, same shape, rounded up; at most about e^700."""
    if clamped == 0:
        return np.zeros_like(epsilons)
    # The product by the sum of the exponents: e^E alone may overflow.
    grown = np.exp(np.minimum(epsilons + math.log(clamped), 700.0))
    return (clamped + grown) * (1.0 + 1e-9)
