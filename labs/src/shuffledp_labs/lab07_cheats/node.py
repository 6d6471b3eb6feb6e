"""The cheating node of a running system: the shuffler's own code, whose output the student's code exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shuffledp_adversary.attacks.exchange.node import Orders, TamperingWork
from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_labs.lab07_cheats.asking import ask
from shuffledp_shuffler.node import MixNode, NodeServices


@dataclass(frozen=True)
class AskingWork(TamperingWork):
    """Mixes as a node does, then sends what it is told to by whoever answers at `address`."""

    address: str = ""

    async def tampered(self, pool: Pool) -> list[bytes] | None:
        """See `TamperingWork.tampered`."""
        return await ask(self.address, pool)


def asking(orders: Orders, address: str) -> Callable[[NodeServices], MixNode]:
    """A function that makes a cheating node of an honest node's parts."""

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
