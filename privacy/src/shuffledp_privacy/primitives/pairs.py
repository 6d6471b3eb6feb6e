"""Hockey-stick divergence of two integer laws in likelihood-ratio order.

The laws are given by generating functions.

P and Q must have a falling likelihood ratio P(y)/Q(y) (docs/accounting.md, Proposition S1: sums of
independent log-concave variables of which some are shifted upward). Then HS_E(P||Q) = max_t P(Y <=
t) - e^E Q(Y <= t), attained at the last t where the ratio is at least e^E. Everything is vectorised
over rows (Proposition S4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.primitives.contour import Floats, LogValues
from shuffledp_privacy.primitives.work import spend_work

TINY = 1e-40
"""Added to every upper bound for the mass outside tabulated laws, which is below exp(-100)."""

STEP_COST = 2_000
"""Work of one step of a search for a threshold, in nodes of a contour sum, besides its ratios."""

_NEWTON_STEPS = 60
"""Most Newton steps; 5 to 10 are usual."""

_QUICK_STEPS = 12
"""Most steps on ln HS, before steps on HS itself."""

_UNNOTICED = 1e-9
"""Share of HS that points in doubt may add without a closer look at their mass."""

_OVERSHOOTS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)
"""Relative enlargements of a solved ε that are tried, in turn, until its δ is verified from above.
"""


class OrderedPair(Protocol):
    """Rows of pairs (P, Q) of laws, with P below Q in the likelihood-ratio order."""

    def rows(self, index: NDArray[np.intp]) -> OrderedPair:
        """The pairs of the rows with these indices."""

    def count(self) -> int:
        """Number of rows."""

    def cdf(self, threshold: Floats) -> tuple[LogValues, LogValues]:
        """ln P(Y <= t) and ln Q(Y <= t)."""

    def log_ratio(self, threshold: Floats) -> LogValues:
        """ln P(t)/Q(t), bracketed; +inf below the support, -inf above it."""

    def guess(self, epsilon: Floats) -> Floats:
        """A threshold near the last one with a ratio of at least e^E; need not be exact."""

    def spread(self) -> Floats:
        """Approximate standard deviation of P."""

    def shift(self) -> Floats:
        """Approximate difference of the means of Q and P."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Two-sided bounds of HS_E(P||Q), and ln P and ln Q at the best threshold, for the slope."""

    upper: Floats
    lower: Floats
    first: LogValues
    second: LogValues


@dataclass(frozen=True, slots=True)
class _Edge:
    """The last integer with a computed log ratio >= ε, and the ratios there and one above.

    The second ratio is that of the next integer.
    """

    last: Floats
    inside: LogValues
    outside: LogValues


class _Bracket:
    """Brackets low < high with log ratios, narrowed until low is the last with a ratio >= ε."""

    def __init__(self, pair: OrderedPair, epsilon: Floats) -> None:
        self.pair, self.epsilon = pair, epsilon
        # Of a wide law no smaller step would change the ratio.
        self.step = np.maximum(1.0, np.floor(pair.spread() / 256.0))
        self.low = np.floor(pair.guess(epsilon))
        self.high = self.low + 1.0
        rows = pair.count()
        self.at_low, self.at_high = (LogValues(np.empty(rows), np.empty(rows)) for _ in range(2))
        self._evaluate(np.arange(rows), np.arange(rows))

    def widen(self, steps: float) -> bool:
        """Move every row that lies on one side of its edge; return True if there was any."""
        too_high = self.at_low.low < self.epsilon
        moved = np.flatnonzero(too_high | (self.at_high.low >= self.epsilon))
        down, up = moved[too_high[moved]], moved[~too_high[moved]]
        self.high[down], self.low[up] = self.low[down], self.high[up]
        _copy(self.at_low, self.at_high, down)
        _copy(self.at_high, self.at_low, up)
        self.low[down] -= steps * self.step[down]
        self.high[up] += steps * self.step[up]
        self._evaluate(down, up)
        return bool(moved.size)

    def narrow(self, *, along: bool) -> bool:
        """Narrow every row that is wider than 1 and not settled; return True if any was.

        Half way, or `along` the line through its ends to a ratio that counts as known: the log
        ratio is nearly straight, so that this ends most searches; where it is not, a line may creep
        from one end.
        """
        wide = np.flatnonzero((self.high - self.low > 1.0) & ~self._resolve())
        if not wide.size:
            return False
        spend_work(STEP_COST)
        middle = self._on_line(wide) if along else self._half_way(wide)
        ratio = self.pair.rows(wide).log_ratio(middle)
        holds = ratio.low >= self.epsilon[wide]
        for ends, at, rows in ((self.low, self.at_low, holds), (self.high, self.at_high, ~holds)):
            ends[wide[rows]] = middle[rows]
            at.low[wide[rows]], at.high[wide[rows]] = ratio.low[rows], ratio.high[rows]
        return True

    def _half_way(self, wide: NDArray[np.intp]) -> Floats:
        return np.floor(0.5 * (self.low[wide] + self.high[wide]))

    def _on_line(self, wide: NDArray[np.intp]) -> Floats:
        low, high = self.low[wide], self.high[wide]
        inside, outside = self.at_low.low[wide], self.at_high.low[wide]
        with np.errstate(invalid="ignore", over="ignore"):
            aim = self.epsilon[wide] + 0.5 * (self.at_low.high[wide] - inside)
            line = np.floor(low + (high - low) * ((inside - aim) / (inside - outside)))
        return np.where(
            np.isfinite(line), np.clip(line, low + 1.0, high - 1.0), self._half_way(wide)
        )

    def edge(self) -> _Edge:
        """The edge of each row, once no row can be narrowed any more."""
        # The ratio falls: what holds at `low` from above holds at the next point, too.
        close = self.high - self.low > 1.0
        low = np.where(close, self.at_low.low, self.at_high.low)
        return _Edge(
            self.low,
            self.at_low,
            LogValues(low, np.where(close, self.at_low.high, self.at_high.high)),
        )

    def _resolve(self) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            above = self.at_low.high - self.epsilon
            width = self.at_low.high - self.at_low.low
            return np.asarray((self.at_low.low >= self.epsilon) & (above <= 2.0 * width))

    def _evaluate(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> None:
        """Evaluate the log ratios at the low ends of some rows and at the high ends of others."""
        rows = np.concatenate([low, high])
        if rows.size:
            spend_work(STEP_COST)
            ratios = self.pair.rows(rows).log_ratio(
                np.concatenate([self.low[low], self.high[high]])
            )
            for at, some, part in (
                (self.at_low, low, slice(0, low.size)),
                (self.at_high, high, slice(low.size, None)),
            ):
                at.low[some], at.high[some] = ratios.low[part], ratios.high[part]


def _copy(source: LogValues, target: LogValues, rows: NDArray[np.intp]) -> None:
    target.low[rows], target.high[rows] = source.low[rows], source.high[rows]


def _last_at_least(pair: OrderedPair, epsilon: Floats) -> _Edge:
    """Find the last integer with a log ratio of at least ε, by widening and narrowing a bracket."""
    bracket = _Bracket(pair, epsilon)
    for doubling in range(64):
        if not bracket.widen(2.0 ** (doubling + 1)):
            break
    along = True
    while bracket.narrow(along=along):
        along = not along
    return bracket.edge()


def _mass_in_doubt(
    pair: OrderedPair, epsilon: Floats, best: Floats, matters: NDArray[np.bool_]
) -> Floats:
    """Bound on the mass of doubtful points: P(Y <= t + R) if the ratio is below e^E, else 1."""
    mass = np.ones_like(best)
    rows = np.flatnonzero(matters)
    if rows.size:
        part = pair.rows(rows)
        beyond = best[rows] + 1.0 + np.ceil(part.spread() / 64.0)
        clear = part.log_ratio(beyond).high < epsilon[rows]
        mass[rows] = np.where(clear, np.exp(np.minimum(part.cdf(beyond)[0].high, 0.0)), 1.0)
    return mass


def hockey_stick(pair: OrderedPair, epsilon: Floats) -> Divergence:
    """Two-sided bounds of HS_E(P||Q) for each row, E >= 0 in nats (total); shape (rows,).

    At the chosen threshold t the ratio may fall short of e^E by the factor e^-lack, and just above
    it exceed e^E by e^excess. The points in doubt change the sum by at most e^lack - 1 + excess of
    their mass, and all of them lie below t + R once the ratio there is certainly smaller than e^E;
    otherwise the whole mass 1 is charged. Source: docs/accounting.md, Proposition S4.
    """
    edge = _last_at_least(pair, epsilon)
    first, second = pair.cdf(edge.last)
    lack = np.clip(epsilon - edge.inside.low, 0.0, 50.0)
    # S4 charges 1 - e^-η of the mass, which is at most η and at most 1.
    excess = np.clip(edge.outside.high - epsilon, 0.0, 1.0)
    error = np.expm1(lack) + excess
    with np.errstate(over="ignore"):
        # Any threshold gives a true lower bound; the upper one is charged below for a threshold
        # that is not the best. The cap at e^700 only avoids an overflow: what is subtracted exceeds
        # 1 by far in either case.
        upper = np.exp(first.high) - np.exp(np.minimum(epsilon + second.low, 700.0))
        lower = np.exp(first.low) - np.exp(np.minimum(epsilon + second.high, 700.0))
    upper += error * _mass_in_doubt(pair, epsilon, edge.last, error > _UNNOTICED * upper) + TINY
    upper = upper * (1.0 + 1e-14)
    return Divergence(
        np.clip(upper, 0.0, 1.0), np.clip(np.nan_to_num(lower, nan=0.0), 0.0, 1.0), first, second
    )


def least_epsilon(
    pair: OrderedPair, delta: Floats | float, clamped: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Smallest total E >= 0 with HS_E(P||Q) + c (1 + e^E) <= δ, per row: (certified, attained).

    Newton's method on a convex function of e^E, then a check from above; `clamped` is c, the
    probability that some user's noise is clamped. The certified E is inf if no E is enough, and
    never below the truth. The attained E is the one below which the lower bound of HS exceeds δ,
    without c; it is never above the truth. Source: docs/accounting.md, Propositions S4 and S6.
    """
    cut = np.broadcast_to(np.asarray(clamped, dtype=np.float64), (pair.count(),)).copy()
    goal = np.broadcast_to(np.asarray(delta, dtype=np.float64), cut.shape).copy()
    solved, attained = _newton(pair, goal, cut)
    certified = np.full(pair.count(), np.inf)
    open_rows = np.flatnonzero(np.isfinite(solved))
    # Newton only proposes: what is certified is an E whose upper bound was seen to be small enough.
    for overshoot in _OVERSHOOTS:
        if not open_rows.size:
            break
        # The last summand is for a root at 0, which has no relative enlargement.
        trial = solved[open_rows] * (1.0 + overshoot) + 1e-15
        upper = hockey_stick(pair.rows(open_rows), trial).upper
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.where(
                cut[open_rows] > 0, cut[open_rows] * (1.0 + np.exp(trial)) * (1.0 + 1e-12), 0.0
            )
        good = upper + grown <= goal[open_rows]
        certified[open_rows[good]] = trial[good]
        open_rows = open_rows[~good]
    return certified, attained


def _newton(pair: OrderedPair, delta: Floats, cut: Floats) -> tuple[Floats, Floats]:
    """Newton's root of HS_E + c(1 + e^E) - δ, and a lower bound of the root for c = 0.

    inf if there is no root.

    The root for c = 0 is on the left of the target one; it is found first, by Newton steps on ln
    HS, which is nearly quadratic in E, and then on HS.
    """
    slope = pair.shift() / np.maximum(pair.spread(), 1e-3)
    # About the root for a Gaussian pair of this shift.
    start = slope * (0.5 * slope + 0.85 * np.sqrt(-np.log(delta)))
    epsilon, attained = _solve(pair, delta, np.zeros_like(cut), start, logarithmic=True)
    if not (cut > 0).any():
        return epsilon, attained
    # At the wanted root, which is not below this one, clamping alone must leave something of δ.
    with np.errstate(over="ignore"):
        hopeless = cut * (1.0 + np.exp(epsilon)) > delta
    start = np.where(hopeless, np.inf, epsilon)
    return _solve(pair, delta, cut, start, logarithmic=False)[0], attained


def _solve(
    pair: OrderedPair, delta: Floats, cut: Floats, start: Floats, *, logarithmic: bool
) -> tuple[Floats, Floats]:
    epsilon = start.copy()
    attained = np.zeros_like(start)
    result = np.full_like(start, np.inf)
    below = np.zeros_like(start)
    above = np.full_like(start, np.inf)
    active = np.flatnonzero(np.isfinite(start))
    for count in range(_NEWTON_STEPS):
        if not active.size:
            break
        now, goal = epsilon[active], delta[active]
        brackets = hockey_stick(pair.rows(active), now)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # HS_E is at least P - e^E Q at any threshold: no E below ln((P - δ)/Q) meets δ. That is
            # what is attained.
            gain = np.log(np.exp(brackets.first.low) - goal) - brackets.second.high
            # Newton in x = e^E: at a fixed threshold P - x Q + c(1 + x) is linear in x, a tangent
            # of the convex bound.
            top = np.exp(brackets.first.high) + cut[active] - goal
            # In logarithms: at a total E of a thousand nats the probability itself would be 0.
            share = np.log(cut[active]) - brackets.second.low
            bottom = brackets.second.low + np.log1p(-np.exp(np.minimum(share, 0.0)))
            step = np.log(top) - bottom
            excess = np.log(brackets.upper / goal)
            quick = now + excess * np.exp(np.log(brackets.upper) - now - brackets.second.low)
        attained[active] = np.maximum(attained[active], np.where(np.isfinite(gain), gain, 0.0))
        # A threshold with top <= 0 asks nothing of E = 0; one with bottom <= 0 < top can never be
        # met.
        nowhere = (top > 0) & np.isneginf(bottom)
        step = np.where(top <= 0, 0.0, np.where(nowhere, np.inf, np.maximum(step, 0.0)))
        if logarithmic and count < _QUICK_STEPS:
            usable = (np.abs(excess) > 0.05) & np.isfinite(quick)
            step = np.where(usable, np.clip(quick, 0.5 * now, 2.0 * now + 0.1), step)
        if logarithmic:
            # Without clamping HS falls: a step out of what is known of the root's place is cut to
            # its middle.
            below[active] = np.where(excess > 0, np.maximum(below[active], now), below[active])
            above[active] = np.where(excess > 0, above[active], np.minimum(above[active], now))
            outside = (
                np.isfinite(above[active])
                & ~nowhere
                & ~((step >= below[active]) & (step <= above[active]))
            )
            # Tangents in e^E creep where the total is hundreds of nats: every other late step
            # halves a wide bracket.
            if count >= _QUICK_STEPS and count % 2 == 0:
                outside |= (
                    np.isfinite(above[active]) & ~nowhere & (above[active] > 1.001 * below[active])
                )
            step = np.where(outside, 0.5 * (below[active] + above[active]), step)
        # Nothing is gained below about the width of the bracket of HS itself.
        with np.errstate(over="ignore", invalid="ignore"):
            value = brackets.upper + np.where(
                cut[active] > 0, cut[active] * (1.0 + np.exp(now)), 0.0
            )
        resolved = np.abs(value - goal) <= 2.0 * (brackets.upper - brackets.lower)
        settled = nowhere | resolved | (np.abs(step - now) <= 1e-11 * step)
        step = np.where(resolved, now, step)
        result[active] = step
        epsilon[active] = np.where(nowhere, now, step)
        active = active[~settled]
    return result, attained
