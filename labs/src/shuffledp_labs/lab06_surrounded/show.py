"""The picture of lab 6: certified ε by honest users, and the student's flood of a real round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from shuffledp_core.mechanisms import Spec
from shuffledp_labs.errors import NotWritten
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab06_surrounded import rounds
from shuffledp_labs.lab06_surrounded.guessing import Flood

USERS, SYMBOLS, EPSILON, DELTA = 1000, 10, 0.3, 1e-6
"""The round of the picture: n and k, and the ε and δ that it is certified for with everyone
honest.
"""

TARGET_EPSILON = 1.0
"""The ε for which the picture asks how many may collude."""


def spec() -> Spec:
    """The mechanism in the picture, as the accountant calibrates it."""
    from shuffledp_privacy.calibration.calibrate import Target, calibrate

    return calibrate("krr-histogram", Target(EPSILON, DELTA, USERS, USERS, symbols=SYMBOLS))


def certify(honest: int) -> float:
    """Certified ε of the mechanism in the picture for `honest` honest users; infinite for none."""
    from shuffledp_privacy.bounds import Setting, epsilon_bounds

    if type(honest) is not int or not 1 <= honest <= USERS:
        return math.inf
    return epsilon_bounds(spec(), Setting(USERS, honest), DELTA).certified


def draw(colluding: int | None, file: Path) -> None:
    """Draw certified ε over the number of honest users, with the student's limit."""
    from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve, draw_chart

    honest = _steps()
    curves = [
        PlottedCurve(
            "certified for so many honest users",
            CurveRole.CERTIFIED,
            honest,
            [certify(count) for count in honest],
        ),
        PlottedCurve(
            "certified if all are counted as honest",
            CurveRole.LIMIT,
            [1, USERS],
            [certify(USERS)] * 2,
        ),
    ]
    if colluding is not None:
        left = USERS - colluding
        curves.append(
            PlottedCurve(
                f"your border for ε = {TARGET_EPSILON:g}: {colluding} may collude",
                CurveRole.MEASURED,
                [left],
                [certify(left)],
                joined=False,
            )
        )
    title = f"k-RR, {USERS:,} users, k = {SYMBOLS}: what colluding users take away"
    draw_chart(Chart(title, "honest users", f"ε at δ = {DELTA:g} (nats)", curves), file)


def _steps() -> Sequence[int]:
    return sorted({round(USERS ** (step / 24)) for step in range(25)})


def show(showing: ShowRun) -> Path:
    """Draw the picture with the student's limit, and flood a real round with their accounts."""
    program, picture, colluding = showing.program, showing.out / "honest.png", None
    try:
        colluding = program.call("most_colluding", certify, USERS, TARGET_EPSILON, seconds=120.0)
    except NotWritten:
        showing.progress("most_colluding is not written yet: the picture has no border (step C)")
    try:
        showing.progress(_play_flooded_round(showing))
    except NotWritten:
        showing.progress("submissions or guess is not written yet: no round to flood (step B)")
    showing.progress(f"{len(_steps())} certificates of a round of {USERS:,} users, for the picture")
    draw(colluding if type(colluding) is int else None, picture)
    return picture


def _play_flooded_round(showing: ShowRun) -> str:
    """Play a real round in which the student's accounts surround one user; return a summary."""
    program, mechanism = showing.program, rounds.spec_of_flood()
    p = 1 - mechanism.blanket + mechanism.blanket / mechanism.symbols
    prior = (Fraction(1, 2), Fraction(1, 4), Fraction(3, 20), Fraction(1, 10))
    flood = Flood(rounds.USERS, rounds.USERS - 1, mechanism.symbols, p, prior)
    mine = rounds.call_submissions(program, flood)
    program.call(
        "guess",
        flood.plan,
        tuple(mine.count(symbol) + (symbol == 0) for symbol in range(flood.symbols)),
        mine,
    )
    value = showing.draws.below(mechanism.symbols)
    showing.progress("a system of three nodes, 19 accounts of yours, and one user")
    seen, noisy = rounds.play_both_floods(mine, value)
    answer = program.call("guess", flood.plan, seen.board, mine)
    sent = tuple(mine.count(symbol) for symbol in range(flood.symbols))
    return (
        f"the board says {seen.board}, your accounts sent {sent}; you guess "
        f"{answer}, the user holds {value} and sent {seen.victim_sent} (it is truthful with "
        f"probability {float(p):.3f})\n{_describe_noise(noisy, sent)}"
    )


def _describe_noise(noisy: rounds.NoisyFlood, sent: Sequence[int]) -> str:
    """Describe what the same flood reveals if every node adds noise."""
    left = ", ".join(f"{count - own:.1f}" for count, own in zip(noisy.estimates, sent, strict=True))
    epsilon = "no finite bound" if noisy.epsilon is None else f"{noisy.epsilon:.3g}"
    return (
        f"the same flood with node-histogram, where each node adds {noisy.dummies} messages: "
        f"without your accounts the published counts are ({left}); certified is ε = {epsilon} at "
        f"δ = {rounds.DELTA:g}, with one honest node and no honest person but the victim"
    )
