"""Lab 5, Ask again tomorrow: write the bodies. README.md says what each function has to do.

All randomness comes from `coins`: `coins.flip(p)` is true with probability p (a Fraction),
`coins.below(n)` is one of 0 .. n - 1, each as likely. The checks answer these calls themselves,
follow every branch, and so know the exact law.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

# Step B


def guess(days: tuple[tuple[int, Fraction], ...]) -> int:
    """The user's value, 0 or 1, guessed from its answers.

    Args:
        days: for each day the answer, and the probability (above 1/2) with which that answer was
            the truth. The answers are independent. Before the first, 0 and 1 are equally likely.
    """
    raise NotImplementedError


# Step C


def answer(file: str, question: str, value: int, truth: Fraction, coins: Any) -> int:
    """The answer, 0 or 1, of a user who holds `value` and repeats earlier answers.

    Args:
        file: name of a file that is yours alone; there is none before the first call. Store in it
            whatever your program has to remember: it may be killed between any two calls.
        question: any text.
        value: 0 or 1, the truth about this question today.
        truth: probability (above 1/2) with which an answer is the truth.
        coins: the only source of randomness.
    """
    raise NotImplementedError


# Step D


def keep(bits: tuple[int, ...], fake: Fraction, coins: Any) -> tuple[int, ...]:
    """RAPPOR's first layer, drawn once and memoised.

    Each bit is replaced by a fair coin with probability `fake`.
    """
    raise NotImplementedError


def report(
    memoised: tuple[int, ...], when_zero: Fraction, when_one: Fraction, coins: Any
) -> tuple[int, ...]:
    """RAPPOR's second layer, drawn again every day.

    A bit is 1 with probability `when_one` where the memoised bit is 1, and with probability
    `when_zero` where it is 0.
    """
    raise NotImplementedError


def odds(
    hashes: int, fake: Fraction, when_zero: Fraction, when_one: Fraction
) -> tuple[Fraction, Fraction]:
    """Exact e^ε of one report, and exact e^ε of the memoised answer.

    A value sets `hashes` bits; two values that have none of them in common are the worst case.
    """
    raise NotImplementedError


# Step E


def campaign(
    days: int,
    reserve: Callable[[str], tuple[str, bytes | str]],
    ask: Callable[[str, bytes], None],
) -> int:
    """Ask the question on as many days as the budget allows, but at most `days`.

    Returns the number of days on which it was asked.

    Args:
        days: most days.
        reserve: asks the ledger for a round of the given id, a text of your choice. Gives
            ("certificate", bytes), or ("refused", why): the budget does not cover it, now or
            later; or ("no answer", why): the connection was lost, and it is unknown whether the
            ledger charged the round. For an id that was charged before, the ledger returns the same
            certificate again and charges nothing.
        ask: asks the question in the round of that id, with its certificate; once per round.
    """
    raise NotImplementedError
