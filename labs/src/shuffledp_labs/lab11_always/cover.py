"""The defence of lab 11: k-RR with one more symbol, "nothing", as the cover message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, TypeAlias

from shuffledp_labs.instance import Draws

Value: TypeAlias = int | None


def draw_spec(draws: Draws) -> dict[str, Any]:
    """Draw a number of values, and the odds e^ε_L of the randomiser."""
    return {"symbols": draws.integer(2, 4), "odds": Fraction(draws.integer(5, 16), 2)}


def krr(symbols: int, odds: Fraction, true: int) -> tuple[Fraction, ...]:
    """The law of k-RR: the true symbol is `odds` times as likely as any other."""
    total = odds + symbols - 1
    return tuple((odds if symbol == true else Fraction(1)) / total for symbol in range(symbols))


def answer_law(spec: dict[str, Any], value: Value) -> tuple[Fraction, ...]:
    """The law of a device's message; "nothing" is the last of symbols + 1 symbols."""
    nothing = int(spec["symbols"])
    return krr(nothing + 1, spec["odds"], nothing if value is None else value)


def boards(
    spec: dict[str, Any], values: Sequence[Value]
) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """The board of every outcome of a small round, with its probability; boards repeat."""
    laws = [answer_law(spec, value) for value in values]
    symbols = range(int(spec["symbols"]) + 1)
    for outcome in product(symbols, repeat=len(values)):
        chance = prod(
            (law[symbol] for law, symbol in zip(laws, outcome, strict=True)), start=Fraction(1)
        )
        yield tuple(outcome.count(symbol) for symbol in symbols), chance


def variance(spec: dict[str, Any], counts: Sequence[int], silent: int, *, cover: bool) -> Fraction:
    """Variance of the unbiased estimate of counts[0], added up user by user.

    Without cover the silent users send nothing, and no symbol stands for it.
    """
    symbols = int(spec["symbols"]) + cover
    values = [value for value, count in enumerate(counts) for _ in range(count)]
    if cover:
        values += [symbols - 1] * silent
    gap = krr(symbols, spec["odds"], 0)[0] - krr(symbols, spec["odds"], 1)[0]
    chances = [krr(symbols, spec["odds"], value)[0] for value in values]
    return sum((chance * (1 - chance) for chance in chances), start=Fraction(0)) / gap**2


def price_of(spec: dict[str, Any], counts: Sequence[int], silent: int) -> tuple[Fraction, Fraction]:
    """Factors by which messages and variance grow with cover."""
    messages = Fraction(sum(counts) + silent, sum(counts))
    with_cover = variance(spec, counts, silent, cover=True)
    return messages, with_cover / variance(spec, counts, silent, cover=False)
