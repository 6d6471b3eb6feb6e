"""The budget of a whole campaign before its first round: what each round costs, and what all cost
together. Pure.

Everything is composed as the accountant's ledger composes it, on top of what the population was
charged before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import BudgetExceeded, CannotCertify, ConfigError, UsageError
from shuffledp_ops.campaigns.account import Account
from shuffledp_ops.campaigns.config import Campaign, Question
from shuffledp_ops.campaigns.schedule import Date
from shuffledp_privacy.adaptive import spent_of_budget
from shuffledp_privacy.analysis import Analysis, Cost, analyse, calibrated, cost_of

MOST_POINTS: Final = 40
"""Dates at which the sum is computed for a picture; each may take its time."""

SMALLEST_EPSILON: Final = 1e-3
"""Least ε of a round that is looked for: below it no answer is worth asking."""

LARGEST_LIMIT: Final = 1e4
"""Largest budget that is looked for, when one does not suffice."""


@dataclass(frozen=True)
class Asked:
    """A question with its price: the plan of each of its rounds, and what one of them costs at the
    fewest reports.
    """

    question: Question
    plan: RoundPlan
    cost: Cost
    analysis: Analysis


def price(question: Question, plan: RoundPlan) -> Asked:
    """The price of a question whose ε of each round is known.

    Raises:
        UsageError: a parameter is outside its range.
        CannotCertify: no parameters meet the target.
    """
    try:
        cost = cost_of(plan, calibrated(plan), plan.min_reports)
        return Asked(question, plan, cost, analyse(cost))
    except UsageError as error:
        raise UsageError(f"question {question.name!r}: {error}") from error
    except CannotCertify as error:
        raise CannotCertify(f"question {question.name!r}: {error}") from error


def priced(question: Question, nodes: tuple[str, ...], account: Account, times: int) -> Asked:
    """The price of a question.

    Where it names a total, of the largest ε of each round, in three digits, within it.

    Args:
        question: of the campaign.
        nodes: its route, where it names none.
        account: of its population: how the total adds up.
        times: number of its dates.

    Raises:
        UsageError: a parameter is outside its range, or a node is unknown.
        CannotCertify: no parameters meet the target, or no ε of a round meets the total.
    """
    if question.epsilon is not None:
        return price(question, question.plan(nodes, question.epsilon))
    total = question.total_epsilon or 0.0

    def within(epsilon: float) -> bool:
        plan = question.plan(nodes, epsilon)
        try:
            cost = cost_of(plan, calibrated(plan), plan.min_reports)
        except (
            CannotCertify
        ):  # too little for this mechanism; whether it is the answer is seen in the end
            return True
        together = spent_of_budget(
            {cost: times}, total, question.delta, account.adjacency, account.composition
        )
        return together.epsilon <= total

    found = largest(within, SMALLEST_EPSILON, total)
    if found is None:
        raise CannotCertify(
            f"question {question.name!r}: {times} rounds within a total epsilon of {total:g} "
            f"leave each less than "
            f"{SMALLEST_EPSILON:g}; ask more seldom, or name a larger total_epsilon"
        )
    return price(question, question.plan(nodes, found))


def largest(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """The largest number of three digits in low..high for which a condition holds that holds below.

    None: none does.
    """
    first, last = _index(low), _index(high)
    if _value(last) > high:
        last -= 1
    if holds(_value(last)):
        return _value(last)
    # Halved from the top: far above the answer a round is cheap to compute, far below it is not.
    step, good = 300, last
    while good > first:
        good = max(first, good - step)
        if holds(_value(good)):
            break
        last = good
    else:
        return None
    while last - good > 1:
        middle = (good + last) // 2
        good, last = (middle, last) if holds(_value(middle)) else (good, middle)
    return _value(good)


def _index(value: float) -> int:
    """Place of a number among those of three digits: 900 of them in each power of ten."""
    digits, power = f"{value:.2e}".split("e")
    return 900 * int(power) + round(float(digits) * 100) - 100


def _value(index: int) -> float:
    power, digits = divmod(index, 900)
    return float(f"{digits + 100}e{power - 2}")


@dataclass(frozen=True)
class Course:
    """A population's budget over the dates of a campaign that are still to be paid."""

    account: Account
    dates: Sequence[Date]
    asked: Mapping[str, Asked]

    def costs(self, count: int | None = None) -> Counter[Cost]:
        """The costs of the first `count` dates, or of all."""
        return Counter(self.asked[date.question].cost for date in self.dates[:count])

    @property
    def before(self) -> float:
        """ε that is spent before."""
        return self.account.spent()

    @property
    def after(self) -> float:
        """ε that is spent after the last date; above the limit, or infinite: it does not fit."""
        return self.account.spent(self.costs())

    @property
    def fits(self) -> bool:
        """True if the ledger would take every round."""
        return self.account.carries(self.costs())

    def carried(self) -> int:
        """How many dates the ledger would take, in their order."""
        low, high = 0, len(self.dates) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if self.account.carries(self.costs(middle)) else (low, middle)
            )
        return low

    def enough(self) -> float | None:
        """The budget ε that would carry all dates, in three digits from above.

        None: none up to `LARGEST_LIMIT`.
        """
        costs = self.costs()
        low, high = _index(self.account.limit), _index(LARGEST_LIMIT)
        if not self.account.carries(costs, _value(high)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.account.carries(costs, _value(middle)) else (middle, high)
            )
        return _value(high)

    def points(self) -> list[tuple[int, float]]:
        """ε spent after some of the dates, the first and the last among them: (milliseconds,
        nats).
        """
        count = len(self.dates)
        shown = sorted(
            {round(1 + (count - 1) * place / (MOST_POINTS - 1)) for place in range(MOST_POINTS)}
        )
        return [
            (self.dates[one - 1].at, self.account.spent(self.costs(one))) for one in shown if count
        ]


@dataclass(frozen=True)
class Outlook:
    """What a campaign will ask, and the course of every population's budget."""

    asked: Mapping[str, Asked]
    courses: tuple[Course, ...]


def look_ahead(
    campaign: Campaign,
    accounts: Mapping[str, Account],
    dates: Sequence[Date],
    asked: Mapping[str, Asked],
) -> Outlook:
    """The outlook over the given dates, those that are not charged yet.

    Raises `ConfigError` as `check_responses`.
    """
    check_responses(asked.values())
    courses = []
    for population, account in accounts.items():
        names = {
            question.name for question in campaign.questions if question.population == population
        }
        courses.append(Course(account, [date for date in dates if date.question in names], asked))
    return Outlook(asked, tuple(courses))


def check_outlook(outlook: Outlook) -> None:
    """Raises `BudgetExceeded` where a ledger does not carry all dates.

    The message says what it would carry.
    """
    for course in outlook.courses:
        if course.fits:
            continue
        account, enough = course.account, course.enough()
        needed = (
            "no budget would do" if enough is None else f"a budget of epsilon {enough:.4g} would do"
        )
        raise BudgetExceeded(
            f"the budget of population {account.population!r} does not carry the campaign: epsilon "
            f"{course.before:.4g} of {account.limit:g} is spent at delta {account.delta:g}, and "
            f"{len(course.dates)} "
            f"rounds would bring it to {_number(course.after)} ({account.composition} "
            f"composition); it carries the "
            f"first {course.carried()} of them, and {needed} for all. Nothing was asked: plan "
            f"fewer dates, a smaller "
            f"epsilon, or total_epsilon"
        )


def _number(epsilon: float) -> str:
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "no finite bound"


def check_responses(asked: Iterable[Asked]) -> None:
    """Raises `ConfigError` where people would answer one question with the response that they keep
    to another.
    """
    names: dict[tuple[str, str], str] = {}
    for one in asked:
        response, name = one.cost.mechanism.remembered, one.question.name
        if response is None:
            continue
        other = names.setdefault((one.plan.population, response), name)
        if other != name:
            raise ConfigError(
                f"questions {other!r} and {name!r} have the same number, question = "
                f"{one.plan.question}: devices would "
                "answer both with one kept response; give each a number that no other question to "
                "these people has"
            )


def check_plans(campaign: Campaign, populations: Sequence[str], nodes: Sequence[str]) -> None:
    """Raises `ConfigError` for a question to people or over nodes that the roster does not have."""
    for question in campaign.questions:
        if question.population not in populations:
            raise ConfigError(
                f"question {question.name!r}: the roster has no population "
                f"{question.population!r}; it has "
                f"{', '.join(populations)}"
            )
        unknown = [name for name in question.route or () if name not in nodes]
        if unknown:
            raise ConfigError(
                f"question {question.name!r}: the roster has no node {', '.join(unknown)}; it has "
                f"{', '.join(nodes)}"
            )
