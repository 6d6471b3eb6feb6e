"""The populations' budgets, as the accountant states them."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from shuffledp_core.documents.models import Party
from shuffledp_core.transport.tls import channel_to
from shuffledp_ops.budget_pages import budget_pages
from shuffledp_ops.console.model import Budget, Charge
from shuffledp_ops.keys.pki import Deployment
from shuffledp_proto.v1 import accountant_pb2_grpc

MOST_CHARGES: Final = 200
"""Charges of a population that are kept, the newest."""

_EVERY: Final = 30.0
"""Seconds after which is asked anew, also when nothing happened here."""

_MOST_POPULATIONS: Final = 20


class Accounts:
    """The budgets, asked for when `due` is set or after half a minute."""

    def __init__(self) -> None:
        self.due = True
        self._budgets: dict[str, Budget] = {}
        self._asked = 0.0

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """As stated last, in the roster's order."""
        return tuple(self._budgets.values())

    async def ask(self, deployment: Deployment, seconds: float) -> None:
        """Asks for every population, if it is time; each call has so many seconds.

        Raises the accountant's errors.
        """
        if not self.due and time.monotonic() - self._asked < _EVERY:
            return
        # Set before the answers are here: what changes meanwhile makes it due again.
        self.due, self._asked = False, time.monotonic()
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
    ) -> Budget:
        known = self._budgets.get(population)
        # From the oldest one that is kept on: a charge is reserved first, and settled or released
        # later.
        after = known.charges[0].entry - 1 if known is not None and known.charges else 0
        charges: deque[Charge] = deque(maxlen=MOST_CHARGES)
        async for said in budget_pages(stub, accountant, population, after=after, seconds=seconds):
            charges += [
                Charge(one.entry, one.round_id, one.state, one.epsilon, one.delta)
                for one in said.entries
            ]
        return Budget(
            population=population,
            limit=said.limit_epsilon,
            delta=said.delta,
            spent=said.spent_epsilon,
            left=said.left_epsilon,
            composition=said.composition,
            counts=dict(said.charges),
            charges=tuple(charges),
        )
