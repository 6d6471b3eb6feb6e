"""Hockey-stick divergence of two ordered laws on the integers that are known by generating functions.

P and Q must have a falling likelihood ratio P(y)/Q(y) (docs/accounting.md, Proposition S1: sums of independent
log-concave variables of which some are shifted upward). Then HS_E(P||Q) = max_t P(Y <= t) - e^E Q(Y <= t),
attained at the last t where the ratio is at least e^E. Everything is vectorised over rows (Proposition S4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shuffledp_accountant.numerics.primitives.contour import Floats, LogValues

TINY = 1e-40
"""Charged to every upper bound for the mass outside tabulated laws, which is below exp(-100)."""

_NEWTON_STEPS = 60
"""Newton steps at most; 5 to 10 are usual."""

_QUICK_STEPS = 12
"""Steps that may be taken on ln HS."""

_OVERSHOOTS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)
"""Relative enlargements of a solved ε that are tried, in turn, until its δ is verified from above."""


class OrderedPair(Protocol):
    """Rows of pairs (P, Q), P below Q in the likelihood-ratio order."""

    def rows(self, index: NDArray[np.intp]) -> OrderedPair:
        """The pairs of some rows."""

    def count(self) -> int:
        """Number of rows."""

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(Y <= t) and ln Q(Y <= t)."""

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/Q(t), bracketed; +inf below the support, -inf above it."""

    def guess(self, epsilon: Floats) -> Floats:
        """A threshold near the last one whose ratio is at least e^E; it need not be exact."""

    def spread(self) -> Floats:
        """Standard deviation of P, roughly."""

    def shift(self) -> Floats:
        """Difference of the means of Q and P, roughly."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """HS_E(P||Q) from both sides, and the slope information of the best threshold."""

    upper: Floats
    lower: Floats
    first: LogValues
    second: LogValues


def _last_at_least(pair: OrderedPair, epsilon: Floats) -> Floats:
    """The last integer whose computed log ratio is at least ε, by a bracket around the guess and bisection."""
    low = np.floor(pair.guess(epsilon))
    high = low + 1.0
    reach = 1.0
    for _ in range(64):
        too_high = pair.log_ratio(low).low < epsilon
        too_low = pair.log_ratio(high).low >= epsilon
        if not (too_high.any() or too_low.any()):
            break
        reach *= 2.0
        low, high = (
            np.where(too_high, low - reach, np.where(too_low, high, low)),
            np.where(too_low, high + reach, np.where(too_high, low, high)),
        )
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        holds = pair.log_ratio(middle).low >= epsilon
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low


def hockey_stick(pair: OrderedPair, epsilon: Floats) -> Divergence:
    """HS_E(P||Q) for each row, E >= 0 in nats (total), bracketed; shape (rows,).

    At the chosen threshold t the ratio may fall short of e^E by the factor e^-lack, and just above it exceed
    e^E by e^excess. The points in doubt change the sum by at most e^lack - 1 + excess of their mass, and all
    of them lie below t + R once the ratio there is certainly smaller than e^E; otherwise the whole mass 1 is
    charged. Source: docs/accounting.md, Proposition S4.
    """
    best = _last_at_least(pair, epsilon)
    first, second = pair.cdf(best)
    lack = np.clip(epsilon - pair.log_ratio(best).low, 0.0, 50.0)
    excess = np.clip(pair.log_ratio(best + 1.0).high - epsilon, 0.0, 1.0)
    error = np.expm1(lack) + excess
    beyond = best + 1.0 + np.ceil(pair.spread() / 64.0)
    clear = pair.log_ratio(beyond).high < epsilon
    mass = np.where(clear, np.exp(np.minimum(pair.cdf(beyond)[0].high, 0.0)), 1.0)
    with np.errstate(over="ignore"):
        upper = np.exp(first.high) - np.exp(np.minimum(epsilon + second.low, 700.0)) + error * mass + TINY
        lower = np.exp(first.low) - np.exp(np.minimum(epsilon + second.high, 700.0))
    upper = upper * (1.0 + 1e-14)
    return Divergence(np.clip(upper, 0.0, 1.0), np.clip(np.nan_to_num(lower, nan=0.0), 0.0, 1.0), first, second)


def least_epsilon(pair: OrderedPair, delta: Floats | float, clamped: Floats | float = 0.0) -> tuple[Floats, Floats]:
    """Smallest total E >= 0 with HS_E(P||Q) + c (1 + e^E) <= δ, per row: (certified, attained).

    Newton's method on a convex function of e^E, then a check from above; `clamped` is c, the probability that
    somebody's noise is cut. Certified is inf where no E is enough, and never below the truth; attained is the
    E below which the lower bound of HS exceeds δ (c plays no part in it), never above the truth.
    Source: docs/accounting.md, Propositions S4 and S6.
    """
    cut = np.broadcast_to(np.asarray(clamped, dtype=np.float64), (pair.count(),)).copy()
    goal = np.broadcast_to(np.asarray(delta, dtype=np.float64), cut.shape).copy()
    solved, attained = _newton(pair, goal, cut)
    certified = np.full(pair.count(), np.inf)
    open_rows = np.flatnonzero(np.isfinite(solved))
    for overshoot in _OVERSHOOTS:
        if not open_rows.size:
            break
        trial = solved[open_rows] * (1.0 + overshoot) + 1e-15
        upper = hockey_stick(pair.rows(open_rows), trial).upper
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.where(cut[open_rows] > 0, cut[open_rows] * (1.0 + np.exp(trial)) * (1.0 + 1e-12), 0.0)
        good = upper + grown <= goal[open_rows]
        certified[open_rows[good]] = trial[good]
        open_rows = open_rows[~good]
    return certified, attained


def _newton(pair: OrderedPair, delta: Floats, cut: Floats) -> tuple[Floats, Floats]:
    """The root of HS_E + c(1 + e^E) - δ from the left (inf: none), and the best lower bound of the c = 0 root.

    The root for c = 0 is on the left of the wanted one; it is found first, by Newton steps on ln HS, which is
    nearly quadratic in E, and then on HS.
    """
    slope = pair.shift() / np.maximum(pair.spread(), 1e-3)
    start = slope * (0.5 * slope + 0.85 * np.sqrt(-np.log(delta)))
    epsilon, attained = _solve(pair, delta, np.zeros_like(cut), start, logarithmic=True)
    if not (cut > 0).any():
        return epsilon, attained
    # At the wanted root, which is not below this one, clamping alone must leave something of δ.
    with np.errstate(over="ignore"):
        hopeless = cut * (1.0 + np.exp(epsilon)) > delta
    start = np.where(hopeless, np.inf, epsilon)
    return _solve(pair, delta, cut, start, logarithmic=False)[0], attained


def _solve(pair: OrderedPair, delta: Floats, cut: Floats, start: Floats, *, logarithmic: bool) -> tuple[Floats, Floats]:
    epsilon, attained = start.copy(), np.zeros_like(start)
    result = np.full_like(start, np.inf)
    active = np.flatnonzero(np.isfinite(start))
    for count in range(_NEWTON_STEPS):
        if not active.size:
            break
        now, goal = epsilon[active], delta[active]
        found = hockey_stick(pair.rows(active), now)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            gain = np.log(np.exp(found.first.low) - goal) - found.second.high
            top = np.exp(found.first.high) + cut[active] - goal
            bottom = np.exp(found.second.low) - cut[active]
            step = np.log(top) - np.log(bottom)
            excess = np.log(found.upper / goal)
            quick = now + excess * np.exp(np.log(found.upper) - now - found.second.low)
        attained[active] = np.maximum(attained[active], np.where(np.isfinite(gain), gain, 0.0))
        # A threshold with top <= 0 asks nothing of E = 0; one with bottom <= 0 < top can never be met.
        nowhere = (top > 0) & (bottom <= 0)
        step = np.where(top <= 0, 0.0, np.where(nowhere, np.inf, np.maximum(step, 0.0)))
        if logarithmic and count < _QUICK_STEPS:
            usable = (np.abs(excess) > 0.05) & np.isfinite(quick)
            step = np.where(usable, np.clip(quick, 0.5 * now, 2.0 * now + 0.1), step)
        # Nothing is gained below about the width of the bracket of HS itself.
        with np.errstate(over="ignore", invalid="ignore"):
            value = found.upper + np.where(cut[active] > 0, cut[active] * (1.0 + np.exp(now)), 0.0)
        resolved = np.abs(value - goal) <= 2.0 * (found.upper - found.lower)
        settled = nowhere | resolved | (np.abs(step - now) <= 1e-11 * step)
        step = np.where(resolved, now, step)
        result[active] = step
        epsilon[active] = np.where(nowhere, now, step)
        active = active[~settled]
    return result, attained
