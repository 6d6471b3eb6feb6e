"""Lab 5, Ask again tomorrow: a reference solution."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any


def guess(days: tuple[tuple[int, Fraction], ...]) -> int:
    """The likelier value: an answer counts by its odds."""
    odds = prod(
        (truth / (1 - truth) if answer else (1 - truth) / truth for answer, truth in days),
        start=Fraction(1),
    )
    return int(odds > 1)


def answer(file: str, question: str, value: int, truth: Fraction, coins: Any) -> int:
    """One answer for each question and each value that it ever had, drawn once and kept."""
    stored = Path(file)
    memoised: dict[str, int] = (
        json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    )
    key = json.dumps([question, value])
    if key not in memoised:
        memoised[key] = value if coins.flip(truth) else 1 - value
        stored.write_text(json.dumps(memoised), encoding="utf-8")
    return memoised[key]


def keep(bits: tuple[int, ...], fake: Fraction, coins: Any) -> tuple[int, ...]:
    """A fair coin with probability `fake`, else the bit."""
    return tuple(coins.below(2) if coins.flip(fake) else bit for bit in bits)


def report(
    memoised: tuple[int, ...], when_zero: Fraction, when_one: Fraction, coins: Any
) -> tuple[int, ...]:
    """A coin for each bit, whose chance the kept bit chooses."""
    return tuple(int(coins.flip(when_one if bit else when_zero)) for bit in memoised)


def odds(
    hashes: int, fake: Fraction, when_zero: Fraction, when_one: Fraction
) -> tuple[Fraction, Fraction]:
    """Both reports that tell most: all own bits 1, all bits of the other value 0."""

    def ratio(low: Fraction, high: Fraction) -> Fraction:
        return (high * (1 - low) / (low * (1 - high))) ** hashes

    def report_chance(chance: Fraction) -> Fraction:
        return chance * when_one + (1 - chance) * when_zero

    low = fake / 2
    high = 1 - fake / 2
    return ratio(report_chance(low), report_chance(high)), ratio(low, high)


def campaign(
    days: int,
    reserve: Callable[[str], tuple[str, bytes]],
    ask: Callable[[str, bytes], None],
) -> int:
    """Asks for each day under one id until there is an answer, and stops at the first refusal."""
    for day in range(days):
        kind, certificate = reserve(f"day {day}")
        while kind == "no answer":
            kind, certificate = reserve(f"day {day}")
        if kind == "refused":
            return day
        ask(f"day {day}", certificate)
    return days
