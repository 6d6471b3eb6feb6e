"""Average: asking the same question every day (Wang, lecture 9, section 9.1.1).

What the adversary knows: every answer of one user, when all nodes are corrupt; or, with an honest
node, the totals of a small round and the values of all users but one. Either way once a day.

What it does: it averages. Fresh randomness of many days cancels out; the value, which is the same
every day, stays.

Why it works: ε is for one answer. The ε of T answers about one value is that of the composed
rounds, and after a hundred days of randomised response the value is practically certain.

What stops it: the rounds must be counted. The accountant's ledger composes all rounds of a
population and refuses the one that would overspend the budget. RAPPOR's memoisation is another way
for a question that stays the same: a user keeps one permanent randomised answer and only blurs it
again each day, so that no number of reports reveals more than the permanent answer. It does not
help against a slightly different question.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_accountant.ledger.charges import Account, Budget, Reservation
from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_adversary.attacks.attack import CONFIDENCE, TRIALS, USERS, Attack, whole_number
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import (
    check_trials,
    epsilon_finding,
    guess_finding,
    guess_limit,
)
from shuffledp_adversary.attacks.picture import Chart, CurveRole, PlottedCurve
from shuffledp_adversary.attacks.trials import Trials
from shuffledp_adversary.attacks.views import (
    FAKE,
    WHEN_ONE,
    WHEN_ZERO,
    YES_NO,
    daily_answers,
    daily_rappor,
    daily_totals,
)
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, clopper_pearson, epsilon_bound
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import BudgetExceeded, UsageError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.local.rappor import RapporPermanent, RapporReport, rappor_epsilon
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

LOCAL_TRIALS: Final = 6
"""Number of users whose own reports are averaged, per simulated small round: they are cheap."""


def run_average(
    *,
    days: int = 100,
    users: int = 20,
    budget: float = 3.0,
    delta: float = 1e-3,
    trials: int = 400,
    confidence: float = DEFAULT_CONFIDENCE,
) -> AttackReport:
    """Run the attack: a yes/no question is asked every day, of one user and of a small round.

    Args:
        days: number of days, at least 10.
        users: number of users of the small round, all honest; at least 2.
        budget: ε (nats) that its population may spend over all days, at `delta`.
        delta: δ of one day's certificate and of the budget.
        trials: small rounds for each of two neighbouring datasets; `LOCAL_TRIALS` times as many
            single users.
        confidence: confidence of the intervals.

    Raises:
        UsageError: a parameter is out of range.
    """
    check_trials(trials, confidence)
    if users < 2:
        raise UsageError(
            f"users must be at least 2, or the small round has nothing to shuffle, not {users}"
        )
    if days < 10:
        raise UsageError(f"days must be at least 10, not {days}")
    began = time.monotonic()
    allowed, refusal = days_within_budget(users, budget, delta, days)
    shown = sorted({1, 3, 10, 30, allowed, days} & set(range(1, days + 1)))
    with Trials() as work:
        singles = LOCAL_TRIALS * trials
        fresh = [
            work.run_trials(f"one user, answer {x}", partial(daily_answers, x, shown), singles)
            for x in (0, 1)
        ]
        memoised = [
            work.run_trials(f"RAPPOR, value {x}", partial(daily_rappor, x, shown), singles)
            for x in (0, 1)
        ]
        totals = [
            work.run_trials(
                f"small round, answer {x}", partial(daily_totals, users, x, shown), trials
            )
            for x in (0, 1)
        ]
    # The best guess from independent answers to one question is the majority's.
    right_fresh = np.concatenate((2 * fresh[0] <= shown, 2 * fresh[1] > shown))
    # A tie is read as 0 on both sides: taken as right on each it would flatter the adversary.
    right_memoised = np.concatenate((memoised[0] <= 0, memoised[1] > 0))
    small = _Small(users, delta, confidence, shown, totals)
    return AttackReport(
        attack="average",
        lesson="ε is for one answer. Asking every day averages the noise away, unless a budget "
        "counts the days.",
        findings=(
            _certain(right_fresh[:, -1], days, confidence),
            small.finding(days, small.one_day, "certificate of one day", defended=False),
            small.finding(
                days, small.composed_epsilon(days), f"{days} days composed", defended=True
            ),
            small.finding(
                allowed,
                budget,
                "the population's budget, kept by the ledger",
                defended=True,
                note=refusal,
            ),
            *_rappor_findings(memoised, right_memoised, days, delta, confidence),
        ),
        seconds=time.monotonic() - began,
        details={
            "days_within_budget": allowed,
            "curve": [
                {
                    "days": day,
                    "right_fresh": _share(right_fresh[:, column], confidence),
                    "right_rappor": _share(right_memoised[:, column], confidence),
                    "small_round": {
                        "low": small.bound(day).lower,
                        "composed": small.composed_epsilon(day),
                    },
                }
                for column, day in enumerate(shown)
            ],
        },
    )


def average_chart(report: AttackReport) -> Chart:
    """Chart of the share of right guesses by days, with fresh and with memoised randomness."""
    curve = report.details["curve"]
    days = [point["days"] for point in curve]

    def line(key: str, label: str, role: CurveRole) -> PlottedCurve:
        shares, lows, highs = zip(*(point[key] for point in curve), strict=True)
        return PlottedCurve(label, role, days, shares, lows, highs)

    one_day = _limit_of_one_day()
    memoised = _limit_of_memoised()
    return Chart(
        title="The same yes/no question every day: does the user hold yes or no?",
        xlabel="days",
        ylabel="guesses that are right",
        curves=[
            line("right_fresh", "fresh randomness every day", CurveRole.MEASURED),
            line("right_rappor", "RAPPOR, the kept answer blurred every day", CurveRole.SAFE),
            PlottedCurve(
                f"most that one day's ε = ln 3 allows: {one_day:.3g}",
                CurveRole.LIMIT,
                [1, days[-1]],
                [one_day] * 2,
            ),
            PlottedCurve(
                f"most that the kept answer allows: {memoised:.3g}",
                CurveRole.CERTIFIED,
                [1, days[-1]],
                [memoised] * 2,
            ),
        ],
    )


class _Small:
    """The small round: lower bounds of ε from its totals, and certified ε, by displayed day."""

    def __init__(
        self,
        users: int,
        delta: float,
        confidence: float,
        shown: Sequence[int],
        totals: Sequence[NDArray[np.int64]],
    ) -> None:
        self._setting = Setting(users, users)
        self._delta = delta
        self._bounds = {
            day: epsilon_bound(totals[0][:, column], totals[1][:, column], delta, confidence)
            for column, day in enumerate(shown)
        }
        self.bound = self._bounds.__getitem__
        self.one_day = epsilon_bounds(YES_NO, self._setting, delta).certified

    def composed_epsilon(self, days: int) -> float:
        """Certified ε of `days` daily rounds together."""
        return compose_epsilon([Round(YES_NO, self._setting, days)], self._delta)

    def finding(
        self, days: int, value: float, source: str, *, defended: bool, note: str = ""
    ) -> Finding:
        """Finding from the totals of `days` days against a claim."""
        scenario = f"one honest node, {self._setting.users} users, totals of {days} days"
        return epsilon_finding(
            scenario, self.bound(days), ClaimedLimit(source, value), defended=defended, note=note
        )


def _certain(right: NDArray[np.bool_], days: int, confidence: float) -> Finding:
    claim = ClaimedLimit(
        "ε of one day: right guesses at most (e^ε + δ)/(1 + e^ε)", _limit_of_one_day()
    )
    return guess_finding(
        f"all nodes corrupt: {days} answers of one user, fresh randomness",
        right,
        claim,
        confidence,
        defended=False,
    )


def _rappor_findings(
    memoised: Sequence[NDArray[np.int64]],
    right: NDArray[np.bool_],
    days: int,
    delta: float,
    confidence: float,
) -> tuple[Finding, Finding, Finding]:
    """Findings for RAPPOR: more reports reveal more, but never more than the memoised answer."""
    bound = epsilon_bound(memoised[0][:, -1], memoised[1][:, -1], delta, confidence)
    report = RapporReport(1, float(FAKE), float(WHEN_ZERO), float(WHEN_ONE))
    permanent = RapporPermanent(1, float(FAKE))
    scenario = f"all nodes corrupt: {days} RAPPOR reports of one user"
    limit = ClaimedLimit(
        "the kept answer: right guesses at most (e^ε + δ)/(1 + e^ε)", _limit_of_memoised()
    )
    return (
        epsilon_finding(
            scenario, bound, ClaimedLimit("ε of one report", rappor_epsilon(report)), defended=False
        ),
        epsilon_finding(
            scenario,
            bound,
            ClaimedLimit("ε of the kept answer", rappor_epsilon(permanent)),
            defended=True,
        ),
        guess_finding(scenario, right[:, -1], limit, confidence, defended=True),
    )


def _limit_of_one_day() -> float:
    return guess_limit(corrupted_bounds(YES_NO, Setting(1, 1), 0.0).epsilon, 0.0)


def _limit_of_memoised() -> float:
    return guess_limit(rappor_epsilon(RapporPermanent(1, float(FAKE))), 0.0)


def days_within_budget(users: int, epsilon: float, delta: float, days: int) -> tuple[int, str]:
    """Number of daily rounds that the real ledger admits, and its refusal of the next.

    Args:
        users: number of users of each round, all honest.
        epsilon: budget of the population over all days, nats.
        delta: δ of the budget, and of one day's certificate.
        days: most days that are asked.

    Raises:
        UsageError: not even the first day fits.
    """
    cost = Cost(YES_NO, Setting(users, users, max_distance=1), delta)
    one_day = epsilon_bounds(YES_NO, cost.setting, delta).certified
    with TemporaryDirectory() as folder:
        ledger = Ledger.open(
            f"sqlite:///{Path(folder) / 'ledger.db'}",
            {"demo": Budget(epsilon, delta)},
            system_clock,
        )
        try:
            for day in range(1, days + 1):
                ledger.reserve(Reservation(f"{day:032x}", "demo", "{}", cost, one_day), _position)
        except BudgetExceeded as refusal:
            if day == 1:
                raise UsageError(
                    f"budget must be at least one day's ε, {one_day:.6g}, not {epsilon}"
                ) from refusal
            return day - 1, f"day {day} is refused: {refusal}"
        finally:
            ledger.close()
    return days, ""


def _position(account: Account) -> bytes:
    """Stand-in for the signed certificate, which no one reads in this attack."""
    return to_json(account.position)


def _share(right: NDArray[np.bool_], confidence: float) -> tuple[Any, ...]:
    return float(right.mean()), *clopper_pearson(int(right.sum()), len(right), confidence)


ATTACK: Final = Attack(
    name="average",
    summary="Ask the same question every day and average out the noise.",
    run=run_average,
    options={
        "days": whole_number("Number of days on which the question is asked."),
        "users": USERS,
        "trials": TRIALS,
        "confidence": CONFIDENCE,
    },
    chart=average_chart,
)
