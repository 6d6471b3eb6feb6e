"""Step B of lab 7 in a running system: a real node that sends what the student's code says, between honest ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shuffledp_adversary.attacks.exchange.rounds import (
    MALICIOUS,
    Observation,
    judge,
    open_tampered,
    plan_for,
)
from shuffledp_adversary.attacks.exchange.rounds import USERS as HONEST
from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_core.documents.models import Result
from shuffledp_core.keys import verify_from
from shuffledp_core.onion.geometry import TAG_BYTES
from shuffledp_core.vocabulary import Outcome
from shuffledp_labs.errors import CheckFailed, LabError
from shuffledp_labs.kinds import is_list_of_bytes, kind_of
from shuffledp_labs.lab import Attempt
from shuffledp_labs.lab07_cheats.asking import Answerer
from shuffledp_labs.systems import running_system

_OUR_OWN: Final = frozenset({"UnreachableError", "NodeFault", "WorkersLost"})
"""Errors that no batch brings about: the machine is too busy, or a process died."""

SYMBOL: Final = 1
"""The adversary wants a larger sum."""


@dataclass(frozen=True)
class Order:
    """What the node is told to do: how many records to exchange, and where it stands."""

    position: int
    wanted: int

    def pool(self, pool: Pool) -> dict[str, Any]:
        """The node's knowledge, as the student's function is told it."""
        return {
            "records": tuple(pool.records),
            "position": pool.position,
            "hops": pool.geometry.hops,
            "keys": tuple(pool.public_keys[pool.position :]),
            "symbol_bytes": pool.geometry.symbol_bytes,
            "tag_bytes": TAG_BYTES,
            "symbol": SYMBOL,
            "wanted": self.wanted,
        }


def check_round(attempt: Attempt) -> str:
    """B-round: a real round that is published, in which no node and no analyst noticed, and users did."""
    order = Order(1 + attempt.draws.below(2), 5 + attempt.draws.below(5))
    attempt.progress(f"starting three nodes, the one at position {order.position} with your code, for {HONEST} users")

    def answer(pool: Pool) -> list[bytes]:
        said = attempt.program.call("tamper", order.pool(pool))
        if not is_list_of_bytes(said):
            raise CheckFailed(f"tamper gives a list of bytes, a real round: it gave {kind_of(said)}; see its docstring")
        return list(said)

    seen, dropped = asyncio.run(play(order, answer))
    if seen.error in _OUR_OWN:
        raise LabError(f"the round was not played to its end, which is no fault of yours: {seen.error}; check again")
    title = f"a real round of {HONEST} users, your node at position {order.position}"
    if seen.stopped_by is not None or dropped:
        what = (
            f"{seen.stopped_by} stopped it with {seen.error}" if seen.stopped_by else f"{dropped} onions were dropped"
        )
        raise CheckFailed(f"no node notices, {title}: {what}; see the handout, step B, on what a node checks")
    if seen.changed != order.wanted:
        raise CheckFailed(
            f"the answer changes as the adversary wants, {title}: {abs(seen.changed - order.wanted)} messages too "
            f"{'many' if seen.changed > order.wanted else 'few'} are exchanged; see the handout, step B"
        )
    return f"published, {seen.changed} messages exchanged; noticed by {noticed_by(seen)}"


def noticed_by(seen: Observation) -> str:
    """Who noticed, and with which error of the product's, for people."""
    if seen.stopped_by is not None:
        return f"{seen.stopped_by}, with {seen.error}"
    if not seen.users:
        return "nobody"
    return f"{seen.users} of {HONEST} users, whose devices look for their tags and raise {seen.error}"


async def play(order: Order, answer: Callable[[Pool], Sequence[bytes]]) -> tuple[Observation, int]:
    """Plays the round; what was observed, and the number of onions that its nodes signed to have dropped."""
    async with (
        Answerer(answer) as answerer,
        running_system(programs={MALICIOUS: [_PROCESS, "--ask", answerer.address]}) as system,
    ):
        tampered = await open_tampered(system, plan_for(system, order.position))
        await tampered.submit()
        signed = await tampered.finish()
        seen = await judge(tampered, signed, b"", "exchange", order.position)
        result = verify_from(tampered.roster.analyst, signed, Result)
    if answerer.failure is not None:
        raise answerer.failure
    return seen, result.dropped if result.outcome == Outcome.PUBLISHED else 0


_PROCESS: Final = "shuffledp_labs.lab07_cheats.process"
