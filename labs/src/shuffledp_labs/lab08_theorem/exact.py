"""The exact δ of shuffled k-RR for few users, in rationals: the oracle of lab 8.

Users of a cell hold values {0..k-1} and each sends one symbol: its own with probability p, every
other one with q = (1 - p)/(k - 1). What is published is the histogram of all symbols. Everything is
counted in whole numbers over one common denominator, and a user's change enters once, as the
difference P - e^ε Q of its two laws.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import TypeAlias

Histogram: TypeAlias = tuple[int, ...]
"""How often each symbol was sent."""

Cell: TypeAlias = tuple[int, int, Fraction, Fraction]
"""Users, symbols, p and e^ε."""


def others_of(cell: Cell) -> Iterable[tuple[int, ...]]:
    """All datasets of the users who do not change, without regard to order."""
    users, symbols, _, _ = cell
    return combinations_with_replacement(range(symbols), users - 1)


def histogram_law(symbols: int, p: Fraction, values: tuple[int, ...]) -> dict[Histogram, Fraction]:
    """Law of the published histogram when the users hold `values`. Exact."""
    q = (1 - p) / (symbols - 1)
    common = p.denominator * q.denominator
    weights = _integer_weights(p, q, common)
    total = common ** len(values)
    return {
        counts: Fraction(weight, total)
        for counts, weight in _law(symbols, *weights, values).items()
    }


def delta_of(symbols: int, p: Fraction, growth: Fraction, others: tuple[int, ...]) -> Fraction:
    """δ at e^ε = growth when one user changes from 0 to 1 and the others hold `others`.

    Exact, one direction.
    """
    q = (1 - p) / (symbols - 1)
    common = p.denominator * q.denominator
    true, false = _integer_weights(p, q, common)
    # P - e^ε Q for the changed user's symbol alone, times denominators: what it adds to any
    # histogram of the others.
    up, down = growth.numerator, growth.denominator
    change = [false * (down - up)] * symbols
    change[0] = true * down - false * up
    change[1] = false * down - true * up
    gains: dict[Histogram, int] = {}
    for counts, weight in _law(symbols, true, false, tuple(sorted(others))).items():
        for symbol, step in enumerate(change):
            reached = _with_one_more(counts, symbol)
            gains[reached] = gains.get(reached, 0) + weight * step
    return Fraction(
        sum(gain for gain in gains.values() if gain > 0), down * common ** (len(others) + 1)
    )


@lru_cache(maxsize=4096)
def worst_case(cell: Cell) -> tuple[Fraction, tuple[tuple[int, ...], ...]]:
    """The largest δ over all datasets of the others, and all datasets that attain it. Exact.

    The other direction needs no search of its own: it is the dataset in which the others' 0 and 1
    change places.
    """
    _, symbols, p, growth = cell
    deltas = {others: delta_of(symbols, p, growth, others) for others in others_of(cell)}
    most = max(deltas.values())
    return most, tuple(others for others, value in deltas.items() if value == most)


def event_probabilities(
    cell: Cell, first: tuple[int, ...], second: tuple[int, ...], event: frozenset[Histogram]
) -> tuple[Fraction, Fraction]:
    """The probabilities of the event on both datasets. Exact."""
    _, symbols, p, _ = cell
    laws = (histogram_law(symbols, p, values) for values in (first, second))
    in_first, in_second = (
        sum((law.get(counts, Fraction(0)) for counts in event), Fraction(0)) for law in laws
    )
    return in_first, in_second


def _integer_weights(p: Fraction, q: Fraction, common: int) -> tuple[int, int]:
    return int(p * common), int(q * common)


@lru_cache(maxsize=20_000)
def _law(symbols: int, true: int, false: int, values: tuple[int, ...]) -> dict[Histogram, int]:
    """Weights of the histograms, by adding one user after the other.

    Datasets share what they begin with.
    """
    if not values:
        return {(0,) * symbols: 1}
    law: dict[Histogram, int] = {}
    for counts, weight in _law(symbols, true, false, values[:-1]).items():
        for symbol in range(symbols):
            reached = _with_one_more(counts, symbol)
            law[reached] = law.get(reached, 0) + weight * (true if symbol == values[-1] else false)
    return law


def _with_one_more(counts: Histogram, symbol: int) -> Histogram:
    return (*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])
