"""What `lab run 5` does: your attack against users who answer afresh, who remember as yours do, and
who run RAPPOR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import NotWritten
from shuffledp_labs.lab import Showing
from shuffledp_labs.lab05_again.guessing import Day, majority_success

SHOWN: Final = (1, 3, 5, 9, 15, 21, 31)
"""Days after which the attacker guesses."""

USERS: Final = 150
"""Of each kind; their shares of right guesses are drawn with an error of about 4 per cent."""

TRUTH: Final = Fraction(3, 4)
FAKE, WHEN_ZERO, WHEN_ONE = Fraction(1, 2), Fraction(1, 4), Fraction(3, 4)
"""RAPPOR's f, p and q, as in the lecture's Figure 9.2."""

Answers = Callable[[int, int], list[int]]
"""A user's daily answers, from its number and its value."""


def show(showing: Showing) -> Path:
    """Measures and draws. Of what is not written yet, the curve is left out."""
    from shuffledp_adversary.attacks.picture import Chart, PlottedCurve, Role, draw_chart

    exact = [float(majority_success(TRUTH, days)) for days in SHOWN]
    curves = [PlottedCurve("the best that fresh answers allow, exactly", Role.LIMIT, SHOWN, exact)]
    for label, role, answers in (
        ("fresh randomness every day", Role.MEASURED, _fresh(showing)),
        ("your client, which remembers", Role.SAFE, _remembered(showing)),
        ("RAPPOR, your two layers", Role.CERTIFIED, _blurred(showing)),
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


def _shares(showing: Showing, answers: Answers) -> list[float]:
    """Share of right guesses after each shown day, with your `guess` throughout."""
    right = [0] * len(SHOWN)
    for user in range(USERS):
        value = user % 2
        daily = answers(user, value)
        for place, days in enumerate(SHOWN):
            history: Sequence[Day] = tuple((answer, TRUTH) for answer in daily[:days])
            right[place] += showing.program.call("guess", history) == value
    return [count / USERS for count in right]


def _fresh(showing: Showing) -> Answers:
    def answers(_user: int, value: int) -> list[int]:
        return [value if showing.draws.flip(TRUTH) else 1 - value for _ in range(SHOWN[-1])]

    return answers


def _remembered(showing: Showing) -> Answers:
    def answers(user: int, value: int) -> list[int]:
        asked = (f"user-{user}", "Do you smoke?", value, TRUTH)
        return [
            int(showing.program.sample("answer", *asked, coins=showing.draws))
            for _ in range(SHOWN[-1])
        ]

    return answers


def _blurred(showing: Showing) -> Answers:
    """Which of RAPPOR's two bits was reported is an answer.

    Where both or none were, a coin breaks the tie.
    """

    def answers(_user: int, value: int) -> list[int]:
        kept = showing.program.sample("keep", (1 - value, value), FAKE, coins=showing.draws)
        daily = []
        for _ in range(SHOWN[-1]):
            no, yes = showing.program.sample(
                "report", kept, WHEN_ZERO, WHEN_ONE, coins=showing.draws
            )
            daily.append(int(yes) if yes != no else showing.draws.below(2))
        return daily

    return answers
