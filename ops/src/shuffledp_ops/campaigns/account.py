"""A population's account at the accountant, read as the operator: the budget, and every cost that
counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from shuffledp_core.documents.signed import decode_value
from shuffledp_core.errors import MalformedDocumentError, UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.privacy import Adjacency, Composition
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
class Account:
    """A population's account: its budget (ε in nats at δ), each cost that counts with its number,
    the rounds' charges.

    `charges` has the state of each round's charge: "reserved", "settled" or "released".
    """

    population: str
    limit: float
    delta: float
    adjacency: Adjacency
    composition: Composition
    counted: Counter[Cost] = field(default_factory=Counter)
    charges: dict[str, str] = field(default_factory=dict)

    def spent(self, more: Counter[Cost] | None = None, limit: float | None = None) -> float:
        """ε spent by all that is charged, and by `more`, as the ledger composes it.

        Above the limit: it is refused.

        Args:
            more: further costs.
            limit: as if the budget's ε were this.
        """
        costs = self.counted + (more or Counter())
        limit = self.limit if limit is None else limit
        return spent_of_budget(costs, limit, self.delta, self.adjacency, self.composition).epsilon

    def carries(self, more: Counter[Cost], limit: float | None = None) -> bool:
        """True if the ledger would take all of these charges; arguments as of `spent`."""
        # Not `>`: an ε that is not a number must be refused as well.
        return self.spent(more, limit) <= (self.limit if limit is None else limit)


async def read_account(deployment: Deployment, population: str) -> Account:
    """Reads a population's account, all of its pages.

    Raises:
        UsageError: the accountant has no budget for this population.
        MalformedDocumentError: the accountant is of an older version, or answers nonsense.
        ShuffleDPError: it cannot be asked.
    """
    roster, counted, charges = deployment.roster, Counter[Cost](), dict[str, str]()
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
) -> Account:
    try:
        adjacency, composition = Adjacency(page.adjacency), Composition(page.composition)
    except ValueError as error:
        raise _not_understood(error) from error
    return Account(
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
        f"the accountant's account cannot be composed here ({error}); all parties need the same "
        f"version"
    )
