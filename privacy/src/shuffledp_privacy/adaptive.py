"""Adaptive composition: the cost of rounds whose parameters may depend on earlier results.

The budget's privacy filters decide (`rounds.filters`; docs/accounting.md, propositions C13 to C16):
a round is admitted while one of them still has room for it. A population's only round may use the
whole budget, as exactly as it can be computed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_privacy.analysis import Cost, Costs, alone, charged_once, compose_costs, rebase
from shuffledp_privacy.bounds import Bounds, Setting
from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.rounds.composition import grows_with_distance
from shuffledp_privacy.rounds.cover import worst_over_distances
from shuffledp_privacy.rounds.filters import Filters, Price
from shuffledp_privacy.tabulated import TABLES


def spent_of_budget(
    costs: Costs, epsilon: float, delta: float, adjacency: Adjacency, composition: CompositionRule
) -> Bounds:
    """ε that the rounds use up, under the composition rule of the budget.

    The result is above `epsilon` if the rounds exceed the budget.

    Args:
        costs: the rounds, in any order, or the number of rounds of each cost; no rounds cost 0.
        epsilon: ε of the budget, in nats; per unit of distance under metric adjacency.
        delta: δ of the budget, 0 < δ < 1.
        adjacency: adjacency of the budget.
        composition: whether the rounds' parameters are fixed, or may depend on earlier answers.
    """
    if composition is CompositionRule.ADAPTIVE:
        return spent_adaptively(costs, adjacency, epsilon, delta)
    return compose_costs(costs, adjacency, delta)


def spent_adaptively(costs: Costs, adjacency: Adjacency, epsilon: float, delta: float) -> Bounds:
    """Part of a budget that the rounds have used, as ε under `adjacency` at `delta`.

    It is at most `epsilon` if and only if the budget admits all of them, in any order. It measures
    the use so far; the guarantee that holds whenever the rounds stop is the budget itself.

    Args:
        costs: the rounds, in any order, or the number of rounds of each cost; no rounds cost 0.
        adjacency: the budget's.
        epsilon: the budget's, in nats; per unit of distance under metric adjacency.
        delta: the budget's, 0 < δ < 1.
    """
    return _spent_epsilon(rebase(costs, adjacency), adjacency, epsilon, delta)


@lru_cache(maxsize=256)
def _spent_epsilon(
    times: tuple[tuple[Cost, int], ...], adjacency: Adjacency, epsilon: float, delta: float
) -> Bounds:
    if not times:
        return Bounds(0.0, 0.0, None, ("nothing charged",))
    try:
        ways = [_apply_filter(charged_once(times), adjacency, epsilon, delta)]
    except CannotCertify as refusal:
        ways = [Bounds(math.inf, -math.inf, None, (f"no filter: {refusal}",))]
    # The first round is chosen without any result, so its own exact ε may use the whole budget
    # (C15).
    if sum(count for _, count in times) == 1:
        only = alone(times[0][0], delta)
        ways.append(replace(only, basis=("C15: the only round so far", *only.basis)))
    return min(ways, key=lambda bounds: bounds.certified)


def _apply_filter(
    times: tuple[tuple[Cost, int], ...], adjacency: Adjacency, epsilon: float, delta: float
) -> Bounds:
    top = max(cost.mechanism.domain for cost, _ in times) - 1
    if adjacency is Adjacency.STANDARD:
        filters = Filters.of(epsilon, delta)
        value, basis = filters.spent_epsilon(_total(times, top, filters))
        return Bounds(value, 0.0, None, (basis,))

    def ceiling(low: int, high: int) -> float:
        # C16: the worst round of the interval, its costs counted at the far end, against the budget
        # of the near one. Costs rise with the budget that they are counted in, room does, too.
        total = _total(times, high, Filters.of(up(epsilon * high, 2), delta))
        return up(Filters.of(down(epsilon * low, 2), delta).spent_epsilon(total)[0] / low, 2)

    worst = worst_over_distances(ceiling, top)
    basis = f"C14-C16: filters, the same distance in every round, worst of 1..{top}"
    return Bounds(worst, 0.0, None, (basis,))


def _total(times: tuple[tuple[Cost, int], ...], distance: int, filters: Filters) -> Price:
    total = Price(0.0, 0.0)
    for cost, count in times:
        if not grows_with_distance(cost.mechanism):
            raise CannotCertify(
                f"no privacy filter is known for {cost.mechanism.kind}: its worst distance is not "
                "known"
            )
        change = max(1, min(distance, cost.mechanism.domain - 1))
        total += _price(cost.mechanism, cost.setting, change, filters).times(count)
    return total


@lru_cache(maxsize=65536)
def _price(mechanism: Mechanism, setting: Setting, distance: int, filters: Filters) -> Price:
    return filters.price(TABLES.of(mechanism, setting, distance))
