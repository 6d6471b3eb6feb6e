"""Lab 8, Trust no theorem: write the functions. The handout (README.md) specifies each.

All numbers are rationals (`fractions.Fraction`): `p` is the probability that a user sends its own
symbol, `growth` is e^ε, and every other symbol is sent with probability (1 - p) / (symbols - 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

Cell: TypeAlias = tuple[int, int, Fraction, Fraction]
"""(users, symbols, p, growth)"""

Statement: TypeAlias = Callable[[int, int, Fraction, Fraction], Fraction]
"""statement(users, symbols, p, growth): the δ that it promises for every dataset of such a cell."""

Witness: TypeAlias = tuple[Cell, tuple[int, ...], tuple[int, ...], tuple[tuple[int, ...], ...]]
"""(cell, first dataset, second dataset, event); the event is a tuple of histograms, a histogram a
tuple of counts.
"""


def delta(symbols: int, p: Fraction, growth: Fraction, others: tuple[int, ...]) -> Fraction:
    """Step B: the exact δ when one user changes from 0 to 1 and the others hold `others`."""
    raise NotImplementedError


def worst(
    users: int, symbols: int, p: Fraction, growth: Fraction
) -> tuple[Fraction, tuple[int, ...]]:
    """Step C: the largest `delta` over all datasets of the others, and one such dataset."""
    raise NotImplementedError


def refute(statement: Statement, cells: Sequence[Cell]) -> Witness | None:
    """Step D: a witness that the statement is false in one of the cells, or None if it is true."""
    raise NotImplementedError
