"""The ledger's vocabulary, and its rules as pure functions: budgets, charges, and what may happen to a charge.

    (none) --reserve--> reserved --settle---> settled
                        reserved --release--> released

Reserved and settled charges count; a released one costs nothing and never comes back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from shuffledp_accountant.analysis import Cost, Spent, spent
from shuffledp_core.documents.models import LedgerPosition
from shuffledp_core.errors import BudgetExceeded, CannotCertify, RoundStateError, UsageError
from shuffledp_core.privacy import Adjacency


class State(StrEnum):
    """Where a charge stands."""

    RESERVED = "reserved"
    SETTLED = "settled"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a population may spend over all its rounds: ε (nats, above 0) at δ (0 < δ < 1), under `adjacency`.

    Under standard adjacency ε bounds what any change of a user's values reveals; metric charges are converted
    (`analysis.spent`). A metric budget counts ε per unit of distance, for populations that only ever ask metric
    questions of one scale.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.STANDARD

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"a budget's epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 < self.delta < 1:
            raise UsageError(f"a budget's delta must be above 0 and below 1, not {self.delta}")


@dataclass(frozen=True, slots=True)
class Charge:
    """One round's entry in its population's account. `epsilon` is certified for `cost` as it stands.

    `plan` is the JSON of the round's plan; certificates are the signed documents as they travel; times are
    milliseconds since 1970.
    """

    round_id: str
    population: str
    entry: int
    state: State
    plan: str
    cost: Cost
    epsilon: float
    plan_certificate: bytes
    accepted: int | None
    final_certificate: bytes | None
    reserved_at: int
    changed_at: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a round asks for at its plan."""

    round_id: str
    population: str
    plan: str
    cost: Cost
    epsilon: float


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a round really cost, for `accepted` reports."""

    accepted: int
    cost: Cost
    epsilon: float


@dataclass(frozen=True, slots=True)
class Account:
    """A charge's place in its population's account, and what the amount spent rests on."""

    position: LedgerPosition
    basis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a population has spent and has left (nats, at the budget's δ), and every charge there ever was.

    `left` is the difference; because rounds compose to less than their sum, more than that may fit.
    """

    budget: Budget
    spent: Spent
    left: float
    charges: tuple[Charge, ...]


def counted(charges: Sequence[Charge], without: str = "") -> list[Cost]:
    """The costs that count, but for the round `without`."""
    return [c.cost for c in charges if c.state is not State.RELEASED and c.round_id != without]


def state_account(budget: Budget, charges: Sequence[Charge]) -> Statement:
    """The statement over all charges of one population."""
    total = spent(counted(charges), budget.adjacency, budget.delta)
    return Statement(budget, total, max(0.0, budget.epsilon - total.epsilon), tuple(charges))


def account_for_reservation(budget: Budget, charges: Sequence[Charge], asked: Reservation) -> Account:
    """The account with the reservation in it.

    Raises:
        BudgetExceeded: the composed cost would exceed the budget.
        CannotCertify: the round has no finite cost under the budget's adjacency and δ.
    """
    before = counted(charges)
    total = spent([*before, asked.cost], budget.adjacency, budget.delta)
    if not total.epsilon <= budget.epsilon:
        _refuse(budget, before, asked, total)
    return _account(budget, max((c.entry for c in charges), default=0) + 1, total)


def account_for_settlement(budget: Budget, charges: Sequence[Charge], charge: Charge, real: Settlement) -> Account:
    """The account with the real cost in place of the reserved one, even where that overspends the budget."""
    total = spent([*counted(charges, without=charge.round_id), real.cost], budget.adjacency, budget.delta)
    return _account(budget, charge.entry, total)


def _account(budget: Budget, entry: int, total: Spent) -> Account:
    finite = total.epsilon if math.isfinite(total.epsilon) else None
    return Account(LedgerPosition(entry=entry, spent=finite, delta=budget.delta, limit=budget.epsilon), total.basis)


def _refuse(budget: Budget, before: Sequence[Cost], asked: Reservation, total: Spent) -> NoReturn:
    already = spent(before, budget.adjacency, budget.delta).epsilon
    alone = spent([asked.cost], budget.adjacency, budget.delta)
    if math.isinf(alone.epsilon):
        raise CannotCertify(
            f"the round has no finite cost at the budget's delta {budget.delta:g} ({'; '.join(alone.basis)}): ask "
            f"for a delta of at most {budget.delta:g}"
        )
    raise BudgetExceeded(
        f"the budget of population {asked.population!r} does not cover the round: epsilon {already:.6g} of "
        f"{budget.epsilon:g} is spent at delta {budget.delta:g}, {max(0.0, budget.epsilon - already):.6g} is left, the "
        f"round costs {alone.epsilon:.6g} ({budget.adjacency} adjacency) and would bring the total to "
        f"{total.epsilon:.6g}; ask for a smaller epsilon"
    )


def stored_plan_certificate(charge: Charge, plan: str) -> bytes:
    """The answer to a repeated reservation.

    Raises:
        RoundStateError: the round was reserved for another plan, or was released.
    """
    if charge.plan != plan:
        raise RoundStateError(f"round {charge.round_id} was certified for another plan; draw a new round id")
    if charge.state is State.RELEASED:
        raise RoundStateError(f"round {charge.round_id} was released and cannot be run again; draw a new round id")
    return charge.plan_certificate


def stored_final_certificate(charge: Charge, accepted: int) -> bytes | None:
    """The answer to a repeated settlement; None where the charge is still to be settled.

    Raises:
        RoundStateError: the round was settled for another count, or was released.
    """
    if charge.state is State.RELEASED:
        raise RoundStateError(f"round {charge.round_id} was released: its reports count for nothing")
    if charge.state is State.SETTLED and charge.accepted != accepted:
        raise RoundStateError(
            f"round {charge.round_id} was settled for {charge.accepted} reports and is not settled again for {accepted}"
        )
    return charge.final_certificate


def check_release(charge: Charge) -> bool:
    """Whether a release is still to be done.

    Raises:
        RoundStateError: the round was settled.
    """
    if charge.state is State.SETTLED:
        raise RoundStateError(f"round {charge.round_id} was settled for {charge.accepted} reports: its charge stays")
    return charge.state is State.RESERVED
