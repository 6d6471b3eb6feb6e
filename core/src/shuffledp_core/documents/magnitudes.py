"""Symbols for numbers that are summed: magnitudes, to which devices round at random.

docs/protocol.md, "Magnitudes"; docs/accounting.md, N11.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Final

import msgspec

from shuffledp_core.documents.decimals import EXACT, parse_decimal, read_number, spell_decimal
from shuffledp_core.sampling.randomness import RandomIntegers

MOST_PARTS: Final = 64
"""Most numbers of magnitudes between doublings."""

MOST_DOUBLINGS: Final = 40
"""Most doublings of magnitudes: each may be the cut of a sum."""


class SymbolMagnitudes(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="kind",
    tag="magnitudes",
):
    """Symbols that stand for rising numbers from 0, with distances that double as in floats.

    Numbers are multiples of the decimal `step`: the first 2 `parts` of them are consecutive, and
    after every `parts` symbols the distance doubles. A device rounds an answer up or down at
    random, so that its mean is the answer; answers above the largest number count as that.
    """

    step: str
    parts: int
    size: int

    def __post_init__(self) -> None:
        if parse_decimal(self.step) <= 0:
            raise ValueError(f"the step of magnitudes must be above 0, not {self.step}")
        if not 1 <= self.parts <= MOST_PARTS:
            raise ValueError(f"magnitudes have 1 to {MOST_PARTS} parts, not {self.parts}")
        most = MOST_DOUBLINGS * self.parts + 1
        if not 2 * self.parts < self.size <= most:
            raise ValueError(
                f"magnitudes with {self.parts} parts have {2 * self.parts + 1} to {most} symbols, "
                f"not {self.size}"
            )
        parse_decimal(spell_decimal(self.value(self.size - 1)))

    def multiple(self, symbol: int) -> int:
        """The number that a symbol stands for, as a multiple of `step`."""
        return multiple_of(symbol, self.parts)

    def value(self, symbol: int) -> Decimal:
        """The number that a symbol stands for."""
        return EXACT.multiply(Decimal(self.multiple(symbol)), Decimal(self.step))

    def name(self, symbol: int, unit: str) -> str:
        """The symbol in words, with the unit."""
        return f"about {spell_decimal(self.value(symbol))} {unit}".rstrip()

    def locate(self, answer: str, integers: RandomIntegers | None = None) -> int:
        """Draw the symbol of an answer, by default with the operating system's randomness.

        Raises `ValueError`, which does not repeat the answer: values are secret.
        """
        steps = Fraction(read_number(answer)) / Fraction(self.step)
        if steps < 0:
            raise ValueError(f"expected a number: {self.describe('')}")
        low = bisect_right(range(self.size), math.floor(steps), key=self.multiple) - 1
        if low == self.size - 1:
            return low
        least = self.multiple(low)
        share = (steps - least) / (self.multiple(low + 1) - least)
        draw = (integers or RandomIntegers()).below(share.denominator)
        return low + (draw < share.numerator)

    def describe(self, unit: str) -> str:
        """The possible answers, in words."""
        largest = spell_decimal(self.value(self.size - 1))
        return f"0 or more {unit}".rstrip() + f", above {largest} counted as that"

    def texts(self) -> Iterator[str]:
        """The strings of this part of a wording: the step."""
        yield self.step


def multiple_of(symbol: int, parts: int) -> int:
    """The number that a symbol of magnitudes with `parts` parts stands for, in steps."""
    doublings, part = divmod(symbol, parts)
    return part if doublings == 0 else (parts + part) << (doublings - 1)
