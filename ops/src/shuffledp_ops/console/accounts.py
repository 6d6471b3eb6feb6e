"""The populations' budgets, as the accountant states them."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from shuffledp_core.documents.models import Party
from shuffledp_core.transport.tls import channel_to
from shuffledp_ops.budget_pages import budget_pages
from shuffledp_ops.console.model import BudgetCharge, PopulationBudget
from shuffledp_ops.keys.pki import Deployment
from shuffledp_proto.v1 import accountant_pb2_grpc

MOST_CHARGES: Final = 200
"""Charges of a population that are kept, the newest."""

_EVERY: Final = 30.0
"""Seconds after which is asked afresh, also when nothing happened here."""

_MOST_POPULATIONS: Final = 20


class Accounts:
    """Cache of the budgets, refreshed if `due` is set or half a minute has passed."""

    def __init__(self) -> None:
        self.due = True
        self._budgets: dict[str, PopulationBudget] = {}
        self._queried_at = 0.0

    @property
    def budgets(self) -> tuple[PopulationBudget, ...]:
        """The budgets as last read, in the roster's order."""
        return tuple(self._budgets.values())

    async def ask(self, deployment: Deployment, seconds: float) -> None:
        """Read every population's budget, if it is due; each call may take `seconds`.

        Raises the accountant's errors.
        """
        if not self.due and time.monotonic() - self._queried_at < _EVERY:
            return
        # Set before the answers are here: what changes meanwhile makes it due again.
        self.due, self._queried_at = False, time.monotonic()
        roster = deployment.roster
        try:
            async with channel_to(roster.accountant, deployment.own_keys, roster) as channel:
                stub = accountant_pb2_grpc.AccountantStub(channel)
                for population in roster.populations[:_MOST_POPULATIONS]:
                    self._budgets[population.name] = await self._budget(
                        stub, roster.accountant, population.name, seconds
                    )
        except BaseException:
            self.due = True
            raise

    async def _budget(
        self,
        stub: accountant_pb2_grpc.AccountantAsyncStub,
        accountant: Party,
        population: str,
        seconds: float,
    ) -> PopulationBudget:
        previous = self._budgets.get(population)
        # From the oldest one that is kept on: a charge is reserved first, and settled or released
        # later.
        after = previous.charges[0].entry - 1 if previous is not None and previous.charges else 0
        charges: deque[BudgetCharge] = deque(maxlen=MOST_CHARGES)
        async for page in budget_pages(stub, accountant, population, after=after, seconds=seconds):
            charges += [
                BudgetCharge(entry.entry, entry.round_id, entry.state, entry.epsilon, entry.delta)
                for entry in page.entries
            ]
        return PopulationBudget(
            population=population,
            limit=page.limit_epsilon,
            delta=page.delta,
            spent=page.spent_epsilon,
            left=page.left_epsilon,
            composition=page.composition,
            counts=dict(page.charges),
            charges=tuple(charges),
        )
