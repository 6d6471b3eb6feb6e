"""The wrong programs of `labs/mutants`: a lab's solution in which a few lines are replaced."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LABS: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Wrong:
    """A program with one deliberate fault.

    Attributes:
        lab: its number in two digits.
        name: what it does, in a few words.
        loses: the check that it loses on every instance.
        also: further checks that it may lose, because they judge the same lines.
        reason: why one change loses several checks; empty without such checks.
        why: what is wrong, a sentence.
        text: the whole program.
    """

    lab: str
    name: str
    loses: str
    also: tuple[str, ...]
    reason: str
    why: str
    text: str


def solution(lab: str) -> Path:
    """The reference solution of a lab, by its number in two digits."""
    return LABS / "solutions" / f"lab{lab}.py"


def wrong_programs(lab: str) -> Iterator[Wrong]:
    """The wrong programs of a lab.

    Raises:
        ValueError: lines to be replaced do not occur exactly once in the solution.
    """
    right = solution(lab).read_text(encoding="utf-8")
    file = LABS / "mutants" / f"lab{lab}.toml"
    for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
        text = ""
        end = 0
        changes = sorted(entry["changes"], key=lambda change: _offset(right, name, change["old"]))
        for change in changes:
            start = right.index(change["old"])
            text += right[end:start] + change["new"]
            end = start + len(change["old"])
        text += right[end:]
        also = tuple(entry.get("also", ()))
        yield Wrong(lab, name, entry["loses"], also, entry.get("reason", ""), entry["why"], text)


def _offset(right: str, name: str, old: str) -> int:
    if right.count(old) != 1:
        raise ValueError(f"{name}: the solution has to have these lines once:\n{old}")
    return right.index(old)
