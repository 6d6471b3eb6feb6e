"""Hidden-flag blanket of k-RR: δ(ε) for every dataset, and the third-symbol dataset near it.

With W = α on x0, -β on x1 (probability q each), -κ on the blanket's other symbols ((k-2) q in all)
and 0 otherwise, α = p - e^ε q, β = p e^ε - q, κ = (e^ε - 1) q, the blanket is (docs/accounting.md,
K1)

    δ(ε) <= 𝔼[(W_1 + ... + W_h)_+] / (h q).

Small h: the exact sum (`ExactCells`). Any h: upper and lower bounds by `GridBlanket` (K3, K4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.primitives.excess import Draw, mean_excess
from shuffledp_privacy.primitives.tails import Floats, Window, binomial_window, chords
from shuffledp_privacy.primitives.trinomial import (
    ENTRY_COST,
    LAW_COST,
    ROUNDING,
    trinomial_table,
)
from shuffledp_privacy.primitives.work import spend_work

LARGEST_EXACT = 400_000
"""Most cells of the exact sum, about 10 ms per ε. Beyond, the grid."""

MANY = 10_000
"""Number of honest users from which K4 adds less than 1e-4 to ε: the grid is then as tight as the
sum, and faster.
"""

LARGEST_EXACT_OF_MANY = 100_000
"""Most cells of the exact sum for that many users: few of them are fast and tighter from below."""

MOST_NODES = 48
"""Most chord nodes for the blanket's other symbols."""

NOTHING = 1e-24
"""A δ so small that a curve need not be followed further."""

FINENESS = 0.011
"""Spacing of those nodes in standard deviations of the whole form: adds 2e-5 to its variance."""


@dataclass(frozen=True)
class Law:
    """Probabilities of k-RR as floats, each rounded correctly from the spec's rationals.

    Attributes:
        symbols: k.
        p, q: probabilities of the true and of each other symbol.
        gap: p - q.
        log_odds: ln(p/q) as the sum of two floats, to 1e-30 of itself.
        epsilon0: ln(p/q), rounded up.
        ratio, ratio_rest: q/(1-q) and (1-2q)/(1-q), the law of x1 among what is not x0.
        others: (k-2) q/(1-2q), the share of other blanket symbols in what is neither x0 nor x1.
        strangers: (k-3) q/(1-2q), the same without the third symbol.
    """

    symbols: int
    p: float
    q: float
    gap: float
    log_odds: tuple[float, float]
    epsilon0: float
    ratio: float
    ratio_rest: float
    others: float
    strangers: float

    def alpha(self, epsilons: Floats) -> Floats:
        """α = p - e^ε q, at least 0, to 2^-50 of itself.

        ε and the first float of ln(p/q) subtract exactly near ε0.
        """
        high, low = self.log_odds
        return np.maximum(-self.p * np.expm1((epsilons - high) - low), 0.0)

    def beta(self, epsilons: Floats) -> Floats:
        """β = p e^ε - q for ε >= 0, to 2^-50 of itself."""
        return np.asarray(self.p * np.expm1(epsilons) + self.gap)

    def kappa(self, epsilons: Floats) -> Floats:
        """κ = (e^ε - 1) q, to 2^-50 of itself."""
        return np.asarray(self.q * np.expm1(epsilons))

    def form(self, epsilon: float, margin: float) -> tuple[float, float, float]:
        """α, β, κ at one ε >= 0, moved outward by the relative margin, inward if negative."""
        at = np.array(epsilon)
        return (
            float(self.alpha(at)) * (1 + margin),
            float(self.beta(at)) * (1 - margin),
            float(self.kappa(at)) * (1 - margin),
        )


def two_floats(number: Decimal) -> tuple[float, float]:
    """Splits a number into the nearest float and the remainder as a float."""
    first = float(number)
    return first, float(number - Decimal(first))


def log_ratio(numerator: Fraction, denominator: Fraction) -> tuple[float, float]:
    """ln(numerator/denominator) of two positive rationals as the sum of two floats."""
    # The ratio may be 1 + 2e-19: 60 digits still leave 1e-30 of its logarithm.
    digits = Context(prec=60)
    ratio = numerator / denominator
    return two_floats(
        digits.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)).ln(digits)
    )


@lru_cache(maxsize=64)
def law_of(spec: KRRHistogram) -> Law:
    """The blanket's law for a mechanism's parameters, in floats. γ = 1 (pure noise) has ε0 = 0."""
    k, q = spec.symbols, spec.blanket / spec.symbols
    p = 1 - spec.blanket + q
    rest = 1 - 2 * q
    return Law(
        symbols=k,
        p=float(p),
        q=float(q),
        gap=float(p - q),
        log_odds=log_ratio(p, q),
        epsilon0=0.0 if p == q else math.nextafter(up(math.log1p(float((p - q) / q))), math.inf),
        ratio=float(q / (1 - q)),
        ratio_rest=float(rest / (1 - q)),
        others=float((k - 2) * q / rest) if rest else 0.0,
        strangers=float(max(k - 3, 0) * q / rest) if rest else 0.0,
    )


def tail_of(honest: int) -> float:
    """Largest mass outside a window of `honest` users; wider windows are cheap for small rounds."""
    return 1e-30 if honest <= 10**6 else 1e-22


class ExactCells:
    """Mean 𝔼[(Σ W)_+] as the exact sum over (a, b), the other symbols in closed form (K2)."""

    def __init__(self, law: Law, honest: int) -> None:
        self.law, self.honest = law, honest
        tail = tail_of(honest)
        a_window = binomial_window(honest, law.q, tail)
        parts = [
            binomial_window(honest - int(a), law.ratio, tail, law.ratio_rest)
            for a in a_window.support
        ]
        sizes = np.array([part.pmf.size for part in parts])
        spend_work(len(parts) * LAW_COST + ENTRY_COST * int(sizes.sum()))
        a = np.repeat(a_window.support, sizes)
        b = np.concatenate([part.support for part in parts])
        weight = np.repeat(a_window.pmf, sizes) * np.concatenate([part.pmf for part in parts])
        keep = weight > 1e-34
        self.a, self.b, self.weight = a[keep], b[keep], weight[keep]
        # Pruned cells and the outside of the windows carry at most α a each: their mass is added to
        # δ, not lost.
        reach = (float(a_window.support[-1]) + honest * law.q) / (honest * law.q)
        self.outer = (float(weight[~keep].sum()) + 6 * tail) * reach

    @staticmethod
    def affordable(law: Law, honest: int) -> bool:
        """True if cells and tables are small enough to compute."""
        wide = 10 * math.sqrt(honest * law.q) + 20
        third = 10 * math.sqrt(honest * law.others * (1 - law.others)) + 20
        most = LARGEST_EXACT if honest < MANY else LARGEST_EXACT_OF_MANY
        return (2 * min(wide, honest)) ** 2 <= most and wide * third <= most

    @cached_property
    def _others(self) -> _Tables:
        return _Tables.build(self, self.law.others)

    @cached_property
    def _strangers(self) -> _Tables:
        return _Tables.build(self, self.law.strangers)

    def blanket(self, epsilon: float) -> float:
        """Upper bound of δ for every dataset, without the outward margin. ε >= 0."""
        # Outward: α, which is gained, is rounded up, β and κ, which are lost, down.
        alpha, beta, kappa = self.law.form(epsilon, ROUNDING)
        total = self._others.positive_part(self, alpha * self.a - beta * self.b, kappa)
        return total / (self.honest * self.law.q) + self.outer

    def third_symbol(self, epsilon: float) -> float:
        """δ if the other h - 1 users all hold one third symbol, k >= 3, without the margin (K5)."""
        law = self.law
        alpha, beta, kappa = law.form(epsilon, -ROUNDING)
        # c = h - a - b - d in K5's form, so that only d is left to be averaged over.
        cheap = law.q / law.p
        x = alpha * self.a - beta * self.b - kappa * cheap * (self.honest - self.a - self.b)
        return self._strangers.positive_part(self, x, kappa * (1.0 - cheap)) / (self.honest * law.q)


@dataclass(frozen=True)
class _Tables:
    """Tables of 𝔼[(t - C)_+] for C ~ Bin(h - T, share) at integers t, one row per T = a + b."""

    row: NDArray[np.int64]
    first: Floats
    mean: Floats

    @staticmethod
    def build(cells: ExactCells, share: float) -> _Tables:
        total = (cells.a + cells.b).astype(np.int64)
        low = int(total.min())
        high = int(total.max())
        laws = [
            binomial_window(cells.honest - t, share, tail_of(cells.honest))
            for t in range(low, high + 1)
        ]
        columns = max(law.pmf.size for law in laws) + 1
        spend_work(len(laws) * (LAW_COST + ENTRY_COST * columns))
        mean = np.stack([_mean_excess(law, columns) for law in laws])
        return _Tables(total - low, np.array([float(law.start) for law in laws]), mean)

    def positive_part(self, cells: ExactCells, x: Floats, slope: float) -> float:
        """Sum over the cells of weight 𝔼[(x - slope C)_+]."""
        spend_work(LAW_COST + 2 * ENTRY_COST * x.size)
        if slope <= 0.0:
            return float(cells.weight @ np.maximum(x, 0.0))
        # c is never negative: cells with x <= 0 add nothing.
        keep = x > 0.0
        row = self.row[keep]
        last = self.mean.shape[1] - 1
        with np.errstate(
            over="ignore"
        ):  # next to no slope: what lies beyond the table is all there is
            t = x[keep] / slope - self.first[row]
        inside = np.clip(t, 0.0, float(last))
        left = np.minimum(inside.astype(np.int64), last - 1)
        flat = self.mean.ravel()
        part = inside - left
        index = row * self.mean.shape[1] + left
        # Linear between integers (K2), so that this is exact.
        value = slope * (flat[index] * (1.0 - part) + flat[index + 1] * part)
        beyond = np.maximum(x[keep] - slope * (self.first[row] + last), 0.0)
        return float(cells.weight[keep] @ (value + beyond))


def _mean_excess(law: Window, columns: int) -> Floats:
    at_most = np.ones(columns - 1)
    at_most[: law.pmf.size] = law.at_most()
    return np.concatenate([np.zeros(1), np.cumsum(at_most)])


class GridBlanket:
    """Upper and lower bounds of the mean 𝔼[(Σ W)_+] at any h.

    The counts of the other symbols are made independent (K4), and the law of the rest is rounded to
    the points of a grid (K3).
    """

    def __init__(self, law: Law, honest: int) -> None:
        self.law, self.honest = law, honest
        tail = tail_of(honest)
        self.table = trinomial_table(honest, law.q, law.ratio, law.ratio_rest, tail)
        # Independent of a and b by K4, hence binomial by itself.
        self.third = binomial_window(honest, law.others, tail)
        self.outer = self.table.outer + 3 * tail

    def upper(self, epsilons: Floats) -> Floats:
        """Upper bound of the blanket's δ at each ε >= 0, ascending; one set of nodes for all.

        No margin.
        """
        fineness = FINENESS if epsilons.size == 1 else 2 * FINENESS
        nodes, weights = self._third_nodes(float(epsilons.max(initial=0.0)), fineness)
        alpha, beta, kappa = self._form(epsilons)
        result = np.empty(epsilons.size)
        chunk = max(1, 100_000 // (self.table.a.size * nodes.size))
        for start in range(0, epsilons.size, chunk):
            part = slice(start, start + chunk)
            z = kappa[part, np.newaxis] * nodes
            value = self.table.upper(alpha[part, np.newaxis], beta[part, np.newaxis], z)
            result[part] = value @ weights
            if result[start] < NOTHING * self.honest * self.law.q:
                # δ falls in ε: what bounds it here bounds it further out.
                result[start:] = result[start]
                break
        return result / (self.honest * self.law.q) + self.outer

    def lower(self, epsilon: float) -> float:
        """Lower bound of the third-symbol dataset's δ at ε >= 0, k >= 3.

        By Jensen on all other symbols (K5).
        """
        alpha, beta, kappa = self._form(np.array([epsilon]))
        if self.law.alpha(np.array(epsilon)) <= 0.0:
            return 0.0
        z = kappa * (self.law.others * self.honest)
        return float(self.table.lower(alpha, beta, z)[0]) / (self.honest * self.law.q)

    def _form(self, epsilons: Floats) -> tuple[Floats, Floats, Floats]:
        """Coefficients α + κρ, β - κρ, κ: x0 and x1 get back the mean of the other symbols (K4)."""
        law, kappa = self.law, self.law.kappa(epsilons)
        # β - κρ = (p - q) + (e^ε - 1)(p - qρ): terms of one sign.
        beta = law.gap + np.expm1(epsilons) * (law.p - law.q * law.others)
        return law.alpha(epsilons) + kappa * law.others, beta, kappa

    def _third_nodes(self, epsilon: float, fineness: float) -> tuple[Floats, Floats]:
        """Chord nodes adding at most fineness²/6 to the variance of the form at the relevant ε."""
        law = self.law
        matters = min(epsilon, law.epsilon0, 10 * law.p * math.sqrt(2 / (self.honest * law.q)))
        kappa = math.expm1(matters) * law.q
        size = self.third.pmf.size
        if kappa == 0.0 or size == 1:
            return chords(self.third, size)
        beta = law.p * math.exp(matters) - law.q
        deviation = math.sqrt(self.honest * law.q) * beta
        widest = int(min(float(size), fineness * deviation / kappa))
        return chords(self.third, min(size, max(1, widest, -(-size // MOST_NODES))))


def any_upper(law: Law, honest: int, epsilon: float) -> float:
    """Upper bound of the blanket's δ at any ε0, without the outward margin; ε >= 0 (K12)."""
    alpha, beta, kappa = law.form(epsilon, ROUNDING)
    masses, values = [law.q, law.q, (law.symbols - 2) * law.q], [alpha, -beta, -kappa]
    size = min(law.symbols, 3)
    return mean_excess(Draw(np.array(masses[:size]), np.array(values[:size]) / law.q), honest)[1]


def any_lower(law: Law, honest: int, epsilon: float) -> float:
    """Lower bound of δ at any ε0 and ε >= 0, k >= 3, all others at a third symbol (K5, K12)."""
    alpha, beta, kappa = law.form(epsilon, -ROUNDING)
    masses = np.array([law.q, law.q, law.p, (law.symbols - 3) * law.q])[: law.symbols]
    values = np.array([alpha / law.q, -beta / law.q, -kappa / law.p, -kappa / law.q])[: law.symbols]
    return mean_excess(Draw(masses, values), honest)[0]


@lru_cache(maxsize=2)
def exact_cells(law: Law, honest: int) -> ExactCells:
    """Exact tables of one round, cached for the next ε."""
    return ExactCells(law, honest)


@lru_cache(maxsize=2)
def grid_blanket(law: Law, honest: int) -> GridBlanket:
    """Grid tables of one round, cached for the next ε."""
    return GridBlanket(law, honest)
