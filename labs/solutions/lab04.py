"""Reference solution of lab 4."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

NOBODY = -1


def digest(message: bytes) -> bytes:
    """Digest of a message, as in the logs."""
    return hashlib.sha256(message).digest()[:16]


def link(logs: dict[int, Any], board: list[bytes]) -> list[int]:
    """Follow digests from node 1 to the board.

    Where a node is missing no digest is found again.
    """
    if 1 not in logs:
        return [NOBODY] * len(board)
    owner: dict[bytes, int] = {}
    for position in sorted(logs):
        log = logs[position]
        if position == 1:
            pool = [
                index // log["messages"] for index in range(max(log["permutation"], default=-1) + 1)
            ]
        else:
            pool = [owner.get(came, NOBODY) for came in log["incoming"]]
        owner = {
            left: pool[index]
            for left, index in zip(log["outgoing"], log["permutation"], strict=True)
        }
    return [owner.get(digest(message), NOBODY) for message in board]


def who_slept(logs: dict[int, Any], board: list[bytes], trails: list[list[bytes]]) -> int:
    """The node whose input and output have all own messages at the same positions; 0 for none."""
    shown = {digest(message): index for index, message in enumerate(board)}
    last = len(trails[0])
    for position in range(2, last + 1):
        if position in logs:
            continue
        before = {left: index for index, left in enumerate(logs[position - 1]["outgoing"])}
        after = (
            shown
            if position == last
            else {came: at for at, came in enumerate(logs[position + 1]["incoming"])}
        )
        if all(before[trail[position - 2]] == after[trail[position - 1]] for trail in trails):
            return position
    return 0


def likelihood(answer: int, value: int, spec: dict[str, Any]) -> Fraction:
    """P(answer | value), by the mechanism in `spec`."""
    if spec["mechanism"] == "krr-histogram":
        return Fraction(
            spec["blanket"] / spec["symbols"] + (1 - spec["blanket"]) * (answer == value)
        )
    k, flip = spec["max_value"], spec["randomise"] / 2
    terms = (
        math.comb(value, stay)
        * (1 - flip) ** stay
        * flip ** (value - stay)
        * math.comb(k - value, answer - stay)
        * flip ** (answer - stay)
        * (1 - flip) ** (k - value - answer + stay)
        for stay in range(max(0, answer - (k - value)), min(value, answer) + 1)
    )
    return sum(terms, start=Fraction(0))


def guess(answers: list[int | None], prior: list[Fraction], spec: dict[str, Any]) -> list[int]:
    """The value with the largest posterior; without an answer, the most frequent value."""
    values = range(len(prior))
    guesses = []
    for answer in answers:
        scores = [prior[x] * (1 if answer is None else likelihood(answer, x, spec)) for x in values]
        guesses.append(max(values, key=scores.__getitem__))
    return guesses
