"""The best guess at one honest user among colluding ones, by counting in rationals.

It is the oracle of step B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import factorial, prod
from typing import Any, TypeAlias

Counts: TypeAlias = tuple[int, ...]
"""How often each symbol stands on a board."""


@dataclass(frozen=True)
class Flood:
    """A k-RR round in which `accounts` of `users` belong to the adversary.

    The others' values follow the prior.
    """

    users: int
    accounts: int
    symbols: int
    p: Fraction
    prior: tuple[Fraction, ...]

    @property
    def honest(self) -> int:
        """Number of honest users, with the victim."""
        return self.users - self.accounts

    @property
    def plan(self) -> dict[str, Any]:
        """The flood as argument of the student's functions."""
        return {
            "users": self.users,
            "accounts": self.accounts,
            "symbols": self.symbols,
            "p": self.p,
            "prior": self.prior,
        }

    def sends(self, value: int, symbol: int) -> Fraction:
        """Probability that a user who holds `value` sends `symbol`."""
        return self.p if value == symbol else (1 - self.p) / (self.symbols - 1)

    def boards(self) -> Iterator[Counts]:
        """All possible boards of the honest users' messages alone.

        They are what can remain after the adversary's messages are removed.
        """
        for bars in combinations(range(self.honest + self.symbols - 1), self.symbols - 1):
            ends = (-1, *bars, self.honest + self.symbols - 1)
            yield tuple(right - left - 1 for left, right in pairwise(ends))

    def joint(self, left: Counts) -> tuple[Fraction, ...]:
        """By value: probability that the victim holds it and the honest users send this board.

        Exact.

        The victim's message is one of the board's; the others are h - 1 draws from what a user
        sends whose value follows the prior, counted by the multinomial law.
        """
        sent = [
            sum(
                (self.prior[value] * self.sends(value, symbol) for value in range(self.symbols)),
                Fraction(0),
            )
            for symbol in range(self.symbols)
        ]
        return tuple(
            self.prior[value]
            * sum(
                (
                    self.sends(value, symbol) * _multinomial(_without(left, symbol), sent)
                    for symbol in range(self.symbols)
                    if left[symbol]
                ),
                Fraction(0),
            )
            for value in range(self.symbols)
        )

    def best(self, left: Counts) -> frozenset[int]:
        """The most probable values given this board; the best guess is one of them."""
        chances = self.joint(left)
        most = max(chances)
        return frozenset(value for value, chance in enumerate(chances) if chance == most)

    def success(self) -> Fraction:
        """Probability that the best guess is right. Exact."""
        return sum((max(self.joint(left)) for left in self.boards()), Fraction(0))


def _without(counts: Counts, symbol: int) -> Counts:
    return (*counts[:symbol], counts[symbol] - 1, *counts[symbol + 1 :])


def _multinomial(counts: Counts, chances: list[Fraction]) -> Fraction:
    ways = factorial(sum(counts)) // prod(map(factorial, counts))
    return ways * prod(
        (chance**count for chance, count in zip(chances, counts, strict=True)), start=Fraction(1)
    )
