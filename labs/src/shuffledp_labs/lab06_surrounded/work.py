"""Lab 6, Surrounded: your work. The handout (README.md) says what each function must do."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any


def submissions(plan: dict[str, Any]) -> tuple[int, ...]:
    """Step B: what each of your accounts sends, one symbol an account."""
    raise NotImplementedError


def guess(plan: dict[str, Any], board: tuple[int, ...], mine: tuple[int, ...]) -> int:
    """Step B: the most probable value of one honest user, after the board and what your accounts
    sent.
    """
    raise NotImplementedError


def most_colluding(certified: Callable[[int], float], users: int, epsilon: float) -> int | None:
    """Step C: the most colluding users for which the certificate still says at most `epsilon`.

    None if none does.
    """
    raise NotImplementedError


def accept(manifest: dict[str, Any], limits: dict[str, Any]) -> bool:
    """Step D: whether a user with these limits takes part in this round."""
    raise NotImplementedError


def noise_plan(expected: int, stays: Fraction, colluding: int) -> tuple[int, int]:
    """Step E: (min_reports, colluding) of a round with shared noise of which only a part may
    come.
    """
    raise NotImplementedError


def crowd(situation: dict[str, Any]) -> int:
    """Step F: how many honest reports, the victim's own included, a published round shuffles it
    among at the least.
    """
    raise NotImplementedError
