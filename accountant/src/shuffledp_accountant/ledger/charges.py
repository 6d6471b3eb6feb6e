"""Budgets, charges and their rules, as pure functions.

    (none) --reserve--> reserved --settle---> settled
                        reserved --release--> released

Reserved and settled charges count; a released one costs nothing and never comes back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from msgspec import UNSET

from shuffledp_core.documents.models import LedgerPosition
from shuffledp_core.errors import BudgetExceeded, CannotCertify, RoundStateError, UsageError
from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_privacy.adaptive import spent_of_budget
from shuffledp_privacy.analysis import Cost, alone, compose_costs, rebase
from shuffledp_privacy.bounds import Bounds


class ChargeState(StrEnum):
    """State of a charge."""

    RESERVED = "reserved"
    SETTLED = "settled"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Budget:
    """Privacy budget of a population for all its rounds, under `adjacency`.

    ε is in nats and above 0; 0 < δ < 1.

    Under standard adjacency ε bounds what any change of a user's values reveals; metric charges are
    converted (`analysis.spent`). A metric budget counts ε per unit of distance, for populations
    that only ever ask metric questions of one scale. `composition` says what the rounds' parameters
    may depend on.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.STANDARD
    composition: CompositionRule = CompositionRule.ADAPTIVE

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"a budget's epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 < self.delta < 1:
            raise UsageError(f"a budget's delta must be above 0 and below 1, not {self.delta}")


@dataclass(frozen=True, slots=True)
class Charge:
    """One round's entry in its population's account.

    `epsilon` is certified for `cost` as it stands.

    `plan` is the JSON of the round's plan; certificates are the signed documents as they travel;
    times are milliseconds since 1970. `result_digest` is of the result in the public log, if there
    is one.
    """

    round_id: str
    population: str
    entry: int
    state: ChargeState
    plan: str
    cost: Cost
    epsilon: float
    plan_certificate: bytes
    accepted: int | None
    final_certificate: bytes | None
    reserved_at: int
    changed_at: int
    result_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A planned round's request for budget."""

    round_id: str
    population: str
    plan: str
    cost: Cost
    epsilon: float


@dataclass(frozen=True, slots=True)
class Settlement:
    """Actual cost of a round, given its number `accepted` of reports."""

    accepted: int
    cost: Cost
    epsilon: float


@dataclass(frozen=True, slots=True)
class Account:
    """A charge's position in its population's account, and the basis of the amount spent."""

    position: LedgerPosition
    basis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountStanding:
    """State of a population's account: how often each cost is charged, and the last entry.

    `reconciled` is the entry up to which all charges were made again after a restore from a backup;
    0: never restored.
    """

    counted: Mapping[Cost, int]
    last_entry: int = 0
    reconciled: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement of a population's account: ε spent and left, and number of charges by state.

    ε is in nats, at the budget's δ.

    `left` is the difference; because rounds compose to less than their sum, more than that may fit.
    `if_fixed` is the ε of all rounds together if all their parameters were fixed in advance,
    `math.inf` for no bound.
    """

    budget: Budget
    spent: Bounds
    left: float
    if_fixed: float
    charges: Mapping[ChargeState, int]


def total(budget: Budget, times: Mapping[Cost, int]) -> Bounds:
    """ε spent by all rounds, under the composition rule of the budget.

    More than the budget's ε if they do not fit.
    """
    return spent_of_budget(
        times, budget.epsilon, budget.delta, budget.adjacency, budget.composition
    )


def state_account(
    budget: Budget, counted: Mapping[Cost, int], charges: Mapping[ChargeState, int]
) -> Statement:
    """Make the statement over all charges of one population."""
    used = total(budget, counted)
    return Statement(
        budget,
        used,
        max(0.0, budget.epsilon - used.certified),
        _if_fixed(budget, counted, used),
        charges,
    )


def _if_fixed(budget: Budget, times: Mapping[Cost, int], used: Bounds) -> float:
    """ε of all rounds if their parameters had been fixed in advance.

    Never above the adaptive ε, which holds for such parameters, too.
    """
    return min(used.certified, compose_costs(times, budget.adjacency, budget.delta).certified)


def account_for_reservation(
    budget: Budget, standing: AccountStanding, reservation: Reservation
) -> Account:
    """The account with the reservation included.

    Raises:
        BudgetExceeded: all rounds together would exceed the budget.
        CannotCertify: the round has no finite cost under the budget's adjacency and δ.
    """
    with_it = Counter(standing.counted) + Counter([reservation.cost])
    used = total(budget, with_it)
    # Not `>`: an ε that is not a number must be refused as well.
    if not used.certified <= budget.epsilon:
        _refuse(budget, standing.counted, reservation, used)
    return _account(budget, standing, standing.last_entry + 1, with_it, used)


def settled_cost(charge: Charge, real: Settlement) -> tuple[Cost, float]:
    """Cost that a settled round is charged, and its ε; never less than was reserved.

    Reports beyond the minimum may be forged, so they do not lower the charge. A round with at least
    the reserved number of honest users is covered by the reservation's curve at every ε, because
    further reports are post-processing; one with fewer has the worse curve and is charged for them
    (docs/accounting.md, C17).
    """
    if real.cost.setting.honest >= charge.cost.setting.honest:
        return charge.cost, charge.epsilon
    return real.cost, real.epsilon


def account_for_settlement(
    budget: Budget, standing: AccountStanding, charge: Charge, real: Settlement
) -> Account:
    """The account with the settled cost in place of the reserved one, even if it overspends."""
    cost, _ = settled_cost(charge, real)
    # The old cost goes out once: other rounds of the same cost stay.
    times = Counter(standing.counted) - Counter([charge.cost]) + Counter([cost])
    honest, reserved = cost.setting.honest, charge.cost.setting.honest
    why = (
        "further reports may be made up"
        if honest >= reserved
        else f"fewer than the {reserved} reserved"
    )
    line = (
        f"charged for {honest} honest users, {'as reserved: ' if honest >= reserved else ''}{why}"
    )
    return _account(budget, standing, charge.entry, times, total(budget, times), line)


def _account(
    budget: Budget,
    standing: AccountStanding,
    entry: int,
    times: Mapping[Cost, int],
    used: Bounds,
    *lines: str,
) -> Account:
    fixed = _if_fixed(budget, times, used)
    adaptive = budget.composition is CompositionRule.ADAPTIVE
    position = LedgerPosition(
        entry=entry,
        spent=_finite(used.certified),
        delta=budget.delta,
        limit=budget.epsilon,
        composition=budget.composition,
        if_fixed=_finite(fixed),
        reconciled=standing.reconciled or UNSET,
    )
    rests = (
        "the parameters of a round may depend on the results of earlier rounds; epsilon "
        f"{fixed:.6g} only if all parameters were fixed in advance"
        if adaptive
        else "only if the parameters of all rounds charged were fixed in advance: they do not "
        "depend on results"
    )
    return Account(position, (*used.basis, *lines, rests))


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _refuse(
    budget: Budget, before: Mapping[Cost, int], reservation: Reservation, used: Bounds
) -> NoReturn:
    already = total(budget, before).certified
    single = alone(rebase([reservation.cost], budget.adjacency)[0][0], budget.delta)
    # At this δ no ε would be enough for it, which is another answer than that the budget is used
    # up.
    if math.isinf(single.certified):
        raise CannotCertify(
            f"the round has no finite cost at the budget's delta {budget.delta:g} "
            f"({'; '.join(single.basis)}): ask for a delta of at most {budget.delta:g}"
        )
    raise BudgetExceeded(
        f"the budget of population {reservation.population!r} does not cover the round: epsilon "
        f"{already:.6g} of {budget.epsilon:g} is spent at delta {budget.delta:g}, "
        f"{max(0.0, budget.epsilon - already):.6g} is left, the round alone costs "
        f"{single.certified:.6g} ({budget.adjacency} adjacency) and would bring the total to "
        f"{used.certified:.6g} ({budget.composition} composition); ask for a smaller epsilon, or "
        "a smaller delta"
    )


def stored_plan_certificate(charge: Charge, plan: str) -> bytes:
    """The stored certificate, as the answer to a repeated reservation.

    Raises:
        RoundStateError: the round was reserved for another plan, or was released.
    """
    # A round id stands for one plan: another one under the same id would run without a charge of
    # its own.
    if charge.plan != plan:
        raise RoundStateError(
            f"round {charge.round_id} was certified for another plan; draw a new round id"
        )
    if charge.state is ChargeState.RELEASED:
        raise RoundStateError(
            f"round {charge.round_id} was released and cannot be run again; draw a new round id"
        )
    return charge.plan_certificate


def stored_final_certificate(charge: Charge, accepted: int) -> bytes | None:
    """The stored certificate, as the answer to a repeated settlement; None if not settled.

    Raises:
        RoundStateError: the round was settled for another count, or was released.
    """
    if charge.state is ChargeState.RELEASED:
        raise RoundStateError(f"round {charge.round_id} was released, so it cannot be settled")
    if charge.state is ChargeState.SETTLED and charge.accepted != accepted:
        raise RoundStateError(
            f"round {charge.round_id} was settled for {charge.accepted} reports and is not "
            f"settled again for {accepted}"
        )
    return charge.final_certificate


def has_result(charge: Charge, digest: str) -> bool:
    """True if the public log already has this result of the round.

    Raises `RoundStateError` for a round that is not settled, or that has another result.
    """
    if charge.state is not ChargeState.SETTLED:
        raise RoundStateError(
            f"round {charge.round_id} is {charge.state.value}: only a settled round has a result"
        )
    if charge.result_digest not in {None, digest}:
        raise RoundStateError(
            f"the public log has another result of round {charge.round_id}, with digest "
            f"{charge.result_digest}; a round has one result"
        )
    return charge.result_digest is not None


def check_release(charge: Charge) -> bool:
    """True if the charge is still to be released; raises if it may not be.

    Raises:
        RoundStateError: the round was settled.
    """
    if charge.state is ChargeState.SETTLED:
        raise RoundStateError(
            f"round {charge.round_id} was settled for {charge.accepted} reports: its charge stays"
        )
    return charge.state is ChargeState.RESERVED
