"""The exact law of a student's random function: all branches, summed in rationals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NoReturn, Protocol, TypeAlias

from shuffledp_labs.errors import BadAnswer, RandomnessElsewhere, StudentFault, TooLarge, TooWide

WIDEST: Final = 4096
"""Most values of one draw whose branches are walked."""

ELSEWHERE: Final = (
    "the same coins led to another answer. All chance has to come from `coins`, and nothing may "
    "be remembered between calls"
)

REPEATED: Final = 1000
"""Branches that are walked a second time, to see that they lead to the same value; all, when there
are fewer.
"""

LEAST_REPEATED: Final = 64
"""Of a small tree, each branch is walked again until there were as many."""


Question: TypeAlias = tuple[str, Any]
"""What a program asked of its coins: "below", "flip" or "flip_exp", and the argument."""

Transcript: TypeAlias = tuple[tuple[str, Any, int], ...]
"""Kind, argument and answer of every question that a run asked of its coins."""


class CoinSource(Protocol):
    """A source of outcomes for a program's coins, such as `Draws`."""

    def below(self, n: int) -> int: ...  # noqa: D102
    def flip(self, p: Fraction) -> bool: ...  # noqa: D102
    def flip_exp(self, g: Fraction) -> bool: ...  # noqa: D102


@dataclass(frozen=True)
class BranchLaw:
    """The law of a function, as far as its branches were followed.

    Attributes:
        of: probability of each value, exactly; as floats once a value depends on `flip_exp`.
        lost: mass of the branches that were too light to follow: any value's probability may be
            larger by up to it.
        exact: whether all probabilities are rationals.
        leaves: number of branches.
        transcripts: the value at the end of each branch that was followed.
    """

    of: dict[Any, Fraction | float]
    lost: Fraction | float
    exact: bool
    leaves: int
    transcripts: dict[Transcript, Any] = field(default_factory=dict, repr=False)


def transcript(questions: Iterable[Question], answers: Iterable[int | bool]) -> Transcript:
    """The transcript of a run: all requested coins with their outcomes."""
    return tuple(
        (kind, argument, int(answer))
        for (kind, argument), answer in zip(questions, answers, strict=False)
    )


class CutBranch(Exception):  # noqa: N818 - no fault
    """Ends a branch instead of answering a coin: too unlikely, or with too many outcomes."""


class BranchCoins:
    """Coins of one branch: the given outcomes, then always the first possible one.

    Attributes:
        questions: all questions so far.
        answers: to them, as far as the branch was followed.
        cut: whether the branch was ended early. Nothing that the program returns then counts.
    """

    def __init__(self, path: Sequence[int], floor: float) -> None:
        self._path = path
        self._floor = floor
        self._mass = 1.0
        self.questions: list[Question] = []
        self.answers: list[int] = []
        self.cut = False

    def below(self, n: int) -> int:
        """See `worker.Coins`."""
        return self._answer("below", n)

    def flip(self, p: Fraction) -> bool:
        """See `worker.Coins`."""
        return bool(self._answer("flip", p))

    def flip_exp(self, g: Fraction) -> bool:
        """See `worker.Coins`."""
        return bool(self._answer("flip_exp", g))

    def _answer(self, kind: str, argument: Any) -> int:
        if self.cut or self._mass < self._floor:
            self._stop()
        question = _question((kind, argument))
        self.questions.append(question)
        if kind == "below" and argument > WIDEST:
            self._stop()
        at = len(self.answers)
        answer = self._path[at] if at < len(self._path) else _first(question)
        if answer >= _sides(question):
            raise RandomnessElsewhere(ELSEWHERE)
        self.answers.append(answer)
        self._mass *= float(_weight(question, answer))
        if self._mass < self._floor:
            self._stop()
        return answer

    def _stop(self) -> NoReturn:
        self.cut = True
        raise CutBranch


class RecordedCoins:
    """Coins of another source, with a record of all requests and outcomes."""

    def __init__(self, source: CoinSource) -> None:
        self._source = source
        self._questions: list[Question] = []
        self._answers: list[int] = []

    @property
    def transcript(self) -> Transcript:
        """Transcript of all coins so far."""
        return transcript(self._questions, self._answers)

    def below(self, n: int) -> int:
        """See `worker.Coins`."""
        return self._record("below", n, self._source.below(n))

    def flip(self, p: Fraction) -> bool:
        """See `worker.Coins`."""
        return bool(self._record("flip", p, self._source.flip(p)))

    def flip_exp(self, g: Fraction) -> bool:
        """See `worker.Coins`."""
        return bool(self._record("flip_exp", g, self._source.flip_exp(g)))

    def _record(self, kind: str, argument: Any, answer: int) -> int:
        self._questions.append(_question((kind, argument)))
        self._answers.append(int(answer))
        return answer


class Walker(Protocol):
    """Runs one branch of the student's function."""

    def branch(self, coins: BranchCoins) -> Any:
        """Return the function's value with these coins; any value if the branch was cut."""


@dataclass
class _Tree:
    """The current branch, and the outcomes of all earlier branches."""

    questions: list[tuple[str, Any]] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    masses: list[Fraction | float] = field(default_factory=list)
    of: dict[Any, Fraction | float] = field(default_factory=dict)
    lost: Fraction | float = Fraction(0)
    leaves: int = 0
    walked: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)
    transcripts: dict[Transcript, Any] = field(default_factory=dict)

    def add(self, coins: BranchCoins, value: Any) -> None:
        """Record a branch that led to a value, or was cut."""
        expected = self.questions[: len(self.path)]
        if coins.questions[: len(expected)] != expected:
            raise RandomnessElsewhere(ELSEWHERE)
        self.questions = coins.questions
        self.path = list(coins.answers)
        mass = self._mass()
        self.leaves += 1
        if coins.cut:
            self.lost += mass
            return
        self.of[value] = self.of.get(value, Fraction(0)) + mass
        self.walked.append((tuple(self.path), value))
        self.transcripts[transcript(coins.questions, coins.answers)] = value

    def _mass(self) -> Fraction | float:
        """Probability of the whole branch; products of its prefixes are reused."""
        for at in range(len(self.masses), len(self.path)):
            before = self.masses[at - 1] if at else Fraction(1)
            self.masses.append(before * _weight(self.questions[at], self.path[at]))
        return self.masses[-1] if self.masses else Fraction(1)

    def advance(self) -> bool:
        """Move to the next branch; False after the last."""
        while self.path:
            question, side = self.questions[len(self.path) - 1], self.path[-1]
            self.masses.pop()
            following = next(
                (s for s in range(side + 1, _sides(question)) if _weight(question, s) > 0), None
            )
            if following is not None:
                self.path[-1] = following
                return True
            self.path.pop()
        return False


def walk(walker: Walker, floor: Fraction, most: int) -> BranchLaw:
    """The law of a random function, by following all branches.

    Branches lighter than `floor` are not followed; more than `most` are refused.
    """
    tree = _Tree()
    while True:
        coins = BranchCoins(tuple(tree.path), float(floor))
        value = walker.branch(coins)
        _refuse(coins, value)
        tree.add(coins, value)
        if tree.leaves > most:
            raise TooLarge(
                f"more than {most:,} different runs: draw less often, or from fewer values (is "
                "there a loop that almost never ends?)"
            )
        if not tree.advance():
            break
    _repeat(walker, tree, float(floor))
    exact = all(type(mass) is Fraction for mass in (*tree.of.values(), tree.lost))
    return BranchLaw(tree.of, tree.lost, exact, tree.leaves, tree.transcripts)


def _repeat(walker: Walker, tree: _Tree, floor: float) -> None:
    for path, value in _again(tree.walked):
        coins = BranchCoins(path, floor)
        again = walker.branch(coins)
        if coins.cut or len(coins.questions) != len(path) or again != value:
            raise RandomnessElsewhere(ELSEWHERE)


def _again(walked: list[tuple[tuple[int, ...], Any]]) -> Iterable[tuple[tuple[int, ...], Any]]:
    """The branches to run again, in another order than before."""
    backwards = walked[::-1]
    if len(backwards) > REPEATED:
        return backwards[:: -(-len(backwards) // REPEATED)]
    return backwards * -(-LEAST_REPEATED // max(1, len(backwards)))


def _refuse(coins: BranchCoins, value: Any) -> None:
    """Raise if this branch cannot belong to a correct program."""
    kind, argument = coins.questions[-1] if coins.questions else ("", 0)
    if coins.cut and kind == "below" and argument > WIDEST:
        raise TooWide(
            f"coins.below({argument}) has too many branches to walk (at most {WIDEST}): use "
            "coins.flip with a Fraction where you want a probability"
        )
    if not coins.cut:
        try:
            hash(value)
        except TypeError:
            raise BadAnswer(
                "a value with a dict in it: return a number, a text, bytes, or a tuple of these"
            ) from None


def _question(message: Any) -> tuple[str, Any]:
    """Parse a question from the worker, which may send anything."""
    try:
        kind, argument = message
        good = {
            "below": lambda: type(argument) is int and argument >= 1,
            "flip": lambda: 0 <= Fraction(argument) <= 1,
            "flip_exp": lambda: Fraction(argument) >= 0,
        }[kind]()
    except (TypeError, ValueError, KeyError, OverflowError, ArithmeticError):
        good = False
    if not good:
        raise StudentFault("its process wrote something of its own into the grader's pipe")
    return kind, argument if kind == "below" else Fraction(argument)


def _sides(question: tuple[str, Any]) -> int:
    return int(question[1]) if question[0] == "below" else 2


def _weight(question: tuple[str, Any], side: int) -> Fraction | float:
    kind, argument = question
    if kind == "below":
        return Fraction(1, argument)
    if kind == "flip":
        return Fraction(argument) if side else 1 - Fraction(argument)
    if not argument:
        return Fraction(side)
    return math.exp(-argument) if side else -math.expm1(-argument)


def _first(question: tuple[str, Any]) -> int:
    return 0 if _weight(question, 0) > 0 else 1
