"""Lab 11, "Always there": write the functions. README.md specifies each.

A round is a dict: "present" (a tuple of names: who took part) and "board" (a tuple: how many
messages carry symbol 0, symbol 1 and so on).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any


def suspects(rounds: tuple[dict[str, Any], ...], symbol: int, senders: int) -> list[str]:
    """Step B: the users who must be among the senders of a rare symbol.

    Args:
        rounds: what the adversary saw.
        symbol: the rare symbol.
        senders: 1 or 2: the number of users who always send it when they take part; no other user
            ever does.

    Returns:
        A list or tuple (a set is refused) of the names that are in every set of exactly `senders`
        users that explains all counts of the symbol, in any order; it may be empty. At least one
        set explains them, and every user takes part in at least one round.
    """
    raise NotImplementedError


def guess(rounds: tuple[dict[str, Any], ...], victim: str, knowledge: dict[str, Any]) -> int:
    """Step C: the most probable value of the victim.

    Args:
        rounds: what the adversary saw; the victim takes part in some of them.
        victim: its name in "present".
        knowledge: "truth" (a Fraction: the probability that a message of the victim carries its
            value; all other symbols are equally likely), "crowds" (a tuple of possible laws of the
            other users' messages, each a tuple of Fractions; they are equally likely, and the same
            one holds in all rounds), and "prior" (a tuple of Fractions: how frequent each value
            is). Symbols and values are 0 to len(prior) - 1; each board has this length.

    Returns:
        The value, an int. The checks use no history with a tie; in `lab run` any of the best will
        do. Floats may be used inside, but their rounding can hide a small difference.
    """
    raise NotImplementedError


def answer(spec: dict[str, Any], value: int | None, coins: Any) -> int:
    """Step D: the symbol that a device sends in this round.

    Args:
        spec: "symbols" k (values are 0 to k - 1) and "odds" (a Fraction above 1: how many times as
            likely the own symbol is as any other one).
        value: the user's value, or None if it has none; ValueError for any other. The checks
            pass None and ints only, so what True or 1.0 does is up to you.
        coins: `coins.flip(p)` is true with probability p (a Fraction), `coins.below(n)` is one of
            0 to n - 1. The only source of randomness.

    Returns:
        The symbol, an int from 0 to k. (Python's True and 1.0 count as 1.)
    """
    raise NotImplementedError


def estimate(board: tuple[int, ...], spec: dict[str, Any]) -> list[Fraction]:
    """Step D: unbiased estimates of the numbers of users who hold value 0, 1 .. k - 1."""
    raise NotImplementedError


def price(spec: dict[str, Any], counts: tuple[int, ...], silent: int) -> tuple[Fraction, Fraction]:
    """Step E: factors by which cover multiplies the messages and the first estimate's variance.

    Args:
        spec: as in step D.
        counts: how many users hold value 0, 1 .. k - 1. At least one user holds one: sum(counts)
            is never 0.
        silent: how many users have no value in this round.

    Returns:
        Two Fractions (floats are refused).
    """
    raise NotImplementedError
