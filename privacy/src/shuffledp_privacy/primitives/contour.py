"""Distribution functions of large integer sums from generating functions, with an error bound.

For a law on the integers with generating function G, a tilt s and N nodes θ_j = 2πj/N,
(1/N) Σ_j G(e^{s+iθ_j}) e^{-(s+iθ_j)t} equals Σ_l P(t + lN) e^{slN}: the target probability plus
terms that are positive and, for N large, negligible by Chernoff's bound. With s at the saddle point
no digits cancel, however deep in the tail t lies. Distribution functions have the further factor
1/(1 - e^{s+iθ}), s < 0. docs/accounting.md, Proposition S3. Everything is vectorised over rows; a
row is one law and one threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.work import spend_work

Floats: TypeAlias = NDArray[np.float64]

NEGLIGIBLE = 42.0
"""-ln of the largest alias or dropped node, relative to the sum's scale and to 1 in a deviation:
e^-42, 6e-19, enters
the error bound. A probability is about one in a deviation; of a law as wide as 1e9 points more must
be kept.
"""

_ROUNDING = 64.0
"""Rounding error of one term of the sum, in units of `UNIT`, besides that of its phase."""

_MAX_NODES = 60_000
"""Most entries of one (rows, nodes) block, unless a row alone has more: they stay in the cache."""

_PADDED = 2
"""Factor between the longest and the shortest row of a block, besides `_SHORT`."""

_SHORT = 200
"""Nodes for which a row is not worth a block of its own."""

_GUESSING_STEPS = 5
"""Most Newton steps of a guess; exact ratios take over from there."""

_LARGEST_SCALE = 3.0
"""Nats; of a law near a Gaussian the tilt at the pole has 2.6 at most."""

_MOST_HALVINGS = 40

CALL_COST = 10_000
"""Nodes that take as long as the fixed part of one call, about a millisecond."""

ROW_COST = 20
"""Nodes that take as long as a row's own tilt, period and node count."""


@runtime_checkable
class Enveloped(Protocol):
    """A `TiltedLaw` whose modulus has side lobes."""

    def log_envelope(self, tilt: Floats, angle: Floats) -> Floats:
        """Upper bound of `log_modulus` that does not rise with θ on [0, π]."""


class TiltedLaw(Protocol):
    """A law on the integers, or one per row, given by its generating function."""

    @property
    def node_cost(self) -> float:
        """Work of one quadrature node, in nodes of a sum of flipped bits."""

    def rows(self, index: NDArray[np.intp]) -> TiltedLaw:
        """The laws of the rows with these indices."""

    def saddle(self, threshold: Floats) -> Floats:
        """A tilt at which the mean is near the threshold; an approximation is enough."""

    def cumulant(self, tilt: Floats) -> Floats:
        """ln G(e^s)."""

    def cumulant_error(self, tilt: Floats) -> Floats:
        """A bound on the absolute rounding error of `cumulant`."""

    def condition(self, tilt: Floats) -> Floats:
        """Growth factor of rounding errors of the tilt in modulus and phase.

        At least 1.
        """

    def mean(self, tilt: Floats) -> Floats:
        """Mean of the tilted law."""

    def variance(self, tilt: Floats) -> Floats:
        """Variance of the tilted law."""

    def room(self, tilt: Floats, sign: int) -> Floats:
        """Distance that the tilt may move in the direction `sign` within its domain."""

    def log_modulus(self, tilt: Floats, angle: Floats) -> Floats:
        """ln |G(e^{s+iθ}) / G(e^s)|.

        If it may rise with θ on [0, π], the law has a `log_envelope` above it.
        """

    def phase(self, tilt: Floats, angle: Floats) -> tuple[Floats, Floats]:
        """Argument of G(e^{s+iθ}) / G(e^s), and the size of the parts that are subtracted."""


@dataclass(frozen=True, slots=True)
class LogValues:
    """Bracketed logarithms of positive numbers: `low` never above, `high` never below the truth."""

    low: Floats
    high: Floats


def log_cdf(law: TiltedLaw, threshold: Floats) -> LogValues:
    """ln P(X <= t) with an error bound, row by row. Source: docs/accounting.md, Proposition S3.

    Far above the mean, where Chernoff's bound leaves less than exp(-NEGLIGIBLE), it is 1 up to
    that.
    """
    tilt = law.saddle(threshold)
    middle = np.ceil(law.mean(np.zeros_like(tilt)))
    sure = (threshold > middle) & (tilt > 0) & (law.cumulant(tilt) - tilt * threshold < -NEGLIGIBLE)
    values = _evaluate(law, np.where(sure, middle, threshold), cumulative=True)
    # -1e-17 is below ln(1 - e^-42).
    return LogValues(
        np.where(sure, -1e-17, values.low), np.where(sure, 0.0, np.minimum(values.high, 0.0))
    )


def log_pmf(law: TiltedLaw, threshold: Floats) -> LogValues:
    """ln P(X = t) with an error bound, row by row. Source: docs/accounting.md, Proposition S3."""
    return _evaluate(law, threshold, cumulative=False)


def log_cdfs(laws: TiltedLaw, first: Floats, second: Floats) -> tuple[LogValues, LogValues]:
    """`log_cdf` of the first half of the rows at `first`, and of the second half at `second`."""
    return _halves(log_cdf(laws, np.concatenate([first, second])))


def log_pmfs(laws: TiltedLaw, first: Floats, second: Floats) -> tuple[LogValues, LogValues]:
    """`log_pmf` of the first half of the rows at `first`, and of the second half at `second`.

    A few rows take as long as one, because most of the cost is per call.
    """
    return _halves(log_pmf(laws, np.concatenate([first, second])))


def twice(law: TiltedLaw, rows: int) -> TiltedLaw:
    """A law with all rows repeated, to evaluate it at two thresholds in one call."""
    return law.rows(np.tile(np.arange(rows), 2))


def improve_guess(
    laws: TiltedLaw,
    shifts: tuple[Floats, Floats],
    start: Floats,
    epsilon: Floats,
    ends: tuple[Floats | float, Floats | float],
) -> Floats:
    """A threshold near the one whose log ratio is E, row by row: Newton's steps on approximations.

    Args:
        laws: P in the first half of the rows, Q in the second half.
        shifts: what is subtracted from a threshold for P and for Q.
        start: first guess, shape (rows,).
        epsilon: E, nats, same shape.
        ends: smallest and largest threshold.
    """
    guess = start
    half = len(guess)
    with np.errstate(all="ignore"):
        for _ in range(_GUESSING_STEPS):
            threshold = np.concatenate([guess - shifts[0], guess - shifts[1]])
            tilt = laws.saddle(threshold)
            spread = np.maximum(laws.variance(tilt), 0.1)
            # ln P(t) by the saddle-point approximation; its derivative is the tilt, negated.
            logs = laws.cumulant(tilt) - tilt * threshold - 0.5 * np.log(spread)
            excess = logs[:half] - logs[half:] - epsilon
            step = excess / np.maximum(tilt[:half] - tilt[half:], 1e-300)
            moved = np.clip(guess + step, *ends)
            moved = np.where(np.isfinite(moved), moved, guess)
            changed = np.abs(moved - guess) > 0.25
            guess = moved
            if not changed.any():
                break
    return guess


def _halves(both: LogValues) -> tuple[LogValues, LogValues]:
    half = both.low.size // 2
    return LogValues(both.low[:half], both.high[:half]), LogValues(
        both.low[half:], both.high[half:]
    )


def _evaluate(law: TiltedLaw, threshold: Floats, *, cumulative: bool) -> LogValues:
    tilt = law.saddle(threshold)
    deviation = np.sqrt(law.variance(tilt))
    if cumulative:
        # Far above the mean the tilt must be so small that e^{-st} stays near 1: the value is.
        rest = np.zeros_like(tilt)
        reach = np.maximum(np.maximum(deviation, 0.05), threshold - law.mean(rest))
        limit = np.minimum(1.5 / reach, 0.5 * law.room(rest, -1))
        tilt = _near_pole(law, threshold, np.minimum(tilt, -limit))
    scale = law.cumulant(tilt) - tilt * threshold
    lost = NEGLIGIBLE + np.log(np.maximum(np.sqrt(law.variance(tilt)), 1.0))
    period = _period(law, threshold, tilt, scale, lost, cumulative=cumulative)
    nodes = _node_counts(law, tilt, period, lost)
    spend_work(CALL_COST + ROW_COST * len(nodes) + law.node_cost * float(nodes.sum()))
    value = np.empty_like(threshold)
    error = np.empty_like(threshold)
    # Rows of like size share a block: each is padded to the longest row in it.
    order = np.argsort(nodes, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        longest = min(_MAX_NODES, _PADDED * nodes[order[start]] + _SHORT)
        while stop < len(order) and nodes[order[stop]] <= min(
            longest, _MAX_NODES / (stop - start + 1)
        ):
            stop += 1
        part = order[start:stop]
        numbers = (threshold[part], tilt[part], period[part], nodes[part], lost[part])
        value[part], error[part] = _sum(law.rows(part), *numbers, cumulative=cumulative)
        start = stop
    # In logarithms, because the scale may be e^-1000 and the sum keeps its relative accuracy there.
    total = np.log(np.maximum(value, 1e-300)) + scale
    relative = error / np.maximum(value, 1e-300)
    rounding = 8 * UNIT * (np.abs(scale) + np.abs(tilt * threshold) + 1) + law.cumulant_error(tilt)
    safe = np.where(relative < 0.5, 2 * relative, np.inf)  # |ln(1 + x)| <= 2 |x| for |x| <= 1/2
    return LogValues(total - safe - rounding, total + safe + rounding)


def _near_pole(law: TiltedLaw, threshold: Floats, tilt: Floats) -> Floats:
    """Halve tilts below 0 until e^{K(s) - st} is at most `_LARGEST_SCALE` nats.

    Of a law with nearly all its mass in one point, a tilt by its deviation would move the mean far
    beyond the threshold. Any tilt below 0 is sound.
    """
    for _ in range(_MOST_HALVINGS):
        far = law.cumulant(tilt) - tilt * threshold > _LARGEST_SCALE
        if not far.any():
            break
        tilt = np.where(far, 0.5 * tilt, tilt)
    return tilt


def _period(
    law: TiltedLaw,
    threshold: Floats,
    tilt: Floats,
    scale: Floats,
    lost: Floats,
    *,
    cumulative: bool,
) -> Floats:
    """Odd period N at which each alias is below exp(-lost) of exp(scale)."""
    deviation = np.maximum(np.sqrt(law.variance(tilt)), 1e-3)
    sides = [_reach(law, threshold, tilt, deviation, 0.95 * law.room(tilt, -1), -1, lost)]
    if cumulative:
        # P(Y <= t + N) is at most 1, and at most Chernoff's bound as long as the tilt stays below
        # 0.
        flat = (lost - np.minimum(scale, 0.0)) / -tilt
        sides.append(
            np.minimum(flat, _reach(law, threshold, tilt, deviation, -0.95 * tilt, 1, lost))
        )
    else:
        sides.append(_reach(law, threshold, tilt, deviation, 0.95 * law.room(tilt, 1), 1, lost))
    longest = np.maximum.reduce([*sides, np.full_like(tilt, 2.0)])
    return np.asarray(2 * np.ceil(longest / 2) + 1, dtype=np.float64)


def _reach(
    law: TiltedLaw,
    threshold: Floats,
    tilt: Floats,
    deviation: Floats,
    room: Floats,
    sign: int,
    lost: Floats,
) -> Floats:
    """Distance from the threshold t beyond which probabilities are below exp(-lost) e^(K(s) - st).

    By Chernoff's bound at the tilts s + sign*u: the least distance over four u, each at most
    `room`.
    """
    best = np.full_like(tilt, np.inf)
    # In deviations for laws near a Gaussian, absolute for laws that hardly leave one point.
    start = law.cumulant(tilt)
    for move in (
        3.0 / deviation,
        8.0 / deviation,
        np.full_like(tilt, 1.0),
        np.full_like(tilt, 5.0),
    ):
        move = np.minimum(move, np.minimum(room, 30.0))  # noqa: PLW2901
        growth = law.cumulant(tilt + sign * move) - start - sign * move * threshold
        best = np.minimum(best, (lost + np.maximum(growth, 0.0)) / move)
    return best


def _node_counts(law: TiltedLaw, tilt: Floats, period: Floats, lost: Floats) -> Floats:
    """Number of quadrature nodes on one side with a modulus above exp(-lost)."""
    high = np.minimum(9.3 / np.maximum(np.sqrt(law.variance(tilt)), 1e-3), np.pi)
    modulus = law.log_envelope if isinstance(law, Enveloped) else law.log_modulus
    for _ in range(64):
        above = (modulus(tilt[:, None], high[:, None])[:, 0] > -lost) & (high < np.pi)
        if not above.any():
            break
        high = np.where(above, np.minimum(1.25 * high, np.pi), high)
    return np.asarray(
        np.minimum(np.ceil(high * period / (2 * np.pi)) + 1, (period - 1) / 2), dtype=np.float64
    )


def _sum(
    law: TiltedLaw,
    threshold: Floats,
    tilt: Floats,
    period: Floats,
    nodes: Floats,
    lost: Floats,
    *,
    cumulative: bool,
) -> tuple[Floats, Floats]:
    """The trapezoidal sum divided by exp(scale), and its absolute error."""
    column = tilt[:, None]
    counter = np.arange(int(nodes.max()) + 1, dtype=np.float64)[None, :]
    active = counter <= nodes[:, None]
    angle = np.where(active, 2 * np.pi * counter / period[:, None], 0.0)
    phase, size = law.phase(column, angle)
    shift = threshold[:, None] * angle
    weight = np.where(active, np.exp(law.log_modulus(column, angle)), 0.0)
    weight[:, 1:] *= 2.0  # for the nodes at -θ, complex conjugates; N is odd, so that none is at π
    condition = law.condition(tilt)[:, None]
    slack = UNIT * condition * (_ROUNDING + 8 * (size + np.abs(shift)) + 16 * lost[:, None])
    turn = phase - shift
    term = weight * np.cos(turn)  # real parts throughout: what is left of two complex conjugates
    if cumulative:
        # 1 - e^(s+iθ) without cancellation at small tilts, where the pole is near: both summands
        # are positive.
        real = 2 * np.exp(column) * np.sin(0.5 * angle) ** 2 - np.expm1(column)
        imaginary = -np.exp(column) * np.sin(angle)
        square = real * real + imaginary * imaginary
        term = (term * real + weight * np.sin(turn) * imaginary) / square
        weight = weight / np.sqrt(square)
    error = (weight * slack).sum(axis=1) / period
    left_out = 4 * np.exp(-lost) * (1.0 if not cumulative else 1.0 / -np.expm1(tilt))
    return term.sum(axis=1) / period, error + left_out
