"""A malicious node: the real shuffler code, but it tampers with its output before signing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_adversary.attacks.exchange import dummies
from shuffledp_adversary.attacks.exchange.framing import FRAME, frame
from shuffledp_adversary.attacks.exchange.mixproof_node import tampered_batch
from shuffledp_adversary.attacks.exchange.random_node import RandomCheat
from shuffledp_adversary.attacks.exchange.tampering import (
    CROWD,
    DROP,
    SILENTLY,
    TAMPERINGS,
    Pool,
    split_records,
)
from shuffledp_core.documents.models import BatchHeader, Credential, Roster
from shuffledp_core.documents.signed import Signed, verify
from shuffledp_core.errors import DocumentError, SubmissionClosedError
from shuffledp_core.onion.layers import open_envelope
from shuffledp_core.runtime.files import make_folder, write_atomic
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transport.receiving import Chunks
from shuffledp_shuffler.intake import Submissions
from shuffledp_shuffler.live import LiveRound
from shuffledp_shuffler.node import MixNode
from shuffledp_shuffler.registry import NodeServices
from shuffledp_shuffler.work import RoundPipeline

RANDOM: Final = "random "
"""Order of one random tampering with a verified round; the number by which it is drawn stands
behind it.
"""


@dataclass(frozen=True)
class Orders:
    """The adversary's orders to its node, in files of a folder that both processes share."""

    folder: Path

    @property
    def order(self) -> str | None:
        """The tampering ordered for the next round, or None."""
        file = self.folder / "order"
        return file.read_text().strip() if file.exists() else None

    def give(self, order: str | None) -> None:
        """Order a tampering for all rounds from now on; None for honest work.

        Forgets what was made up before.
        """
        names = {*TAMPERINGS, FRAME, *dummies.ORDERS}
        if order is not None and order not in names and not order.startswith(RANDOM):
            raise ValueError(f"unknown tampering {order!r}; choose one of {', '.join(names)}")
        make_folder(self.folder)
        (self.folder / "made").unlink(missing_ok=True)
        (self.folder / "order").unlink(missing_ok=True)
        if order is not None:
            write_atomic(self.folder / "order", order.encode())

    def let_in(self, enrolment_key: bytes) -> None:
        """Set the adversary's enrolment key; credentials under it are admitted as accomplices."""
        make_folder(self.folder)
        (self.folder / "accomplices").write_bytes(enrolment_key)

    def accomplices(self) -> bytes:
        """The enrolment key that `let_in` set; empty before."""
        file = self.folder / "accomplices"
        return file.read_bytes() if file.exists() else b""

    def leave_made_up(self, messages: list[bytes]) -> None:
        """Store the plain messages that the node invented, for its accomplices."""
        write_atomic(self.folder / "made", b"".join(messages))

    def made_up(self) -> bytes:
        """The stored plain messages that the node invented, packed."""
        file = self.folder / "made"
        return file.read_bytes() if file.exists() else b""


@dataclass(frozen=True)
class TamperingWork(RoundPipeline):
    """A node's pipeline that tampers with the batch after mixing.

    `earlier` keeps one record of every round, by position, to replay it.
    """

    orders: Orders
    cheats: dict[str, RandomCheat] = field(default_factory=dict)
    earlier: dict[int, bytes] = field(default_factory=dict)

    async def mix_batch(self, live: LiveRound) -> BatchHeader:
        """See `RoundPipeline.mix_batch`; the header commits to what is really sent."""
        cheat = self._cheat(live)
        if cheat is not None:
            await in_thread(cheat.accuse)
            return await in_thread(cheat.output, await super().mix_batch(live))
        if self.orders.order == dummies.BREAK:
            await in_thread(dummies.leave_broken_dummies, live, self.identity)
        if self.orders.order == FRAME:
            await in_thread(frame, live, self.identity, self.relay.roster)
            return await super().mix_batch(live)
        header = await super().mix_batch(live)
        if live.require_terms().mixing is not None:
            return await self._tamper_provable(live, header)
        pool = self._pool_of(live)
        self.earlier[pool.position] = pool.victim[0]
        tampered = await self.tamper(pool)
        if tampered is None:
            return header
        self.orders.leave_made_up(pool.made_up)
        packed = b"".join(tampered)
        write_atomic(live.folder.outgoing, packed)
        # Only with this order the header admits the loss; every other one has to get by with counts
        # that seem whole.
        dropped = header.dropped + (
            len(pool.records) - len(tampered) if self.orders.order == DROP else 0
        )
        # A header for what is really sent: the next hop would refuse any other by its digest or by
        # arithmetic alone.
        return msgspec.structs.replace(
            header,
            users=(len(tampered) + dropped) // pool.geometry.messages_per_user,
            records=len(tampered),
            dropped=dropped,
            digest=hashlib.sha256(packed).hexdigest(),
        )

    def _cheat(self, live: LiveRound) -> RandomCheat | None:
        order = self.orders.order or ""
        if not order.startswith(RANDOM):
            return None
        cheat = RandomCheat(live, self.identity, self.relay.roster, order)
        self.cheats[live.record.round_id] = cheat
        return cheat

    async def _tamper_provable(self, live: LiveRound, header: BatchHeader) -> BatchHeader:
        order = self.orders.order
        if order is None or order in dummies.OWN:
            return header
        roster, leave = self.relay.roster, self.orders.leave_made_up
        return await in_thread(tampered_batch, live, self.identity, roster, header, order, leave)

    async def tamper(self, pool: Pool) -> list[bytes] | None:
        """The records that the node sends instead of its honest output.

        None to send the honest output.
        """
        order = self.orders.order
        return None if order is None else TAMPERINGS[order](pool)

    def _pool_of(self, live: LiveRound) -> Pool:
        terms = live.require_terms()
        geometry, position = terms.geometry, terms.position
        records = split_records(
            live.folder.outgoing.read_bytes(), geometry.record_bytes(position + 1)
        )
        victim = records[:1]
        if (
            live.record.is_entry
        ):  # only here the node knows what is whose: it opens the first envelope by itself
            envelope = live.folder.envelopes.read_bytes()[: geometry.envelope_bytes]
            opened = open_envelope(geometry, live.record.round_id, live.require_key(), envelope)
            victim = split_records(opened, geometry.record_bytes(2))
        return Pool(
            geometry=geometry,
            round_id=live.record.round_id,
            public_keys=[bytes.fromhex(key.public_key) for key in terms.route],
            position=position,
            records=records,
            victim=victim,
            earlier=self.earlier.get(position),
        )


class LyingNode(MixNode):
    """A node that lies about submissions and their number, as its order requires."""

    def __init__(self, parts: NodeServices, orders: Orders) -> None:
        super().__init__(parts)
        self._orders = orders

    def _submissions_for(self, live: LiveRound, credential: bytes) -> Submissions:
        """If ordered, admit one user, and then only accomplices."""
        honest = self._services.submissions
        if self._orders.order != CROWD or live.require_terms().mixing is not None:
            return honest
        if self._is_accomplice(Signed.from_bytes(credential), honest.roster):
            return replace(honest, roster=_enrolling(honest.roster, self._orders.accomplices()))
        if live.require_spool().accepted_count:
            raise SubmissionClosedError(
                f"round {live.record.round_id} is full: it accepts no more reports"
            )
        return honest

    async def close_round(self, round_id: str) -> int:
        """See `MixNode.close_round`; if ordered, report one submission fewer."""
        accepted = await super().close_round(round_id)
        return accepted - 1 if self._orders.order == SILENTLY else accepted

    async def dummies(self, round_id: str) -> bytes:
        """See `MixNode.dummies`; if ordered, send none or broken ones, or crash."""
        order = self._orders.order
        live = self._rounds.get(round_id)
        await in_thread(dummies.obey_before_sending, order, live, self._services.identity)
        data = await super().dummies(round_id)
        dummies.obey_after_drawing(order)
        return data

    async def answer(self, round_id: str, chunks: Chunks) -> bytes:
        """See `MixNode.answer`; if ordered, return a false answer."""
        honest, work = await super().answer(round_id, chunks), self._services.work
        cheat = work.cheats.get(round_id) if isinstance(work, TamperingWork) else None
        return honest if cheat is None else await in_thread(cheat.answer, honest)

    def _is_accomplice(self, credential: Signed, roster: Roster) -> bool:
        try:
            verify(credential, Credential, roster.populations[0].name, self._orders.accomplices())
        except DocumentError:
            return False
        return True


def _enrolling(roster: Roster, key: bytes) -> Roster:
    """The roster with another enrolment key for its only population."""
    population = msgspec.structs.replace(roster.populations[0], enrolment_key=key.hex())
    return msgspec.structs.replace(roster, populations=(population,))


def malicious_node_of(orders: Orders) -> Callable[[NodeServices], MixNode]:
    """A function that makes a malicious node from an honest node's services."""

    def node_of(parts: NodeServices) -> MixNode:
        honest = parts.work
        work = TamperingWork(
            honest.identity,
            honest.pool,
            honest.relay,
            honest.metrics,
            None,
            orders,
            memory=honest.memory,
        )
        return LyingNode(replace(parts, work=work), orders)

    return node_of
