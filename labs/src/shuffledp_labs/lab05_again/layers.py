"""Step D of lab 5: the laws of RAPPOR's two layers, by enumeration of all bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

Bits = tuple[int, ...]


def law(chances: Sequence[Fraction]) -> dict[Bits, Fraction]:
    """Joint law of independent bits, the i-th of which is 1 with the i-th probability."""
    return {
        bits: prod(
            (p if bit else 1 - p for bit, p in zip(bits, chances, strict=True)), start=Fraction(1)
        )
        for bits in product((0, 1), repeat=len(chances))
    }


def kept_law(bits: Bits, fake: Fraction) -> dict[Bits, Fraction]:
    """Law of the memoised answer."""
    return law([fake / 2 + (1 - fake) * bit for bit in bits])


def report_law(memoised: Bits, when_zero: Fraction, when_one: Fraction) -> dict[Bits, Fraction]:
    """Law of one report, given the memoised answer."""
    return law([when_one if bit else when_zero for bit in memoised])


def mixture_law(
    first: Mapping[Bits, Fraction], when_zero: Fraction, when_one: Fraction
) -> dict[Bits, Fraction]:
    """Law of one report, if the memoised answer has the law `first`."""
    total: dict[Bits, Fraction] = {}
    for memoised, weight in first.items():
        for bits, chance in report_law(memoised, when_zero, when_one).items():
            total[bits] = total.get(bits, Fraction(0)) + weight * chance
    return total


def largest_ratio(first: Mapping[Bits, Fraction], second: Mapping[Bits, Fraction]) -> Fraction:
    """e^ε of two laws with the same support: the largest ratio of probabilities."""
    return max(max(chance / second[bits], second[bits] / chance) for bits, chance in first.items())


def odds(
    hashes: int, fake: Fraction, when_zero: Fraction, when_one: Fraction
) -> tuple[Fraction, Fraction]:
    """e^ε of one report and of the memoised answer, for two values without a common bit."""
    first_bits = (1,) * hashes + (0,) * hashes
    second_bits = (0,) * hashes + (1,) * hashes
    memoised = kept_law(first_bits, fake), kept_law(second_bits, fake)
    reports = [mixture_law(law_of_value, when_zero, when_one) for law_of_value in memoised]
    return largest_ratio(*reports), largest_ratio(*memoised)
