"""Lab 5 solved in another way: floats, lines of a file, both answers drawn at once.

Not a test itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any


def guess(days: tuple[tuple[int, Fraction], ...]) -> int:
    """By log-odds, in floats."""
    return int(
        sum((1 if answer else -1) * math.log(truth / (1 - truth)) for answer, truth in days) > 0
    )


def answer(file: str, question: str, value: int, truth: Fraction, coins: Any) -> int:
    """Draws the answers for both values when a question is new."""
    lines = Path(file).read_text().splitlines() if Path(file).exists() else []
    for line in lines:
        known, pair = json.loads(line)
        if known == question:
            return int(pair[value])
    pair = [
        each if coins.below(truth.denominator) < truth.numerator else 1 - each for each in (0, 1)
    ]
    with Path(file).open("a") as opened:
        opened.write(json.dumps([question, pair]) + "\n")
    return int(pair[value])


def keep(bits: tuple[int, ...], fake: Fraction, coins: Any) -> list[int]:
    """One flip for each bit."""
    return [int(coins.flip(1 - fake / 2 if bit else fake / 2)) for bit in bits]


def report(kept: tuple[int, ...], when_zero: Fraction, when_one: Fraction, coins: Any) -> list[int]:
    """One flip for each bit."""
    return [int(coins.flip(when_one if bit else when_zero)) for bit in kept]


def odds(hashes: int, fake: Fraction, when_zero: Fraction, when_one: Fraction) -> list[Fraction]:
    """As the lecture writes them."""
    high = (1 - fake / 2) * when_one + fake / 2 * when_zero
    low = fake / 2 * when_one + (1 - fake / 2) * when_zero
    return [(high * (1 - low) / (low * (1 - high))) ** hashes, ((2 - fake) / fake) ** (2 * hashes)]


def campaign(
    days: int, reserve: Callable[[str], tuple[str, bytes]], ask: Callable[[str, bytes], None]
) -> int:
    """Days by their length."""
    asked = 0
    while asked < days:
        kind, what = reserve("x" * asked)
        if kind == "refused":
            break
        if kind == "certificate":
            ask("x" * asked, what)
            asked += 1
    return asked
