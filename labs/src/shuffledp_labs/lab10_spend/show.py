"""The picture of lab 10: ε by days under several bounds; and the student's ledger in use."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import LabError, NotWritten, StudentException
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab10_spend.exact import basic, exact_epsilon, sharper, textbook

DAYS: Final = (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
DELTA: Final = 1e-3
USERS: Final = 20
BUDGET: Final = 3.0
"""ε that your ledger may spend in the show, at `DELTA`."""

MOST_DAYS: Final = 100


def one_day() -> float:
    """ε of one day's yes/no question to 20 users; truthful with probability 3/4, δ = .001."""
    from shuffledp_labs.lab05_again.budget import one_day as cost
    from shuffledp_privacy.bounds import epsilon_bounds

    cost_of_day = cost(USERS)
    return epsilon_bounds(cost_of_day.mechanism, cost_of_day.setting, DELTA).certified


def accountant(days: int) -> float:
    """The accountant's composed ε of `days` days.

    It composes all that a round's analysis knows, not only its ε.
    """
    from shuffledp_labs.lab05_again.budget import one_day as cost
    from shuffledp_privacy.rounds.composition import Round, compose_epsilon

    cost_of_day = cost(USERS)
    return compose_epsilon([Round(cost_of_day.mechanism, cost_of_day.setting, days)], DELTA)


def show(showing: ShowRun) -> Path:
    """Draw the bounds and use the ledger; functions not written yet are left out."""
    from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve, draw_chart

    daily = one_day()
    showing.progress(_spent_by_your_ledger(showing, daily))
    lists = [(daily,) * days for days in DAYS]
    bounds = (
        (
            "the textbook's advanced composition",
            CurveRole.LIMIT,
            [textbook(rounds, DELTA) for rounds in lists],
        ),
        ("the plain sum", CurveRole.LIMIT, [basic(rounds) for rounds in lists]),
        ("the sharper closed form", CurveRole.LIMIT, [sharper(rounds, DELTA) for rounds in lists]),
        (
            "pure rounds, exactly",
            CurveRole.CERTIFIED,
            [exact_epsilon(rounds, DELTA) for rounds in lists],
        ),
        ("the accountant", CurveRole.SAFE, [accountant(days) for days in DAYS]),
    )
    # Three of the lines look alike: the last value tells which is which.
    curves = [
        PlottedCurve(f"{label}: {spent[-1]:.1f} in the end", role, DAYS, spent)
        for label, role, spent in bounds
    ]
    try:
        mine = [float(showing.program.call("compose", rounds, DELTA)) for rounds in lists]
    except NotWritten as missing:
        showing.progress(f"yours is left out: {missing}")
    else:
        curves.append(PlottedCurve("your compose", CurveRole.MEASURED, DAYS, mine))
        showing.progress(
            f"{DAYS[-1]} days: yours {mine[-1]:.4g}, the accountant's {curves[4].ys[-1]:.4g}"
        )
    file = showing.out / "spent-by-days.png"
    title = f"One yes/no question a day, ε = {daily:.3f} each, δ = {DELTA:g}"
    draw_chart(Chart(title, "days", "ε together", curves, log=False), file)
    return file


def _spent_by_your_ledger(showing: ShowRun, daily: float) -> str:
    """Describe the number of days that the student's and the accountant's ledger pay for.

    The first adds up, the second composes.
    """
    from shuffledp_labs.lab05_again.budget import days_allowed

    cost, days = math.ceil(daily * 1e6), 0
    try:
        ledger = showing.program.new("BudgetLedger", "shown.db", round(BUDGET * 1e6))
        while days < MOST_DAYS:
            showing.program.method(
                ledger, "reserve", f"day {days + 1}", cost, lambda total: f"{total}".encode()
            )
            days += 1
    except NotWritten as missing:
        return f"your ledger is left out: {missing}"
    except StudentException as raised:
        if raised.kind != "ValueError":
            return f"your ledger broke down on day {days + 1}: {raised}"
    except LabError as fault:
        return f"your ledger broke down on day {days + 1}: {fault}"
    composing = days_allowed(BUDGET, USERS, MOST_DAYS)
    return (
        f"a budget of ε {BUDGET:g}: your ledger adds up and pays for {days} days, the "
        f"accountant's for {composing}"
    )
