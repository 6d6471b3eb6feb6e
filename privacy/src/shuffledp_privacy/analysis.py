"""The numerics' interface to the ledger and the accountant's service.

A `Cost` describes what one round costs its users: exact mechanism, setting, and the δ at which ε is
stated. The ledger composes costs under its own adjacency, by analysing the same mechanisms again:
see `compose_costs` for rounds that were fixed in advance, and `adaptive` for others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec import UNSET

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers, Mechanism
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    corrupted_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.rounds.composition import Round, compose_bounds
from shuffledp_privacy.tabulated import Highest, Tabulated, bounds_of

MOST_CURVES: Final = 12
"""Different rounds that are convolved one by one, at about 0.1 s each; of more, neighbours in ε go
together.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The parameters of one round that determine its privacy cost.

    `mechanism`, `setting` and `delta` (0 <= δ < 1).
    """

    mechanism: Mechanism
    setting: Setting
    delta: float


Costs: TypeAlias = Iterable[Cost] | Mapping[Cost, int]
"""Rounds, in any order, or how often there is each."""


@dataclass(frozen=True, slots=True)
class CostAnalysis:
    """Bounds on one cost, with and without a shuffle, and the standard error of the answer.

    Attributes:
        cost: the mechanism, who takes part, and δ.
        bounds: certified and attained ε over all rounds that were analysed.
        corrupted: (ε_L, δ), the guarantee of one round if every mix node is corrupt.
        error: standard error of one round's estimate, in the units of the values, or users; with
            the noise of all nodes.
        error_of_one_node: the error if only one node adds its noise; `error` where nodes add none.
    """

    cost: Cost
    bounds: Bounds
    corrupted: CorruptedBounds
    error: float
    error_of_one_node: float

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that was analysed."""
        return self.cost.mechanism

    @property
    def kind(self) -> str:
        """The mechanism's name."""
        return self.mechanism.kind

    @property
    def estimates(self) -> str:
        """Quantity that the standard error is about: "sum" or "count of one symbol"."""
        return "count of one symbol" if self.mechanism.answers is Answers.HISTOGRAM else "sum"

    @property
    def messages(self) -> int:
        """Messages per user and round."""
        return self.mechanism.messages_per_user

    @property
    def certified(self) -> float:
        """ε over all rounds, nats, never below the truth."""
        return self.bounds.certified

    @property
    def attained(self) -> float:
        """ε that a concrete pair of datasets reaches, never above the truth."""
        return self.bounds.attained

    @property
    def corrupted_epsilon(self) -> float:
        """ε_L in nats, which holds if every node is corrupt."""
        return self.corrupted.epsilon

    @property
    def corrupted_delta(self) -> float:
        """The δ at which `corrupted_epsilon` holds."""
        return self.corrupted.delta


def largest_distance(mechanism: Mechanism) -> int:
    """The largest |x - x'| of two values in the mechanism's domain."""
    return mechanism.domain - 1


def calibrated(plan: RoundPlan) -> Mechanism:
    """The mechanism with least error that meets the plan at its minimum number of reports.

    Raises:
        UsageError: a parameter is outside its range.
        CannotCertify: no parameters meet the target; the message says how close they come.
    """
    histogram = MECHANISMS[plan.mechanism].answers is Answers.HISTOGRAM
    target = Target(
        epsilon=plan.epsilon,
        delta=plan.delta,
        users=plan.min_reports,
        honest=plan.honest,
        adjacency=plan.adjacency,
        max_distance=plan.max_distance,
        max_value=None if histogram else plan.size,
        symbols=plan.size if histogram else None,
        most_users=plan.max_reports,
        epsilon_local=None if plan.epsilon_local is UNSET else plan.epsilon_local,
        columns=_columns(plan),
    )
    return calibrate(plan.mechanism, target).about(plan.question)


def _columns(plan: RoundPlan) -> tuple[int, ...] | None:
    """Number of symbols on each axis of a wording, for a mechanism that counts axes separately."""
    if plan.wording is UNSET or not MECHANISMS[plan.mechanism].counts_columns:
        return None
    return plan.wording.columns


def cost_of(plan: RoundPlan, mechanism: Mechanism, reports: int) -> Cost:
    """Privacy cost of a plan with `reports` reports, `plan.colluding` of them dishonest.

    d_max is the domain's unless the plan states one.

    For a mechanism that needs no crowd, one honest user is assumed, the protected one.

    Raises:
        UsageError: no honest report is left.
    """
    distance = plan.max_distance if plan.max_distance is not None else largest_distance(mechanism)
    honest = reports - plan.colluding if mechanism.needs_crowd else 1
    return Cost(mechanism, Setting(reports, honest, plan.adjacency, distance), plan.delta)


def analyse(cost: Cost, nodes: int) -> CostAnalysis:
    """Bounds of ε, ε_L and the standard error of one round over `nodes` nodes.

    Raises:
        UsageError: the setting is outside the analysis' range.
        CannotCertify: no sound bound is known.
    """
    return analysis_with(bounds_of(cost.mechanism, cost.setting, cost.delta), cost, nodes)


def analysis_with(bounds: Bounds, cost: Cost, nodes: int) -> CostAnalysis:
    """The analysis of a cost whose bounds are already computed; raises what `analyse` raises."""
    return CostAnalysis(
        cost,
        bounds,
        corrupted_bounds(cost.mechanism, cost.setting, cost.delta),
        error=standard_error(cost.mechanism, cost.setting.users, nodes),
        error_of_one_node=standard_error(cost.mechanism, cost.setting.users),
    )


def compose_costs(costs: Costs, adjacency: Adjacency, delta: float) -> Bounds:
    """The least certified ε of all rounds at `delta`, if their parameters are fixed in advance.

    ε of one adjacency is never added to ε of another. Each mechanism is analysed afresh under
    `adjacency` and over its whole domain, whatever its own certificate was stated for: an ε of 0.1
    per unit over {0..20} is charged to a standard budget as the ε of a change from 0 to 20, which
    is at most 2, and often less.

    Bounds: privacy loss distributions convolved (`rounds.composition`), and basic composition, the
    sum of ε_i where the sum of δ_i is at most `delta`. Either holds for rounds whose parameters
    were fixed without looking at the results of earlier rounds of the same users; the rounds'
    randomness may be anything. Where the parameters may depend on results,
    `adaptive.spent_adaptively` counts.

    Args:
        costs: the rounds, in any order, or how often there is each; none cost 0.
        adjacency: the budget's.
        delta: the budget's, 0 < δ < 1.
    """
    return _compose_costs(rebase(costs, adjacency), delta)


def rebase(costs: Costs, adjacency: Adjacency) -> tuple[tuple[Cost, int], ...]:
    """Distinct costs with their multiplicities, sorted, restated for the whole domain."""
    times: Counter[Cost] = Counter()
    for cost, count in Counter(costs).items():
        setting = Setting(cost.setting.users, cost.setting.honest, adjacency)
        times[Cost(cost.mechanism, setting, cost.delta)] += count
    # In one order, so that the same account always has the same cached answer and the same
    # roundings.
    return tuple(sorted(times.items(), key=repr))


@lru_cache(maxsize=256)
def _compose_costs(times: tuple[tuple[Cost, int], ...], delta: float) -> Bounds:
    if not times:
        return Bounds(0.0, 0.0, None, ("nothing charged",))
    if sum(count for _, count in times) == 1:
        return alone(times[0][0], delta)
    times = charged_once(times)
    ways = (_convolve_costs(times, delta), _add_costs(times, delta))
    return min(ways, key=lambda bounds: bounds.certified)


def charged_once(times: tuple[tuple[Cost, int], ...]) -> tuple[tuple[Cost, int], ...]:
    """Keep one of all rounds with the same memoised response: its curve covers all (K14)."""
    first: dict[object, tuple[Cost, int]] = {}
    for cost, count in times:
        name = cost.mechanism.response_name
        first.setdefault(cost if name is None else name, (cost, count if name is None else 1))
    return tuple(first.values())


def alone(cost: Cost, delta: float) -> Bounds:
    """Cost of a single round at `delta`, under its setting's adjacency."""
    try:
        return bounds_of(cost.mechanism, cost.setting, delta)
    except (CannotCertify, UsageError) as refusal:
        return _no_bounds(str(refusal))


def _no_bounds(reason: str) -> Bounds:
    return Bounds(math.inf, -math.inf, None, (f"no finite bound: {reason}",))


def _convolve_costs(times: tuple[tuple[Cost, int], ...], delta: float) -> Bounds:
    alike: Counter[tuple[Mechanism, Setting]] = Counter()
    for cost, count in times:
        alike[cost.mechanism, cost.setting] += count
    try:
        return compose_bounds(_rounds(alike, delta), delta)
    except (CannotCertify, UsageError) as refusal:
        return _no_bounds(str(refusal))


def _rounds(alike: Counter[tuple[Mechanism, Setting]], delta: float) -> list[Round]:
    """The rounds to convolve, one per kind; if there are too many, those of similar ε are joined.

    Sound: a group is counted at the largest of its members' curves, at every ε.
    """
    if len(alike) <= MOST_CURVES:
        return [Round(Tabulated(spec), setting, count) for (spec, setting), count in alike.items()]

    def epsilon(item: tuple[Mechanism, Setting]) -> float:
        return epsilon_bounds(
            Tabulated(item[0]), replace(item[1], adjacency=Adjacency.STANDARD), delta
        ).certified

    ordered = sorted(alike, key=epsilon)
    cuts = [len(ordered) * number // MOST_CURVES for number in range(MOST_CURVES + 1)]
    groups = [tuple(ordered[low:high]) for low, high in pairwise(cuts)]
    # Of that setting only the adjacency counts: each member's curve is computed for its own.
    return [
        Round(Highest(group), group[0][1], sum(alike[member] for member in group))
        for group in groups
    ]


def _add_costs(times: tuple[tuple[Cost, int], ...], delta: float) -> Bounds:
    nothing = _no_bounds("the rounds' deltas together exceed the budget's")
    # Exact: a sum of floats might round down to the budget's δ.
    if sum(Fraction(cost.delta) * count for cost, count in times) > Fraction(delta):
        return nothing
    try:
        epsilons = [
            epsilon_bounds(Tabulated(cost.mechanism), cost.setting, cost.delta).certified * count
            for cost, count in times
        ]
    except (CannotCertify, UsageError):
        return nothing
    # Every product and every partial sum is rounded once, by half a unit in the last place.
    total = up(sum(epsilons), 4 * len(epsilons))
    return Bounds(total, 0.0, None, ("basic composition: sum of epsilons",))
