"""Reference solution of lab 8, in whole numbers; datasets share the work on common prefixes."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from typing import TypeAlias

Histogram: TypeAlias = tuple[int, ...]
Cell: TypeAlias = tuple[int, int, Fraction, Fraction]


@cache
def law(symbols: int, true: int, false: int, values: tuple[int, ...]) -> dict[Histogram, int]:
    """Weights of all histograms: `true` for a user's own symbol, `false` for each other symbol."""
    if not values:
        return {(0,) * symbols: 1}
    result: dict[Histogram, int] = {}
    for counts, weight in law(symbols, true, false, values[:-1]).items():
        for symbol in range(symbols):
            reached = (*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])
            result[reached] = result.get(reached, 0) + weight * (
                true if symbol == values[-1] else false
            )
    return result


def pair(
    symbols: int, p: Fraction, others: tuple[int, ...]
) -> tuple[dict[Histogram, int], dict[Histogram, int], int]:
    """Weights of the histograms on both datasets, and the common divisor."""
    odds = p * (symbols - 1) / (1 - p)
    true, false = odds.numerator, odds.denominator
    first = law(symbols, true, false, (*others, 0))
    second = law(symbols, true, false, (*others, 1))
    return first, second, (true + (symbols - 1) * false) ** (len(others) + 1)


def delta(symbols: int, p: Fraction, growth: Fraction, others: tuple[int, ...]) -> Fraction:
    """The hockey-stick divergence of the two histograms' laws."""
    first, second, total = pair(symbols, p, tuple(others))
    up, down = growth.numerator, growth.denominator
    gain = sum(max(0, down * weight - up * second[counts]) for counts, weight in first.items())
    return Fraction(gain, down * total)


@cache
def worst(
    users: int, symbols: int, p: Fraction, growth: Fraction
) -> tuple[Fraction, tuple[int, ...]]:
    """The largest δ over the other users' datasets; histograms ignore the order of users."""
    choices = combinations_with_replacement(range(symbols), users - 1)
    return max((delta(symbols, p, growth, others), others) for others in choices)


def refute(
    statement: Callable[[int, int, Fraction, Fraction], Fraction], cells: Sequence[Cell]
) -> tuple[Cell, tuple[int, ...], tuple[int, ...], tuple[Histogram, ...]] | None:
    """A witness from the first cell in which the worst dataset exceeds the promised δ."""
    for cell in cells:
        users, symbols, p, growth = cell
        most, others = worst(users, symbols, p, growth)
        if most > statement(users, symbols, p, growth):
            first, second, _ = pair(symbols, p, others)
            event = tuple(
                counts for counts, weight in first.items() if weight > growth * second[counts]
            )
            return cell, (*others, 0), (*others, 1), event
    return None
