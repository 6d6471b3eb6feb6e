"""Step C of lab 5: the exact joint law of a user's memoised answers to several questions.

All results of the coins are enumerated, each branch with its own file. If the student's program
keeps state outside its file, branches disagree, and the check finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.student.laws import WIDEST

MOST_BRANCHES = 4_000
"""Two coins of five sides for each of two questions are 625."""

ELSEWHERE = (
    "the same questions with the same coins went another way than before: there is randomness, or "
    "memory, elsewhere than in `coins` and in your file (README, step C)"
)

REPEATED = 24
"""Branches that are played a second time."""

AnswerLaw = dict[tuple[int, ...], Fraction]
"""Answers of a history, and their probability."""


@dataclass(frozen=True)
class QuestionOnDay:
    """A question that is asked on a day, and the true answer on that day."""

    question: str
    value: int


class Branch:
    """Coins that follow a given branch, and take the first outcome after its end."""

    def __init__(self, path: list[int], sizes: list[int]) -> None:
        self.path, self.sizes, self.at = path, sizes, 0
        self.chance = Fraction(1)

    def below(self, n: int) -> int:
        """The outcome of a draw from 0..n - 1, all with equal probability."""
        if n > WIDEST:
            raise CheckFailure(
                f"coins.below({n}) has too many branches; use coins.flip with a Fraction (README, "
                "step C)"
            )
        self.chance /= n
        return self._step(n)

    def flip(self, p: Fraction) -> bool:
        """The outcome of a coin that is True with probability p."""
        if p in {0, 1}:
            return p == 1
        heads = self._step(2) == 0
        self.chance *= p if heads else 1 - p
        return heads

    def flip_exp(self, growth: Fraction) -> bool:
        """Raise an error: every answer of this lab has a rational probability."""
        raise CheckFailure(
            f"flip_exp({growth}) was asked for, but no answer needs it: use flip (README, step C)"
        )

    def _step(self, sides: int) -> int:
        if self.at == len(self.path):
            self.path.append(0)
            self.sizes.append(sides)
        elif self.sizes[self.at] != sides:
            raise CheckFailure(ELSEWHERE)
        self.at += 1
        return self.path[self.at - 1]


Play = Callable[[int, Branch], tuple[int, ...]]
"""Plays a history in a branch, which has a number of its own: the answers."""


def joint_law(play: Play, repeated: int = REPEATED) -> AnswerLaw:
    """Joint law of the answers to a history of questions, over all branches.

    Some branches are played again, and have to end alike.

    Raises:
        CheckFailure: there are too many branches, or the program uses other randomness.
    """
    law: AnswerLaw = {}
    walked: list[tuple[list[int], list[int], tuple[int, ...]]] = []
    path: list[int] = []
    sizes: list[int] = []
    while len(walked) < MOST_BRANCHES:
        coins = Branch(path, sizes)
        answers = play(len(walked), coins)
        if coins.at < len(path):
            raise CheckFailure(ELSEWHERE)
        law[answers] = law.get(answers, Fraction(0)) + coins.chance
        walked.append((path.copy(), sizes.copy(), answers))
        if not _advance(path, sizes):
            _play_again(play, walked, repeated)
            return law
    raise CheckFailure(
        f"more than {MOST_BRANCHES} ways through the coins; use coins.flip with a Fraction "
        "(README, step C)"
    )


def _advance(path: list[int], sizes: list[int]) -> bool:
    """Advance to the next branch; return False after the last one."""
    while path and path[-1] == sizes[-1] - 1:
        path.pop()
        sizes.pop()
    if path:
        path[-1] += 1
    return bool(path)


def _play_again(
    play: Play, walked: list[tuple[list[int], list[int], tuple[int, ...]]], count: int
) -> None:
    """Replay `count` of the walked branches, evenly spread, and require the same answers."""
    for number in range(count):
        path, sizes, answers = walked[number * max(1, len(walked) // max(1, count)) % len(walked)]
        coins = Branch(path.copy(), sizes.copy())
        if play(len(walked) + number, coins) != answers or coins.at != len(path):
            raise CheckFailure(ELSEWHERE)


def chance_of_truth(law: AnswerLaw, history: Sequence[QuestionOnDay], day: int) -> Fraction:
    """Probability that the answer on a day is true."""
    return sum(
        (p for answers, p in law.items() if answers[day] == history[day].value), start=Fraction(0)
    )


def chance_that(law: AnswerLaw, holds: Callable[[tuple[int, ...]], bool]) -> Fraction:
    """Probability of the event `holds` under a law of answers."""
    return sum((p for answers, p in law.items() if holds(answers)), start=Fraction(0))


def largest_ratio(first: AnswerLaw, second: AnswerLaw) -> Fraction | None:
    """e^ε of two laws of answers; None if only one of them has some answers, and ε is infinite."""
    if set(first) != set(second):
        return None
    return max(max(p / second[answers], second[answers] / p) for answers, p in first.items())
