"""Lab 5, Ask again tomorrow: a reference solution."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any


def guess(days: tuple[tuple[int, Fraction], ...]) -> int:
    """The likelier value: every answer counts with its odds."""
    odds = prod(
        (truth / (1 - truth) if answer else (1 - truth) / truth for answer, truth in days),
        start=Fraction(1),
    )
    return int(odds > 1)


def answer(file: str, question: str, value: int, truth: Fraction, coins: Any) -> int:
    """One memoised answer for each question and each value held, drawn at first use."""
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
    """Replace each bit by a fair coin with probability `fake`."""
    return tuple(coins.below(2) if coins.flip(fake) else bit for bit in bits)


def report(
    memoised: tuple[int, ...], when_zero: Fraction, when_one: Fraction, coins: Any
) -> tuple[int, ...]:
    """One coin for each bit, with a probability that depends on the memoised bit."""
    return tuple(int(coins.flip(when_one if bit else when_zero)) for bit in memoised)


def odds(
    hashes: int, fake: Fraction, when_zero: Fraction, when_one: Fraction
) -> tuple[Fraction, Fraction]:
    """e^ε from the most revealing report: own bits all 1, bits of the other value all 0."""

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
    """Ask each day under one id until there is an answer; stop at the first refusal."""
    for day in range(days):
        kind, certificate = reserve(f"day {day}")
        while kind == "no answer":
            kind, certificate = reserve(f"day {day}")
        if kind == "refused":
            return day
        ask(f"day {day}", certificate)
    return days
