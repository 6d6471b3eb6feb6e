"""Plays every round there is, by trying every choice that somebody corrupt has, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

ResultT = TypeVar("ResultT")


class Broken(Exception):  # noqa: N818 - what a search looks for is no mistake of its own
    """A property of docs/mixing.md does not hold; says which, and what happened."""


class Over(Exception):  # noqa: N818
    """The round ended without anybody at fault: somebody said nothing."""


class Moot(Exception):  # noqa: N818
    """A move that changes nothing here, or that only other corrupt parties see: the run says
    nothing."""


@dataclass
class Choices:
    """The choices of one run: those of `plan` first, and from then on nobody deviates.

    `ended` is how it went.
    """

    plan: Sequence[int]
    taken: list[tuple[int, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    ended: str = ""

    def pick(self, who: str, moves: Sequence[str]) -> str:
        """One of the moves, or "" for what an honest party does."""
        at = len(self.taken)
        index = self.plan[at] if at < len(self.plan) else 0
        self.taken.append((index, len(moves) + 1))
        if not index:
            return ""
        self.said.append(f"{who}: {moves[index - 1]}")
        return moves[index - 1]


def every_run(
    play: Callable[[Choices], ResultT], deviations: int
) -> Iterator[tuple[Choices, ResultT]]:
    """Every run with at most so many choices that are not the honest ones, each once, by
    depth-first search."""
    plan: list[int] | None = []
    while plan is not None:
        choices = Choices(plan)
        yield choices, play(choices)
        plan = _next(choices.taken, deviations)


def _next(taken: list[tuple[int, int]], deviations: int) -> list[int] | None:
    trail = list(taken)
    while trail:
        index, options = trail.pop()
        if index + 1 < options and sum(1 for before, _ in trail if before) < deviations:
            return [before for before, _ in trail] + [index + 1]
    return None
