"""The exact law of a student's function of coins: every branch is walked, and its probability added up in rationals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Protocol

from shuffledp_labs.errors import BadAnswer, RandomnessElsewhere, StudentFault, TooLarge, TooWide
from shuffledp_labs.student.worker import WIDEST

REPEATED: Final = 1000
"""Branches that are walked a second time, to see that they lead to the same value; all, when there are fewer."""

LEAST_REPEATED: Final = 64
"""Of a small tree, each branch is walked again until there were as many."""


@dataclass(frozen=True)
class Law:
    """A law, as far as it was followed.

    Attributes:
        of: probability of each value, exactly; as floats once a value depends on `flip_exp`.
        lost: mass of the branches that were too light to follow: any value's probability may be larger by up to it.
        exact: whether all probabilities are rationals.
        leaves: how many branches there were.
    """

    of: dict[Any, Fraction | float]
    lost: Fraction | float
    exact: bool
    leaves: int


class Walker(Protocol):
    """Runs one branch of the student's function."""

    def branch(self, path: list[int], floor: float) -> tuple[Any, ...]:
        """What the worker answers: a leaf or a cut, with every question that was asked."""


@dataclass
class _Tree:
    """The branch that is being walked, and what came of those before."""

    questions: list[tuple[str, Any]] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    masses: list[Fraction | float] = field(default_factory=list)
    of: dict[Any, Fraction | float] = field(default_factory=dict)
    lost: Fraction | float = Fraction(0)
    leaves: int = 0
    walked: list[tuple[tuple[int, ...], Any]] = field(default_factory=list)

    def add(self, told: tuple[Any, ...]) -> None:
        """One branch: leads to a value, or was cut."""
        kind, asked = told[0], [_question(each) for each in told[1]]
        known = self.questions[: len(self.path)]
        if asked[: len(known)] != known:
            raise RandomnessElsewhere(_elsewhere())
        self.questions = asked
        self.path += [_first(question) for question in asked[len(self.path) :]]
        mass = self._mass()
        self.leaves += 1
        if kind == "cut":
            self.lost += mass
            return
        self.of[told[2]] = self.of.get(told[2], Fraction(0)) + mass
        self.walked.append((tuple(self.path), told[2]))

    def _mass(self) -> Fraction | float:
        """Of the whole branch; those of its beginnings are kept from the branch before."""
        for at in range(len(self.masses), len(self.path)):
            before = self.masses[at - 1] if at else Fraction(1)
            self.masses.append(before * _weight(self.questions[at], self.path[at]))
        return self.masses[-1] if self.masses else Fraction(1)

    def advance(self) -> bool:
        """Goes on to the next branch; False after the last."""
        while self.path:
            question, side = self.questions[len(self.path) - 1], self.path[-1]
            self.masses.pop()
            following = next((s for s in range(side + 1, _sides(question)) if _weight(question, s) > 0), None)
            if following is not None:
                self.path[-1] = following
                return True
            self.path.pop()
        return False


def walk(walker: Walker, floor: Fraction, most: int) -> Law:
    """The law of a function of coins. Branches lighter than `floor` are not followed; more than `most` are refused."""
    tree = _Tree()
    while True:
        told = walker.branch(tree.path, float(floor))
        _refuse(told)
        tree.add(told)
        if tree.leaves > most:
            raise TooLarge(
                f"more than {most:,} different runs: draw less often, or from fewer values (is there a loop that "
                "almost never ends?)"
            )
        if not tree.advance():
            break
    _repeat(walker, tree, float(floor))
    exact = all(type(mass) is Fraction for mass in (*tree.of.values(), tree.lost))
    return Law(tree.of, tree.lost, exact, tree.leaves)


def _repeat(walker: Walker, tree: _Tree, floor: float) -> None:
    for path, value in _again(tree.walked):
        told = walker.branch(list(path), floor)
        if told[0] != "leaf" or len(told[1]) != len(path) or told[2] != value:
            raise RandomnessElsewhere(_elsewhere())


def _again(walked: list[tuple[tuple[int, ...], Any]]) -> Iterable[tuple[tuple[int, ...], Any]]:
    """Which branches are walked again, in another order than before."""
    backwards = walked[::-1]
    if len(backwards) > REPEATED:
        return backwards[:: -(-len(backwards) // REPEATED)]
    return backwards * -(-LEAST_REPEATED // max(1, len(backwards)))


def _refuse(told: tuple[Any, ...]) -> None:
    """Stops at what no branch of a correct program is."""
    if told[0] == "elsewhere":
        raise RandomnessElsewhere(f"it used {told[1]}: {_elsewhere()}")
    if told[0] == "cut" and told[1] and told[1][-1][0] == "below" and told[1][-1][1] > WIDEST:
        raise TooWide(
            f"coins.below({told[1][-1][1]}) has too many branches to walk (at most {WIDEST}): use coins.flip with a "
            "Fraction where you want a probability"
        )
    if told[0] == "leaf":
        try:
            hash(told[2])
        except TypeError:
            raise BadAnswer("a value with a dict in it: return a number, a text, bytes, or a tuple of these") from None


def _elsewhere() -> str:
    return (
        "the same coins led to another answer. All chance has to come from `coins`, and nothing may be remembered "
        "between calls"
    )


def _question(asked: Any) -> tuple[str, Any]:
    """A question as the worker tells it; it may tell anything."""
    try:
        kind, argument = asked
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
