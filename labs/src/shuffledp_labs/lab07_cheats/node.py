"""The cheating node of a running system: a mix node that sends the student's output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from shuffledp_adversary.attacks.exchange.mixproof_node import MixproofPool, exchanged_batch
from shuffledp_adversary.attacks.exchange.node import Orders, TamperingWork
from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_labs.lab07_cheats.asking import ask
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.registry import NodeServices

SYMBOL: Final = 1
"""The adversary wants a larger sum."""


@dataclass(frozen=True)
class AskingWork(TamperingWork):
    """Mixes as a node does, but sends the records that the answerer at `address` returns."""

    address: str = ""

    async def tamper(self, pool: Pool) -> list[bytes] | None:
        """See `TamperingWork.tamper`."""
        return await ask(self.address, pool)

    async def _tamper_provable(self, live: LiveRound, header: BatchHeader) -> BatchHeader:
        # See `TamperingWork`: the header of what is sent in a verified round.
        loop = asyncio.get_running_loop()

        def ask_grader(pool: MixproofPool) -> list[bytes]:
            spare = [pool.forge(SYMBOL) for _ in pool.records]
            return asyncio.run_coroutine_threadsafe(ask(self.address, pool, spare), loop).result()

        roster, leave_made = self.relay.roster, self.orders.leave_made_up
        return await in_thread(
            exchanged_batch, live, self.identity, roster, header, ask_grader, leave_made
        )


def asking(orders: Orders, address: str) -> Callable[[NodeServices], MixNode]:
    """A function that makes a cheating node from an honest node's services."""

    def node_of(parts: NodeServices) -> MixNode:
        honest = parts.work
        work = AskingWork(
            honest.identity,
            honest.pool,
            honest.relay,
            honest.metrics,
            None,
            orders=orders,
            address=address,
            memory=honest.memory,
        )
        return MixNode(replace(parts, work=work))

    return node_of
