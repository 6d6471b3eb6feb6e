"""Checks of a round plan before anything is computed or charged. docs/protocol.md, "Opening"."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from shuffledp_core.documents.models import Roster, RoundPlan
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import (
    ConfigError,
    ForeignDocumentError,
    MalformedDocumentError,
    UsageError,
)
from shuffledp_core.mechanisms import MECHANISMS, Mechanism
from shuffledp_core.mechanisms.work import check_work
from shuffledp_core.onion.geometry import MAX_HOPS, Geometry
from shuffledp_core.onion.suites import check_suite
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import ROUND_ID
from shuffledp_privacy.bounds import check_delta

MIN_NODES: Final = 2
"""Fewest nodes of a route: a single one would have to be trusted."""

MAX_REPORTS: Final = 10**9
"""Largest number of reports that the numerics are made for."""

MAX_PLAN_EPSILON: Final = 100.0


def check_round_id(round_id: str) -> None:
    """Raise `UsageError` unless the id is 32 lower-case hex digits."""
    if not ROUND_ID.fullmatch(round_id):
        # Cut: an error is logged, and a caller may send anything.
        raise UsageError(f"a round id is 32 lower-case hex digits, not {round_id[:80]!r}")


def read_plan(data: bytes, roster: Roster, budgets: Collection[str]) -> RoundPlan:
    """Parse a plan, and check that this accountant can certify it.

    1. The JSON is a `RoundPlan`, with its own rules on counts and times.
    2. Mechanism, size and the target lie in their ranges.
    3. The distance makes sense under the adjacency.
    4. Population, nodes and suite exist, and the suite goes with the mixing.

    Args:
        data: JSON.
        roster: the deployment's.
        budgets: the populations that have a budget.

    Raises:
        UsageError: the message names the value and what is allowed.
    """
    try:  # 1
        plan = from_json(data, RoundPlan)
    except MalformedDocumentError as error:
        raise UsageError(f"the round plan cannot be used: {error}") from error
    _check_question(plan)  # 2
    _check_distance(plan)  # 3
    _check_parties(plan, roster, budgets)  # 4
    return plan


def check_messages(plan: RoundPlan, mechanism: Mechanism) -> None:
    """Raise `UsageError` if no round can carry the calibrated mechanism.

    It sends too many messages, or devices or nodes could not draw its noise in useful time.
    """
    check_work(mechanism)
    try:
        Geometry.of(mechanism, plan.suite, len(plan.route), plan.mix)
    except ValueError as error:
        raise UsageError(
            f"{plan.mechanism} with size {plan.size} at epsilon {plan.epsilon:g} needs "
            f"{mechanism.messages_per_user} messages per user: {error}; take a smaller size or a "
            "larger epsilon"
        ) from error


def _check_question(plan: RoundPlan) -> None:
    if plan.mechanism not in MECHANISMS:
        raise UsageError(
            f"unknown mechanism {plan.mechanism!r}; choose one of {', '.join(MECHANISMS)}"
        )
    low = MECHANISMS[plan.mechanism].least_size
    high = MECHANISMS[plan.mechanism].most_size
    if not low <= plan.size <= high:
        raise UsageError(f"size must be from {low} to {high} for {plan.mechanism}, not {plan.size}")
    if not 0 < plan.epsilon <= MAX_PLAN_EPSILON:
        raise UsageError(
            f"epsilon must be above 0 and at most {MAX_PLAN_EPSILON:g}, not {plan.epsilon}"
        )
    check_delta(plan.delta)
    if plan.max_reports > MAX_REPORTS:
        raise UsageError(f"max_reports must be at most {MAX_REPORTS:,}, not {plan.max_reports}")
    if not math.isfinite(plan.open_seconds):
        raise UsageError(f"open_seconds must be finite, not {plan.open_seconds}")


def _check_distance(plan: RoundPlan) -> None:
    largest = MECHANISMS[plan.mechanism].domain_of(plan.size) - 1
    if plan.max_distance is None:
        return
    if plan.adjacency is Adjacency.STANDARD and plan.max_distance != largest:
        raise UsageError(
            "max_distance is for metric adjacency; a standard guarantee covers every change, up "
            f"to {largest}, not only {plan.max_distance}: leave it out"
        )
    if not 1 <= plan.max_distance <= largest:
        raise UsageError(f"max_distance must be from 1 to {largest}, not {plan.max_distance}")


def _check_parties(plan: RoundPlan, roster: Roster, budgets: Collection[str]) -> None:
    try:
        roster.population(plan.population)
        check_suite(plan.suite, plan.mix)
    except (ForeignDocumentError, ConfigError) as error:
        raise UsageError(str(error)) from error
    if plan.population not in budgets:
        raise UsageError(
            f"population {plan.population!r} has no budget here; those with one: "
            f"{', '.join(sorted(budgets)) or 'none'}"
        )
    nodes = [party.name for party in roster.nodes()]
    unknown = [name for name in plan.route if name not in nodes]
    if unknown:
        raise UsageError(
            f"the roster has no node {', '.join(unknown)}; its nodes: {', '.join(nodes) or 'none'}"
        )
    if not MIN_NODES <= len(plan.route) <= MAX_HOPS:
        raise UsageError(
            f"the route must have from {MIN_NODES} to {MAX_HOPS} nodes, not {len(plan.route)}"
        )
