"""The wrong programs of `labs/mutants`: a lab's solution with a few lines in the place of
others."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LABS = Path(__file__).parents[2] / "labs"


@dataclass(frozen=True)
class Wrong:
    """A program that is wrong in one way.

    Attributes:
        lab: its number in two digits.
        name: what it does, in a few words.
        loses: the check that it has to lose on every instance.
        why: what is wrong, a sentence.
        text: the whole program.
    """

    lab: str
    name: str
    loses: str
    why: str
    text: str


def solution(lab: str) -> Path:
    return LABS / "solutions" / f"lab{lab}.py"


def wrong_programs(lab: str) -> Iterator[Wrong]:
    """Raises ValueError where lines that are exchanged do not stand in the solution exactly
    once."""
    right = solution(lab).read_text()
    for name, told in tomllib.loads((LABS / "mutants" / f"lab{lab}.toml").read_text()).items():
        text, done = "", 0
        for change in sorted(told["changes"], key=lambda each: _place(right, name, each["old"])):
            at = right.index(change["old"])
            text += right[done:at] + change["new"]
            done = at + len(change["old"])
        yield Wrong(lab, name, told["loses"], told["why"], text + right[done:])


def _place(right: str, name: str, old: str) -> int:
    if right.count(old) != 1:
        raise ValueError(f"{name}: the solution has to have these lines once:\n{old}")
    return right.index(old)
