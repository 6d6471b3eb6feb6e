"""The picture of lab 5: the student's attack on three kinds of users.

They answer afresh, memoise as the student's client does, or run RAPPOR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import NotWritten
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab05_again.guessing import Day, majority_success

SHOWN: Final = (1, 3, 5, 9, 15, 21, 31)
"""Days after which the attacker guesses."""

USERS: Final = 150
"""Of each kind; their shares of right guesses are drawn with an error of about 4 per cent."""

TRUTH: Final = Fraction(3, 4)
FAKE = Fraction(1, 2)
WHEN_ZERO = Fraction(1, 4)
WHEN_ONE = Fraction(3, 4)
"""RAPPOR's f, p and q, as in the lecture's Figure 9.2."""

Answers = Callable[[int, int], list[int]]
"""A user's daily answers, from its number and its value."""


def show(showing: ShowRun) -> Path:
    """Measure and draw the attack; functions that are not written yet have no curve."""
    from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve, draw_chart

    exact = [float(majority_success(TRUTH, days)) for days in SHOWN]
    curves = [
        PlottedCurve("the best that fresh answers allow, exactly", CurveRole.LIMIT, SHOWN, exact)
    ]
    for label, role, answers in (
        ("fresh randomness every day", CurveRole.MEASURED, _fresh_answers(showing)),
        ("your client, which remembers", CurveRole.SAFE, _remembering_answers(showing)),
        ("RAPPOR, your two layers", CurveRole.CERTIFIED, _rappor_answers(showing)),
    ):
        try:
            curves.append(PlottedCurve(label, role, SHOWN, _shares(showing, answers)))
        except NotWritten as missing:
            showing.progress(f"left out, {label}: {missing}")
            continue
        showing.progress(
            f"{label}: right after {SHOWN[-1]} days in {curves[-1].ys[-1]:.0%} of the guesses"
        )
    if len(curves) == 1:
        showing.progress("nothing of yours to show yet: write `guess` first (README, step B)")
    file = showing.out / "success-by-days.png"
    chart = Chart(
        "The same yes/no question every day: does the user hold yes or no?",
        "days",
        "guesses right",
        curves,
    )
    draw_chart(chart, file)
    return file


def _shares(showing: ShowRun, answers: Answers) -> list[float]:
    """Share of right guesses after each displayed day, with the student's `guess`."""
    right = [0] * len(SHOWN)
    for user in range(USERS):
        value = user % 2
        daily = answers(user, value)
        for index, days in enumerate(SHOWN):
            history: Sequence[Day] = tuple((answer, TRUTH) for answer in daily[:days])
            right[index] += showing.program.call("guess", history) == value
    return [count / USERS for count in right]


def _fresh_answers(showing: ShowRun) -> Answers:
    def answers(_user: int, value: int) -> list[int]:
        return [value if showing.draws.flip(TRUTH) else 1 - value for _ in range(SHOWN[-1])]

    return answers


def _remembering_answers(showing: ShowRun) -> Answers:
    def answers(user: int, value: int) -> list[int]:
        arguments = (f"user-{user}", "Do you smoke?", value, TRUTH)
        return [
            int(showing.program.sample("answer", *arguments, coins=showing.draws))
            for _ in range(SHOWN[-1])
        ]

    return answers


def _rappor_answers(showing: ShowRun) -> Answers:
    """Daily answers from RAPPOR's two bits: the value whose bit alone is 1.

    If both or neither is 1, a coin decides.
    """

    def answers(_user: int, value: int) -> list[int]:
        memoised = showing.program.sample("keep", (1 - value, value), FAKE, coins=showing.draws)
        daily = []
        for _ in range(SHOWN[-1]):
            no, yes = showing.program.sample(
                "report", memoised, WHEN_ZERO, WHEN_ONE, coins=showing.draws
            )
            daily.append(int(yes) if yes != no else showing.draws.below(2))
        return daily

    return answers
