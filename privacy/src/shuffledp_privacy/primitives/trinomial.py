"""Bounds of the mean positive part of a linear form in two cells of a multinomial.

The number of trials may be large.

    𝔼[(α a - β b - z)_+],   (a, b, rest) ~ Multinomial(h; q, q, 1 - 2q),   α, β >= 0.

Every k-RR bound is this mean for a few z (docs/accounting.md, K2-K4). It is convex in a once b is
averaged (K3), and piecewise linear in b, so chords over coarse nodes are rigorous upper bounds and
extended chords and tangents rigorous lower ones. The tables hold no ε: one table answers a whole
curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.primitives.tails import Floats, Window, binomial_window
from shuffledp_privacy.primitives.work import spend_work

NODES_PER_DEVIATION = 80
"""Nodes per standard deviation, at least half as many: adds at most 1/(6 * 40²) = 1e-4 to a
variance, 5e-5 to ε.
"""

WORK = 3_000_000
"""Probabilities computed for one table, about 0.1 s: decides how many rows have a law of b of their
own.
"""

ENTRY_COST = 0.6
"""Work of a tabulated probability, and of an entry that is read, as `work` counts it."""

LAW_COST = 1_000
"""Work of the law of one row besides its probabilities."""

ROUNDING = 2.0**-48
"""Relative outward margin: α, β and z are known to 2^-50, and the terms added and subtracted are
moved one by one.
"""

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TrinomialTable:
    """Tables of 𝔼[(t - b)_+ | a] over rows a and columns t, with row weights for both sides.

    Attributes:
        a: the nodes of a.
        above: weights of the nodes for the upper bound (chords), all >= 0.
        below: weights for the lower bound (extended chords); a few may be negative.
        ratio: q/(1-q), the probability of b in the trials that are not a.
        anchor: values of a whose law of b is tabulated.
        first: first column (an integer) of each anchor's table.
        step: distance between columns.
        mean: tables of 𝔼[(t - b)_+] at the columns.
        slope_left, slope_right: P(b < t) and P(b <= t) at the columns.
        outer: bound on the mass outside all windows, times the largest value it can carry, divided
            by h q.
    """

    a: Floats
    above: Floats
    below: Floats
    ratio: float
    anchor: Floats
    first: Floats
    step: int
    mean: Floats
    slope_left: Floats
    slope_right: Floats
    outer: float

    def upper(self, alpha: Floats, beta: Floats, z: Floats) -> Floats:
        """Upper bound of 𝔼[(αa - βb - z)_+], shape of the broadcast arguments.

        Add `outer` h q for the tails.
        """
        row = np.searchsorted(self.anchor, self.a, side="right") - 1
        # K3: more trials than a leaves, less their mean: larger in convex order.
        t = self._thresholds(alpha, beta, z, ROUNDING) + self._shift(row, ROUNDING)
        spend_work(LAW_COST + ENTRY_COST * t.size)
        left, part, beyond = self._locate(row, t)
        value = self._gather(self.mean, row, left) * (1.0 - part)
        value += self._gather(self.mean, row, left + 1) * part + beyond
        return np.asarray(beta * (value @ self.above), dtype=np.float64)

    def lower(self, alpha: Floats, beta: Floats, z: Floats) -> Floats:
        """Lower bound of 𝔼[(αa - βb - z)_+], shape of the broadcast arguments."""
        row = np.searchsorted(self.anchor, self.a, side="left")
        # K3: fewer trials than a leaves, the others at their mean: smaller in convex order
        # (Jensen).
        t = self._thresholds(alpha, beta, z, -ROUNDING) + self._shift(row, ROUNDING)
        left, part, beyond = self._locate(row, t)
        rise = self._gather(self.slope_right, row, left) * part * self.step
        fall = self._gather(self.slope_left, row, left + 1) * (1.0 - part) * self.step
        value = np.maximum(
            self._gather(self.mean, row, left) + rise, self._gather(self.mean, row, left + 1) - fall
        )
        total = (value + beyond) @ np.maximum(self.below, 0.0)
        if (
            self.below < 0.0
        ).any():  # a negative weight asks for the opposite bound: the upper one is subtracted
            row = np.searchsorted(self.anchor, self.a, side="right") - 1
            t = self._thresholds(alpha, beta, z, ROUNDING) + self._shift(row, ROUNDING)
            left, part, beyond = self._locate(row, t)
            value = self._gather(self.mean, row, left) * (1.0 - part)
            value += self._gather(self.mean, row, left + 1) * part + beyond
            total = total - value @ np.maximum(-self.below, 0.0)
        return np.asarray(np.maximum(beta * total, 0.0), dtype=np.float64)

    def _thresholds(self, alpha: Floats, beta: Floats, z: Floats, margin: float) -> Floats:
        gained = np.multiply.outer(alpha * (1 + margin), self.a)
        return (gained - z[..., np.newaxis] * (1 - margin)) / beta[..., np.newaxis]

    def _shift(self, row: Indices, margin: float) -> Floats:
        """Mean of the trials by which an anchor differs, rounded up: added above, subtracted below.

        Added for the upper bound and subtracted for the lower one.
        """
        return self.ratio * (self.a - self.anchor[row]) * (1 + margin)

    def _locate(self, row: Indices, t: Floats) -> tuple[Indices, Floats, Floats]:
        """Column left of t, fraction of a step beyond it, and distance beyond the last column."""
        position = (t - self.first[row]) / self.step
        last = self.mean.shape[1] - 1
        inside = np.clip(position, 0.0, float(last))
        left = np.minimum(inside.astype(np.int64), last - 1)
        return left, inside - left, np.maximum(position - last, 0.0) * self.step

    def _gather(self, table: Floats, row: Indices, column: Indices) -> Floats:
        gathered: Floats = table.ravel()[row * table.shape[1] + column]
        return gathered


def trinomial_table(
    trials: int, q: float, ratio: float, ratio_rest: float, tail: float, work: float = WORK
) -> TrinomialTable:
    """Tables for (a, b, rest) ~ Multinomial(trials; q, q, 1 - 2q).

    About 0.1 s at most up to 1e9 trials.

    Args:
        trials: h, 1..1e9.
        q: probability of each of the two cells, 0 < q <= 1/2.
        ratio: q/(1-q), and `ratio_rest` = (1-2q)/(1-q), passed because the caller has them exactly.
        ratio_rest: see `ratio`.
        tail: mass each window may leave out on each side.
        work: largest number of probabilities to compute, about; more is tighter.
    """
    window = binomial_window(trials, q, tail)
    a, above, below = _rows(window, _spacing(trials * q * (1.0 - q)))
    width = 20 * math.sqrt(trials * ratio * ratio_rest) + 60
    count = int(min(a.size, max(8, work / width)))
    anchor = a[np.unique(np.linspace(0, a.size - 1, count).round().astype(np.int64))]
    step = _spacing(trials * ratio * ratio_rest)
    spend_work(ENTRY_COST * window.pmf.size + anchor.size * (LAW_COST + ENTRY_COST * width))
    laws = [binomial_window(trials - int(x), ratio, tail, ratio_rest) for x in anchor]
    columns = max(-(-law.pmf.size // step) for law in laws) + 1
    tables = np.stack([_row_table(law, step, columns) for law in laws])
    first = np.array([float(law.start) for law in laws])
    largest = (float(a[-1]) + trials * q) / (trials * q)
    outer = (4.0 + largest) * max(window.tail, *(law.tail for law in laws))
    return TrinomialTable(
        a, above, below, ratio, anchor, first, step, tables[:, 0], tables[:, 1], tables[:, 2], outer
    )


def _spacing(variance: float) -> int:
    return max(1, math.ceil(math.sqrt(variance) / NODES_PER_DEVIATION))


def _rows(window: Window, spacing: int) -> tuple[Floats, Floats, Floats]:
    """Nodes of a, chord weights (upper) and extended-chord weights (lower), K3."""
    if spacing == 1:
        return window.support, window.pmf, window.pmf
    cells = -(-window.pmf.size // spacing)
    padded = np.zeros(cells * spacing)
    padded[: window.pmf.size] = window.pmf
    block = padded.reshape(cells, spacing)
    part = np.arange(spacing) / spacing
    above = np.zeros(cells + 1)
    above[:-1] += block @ (1.0 - part)
    above[1:] += block @ part
    # A convex function lies above the prolongation of a neighbouring chord; the nearer end is
    # prolonged.
    near = part < 0.5
    mass_left = block[:, near].sum(axis=1)
    mass_right = block[:, ~near].sum(axis=1)
    reach_left = block[:, near] @ part[near]
    reach_right = block[:, ~near] @ (1.0 - part[~near])
    # The first and the last half cell have no neighbour: there the mean is at least its value to
    # the left.
    reach_left[0] = 0.0
    below = np.zeros(cells + 1)
    below[:-1] += mass_left + reach_left
    below[: cells - 1] -= reach_left[1:]
    below[cells - 1] += mass_right[-1]
    below[1:-1] += (mass_right + reach_right)[:-1]
    below[2:] -= reach_right[:-1]
    nodes = window.start + spacing * np.arange(cells + 1, dtype=np.float64)
    return nodes, above, below


def _row_table(law: Window, step: int, columns: int) -> Floats:
    """𝔼[(t - b)_+], P(b < t), P(b <= t) at t = start + step * (0..columns-1), by positive sums."""
    # Past the window the law is complete, and the mean grows with slope 1.
    at_most = np.ones(columns * step)
    at_most[: law.pmf.size] = law.at_most()
    # 𝔼[(t+1 - b)_+] exceeds 𝔼[(t - b)_+] by P(b <= t): no products, no differences.
    mean = np.concatenate([np.zeros(1), np.cumsum(at_most)[:-1]])
    before = np.concatenate([np.zeros(1), at_most[:-1]])
    return np.stack([mean[::step], before[::step], at_most[::step]])
