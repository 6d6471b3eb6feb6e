"""The budget of a campaign before its first round: the cost of each round, and the total. Pure.

Everything is composed as the accountant's ledger composes it, on top of the population's earlier
charges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import BudgetExceeded, CannotCertify, ConfigError, UsageError
from shuffledp_ops.campaigns.account import PopulationAccount
from shuffledp_ops.campaigns.config import Campaign, CampaignQuestion
from shuffledp_ops.campaigns.schedule import QuestionDate
from shuffledp_privacy.adaptive import spent_of_budget
from shuffledp_privacy.analysis import Cost, CostAnalysis, analyse, calibrated, cost_of
from shuffledp_privacy.splitting import ends_of_noise

MOST_POINTS: Final = 40
"""Dates at which the spent ε is computed for a picture; each computation can be slow."""

SMALLEST_EPSILON: Final = 1e-3
"""Least ε of a round that is considered: below it, no answer is useful."""

LARGEST_LIMIT: Final = 1e4
"""Largest budget ε that is proposed when the present one does not suffice."""


@dataclass(frozen=True)
class PricedQuestion:
    """A question with its plan, and the cost of one round with the minimum number of reports."""

    question: CampaignQuestion
    plan: RoundPlan
    analysis: CostAnalysis

    @property
    def cost(self) -> Cost:
        """The cost that one round is charged."""
        return self.analysis.cost


def price(question: CampaignQuestion, plan: RoundPlan) -> PricedQuestion:
    """Price a question whose plan is known.

    Raises:
        UsageError: a parameter is outside its range.
        CannotCertify: no parameters meet the target.
    """
    try:
        cost = cost_of(plan, calibrated(plan), plan.min_reports)
        return PricedQuestion(question, plan, analyse(cost, len(plan.route)))
    except UsageError as error:
        raise UsageError(f"question {question.name!r}: {error}") from error
    except CannotCertify as error:
        raise CannotCertify(f"question {question.name!r}: {error}") from error


def price_question(
    question: CampaignQuestion, nodes: tuple[str, ...], account: PopulationAccount, times: int
) -> PricedQuestion:
    """Plan and price a question, from its ε per round or from a total.

    A total is divided: each round gets the largest ε, of three digits, that keeps all within it.

    Args:
        question: a question of the campaign.
        nodes: the route if the question names none.
        account: account of its population, which determines how rounds compose.
        times: number of its dates.

    Raises:
        UsageError: a parameter is outside its range, or a node is unknown.
        CannotCertify: no parameters meet the target, or no ε of a round meets the total.
    """
    if question.epsilon is not None:
        return price(question, question.plan(nodes, question.epsilon))
    total = question.total_epsilon or 0.0
    delta = question.round_delta(times)

    def within(epsilon: float) -> bool:
        plan = question.plan(nodes, epsilon, delta)
        try:
            cost = cost_of(plan, calibrated(plan), plan.min_reports)
        except CannotCertify:  # too small for this mechanism; `price` reports it if it is chosen
            return True
        together = spent_of_budget(
            {cost: times}, total, question.delta, account.adjacency, account.composition
        )
        return together.certified <= total

    largest_epsilon = largest(within, SMALLEST_EPSILON, total)
    if largest_epsilon is None:
        raise CannotCertify(
            f"question {question.name!r}: {times} rounds within a total epsilon of {total:g} "
            f"leave less than {SMALLEST_EPSILON:g} for each; plan fewer rounds, or a larger "
            "total_epsilon"
        )
    return price(question, question.plan(nodes, largest_epsilon, delta))


def largest(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """The largest number of three significant digits in low..high that meets a monotone condition.

    A condition that holds for a number must hold for all smaller ones. None: it holds for none.
    """
    first = _rank(low)
    last = _rank(high)
    if _value_at(last) > high:
        last -= 1
    if holds(_value_at(last)):
        return _value_at(last)
    # Halved from the top: far above the answer a round is cheap to compute, far below it is not.
    step, good = 300, last
    while good > first:
        good = max(first, good - step)
        if holds(_value_at(good)):
            break
        last = good
    else:
        return None
    while last - good > 1:
        middle = (good + last) // 2
        good, last = (middle, last) if holds(_value_at(middle)) else (good, middle)
    return _value_at(good)


def _rank(value: float) -> int:
    """Rank of a number among the numbers with three significant digits, 900 per power of ten."""
    digits, power = f"{value:.2e}".split("e")
    return 900 * int(power) + round(float(digits) * 100) - 100


def _value_at(index: int) -> float:
    power, digits = divmod(index, 900)
    return float(f"{digits + 100}e{power - 2}")


@dataclass(frozen=True)
class BudgetCourse:
    """A population's budget over the dates of a campaign that are still to be charged."""

    account: PopulationAccount
    dates: Sequence[QuestionDate]
    questions: Mapping[str, PricedQuestion]

    def costs(self, count: int | None = None) -> Counter[Cost]:
        """Number of rounds of each cost among the first `count` dates, or among all."""
        return Counter(self.questions[date.question].cost for date in self.dates[:count])

    @property
    def before(self) -> float:
        """ε spent before the first date."""
        return self.account.spent_epsilon()

    @property
    def after(self) -> float:
        """ε spent after the last date; above the limit, or infinite, if the dates do not fit."""
        return self.account.spent_epsilon(self.costs())

    @property
    def fits(self) -> bool:
        """True if the ledger would accept every round."""
        return self.account.covers(self.costs())

    def dates_covered(self) -> int:
        """Number of dates, counted from the first, that the ledger would accept."""
        low = 0
        high = len(self.dates) + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.account.covers(self.costs(middle)):
                low = middle
            else:
                high = middle
        return low

    def sufficient_limit(self) -> float | None:
        """The least budget ε, to three digits, that would cover all dates.

        None if not even `LARGEST_LIMIT` would.
        """
        costs = self.costs()
        low = _rank(self.account.limit)
        high = _rank(LARGEST_LIMIT)
        if not self.account.covers(costs, _value_at(high)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.account.covers(costs, _value_at(middle)):
                high = middle
            else:
                low = middle
        return _value_at(high)

    def spending(self) -> list[tuple[int, float]]:
        """Points (ms since 1970, ε spent in nats): at most `MOST_POINTS` dates, evenly chosen."""
        count = len(self.dates)
        shown = sorted(
            {round(1 + (count - 1) * step / (MOST_POINTS - 1)) for step in range(MOST_POINTS)}
        )
        return [
            (self.dates[number - 1].at, self.account.spent_epsilon(self.costs(number)))
            for number in shown
            if count
        ]


@dataclass(frozen=True)
class Outlook:
    """The priced questions of a campaign, and the course of every population's budget."""

    questions: Mapping[str, PricedQuestion]
    courses: tuple[BudgetCourse, ...]


def look_ahead(
    campaign: Campaign,
    accounts: Mapping[str, PopulationAccount],
    dates: Sequence[QuestionDate],
    questions: Mapping[str, PricedQuestion],
) -> Outlook:
    """The outlook over the given dates, none of which has been charged yet.

    Raises `ConfigError` as `check_responses` does.
    """
    check_responses(questions.values())
    courses = []
    for population, account in accounts.items():
        names = {
            question.name for question in campaign.questions if question.population == population
        }
        courses.append(
            BudgetCourse(account, [date for date in dates if date.question in names], questions)
        )
    return Outlook(questions, tuple(courses))


def check_outlook(outlook: Outlook) -> None:
    """Raise `BudgetExceeded` if a budget does not cover all dates, and say how many it covers."""
    for course in outlook.courses:
        if course.fits:
            continue
        account = course.account
        sufficient = course.sufficient_limit()
        needed = (
            "no budget would cover all"
            if sufficient is None
            else f"a budget of epsilon {sufficient:.4g} would cover all"
        )
        raise BudgetExceeded(
            f"the budget of population {account.population!r} does not cover the campaign: epsilon "
            f"{course.before:.4g} of {account.limit:g} is spent at delta {account.delta:g}, and "
            f"{len(course.dates)} rounds would bring it to {_number(course.after)} "
            f"({account.composition} composition); it covers the first {course.dates_covered()} of "
            f"them, and {needed}. No round was opened: plan fewer dates, a smaller epsilon, or "
            f"total_epsilon{_smaller_delta(course)}"
        )


def _smaller_delta(course: BudgetCourse) -> str:
    """The advice to plan a smaller δ, where bounded noise takes much of the budget's δ; else ""."""
    bounded = [cost.delta for cost in course.costs().elements() if not cost.mechanism.needs_crowd]
    advised = ends_of_noise(course.account.delta, len(bounded)) if bounded else 0.0
    if max(bounded, default=0.0) <= advised:
        return ""
    return (
        ". Bounded noise of nodes reveals a value with a probability of up to a round's delta, and "
        f"these add up: plan a delta of at most {advised:.1e} for the {len(bounded)} rounds that "
        "have it"
    )


def _number(epsilon: float) -> str:
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "no finite bound"


def check_responses(questions: Iterable[PricedQuestion]) -> None:
    """Raise `ConfigError` if devices would answer one question with another's memoised response."""
    names: dict[tuple[str, str], str] = {}
    for priced in questions:
        response, name = priced.cost.mechanism.response_name, priced.question.name
        if response is None:
            continue
        other = names.setdefault((priced.plan.population, response), name)
        if other != name:
            raise ConfigError(
                f"questions {other!r} and {name!r} have the same number, question = "
                f"{priced.plan.question}: devices would answer both with one memoised response; "
                "give each a number of its own within the population"
            )


def check_plans(campaign: Campaign, populations: Sequence[str], nodes: Sequence[str]) -> None:
    """Raise `ConfigError` for a question whose population or nodes are not in the roster."""
    for question in campaign.questions:
        if question.population not in populations:
            raise ConfigError(
                f"question {question.name!r}: the roster has no population "
                f"{question.population!r}; it has {', '.join(populations)}"
            )
        unknown = [name for name in question.route or () if name not in nodes]
        if unknown:
            raise ConfigError(
                f"question {question.name!r}: the roster has no node {', '.join(unknown)}; it has "
                f"{', '.join(nodes)}"
            )
