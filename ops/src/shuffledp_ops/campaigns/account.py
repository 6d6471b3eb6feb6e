"""A population's account at the accountant, read as the operator: budget and charged costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from shuffledp_core.documents.signed import decode_value
from shuffledp_core.errors import MalformedDocumentError, UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.privacy import Adjacency, CompositionRule
from shuffledp_core.transport.tls import channel_to
from shuffledp_ops.budget_pages import budget_pages
from shuffledp_ops.keys.pki import Deployment
from shuffledp_privacy.adaptive import spent_of_budget
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting
from shuffledp_proto.v1 import accountant_pb2, accountant_pb2_grpc

RELEASED: Final = "released"

_SPEC: Final[Any] = Mechanism


@dataclass(frozen=True)
class PopulationAccount:
    """A population's account: budget, number of charged rounds by cost, and charges.

    The budget is ε in nats at δ.

    `charges` maps a round to the state of its charge: "reserved", "settled" or "released".
    """

    population: str
    limit: float
    delta: float
    adjacency: Adjacency
    composition: CompositionRule
    counted: Counter[Cost] = field(default_factory=Counter)
    charges: dict[str, str] = field(default_factory=dict)

    def spent_epsilon(self, more: Counter[Cost] | None = None, limit: float | None = None) -> float:
        """ε spent by all charges and by the costs in `more`, composed as the ledger composes them.

        The ledger refuses charges that would take this above the limit.

        Args:
            more: further costs.
            limit: assumed budget ε; default: the population's.
        """
        costs = self.counted + (more or Counter())
        limit = self.limit if limit is None else limit
        return spent_of_budget(costs, limit, self.delta, self.adjacency, self.composition).certified

    def covers(self, more: Counter[Cost], limit: float | None = None) -> bool:
        """True if the ledger would also accept the costs in `more`; arguments: `spent_epsilon`."""
        # Not `>`: an ε that is NaN must be refused as well.
        return self.spent_epsilon(more, limit) <= (self.limit if limit is None else limit)


async def read_account(deployment: Deployment, population: str) -> PopulationAccount:
    """Read all pages of a population's account.

    Raises:
        UsageError: the accountant has no budget for this population.
        MalformedDocumentError: the accountant is of an older version, or its answer is invalid.
        ShuffleDPError: the accountant cannot be reached or refuses.
    """
    roster = deployment.roster
    counted: Counter[Cost] = Counter()
    charges: dict[str, str] = {}
    async with channel_to(roster.accountant, deployment.own_keys, roster) as channel:
        stub = accountant_pb2_grpc.AccountantStub(channel)
        async for page in budget_pages(stub, roster.accountant, population):
            for entry in page.entries:
                charges[entry.round_id] = entry.state
                if entry.state != RELEASED:
                    counted[_cost(entry)] += 1
    return _account(population, page, counted, charges)


def _account(
    population: str,
    page: accountant_pb2.GetBudgetResponse,
    counted: Counter[Cost],
    charges: dict[str, str],
) -> PopulationAccount:
    try:
        adjacency = Adjacency(page.adjacency)
        composition = CompositionRule(page.composition)
    except ValueError as error:
        raise _not_understood(error) from error
    return PopulationAccount(
        population, page.limit_epsilon, page.delta, adjacency, composition, counted, charges
    )


def _cost(entry: accountant_pb2.LedgerEntry) -> Cost:
    try:
        mechanism: Mechanism = msgspec.json.decode(
            entry.mechanism, type=_SPEC, dec_hook=decode_value
        )
        setting = Setting(entry.users, entry.honest, Adjacency(entry.adjacency), entry.max_distance)
    except (msgspec.DecodeError, ValueError, TypeError, UsageError) as error:
        raise _not_understood(error) from error
    return Cost(mechanism, setting, entry.delta)


def _not_understood(error: Exception) -> MalformedDocumentError:
    return MalformedDocumentError(
        f"the accountant's charges cannot be composed with this version ({error}); install the "
        "same version at all parties"
    )
