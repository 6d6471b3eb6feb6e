"""The picture of lab 11: the student's guess over rounds, without cover messages and with them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeAlias

from shuffledp_labs.errors import NotWritten
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab11_always.histories import (
    TARGET,
    CrowdKnowledge,
    Law,
    SeenRound,
    draw_covered_rounds,
    draw_rounds,
)

History: TypeAlias = tuple[int, tuple[SeenRound, ...]]
"""The victim's value, and the rounds."""

SHOWN: Final = (1, 3, 6, 12, 24, 48)
"""Rounds after which the adversary guesses."""

HISTORIES: Final = 100
"""Of each kind; their shares of right guesses have a standard deviation of at most 5 points."""

OTHERS: Final = 6
"""Other users. Without cover messages each takes part in two of three rounds."""

TRUTH: Final = Fraction(9, 10)


def crowd_of_show() -> CrowdKnowledge:
    """The knowledge in the picture: a yes/no question, and five possible crowds.

    With cover a crowd and a victim who says yes have the same expected board as the next crowd and
    a victim who says no.
    """
    step = (2 * TRUTH - 1) / OTHERS
    crowds = tuple(_yes_no(Fraction(1, 5) + number * step) for number in range(5))
    return CrowdKnowledge(TRUTH, crowds, _yes_no(Fraction(1, 2)))


def _yes_no(yes: Fraction) -> Law:
    return (1 - yes, yes)


def show(showing: ShowRun) -> Path | None:
    """Measure and draw the guesses; without `guess` there is no picture."""
    from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve, draw_chart

    showing.progress(f"{HISTORIES} histories of each kind; this takes up to half a minute")
    curves = list[PlottedCurve]()
    for label, role, draw in (
        ("the victim is in every second round", CurveRole.MEASURED, _without_cover),
        ("everyone sends in every round", CurveRole.SAFE, _with_cover),
    ):
        try:
            shares = _shares(showing, draw)
        except NotWritten as missing:
            showing.progress(f"nothing to show yet: {missing}")
            return None
        curves.append(PlottedCurve(label, role, SHOWN, shares))
        showing.progress(
            f"{label}: your guess is right in "
            + ", ".join(
                f"{share:.0%} after {rounds}" for rounds, share in zip(SHOWN, shares, strict=True)
            )
        )
    file = showing.out / "guesses-by-rounds.png"
    chart = Chart("Does the victim hold yes or no?", "rounds", "guesses right", curves)
    draw_chart(chart, file)
    return file


def _without_cover(draws: Draws) -> History:
    return draw_rounds(draws, crowd_of_show(), SHOWN[-1], lambda index: index % 2 == 0, OTHERS)


def _with_cover(draws: Draws) -> History:
    return draw_covered_rounds(draws, crowd_of_show(), SHOWN[-1], OTHERS)


def _shares(showing: ShowRun, draw: Callable[[Draws], History]) -> list[float]:
    knowledge = crowd_of_show().as_student_data
    right = [0] * len(SHOWN)
    for _ in range(HISTORIES):
        value, rounds = draw(showing.draws)
        for index, number in enumerate(SHOWN):
            seen = tuple(item.as_student_data for item in rounds[:number])
            right[index] += showing.program.call("guess", seen, TARGET, knowledge) == value
    return [count / HISTORIES for count in right]
