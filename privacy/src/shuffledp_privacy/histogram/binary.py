"""Bounds for k = 2, where the histogram is a sum and the others' composition matters (K6).

With j of the other h - 1 users at x0, Z_j = Bin(j, p) + Bin(h-1-j, q) and

    δ_j(ε) = max_s α P(Z_j >= s - 1) - β P(Z_j >= s),   α = p - e^ε q, β = p e^ε - q.

One j at a time this is exact. Where that is too much work, a block of L + 1 neighbouring
compositions is covered at once by revealing, of the L users on which they differ, the blanket flags
and the true values: their remaining randomness is Bin(N, 1/2), N ~ Bin(L, 2q), whichever users they
are. This costs less than L/(2h) of ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from shuffledp_privacy.histogram.blanket import Law, tail_of
from shuffledp_privacy.primitives.tails import (
    Floats,
    Window,
    binomial_range,
    binomial_window,
    convolve_window,
    inward,
    outward,
)
from shuffledp_privacy.primitives.trinomial import ENTRY_COST, LAW_COST, ROUNDING
from shuffledp_privacy.primitives.work import spend_work

WORK = 1_200_000
"""Most entries of all tables together: about 0.5 s."""

CURVE_WORK = 150_000
"""Most entries for a whole curve, where every ε costs a pass over the tables."""

MOST_BLOCKS = 1000
"""Most blocks of compositions: beyond it the tables cost more than the last 0.1% of ε is worth."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities of a one from users with either value, `high` > `low`, and their complements.

    Each rounded once.
    """

    high: float
    not_high: float
    low: float
    not_low: float


class CompositionTables:
    """Tables of P(Z >= s), Z = Bin(j, high) + Bin(h-1-j, low), for each block of compositions j.

    Args:
        rates: probabilities of a one.
        honest: h.
        work: most entries of all tables together.
        few: whether only the compositions j = 0, the middle one and h - 1 are tabulated, which is
            enough for attained numbers and not for certified ones.
    """

    def __init__(self, rates: Rates, honest: int, work: int = WORK, *, few: bool = False) -> None:
        self.rates, self.honest = rates, honest
        variance = max(rates.high * rates.not_high, rates.low * rates.not_low)
        width = 20 * math.sqrt(honest * variance) + 100
        blocks = 3 if few else int(min(honest, MOST_BLOCKS, max(4, work / width)))
        # Up to three laws and two sums of them for a block.
        spend_work(blocks * (5 * LAW_COST + 3 * ENTRY_COST * width))
        self.exact = few or blocks == honest
        """True if every composition in the tables has a block of its own."""
        if few:
            laws = [self._sum(j, j) for j in sorted({0, (honest - 1) // 2, honest - 1})]
        else:
            edges = np.linspace(0, honest, blocks + 1).round().astype(int)
            laws = [self._sum(int(first), int(after) - 1) for first, after in pairwise(edges)]
        self.errors = np.array([error + window.tail for window, error in laws])
        """Absolute error of every tail, a number for each block."""
        self.relative = max(window.error for window, _ in laws) + ROUNDING
        size = max(window.pmf.size for window, _ in laws)
        self.at_least = np.zeros((len(laws), size + 2))
        # The first column is for s below the window, where P(Z >= s) is 1 but for the tail.
        self.at_least[:, 0] = 1.0
        for row, (window, _) in zip(self.at_least, laws, strict=True):
            row[1 : window.pmf.size + 1] = window.at_least()

    def _sum(self, fewest: int, most: int) -> tuple[Window, float]:
        """A law that covers Z if `fewest` to `most` of the others are at `high`, and its error."""
        rates, tail = self.rates, tail_of(self.honest)
        window, error = convolve_window(
            binomial_window(fewest, rates.high, tail, rates.not_high),
            binomial_window(self.honest - 1 - most, rates.low, tail, rates.not_low),
        )
        # δ falls in the number of blanket users: take as many as are there but for the tail.
        shared = rates.low + rates.not_high
        blanket = binomial_range(most - fewest, min(1.0, shared), tail)[0]
        if blanket == 0:
            return window, error + 2 * tail
        blanket_window = binomial_window(blanket, rates.low / shared, tail, rates.not_high / shared)
        window, more = convolve_window(window, blanket_window)
        return window, error + more + 2 * tail

    def largest(self, alpha: float, beta: float) -> float:
        """Upper bound over compositions of max_s α P(Z >= s - 1) - β P(Z >= s), without margin."""
        # One tail times α less another times β: each of them may be off by `errors`.
        return float((self._best(alpha, beta) + 1.01 * (alpha + beta) * self.errors).max())

    def attained_mean(self, alpha: float, beta: float) -> float:
        """`largest` at the worst composition, rounded down but for the margin; 0 unless `exact`."""
        if not self.exact:
            return 0.0
        return max(
            0.0, float((self._best(alpha, beta) - 1.01 * (alpha + beta) * self.errors).max())
        )

    def _best(self, alpha: float, beta: float) -> Floats:
        spend_work(LAW_COST + ENTRY_COST / 6 * self.at_least.size)
        gains = alpha * self.at_least[:, :-1]
        gains -= beta * self.at_least[:, 1:]
        return np.asarray(gains.max(axis=1))


class BinaryCompositions:
    """Bounds of δ of 2-RR over all compositions of the others."""

    def __init__(self, law: Law, honest: int, work: int = WORK) -> None:
        self.law = law
        self.tables = CompositionTables(Rates(law.p, law.q, law.q, law.p), honest, work)
        self.exact = self.tables.exact
        """True if every composition has a block of its own."""

    def upper(self, epsilon: float) -> float:
        """Upper bound of δ over all compositions, ε >= 0, without the outward margin."""
        alpha, beta, _ = self.law.form(epsilon, self.tables.relative)
        return self.tables.largest(alpha, beta)

    def lower(self, epsilon: float) -> float:
        """δ at the worst composition, ε >= 0, rounded down but for the margin; 0 unless `exact`."""
        alpha, beta, _ = self.law.form(epsilon, -self.tables.relative)
        return self.tables.attained_mean(alpha, beta)


class TwoOutputs:
    """Any randomiser with two outputs: δ over all datasets, from its extreme rates (K6).

    Both orders of the two datasets count.

    Args:
        high: largest chance of the second output over all values.
        low: smallest one, below `high`.
        honest: h.
    """

    def __init__(self, high: Fraction, low: Fraction, honest: int) -> None:
        # From the smaller rate to the larger one the zeros are what the ones were.
        orders = dict.fromkeys([(high, low), (1 - low, 1 - high)])
        work = WORK // len(orders)
        self.honest = honest
        self.orders = [
            (*order, CompositionTables(_rates(*order), honest, work)) for order in orders
        ]

    @cached_property
    def single_tables(self) -> list[tuple[Fraction, Fraction, CompositionTables]]:
        """Rates with tables of single compositions: all of them, or for many users three."""
        return [
            (high, low, tables)
            if tables.exact
            else (high, low, CompositionTables(tables.rates, self.honest, few=True))
            for high, low, tables in self.orders
        ]

    def upper(self, epsilon: float) -> float:
        """Certified δ for ε >= 0."""
        growth = Fraction(math.exp(min(epsilon, 700.0)) * (1 - ROUNDING))
        largest = 0.0
        for high, low, tables in self.orders:
            alpha = high - growth * low
            beta = growth * (1 - low) - (1 - high)
            margin = tables.relative
            if alpha > 0:
                largest = max(
                    largest,
                    tables.largest(
                        float(alpha) * (1 + margin), max(0.0, float(beta)) * (1 - margin)
                    ),
                )
        return min(1.0, outward(largest))

    def lower(self, epsilon: float) -> float:
        """Attained δ for ε >= 0, at the worst composition; for many users the worst of three."""
        growth = Fraction(math.exp(min(epsilon, 700.0)) * (1 + ROUNDING))
        largest = 0.0
        for high, low, tables in self.single_tables:
            alpha = high - growth * low
            beta = growth * (1 - low) - (1 - high)
            margin = tables.relative
            if alpha > 0:
                largest = max(
                    largest,
                    tables.attained_mean(float(alpha) * (1 - margin), float(beta) * (1 + margin)),
                )
        return inward(largest)


def _rates(high: Fraction, low: Fraction) -> Rates:
    return Rates(float(high), float(1 - high), float(low), float(1 - low))


def one_symbol(law: Law, honest: int, window: Window, epsilon: float) -> float:
    """Lower bound of δ(ε), k = 2, if all others hold x1, in the worse direction (K5).

    With a ~ Bin(h, q) the other dataset has density r(a) = ((p/q) a + (q/p)(h - a)) / h against
    this one. The caller's margin must cover the errors of the window.

    Args:
        law: 2-RR.
        honest: h.
        window: Bin(h, q), from `one_symbol_window`.
        epsilon: >= 0.
    """
    # Both differences lose what their terms have too much: near ε0 nothing else would be left of
    # them.
    ones = window.support
    density = (law.p / law.q * ones + law.q / law.p * (honest - ones)) / honest
    growth = math.exp(epsilon) * (1 + ROUNDING)
    gained = np.maximum(density * (1 - ROUNDING) - growth, 0.0)
    lost = np.maximum(1 - growth * density * (1 + ROUNDING), 0.0)
    return max(float((window.pmf * gained).sum()), float((window.pmf * lost).sum()))


@lru_cache(maxsize=4)
def one_symbol_window(law: Law, honest: int) -> Window:
    """Window of Bin(h, q), cached for the next ε."""
    return binomial_window(honest, law.q, tail_of(honest), law.p)


@lru_cache(maxsize=4)
def binary_compositions(law: Law, honest: int, work: int = WORK) -> BinaryCompositions:
    """Tables of one round, cached for the next ε."""
    return BinaryCompositions(law, honest, work)
