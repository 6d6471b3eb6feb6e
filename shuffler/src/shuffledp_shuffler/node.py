"""A mix node: the calls of analyst, clients and predecessor about its rounds.

The modules `opening`, `ending` and `recovery` begin, end and resume a round; pure decisions are in
`checks` and `round_state`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import groupby

import structlog

from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.history import most_read, unpack_document
from shuffledp_core.runtime.tasks import finish_if_cancelled, in_thread
from shuffledp_core.transport.receiving import Chunks, gather
from shuffledp_shuffler.capacity import measure
from shuffledp_shuffler.checks import check_certificate, check_header, check_round_id, named_round
from shuffledp_shuffler.ending import abandon_overdue_round, close_round, delete_round
from shuffledp_shuffler.intake import Submissions, WholeSubmission
from shuffledp_shuffler.ledger_watch import LedgerWatch
from shuffledp_shuffler.live import LiveRound, RoundSnapshot
from shuffledp_shuffler.mixproof.answering import accusation_of, answer_inquiry
from shuffledp_shuffler.mixproof.dummies import dummies_of, keep_dummies, require_wanted
from shuffledp_shuffler.mixproof.mixing import require_output
from shuffledp_shuffler.mixproof.preparing import check_history_memory
from shuffledp_shuffler.opening import prepare_round, set_manifest
from shuffledp_shuffler.peeling import WorkersLost
from shuffledp_shuffler.recovery import record_use, recover_rounds
from shuffledp_shuffler.registry import NodeServices, RoundRegistry


class MixNode:
    """All rounds of one mix node. Call `recover` before any other method, and `shut` at the end."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._rounds = RoundRegistry(services.clock())
        self._ledgers = LedgerWatch(services.store.ledger_positions, services.roster)

    def rounds(self) -> list[LiveRound]:
        """All rounds known here, in no particular order. Safe from any thread."""
        return self._rounds.all()

    async def warm(self, *, with_rate: bool = False) -> None:
        """Start the peeling processes before the first round needs them, and check the cluster.

        `with_rate`: also measure the peeling rate for the metrics page, in under a second. This
        must happen before rounds are resumed, because their work would lower the rate.

        If the cluster is unreachable, that is only logged, because it may be back when a round
        needs it. Raises `ConfigError` if a cluster is configured and Ray is not installed.
        """
        await self._services.work.pool.warm()
        if self._services.work.cluster is not None:
            try:
                await self._services.work.cluster.check()
            except WorkersLost as error:
                structlog.get_logger().error("Ray cluster unreachable", reason=str(error))
        if with_rate:
            capacity = await measure(self._services.work.pool)
            self._services.metrics.capacity.labels("one").set(capacity.alone)
            self._services.metrics.capacity.labels("all").set(capacity.saturated)

    async def recover(self) -> None:
        """Load every round from disk and resume what a crash interrupted; see `recover_rounds`."""
        self._rounds.started = self._services.clock()
        await recover_rounds(self._services, self._rounds)

    async def shut(self) -> None:
        """Stop all work; the state on disk is complete."""
        for live in self.rounds():
            await live.stop()
        await record_use(self._services)
        await in_thread(self._services.work.pool.close)
        self._services.store.close()

    async def prepare(
        self, certificate: bytes, position: int, suite: str, before: Sequence[bytes] = ()
    ) -> Signed:
        """Make a signed round key for one position of a certified plan.

        Repeating the request gives the same key.

        `before`: in a verified round, the signed round keys of the nodes before this one.

        Raises:
            DocumentError: see `check_certificate`, `check_after_start` and `LedgerWatch.admit`.
            RoundStateError: the round was prepared with other arguments, or was deleted.
            PolicyRefusal, RoundKeyError, NodeFault: see `make_mixing_part`.
        """
        signed = Signed.from_bytes(certificate)
        name = self._services.identity.name
        now = self._services.clock()
        plan = check_certificate(signed, self._services.roster, name, position, suite, now)
        # Not cancelled if the analyst hangs up: its next request then finds the round and gets the
        # same key.
        return await finish_if_cancelled(
            prepare_round(
                self._services, self._rounds, self._ledgers, signed, plan, position, suite, before
            )
        )

    async def set_manifest(self, manifest: bytes) -> Signed:
        """Countersign a manifest that matches exactly what this node was prepared for.

        Raises:
            DocumentError, RoundKeyError: see `check_manifest`.
            RoundStateError: the round has another manifest, or is no longer waiting for one.
        """
        signed = Signed.from_bytes(manifest)
        live = self._rounds.get(named_round(signed, self._services.roster))
        return await finish_if_cancelled(set_manifest(self._services, live, signed))

    def submit(
        self, round_id: str, credential: bytes, claim: bytes, envelope: bytes | Chunks
    ) -> asyncio.Future[Signed]:
        """Begin to accept a submission; see `Submissions.accept`."""
        live = self._rounds.get(round_id)
        return self._submissions_for(live, credential).accept(live, credential, claim, envelope)

    def submit_all(
        self, round_id: str, submissions: Sequence[WholeSubmission]
    ) -> asyncio.Future[list[Signed | Exception]]:
        """Begin to accept submissions to one round, each in one message.

        There are at most `MAX_GROUP`. The future gives the receipt of each, or the error that
        `Submissions.accept` would raise.
        """
        try:
            live = self._rounds.get(round_id)
        except ShuffleDPError as error:
            return _refuse_all(error, len(submissions))

        def find_intake(submission: WholeSubmission) -> Submissions | ShuffleDPError:
            try:
                return self._submissions_for(live, submission.credential)
            except ShuffleDPError as error:
                return error

        groups = [
            _accept_group(intake, live, list(group))
            for intake, group in groupby(submissions, key=find_intake)
        ]

        async def all_outcomes() -> list[Signed | Exception]:
            return [outcome for group in groups for outcome in await group]

        return groups[0] if len(groups) == 1 else asyncio.ensure_future(all_outcomes())

    async def add_batch(self, header: bytes, peer: str, chunks: Chunks) -> None:
        """Take the predecessor's batch and start to mix; see `Batches.take`."""
        signed = Signed.from_bytes(header)
        announced = check_header(signed, peer, self._services.roster)
        live = self._rounds.get(announced.round_id)
        check_history_memory(live.require_terms(), announced, self._services.work.memory)
        if await self._services.batches.take(live, peer, signed, announced, chunks):
            width = live.require_terms().geometry.record_bytes(announced.position)
            self._services.metrics.batch_bytes.labels("in").inc(announced.records * width)
            self._rounds.start_work(live, self._services.work)

    async def close_round(self, round_id: str) -> int:
        """Close submissions and start to mix; return the number accepted. Idempotent.

        Raises:
            TooFewReportsError: fewer than the minimum were accepted, and the round has failed.
            RoundStateError: this node is not the entry node.
        """
        live = self._rounds.get(round_id)
        return await finish_if_cancelled(close_round(self._services, self._rounds, live))

    async def delete(self, round_id: str) -> Signed:
        """Erase a round, known or unknown; return the signed discard. Idempotent."""
        return await finish_if_cancelled(
            delete_round(self._services, self._rounds, check_round_id(round_id))
        )

    async def dummies(self, round_id: str) -> bytes:
        """This node's claim and dummies in a verified round; see `dummies_of`."""
        live = self._rounds.get(round_id)
        # Not cancelled if the analyst hangs up: what a thread still draws must not replace what the
        # next call gets.
        return await finish_if_cancelled(dummies_of(live, self._services.identity))

    async def set_dummies(self, round_id: str, chunks: Chunks) -> None:
        """At the entry node, take another node's claim and dummies; see `keep_dummies`."""
        live = self._rounds.get(round_id)
        require_wanted(live)  # before anything is read
        data = await gather(chunks, live.require_terms().geometry.dummies_bytes)
        await finish_if_cancelled(keep_dummies(live, data))

    async def accusation(self, round_id: str) -> bytes:
        """This node's accusation in a verified round, packed.

        Raises `RoundStateError` if there is none.
        """
        return await in_thread(accusation_of, self._rounds.get(round_id))

    async def answer(self, round_id: str, chunks: Chunks) -> bytes:
        """Continue the traces or passages of an accusation, one inquiry at a time.

        See `answer_inquiry`.
        """
        live = self._rounds.get(round_id)
        require_output(live)  # before anything is read of an inquiry that is too early or too late
        async with live.answering:
            inquiry = await gather(
                chunks, most_read(live.require_terms().manifest, self._services.work.memory)
            )
            live.require_present()
            self._rounds.forget_hops(live)  # before this round's batch comes into memory
            # A refused or cancelled inquiry leaves nothing here: its thread may still be at work.
            lent = live.lend_hop()
            answer, hop = await in_thread(
                answer_inquiry, live, self._services.identity, self._services.roster, inquiry, lent
            )
            # Of rounds that were inquired about meanwhile: at most one hop is held.
            self._rounds.forget_hops(live)
            live.keep_hop(hop)
            return answer

    async def settle_accusation(self, round_id: str, chunks: Chunks) -> None:
        """End this node's accusation by a transcript; see `TranscriptExchange.take`."""
        live = self._rounds.get(round_id)
        live.settlement.require_open()  # before anything is read
        # One at a time, as inquiries: each may have the greatest length that is allowed.
        async with live.answering:
            live.settlement.require_open()
            data = await gather(
                chunks, most_read(live.require_terms().manifest, self._services.work.memory)
            )
            transcript = await in_thread(unpack_document, data, Transcript)
            live.require_present()
            await live.settlement.take(transcript)

    def watch(self, round_id: str) -> AsyncGenerator[RoundSnapshot, None]:
        """Yield the status of a round now and at every change, until it ends."""
        return self._rounds.get(round_id).watch()

    async def abandon_overdue_rounds(self, patience: int) -> None:
        """Fail every waiting round that closed `patience` milliseconds ago, and erase its keys.

        Also erase the keys of verified rounds about which no party can inquire any more, and record
        that the state folder is in use.
        """
        await record_use(self._services)
        for live in self.rounds():
            await abandon_overdue_round(self._services, live, patience)

    def _submissions_for(
        self,
        live: LiveRound,  # noqa: ARG002 - for nodes that lie
        credential: bytes,  # noqa: ARG002
    ) -> Submissions:
        """The intake for submissions of this credential."""
        return self._services.submissions


def _accept_group(
    intake: Submissions | ShuffleDPError, live: LiveRound, submissions: list[WholeSubmission]
) -> asyncio.Future[list[Signed | Exception]]:
    if isinstance(intake, ShuffleDPError):
        return _refuse_all(intake, len(submissions))
    try:
        return intake.accept_all(live, submissions)
    except ShuffleDPError as error:
        return _refuse_all(error, len(submissions))


def _refuse_all(error: ShuffleDPError, count: int) -> asyncio.Future[list[Signed | Exception]]:
    refused: asyncio.Future[list[Signed | Exception]] = asyncio.get_running_loop().create_future()
    refused.set_result([error] * count)
    return refused
