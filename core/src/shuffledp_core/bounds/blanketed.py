"""Counts of two symbols, of which a user sent one by k-RR, among uniform messages of others.

docs/accounting.md, K16: letters γ, q, M, R and F. Pure; uses only numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from shuffledp_core.bounds.windows import binomial_law

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARGIN: Final = 1e-9
"""Relative error allowed for every probability."""

OUTSIDE: Final = 1e-14
"""Probability that may lie outside all windows of one δ; less than this really does."""

MOST_CELLS: Final = 2**21
"""Most cells of a table, 16 MiB; larger rounds have no table."""

_LARGEST_EPSILON: Final = 700.0

_NATS: Final = 34.0
"""2 e^-34 is below `OUTSIDE`."""


class UniformMessages(NamedTuple):
    """Messages that are uniform over all symbols with probability `fill`, else not counted.

    Attributes:
        number: number of messages.
        fill: the probability that such a message is uniform over all symbols.
    """

    number: int
    fill: Fraction


@dataclass(frozen=True, slots=True)
class BlanketedCounts:
    """Counts of symbols a and b: one user's k-RR report among uniform messages of others.

    The user holds a before the change and b after it.

    Attributes:
        symbols: k, at least 2.
        blanket: γ of the user's report, in (0, 1).
        groups: the other messages, by the probability that they are uniform.
    """

    symbols: int
    blanket: Fraction
    groups: tuple[UniformMessages, ...]

    @property
    def is_small(self) -> bool:
        """True if the table has few enough cells."""
        mean = sum(2 * group.number * float(group.fill) / self.symbols for group in self.groups)
        rows = 18 * math.sqrt(mean) + 80 * len(self.groups)
        return rows * (18 * math.sqrt(mean + rows) + 80) <= MOST_CELLS

    def certified_delta(self, epsilon: float) -> float:
        """Upper bound of δ at a total ε >= 0 for every dataset; 1 if no bound is computed.

        The groups must be the dummies and the blankets of the honest users (K16 a).
        """
        if not self.is_small or epsilon > _LARGEST_EPSILON:
            return 1.0
        table = _table(self)
        beside = float(self.blanket / self.symbols) * (table.totals + self._fewest_others())
        excess = table.excess(beside * (1 - MARGIN), float(1 - self.blanket), epsilon)
        return min(1.0, excess * (1 + MARGIN) + 4 * OUTSIDE)

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ at a total ε >= 0, from two datasets; 0 if no bound is computed.

        All other honest users hold a third symbol in both datasets, or b if k = 2 (K16 b).
        """
        if not self.is_small or epsilon > _LARGEST_EPSILON:
            return 0.0
        if self.symbols == 2:
            return self._attained_with_two_symbols(epsilon)
        table = _table(self)
        chance = float(self.blanket / self.symbols)
        elsewhere = float(self.blanket) - 2 * chance
        beside = chance * table.totals + elsewhere * table.absent_ratio * (1 + MARGIN)
        excess = table.excess(beside * (1 + MARGIN), float(1 - self.blanket), epsilon)
        return max(0.0, excess * (1 - 4 * MARGIN) - math.exp(epsilon) * OUTSIDE)

    def _attained_with_two_symbols(self, epsilon: float) -> float:
        """Attained δ for two symbols, from the count of a and the number of uniform messages.

        All other honest users hold b. The number of uniform messages of the first group is known,
        because empty slots are counted.
        """
        import numpy as np

        first, *others = self.groups
        law = np.ones(1)
        for group in others:
            law = np.convolve(law, binomial_law(group.number, group.fill / 2)[1])
        low = float(self.blanket / 2)
        before = np.convolve(law, [low, 1 - low]) * (1 - MARGIN)
        after = np.convolve(law, [1 - low, low]) * (1 + MARGIN)
        difference = before - math.exp(epsilon) * after
        fewest, masses = binomial_law(first.number, first.fill)
        total = 0.0
        for uniform, mass in enumerate(masses.tolist(), start=fewest):
            halves = binomial_law(uniform, Fraction(1, 2))[1]
            total += mass * float(np.maximum(np.convolve(halves, difference), 0.0).sum())
        return max(0.0, total * (1 - 2 * MARGIN) - math.exp(epsilon) * OUTSIDE)

    def _fewest_others(self) -> int:
        """Likely lower bound of the number of uniform messages of symbols other than a and b."""
        fewest = 0
        for group in self.groups:
            mean = group.number * float(group.fill) * (self.symbols - 2) / self.symbols
            # Chernoff: P(X <= mean - t) <= exp(-t²/(2 mean)).
            fewest += max(0, math.floor(mean * (1 - MARGIN) - math.sqrt(2 * _NATS * mean)))
        return fewest


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Numbers v of b and t - v of a among t messages of either, and their probabilities.

    Attributes:
        totals: t = 1, 2, ..., shape (rows,).
        weights: (2/t) P(M = t - 1), M the number of other messages of a or b; shape (rows,).
        absent_ratio: P(M = t) over the weight, shape (rows,).
        first: smallest v of each row, shape (rows,).
        halves: P(Bin(t, 1/2) = first + i), shape (rows, columns).
    """

    totals: NDArray[np.float64]
    weights: NDArray[np.float64]
    absent_ratio: NDArray[np.float64]
    first: NDArray[np.float64]
    halves: NDArray[np.float64]

    def excess(self, beside: NDArray[np.float64], share: float, epsilon: float) -> float:
        """Σ over t and v of (share (t - v - e^ε v) - (e^ε - 1) beside_t)_+, weighted.

        No part of a term above 0 exceeds share t, whatever ε is, and the weighted sum of t is at
        most 2: rounding changes the result by a few 1e-15, in addition to the errors of the
        probabilities.

        Args:
            beside: shape (rows,).
            share: 1 - γ.
            epsilon: total ε >= 0.
        """
        import numpy as np

        growth = math.exp(epsilon)
        numbers = self.first[:, np.newaxis] + np.arange(self.halves.shape[1])
        highest = share * self.totals - math.expm1(epsilon) * beside
        terms = np.maximum(highest[:, np.newaxis] - share * (1 + growth) * numbers, 0.0)
        return float(np.einsum("ij,ij,i->", terms, self.halves, self.weights))


@lru_cache(maxsize=4)
def _table(counts: BlanketedCounts) -> _Table:
    import numpy as np

    first, law = 0, np.ones(1)
    for group in counts.groups:
        start, masses = binomial_law(group.number, 2 * group.fill / counts.symbols)
        first += start
        law = np.convolve(law, masses)
    totals = np.arange(first + 1, first + law.size + 1)
    weights = 2 * law / totals
    absent = np.append(law[1:], 0.0)
    ratio = np.divide(absent, weights, out=np.zeros(law.size), where=weights > 0)
    reach = math.ceil(4.5 * math.sqrt(int(totals[-1]))) + 40
    lowest = np.maximum(0, totals // 2 - reach)
    columns = lowest[:, np.newaxis] + np.arange(2 * reach + 2)
    # One by one: a running sum of logarithms would lose digits.
    factorials = np.array([math.lgamma(number + 1) for number in range(int(totals[-1]) + 1)])
    rest = totals[:, np.newaxis] - columns
    inside = rest >= 0
    logs = (
        factorials[totals][:, np.newaxis]
        - factorials[np.where(inside, columns, 0)]
        - factorials[np.where(inside, rest, 0)]
        - totals[:, np.newaxis] * math.log(2)
    )
    halves = np.exp(np.where(inside, logs, -math.inf))
    return _Table(totals.astype(np.float64), weights, ratio, lowest.astype(np.float64), halves)
