"""Lab 6, Surrounded: write the functions. The handout (README.md) specifies each."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any


def submissions(plan: dict[str, Any]) -> tuple[int, ...]:
    """Step B: the symbols that your accounts send, one for each account."""
    raise NotImplementedError


def guess(plan: dict[str, Any], board: tuple[int, ...], mine: tuple[int, ...]) -> int:
    """Step B: the most probable value of one honest user, given the board and your messages."""
    raise NotImplementedError


def most_colluding(certified: Callable[[int], float], users: int, epsilon: float) -> int | None:
    """Step C: the largest number of colluding users with a certified ε of at most `epsilon`.

    None if there is no such number.
    """
    raise NotImplementedError


def accept(manifest: dict[str, Any], limits: dict[str, Any]) -> bool:
    """Step D: whether a user with these limits takes part in this round."""
    raise NotImplementedError


def noise_plan(expected: int, stays: Fraction, colluding: int) -> tuple[int, int]:
    """Step E: (min_reports, colluding) for shared noise if only a part of the users may come."""
    raise NotImplementedError


def crowd(situation: dict[str, Any]) -> int:
    """Step F: the least number of honest reports, the victim's included, in a published round."""
    raise NotImplementedError
