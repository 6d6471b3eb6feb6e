"""Step E of lab 7 in a running system: a node exchanges records in plain and verified rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from shuffledp_adversary.attacks.exchange.rounds import (
    MALICIOUS,
    Observation,
    judge,
    open_tampered,
    plan_for,
)
from shuffledp_adversary.attacks.exchange.rounds import USERS as HONEST
from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_core.documents.models import HistoryDigest, Result
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.vocabulary import Mix, Outcome
from shuffledp_labs.errors import CheckFailure, LabError
from shuffledp_labs.kinds import is_list_of_bytes, kind_of
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab07_cheats.asking import Answerer, AskedPool
from shuffledp_labs.lab07_cheats.node import SYMBOL
from shuffledp_labs.price import measure_price
from shuffledp_labs.systems import running_system
from shuffledp_sim.system.processes import LocalSystem

_OUR_OWN: Final = frozenset({"UnreachableError", "NodeFault", "WorkersLost"})
"""Errors that no batch brings about: the machine is too busy, or a process died."""


@dataclass(frozen=True)
class Order:
    """Task for the node: its position, and the number of records to exchange."""

    position: int
    exchanges: int

    def pool(self, pool: Pool) -> dict[str, Any]:
        """The node's pool as argument of the student's function."""
        return {
            "records": tuple(pool.records),
            "position": pool.position,
            "hops": pool.geometry.hops,
            "keys": tuple(pool.public_keys[pool.position :]),
            "symbol_bytes": pool.geometry.symbol_bytes,
            "tag_bytes": TAG_BYTES,
            "symbol": SYMBOL,
            "wanted": self.exchanges,
        }


def batch_of(batch: Any) -> list[bytes]:
    """The student's batch from a real round; raises `CheckFailure` unless it is a list of bytes."""
    if not is_list_of_bytes(batch):
        raise CheckFailure(
            f"a real round: tamper must return a list of bytes, not {kind_of(batch)}; see its "
            "docstring"
        )
    return list(batch)


def noticed_by(seen: Observation) -> str:
    """Describe who noticed, and with which of shuffledp's errors."""
    if seen.stopped_by is not None:
        return f"{seen.stopped_by}, with {seen.error}"
    if not seen.users:
        return "nobody"
    return (
        f"{seen.users} of {HONEST} users, whose devices look for their tags and raise {seen.error}"
    )


def check_rounds(attempt: CheckAttempt) -> str:
    """E-rounds: the student's exchange in a plain round, and in a verified round."""
    order = Order(1 + attempt.draws.below(3), 5 + attempt.draws.below(5))
    attempt.progress(
        f"three nodes, the one at position {order.position} with your code, for {HONEST} users: a "
        "plain and two verified rounds"
    )
    seen = asyncio.run(play_twice(order, attempt.program.call))
    if seen.plain.error in _OUR_OWN or seen.stopped.error in _OUR_OWN or not seen.honest.history:
        raise LabError("a round was not played to its end, which is not your fault; check again")
    _require_unnoticed(seen, order)
    if not seen.names_node:
        raise AssertionError(
            f"a verified round let an exchange pass: {seen.stopped.public}, {seen.reason}"
        )
    charge = "given back" if seen.stopped.charge == "released" else "spent all the same"
    return (
        f"plain: {seen.plain.public}, {seen.plain.changed} messages exchanged, noticed by "
        f"{noticed_by(seen.plain)}; verified: no answer, stopped by {seen.reason}, the round's ε "
        f"is {charge}; verified and your node honest: published, with a history of "
        f"{seen.honest.history:,} bytes. Verified over plain: "
        f"{measure_price(seen.honest.geometry)}"
    )


def _require_unnoticed(seen: Again, order: Order) -> None:
    title = f"a real round of {HONEST} users, your node at position {order.position}"
    if seen.plain.stopped_by is not None or seen.dropped:
        what = (
            f"{seen.plain.stopped_by} stopped it with {seen.plain.error}"
            if seen.plain.stopped_by
            else f"{seen.dropped} onions were dropped"
        )
        raise CheckFailure(
            f"no node notices, {title}: {what}; see the handout, step B, on what a node checks"
        )
    if seen.plain.changed != order.exchanges:
        raise CheckFailure(
            f"the answer changes as the adversary wants, {title}: "
            f"{abs(seen.plain.changed - order.exchanges)} messages too "
            f"{'many' if seen.plain.changed > order.exchanges else 'few'} are exchanged; see the "
            "handout, step B"
        )


@dataclass(frozen=True)
class Honest:
    """A verified round without cheating: length of its history (0: unpublished), and geometry."""

    history: int
    geometry: Geometry


@dataclass(frozen=True)
class Again:
    """Outcomes of one attack in both mixing modes, and of a verified round without an attack.

    Attributes:
        plain, stopped: observations of the plain round, and of the verified one.
        dropped: onions that the nodes of the plain round signed to have dropped.
        reason: why that one failed, as stated by the party that stopped it.
        honest: the verified round without the attack.
    """

    plain: Observation
    stopped: Observation
    dropped: int
    reason: str
    honest: Honest

    @property
    def names_node(self) -> bool:
        """Return True if the error names the cheating node by its position."""
        return f"node {self.stopped.position}: " in self.reason


async def play_twice(order: Order, call: Callable[..., Any]) -> Again:
    """Play a plain round with `tamper`, a verified one, and a verified one with an exchange.

    In the verified round the lab's own node exchanges as many records for spare ones.
    """
    verified, cheats = False, False

    def answer(pool: AskedPool) -> list[bytes]:
        if not verified:
            return batch_of(call("tamper", order.pool(pool)))
        if not cheats:
            return pool.records
        return [*pool.spare[: order.exchanges], *pool.records[order.exchanges :]]

    async with (
        Answerer(answer) as answerer,
        running_system(programs={MALICIOUS: [_PROCESS, "--ask", answerer.address]}) as system,
    ):
        plain, result, _ = await _play_once(system, order, Mix.PLAIN)
        verified = True
        _, published, geometry = await _play_once(system, order, Mix.VERIFIED)
        cheats = True
        stopped, failed, _ = await _play_once(system, order, Mix.VERIFIED)
    if answerer.failure is not None:
        raise answerer.failure
    history = published.history.length if isinstance(published.history, HistoryDigest) else 0
    plain_geometry = msgspec.structs.replace(geometry, mix=msgspec.UNSET)
    dropped = result.dropped if result.outcome == Outcome.PUBLISHED else 0
    return Again(plain, stopped, dropped, failed.reason or "", Honest(history, plain_geometry))


async def play(order: Order, answer: Callable[[Pool], Sequence[bytes]]) -> Observation:
    """Play a plain round; return what its parties observed."""
    async with (
        Answerer(answer) as answerer,
        running_system(programs={MALICIOUS: [_PROCESS, "--ask", answerer.address]}) as system,
    ):
        seen, _, _ = await _play_once(system, order, Mix.PLAIN)
    if answerer.failure is not None:
        raise answerer.failure
    return seen


async def _play_once(
    system: LocalSystem, order: Order, mix: Mix
) -> tuple[Observation, Result, Geometry]:
    plan = plan_for(system, order.position)
    tampered = await open_tampered(
        system, plan if mix == Mix.PLAIN else msgspec.structs.replace(plan, mix=mix)
    )
    await tampered.submit()
    signed = await tampered.finish()
    seen = await judge(tampered, signed, b"", "exchange", order.position)
    return (
        seen,
        verify_from(tampered.roster.analyst, signed, Result),
        tampered.verified.geometry,
    )


_PROCESS: Final = "shuffledp_labs.lab07_cheats.process"
