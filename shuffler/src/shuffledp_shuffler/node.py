"""A mix node: its rounds, and the analyst's calls on them.

Pure decisions are in `checks` and `round_state`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from msgspec import UNSET

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Certificate, Countersignature, Discard, Roster, RoundKey
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    ExpiredDocumentError,
    NodeFault,
    RoundStateError,
    ShuffleDPError,
    TooFewReportsError,
    UnknownRoundError,
)
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.history import most_read, unpacked
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.runtime.tasks import in_thread, uninterrupted
from shuffledp_core.transport.receiving import Chunks, gather
from shuffledp_shuffler.capacity import measure
from shuffledp_shuffler.checks import (
    check_after_start,
    check_certificate,
    check_header,
    check_manifest,
    check_round_id,
    check_times,
    named_round,
)
from shuffledp_shuffler.intake import Batches, Submissions
from shuffledp_shuffler.ledger_watch import LedgerWatch
from shuffledp_shuffler.live import LiveRound, Snapshot
from shuffledp_shuffler.metrics import DELETED, NodeMetrics
from shuffledp_shuffler.mixproof.answering import accusation_of, answered
from shuffledp_shuffler.mixproof.mixing import claim_check, require_output
from shuffledp_shuffler.mixproof.preparing import (
    SECRET_BYTES,
    MixingPart,
    check_history_memory,
    check_memory,
    make_mixing_part,
    read_secret,
)
from shuffledp_shuffler.peeling import WorkersLost
from shuffledp_shuffler.round_state import KEYLESS, Phase, RoundRecord
from shuffledp_shuffler.spool import Spool
from shuffledp_shuffler.store import Store
from shuffledp_shuffler.work import RoundPipeline

SWEEP_SECONDS: Final = 60.0
"""Interval at which abandoned rounds are looked for."""

_WORKING: Final = frozenset({Phase.MIXING, Phase.RELAYING})


@dataclass(frozen=True)
class NodeServices:
    """Components of a node. `clock` gives milliseconds since 1970.

    `away_seconds`: a state folder that was not in use for longer may be a restored backup.
    `foreign`: the node's code is not ours, but an experiment's.
    """

    identity: Identity
    roster: Roster
    store: Store
    work: RoundPipeline
    submissions: Submissions
    batches: Batches
    clock: Callable[[], int]
    metrics: NodeMetrics
    away_seconds: float
    foreign: bool = False

    @property
    def corrupt(self) -> bool:
        """True if the node must declare itself corrupt: it logs what it learns, or nobody can know
        what it does.
        """
        return self.foreign or self.work.corruption is not None


class MixNode:
    """All rounds of one mix node. Call `recover` before anything else and `shut` in the end."""

    def __init__(self, parts: NodeServices) -> None:
        self._parts = parts
        self._rounds: dict[str, LiveRound] = {}
        self._damaged: dict[str, NodeFault] = {}
        self._lock = asyncio.Lock()
        self._log = structlog.get_logger()
        self._started = parts.clock()
        self._ledgers = LedgerWatch(parts.store.ledger_positions, parts.roster)

    def rounds(self) -> list[LiveRound]:
        """All rounds known here, in no particular order. Safe from any thread."""
        return list(self._rounds.values())

    async def warm(self) -> None:
        """Starts the peeling processes before the first round needs them, and looks whether the
        cluster is there.

        A cluster that is away is logged: it may be back when a round needs it. Raises `ConfigError`
        without Ray.
        """
        await self._parts.work.pool.warm()
        if self._parts.work.cluster is not None:
            try:
                await self._parts.work.cluster.check()
            except WorkersLost as error:
                self._log.error("the cluster does not answer", reason=str(error))

    async def measure(self) -> None:
        """Measures the peeling rate for the metrics page, in below a second. Call it when idle."""
        capacity = await measure(self._parts.work.pool)
        self._parts.metrics.capacity.labels("one").set(capacity.alone)
        self._parts.metrics.capacity.labels("all").set(capacity.saturated)

    async def recover(self) -> None:
        """Loads every round from disk and resumes what a crash interrupted.

        Only the damaged rounds fail.

        So do open ones in a state folder that was not in use for long: docs/protocol.md, "What
        survives a crash".
        """
        self._started = self._parts.clock()
        away = self._started - self._parts.store.last_seen()
        for folder in self._parts.store.folders():
            try:
                live = LiveRound(folder, folder.read(), self._parts.metrics)
            except NodeFault as error:
                self._damaged[folder.round_id] = error
                self._log.error("round damaged", round=folder.round_id, reason=str(error))
                continue
            self._rounds[folder.round_id] = live
            await self._resume(live, away)
        await (
            self._be_seen()
        )  # last: a crash while rounds are judged must not make an old copy look fresh

    async def shut(self) -> None:
        """Stops all work; everything is on disk."""
        for live in self._rounds.values():
            await live.stop()
        await self._be_seen()
        await in_thread(self._parts.work.pool.close)
        self._parts.store.close()

    async def prepare(
        self, certificate: bytes, position: int, suite: str, before: Sequence[bytes] = ()
    ) -> Signed:
        """Makes a signed round key for one position of a certified plan.

        The same one for the same request.

        `before` are the signed round keys of the nodes before this one, in a verified round.

        Raises:
            DocumentError: see `check_certificate`, `check_after_start` and `LedgerWatch.admit`.
            RoundStateError: prepared otherwise, or deleted before.
            PolicyRefusal, RoundKeyError, NodeFault: see `make_mixing_part`.
        """
        signed = Signed.from_bytes(certificate)
        name, now = self._parts.identity.name, self._parts.clock()
        plan = check_certificate(signed, self._parts.roster, name, position, suite, now)
        # To its end even if the analyst hangs up: the repetition then finds the round, and gets the
        # same key.
        return await uninterrupted(self._prepare(signed, plan, position, suite, before))

    async def set_manifest(self, manifest: bytes) -> Signed:
        """Countersigns a manifest that is exactly what this node was prepared for.

        Raises:
            DocumentError, RoundKeyError: see `check_manifest`. RoundStateError: another one is set,
                or it is late.
        """
        signed = Signed.from_bytes(manifest)
        live = self._round(named_round(signed, self._parts.roster))
        return await uninterrupted(self._set_manifest(live, signed))

    def submit(
        self, round_id: str, credential: bytes, claim: bytes, envelope: bytes | Chunks
    ) -> asyncio.Future[Signed]:
        """Begins to accept a submission; see `Submissions.accept`."""
        live = self._round(round_id)
        return self._submissions_for(live, credential).accept(live, credential, claim, envelope)

    async def add_batch(self, header: bytes, peer: str, chunks: Chunks) -> None:
        """Takes the predecessor's batch and starts to mix; see `Batches.take`."""
        signed = Signed.from_bytes(header)
        announced = check_header(signed, peer, self._parts.roster)
        live = self._round(announced.round_id)
        check_history_memory(live.require_terms(), announced, self._parts.work.memory)
        if await self._parts.batches.take(live, peer, signed, announced, chunks):
            width = live.require_terms().geometry.record_bytes(announced.position)
            self._parts.metrics.batch_bytes.labels("in").inc(announced.records * width)
            self._start(live)

    async def close_round(self, round_id: str) -> int:
        """Closes submissions and starts to mix; returns the number accepted.

        Repeating it answers the same.

        Raises:
            TooFewReportsError: fewer than the minimum; the round has failed. RoundStateError: not
                the entry node.
        """
        return await uninterrupted(self._close(self._round(round_id)))

    async def delete(self, round_id: str) -> Signed:
        """Erases everything of the round, known or not, and returns the signed discard.

        Idempotent.
        """
        return await uninterrupted(self._delete(check_round_id(round_id)))

    async def accusation(self, round_id: str) -> bytes:
        """This node's accusation in a verified round, packed.

        Raises `RoundStateError` where there is none.
        """
        return await in_thread(accusation_of, self._round(round_id))

    async def answer(self, round_id: str, chunks: Chunks) -> bytes:
        """Goes on with traces or passages of somebody's accusation, one inquiry at a time.

        See `answered`.
        """
        live = self._round(round_id)
        require_output(live)  # before anything is kept of who asks too early or too late
        async with live.answering:
            inquiry = await gather(
                chunks, most_read(live.require_terms().manifest, self._parts.work.memory)
            )
            live.require_present()
            self._forget_hops(live)  # before this round's batch comes into memory
            # An inquiry that is refused, or whose caller is gone, leaves nothing: its thread may
            # still be at work.
            kept = live.lend_hop()
            answer, hop = await in_thread(
                answered, live, self._parts.identity, self._parts.roster, inquiry, kept
            )
            self._forget_hops(
                live
            )  # of rounds that were asked about meanwhile: one is kept at most
            live.keep_hop(hop)
            return answer

    def _forget_hops(self, but: LiveRound) -> None:
        """Erases what is kept of other rounds for their next inquiries, so that this one may have
        the memory.
        """
        for live in self._rounds.values():
            if live is not but:
                live.forget_hop()

    async def settle_accusation(self, round_id: str, chunks: Chunks) -> None:
        """Ends this node's accusation by a transcript; see `Settlement.take`."""
        live = self._round(round_id)
        live.settlement.require_open()  # before anything is kept
        async with (
            live.answering
        ):  # one at a time, as inquiries: of many at once each could be as long as is allowed
            live.settlement.require_open()
            data = await gather(
                chunks, most_read(live.require_terms().manifest, self._parts.work.memory)
            )
            transcript = await in_thread(unpacked, data, Transcript)
            live.require_present()
            await live.settlement.take(transcript)

    def watch(self, round_id: str) -> AsyncGenerator[Snapshot, None]:
        """Yields the status of a round now and at every change, until it ends."""
        return self._round(round_id).watch()

    async def sweep(self, patience: float) -> None:
        """Gives up, for ever, rounds that nobody continued within `patience` seconds after their
        closing time.
        """
        while True:
            await self._be_seen()
            await self.give_up_abandoned(round(1000 * patience))
            await asyncio.sleep(SWEEP_SECONDS)

    async def give_up_abandoned(self, patience: int) -> None:
        """Fails every waiting round whose time was over `patience` milliseconds ago.

        Their keys are erased.

        So are those of verified rounds for whose steps nobody can ask any more.
        """
        for live in list(self._rounds.values()):
            async with live.lock:
                record = live.record
                answers = (
                    record.phase is Phase.DONE and record.answerable and live.secret is not None
                )
                if not (record.phase in {Phase.PREPARED, Phase.OPEN} or answers) or live.deleted:
                    continue
                end = live.terms.manifest.closes_at if live.terms else record.plan().expires_at
                if self._parts.clock() < end + patience:
                    continue
                if answers:
                    await self._erase_answers(live)
                else:
                    await live.fail(
                        ExpiredDocumentError(
                            f"round {record.round_id} was abandoned: it ended at {end}"
                        )
                    )

    async def _erase_answers(self, live: LiveRound) -> None:
        """Erases all that a verified round's steps could be answered by.

        What the disk refuses, the next sweep does.
        """
        try:
            await in_thread(live.folder.erase_consumed, Phase.DONE)
        except OSError as error:
            self._log.error(
                "cannot erase what a round leaves", round=live.record.round_id, reason=str(error)
            )
        else:
            live.forget_secrets()

    def _submissions_for(
        self,
        live: LiveRound,  # noqa: ARG002 - for nodes that lie
        credential: bytes,  # noqa: ARG002
    ) -> Submissions:
        """The intake for submissions of this credential."""
        return self._parts.submissions

    def _round(self, round_id: str) -> LiveRound:
        live = self._rounds.get(round_id)
        if live is not None:
            return live
        if round_id in self._damaged:
            raise self._damaged[round_id]
        raise UnknownRoundError(
            f"round {check_round_id(round_id)} is not known here: never prepared, or deleted"
        )

    async def _prepare(
        self, signed: Signed, plan: Certificate, position: int, suite: str, before: Sequence[bytes]
    ) -> Signed:
        async with self._lock:
            # Asked of the disk: the id of a discarded round stays used after every restart.
            if self._parts.store.discard_of(plan.round_id) is not None:
                raise RoundStateError(
                    f"round {plan.round_id} was deleted here and can never be used again"
                )
            if plan.round_id in self._rounds or plan.round_id in self._damaged:
                live = self._round(plan.round_id)
                live.require_present()
                live.record.require_same_preparation(signed, position, suite)
                return live.record.round_key
            check_after_start(
                plan, self._started
            )  # an older round may be a discarded one that a backup has forgotten
            await in_thread(self._ledgers.admit, plan)
            mixing = self._mixing_part(signed, plan, position, suite, before)
            private, public = suite_named(suite).generate()
            key = RoundKey(
                deployment=self._parts.roster.deployment,
                round_id=plan.round_id,
                node=self._parts.identity.name,
                position=position,
                suite=suite,
                public_key=public.hex(),
                certificate_digest=document_digest(signed),
                corrupt=self._parts.corrupt,
                mixing=mixing.public or UNSET,
            )
            if key.corrupt:
                self._log.warning(
                    "CORRUPT NODE: it may write down all it learns of this round",
                    round=plan.round_id,
                )
            round_key = self._parts.identity.sign(key)
            record = RoundRecord(
                round_id=plan.round_id, position=position, certificate=signed, round_key=round_key
            )
            folder = await in_thread(
                self._parts.store.create, record, private + mixing.secret, mixing.withdrawals
            )
            live = LiveRound(folder, record, self._parts.metrics)
            self._adopt_keys(live, private + mixing.secret)
            self._rounds[plan.round_id] = live
            return round_key

    def _mixing_part(
        self, signed: Signed, plan: Certificate, position: int, suite: str, before: Sequence[bytes]
    ) -> MixingPart:
        parts = self._parts
        name, admission, writes_down = (
            parts.identity.name,
            parts.submissions.admission,
            parts.work.corruption is not None,
        )
        return make_mixing_part(
            signed,
            plan,
            before,
            name,
            position,
            suite,
            parts.roster,
            admission,
            writes_down=writes_down,
        )

    def _adopt_keys(self, live: LiveRound, packed: bytes) -> None:
        """Splits the keys as they lie on disk: the round key, and in a verified round its secrets
        behind it.
        """
        length = suite_named(live.record.own_key().suite).private_key_bytes
        live.private_key = packed[:length]
        live.secret = read_secret(packed[length:]) if packed[length:] else None

    async def _set_manifest(self, live: LiveRound, signed: Signed) -> Signed:
        async with live.lock:
            live.require_present()
            record = live.record
            if record.manifest is None:
                terms = check_manifest(signed, record, self._parts.roster)
                # Only the first time: whoever asks again, however late, gets the same
                # countersignature.
                check_times(terms, self._parts.clock())
                check_memory(terms, self._parts.work.memory)
                opened = record.opened(signed)
                live.terms = terms
                live.spool = live.spool or (self._spool(live) if record.is_entry else None)
                # On disk before it is countersigned: after a crash, too, a second manifest is
                # refused.
                await live.commit(opened)
            # One manifest a round: this node enforces its counts and times, and no user may have
            # been shown others.
            elif record.manifest != signed:
                raise RoundStateError(
                    f"round {record.round_id} already has another manifest; delete it"
                )
        countersignature = Countersignature(
            round_id=record.round_id,
            node=self._parts.identity.name,
            manifest_digest=document_digest(signed),
        )
        return self._parts.identity.sign(countersignature)

    async def _close(self, live: LiveRound) -> int:
        async with live.lock:
            live.require_present()
            if live.record.phase is Phase.FAILED:
                live.record.raise_failure()
            if live.record.phase is Phase.PREPARED:
                live.require_terms()
            if live.record.phase is Phase.OPEN:
                await self._close_open(live)
            live.require_spool()
            return live.record.accepted

    async def _close_open(self, live: LiveRound) -> None:
        # A crash before the commit finds the round OPEN and the spool taking submissions: the close
        # is asked for again.
        accepted = await live.require_spool().close()
        try:
            closed = live.record.closed(accepted, live.require_terms().manifest.min_reports)
        except TooFewReportsError as error:
            await live.fail(error)
            raise
        await live.commit(closed)
        size = accepted * live.require_terms().geometry.envelope_bytes
        self._parts.metrics.batch_bytes.labels("in").inc(size)
        self._start(live)

    async def _delete(self, round_id: str) -> Signed:
        while True:
            live = self._rounds.get(round_id)
            if live is not None:
                # Before the lock of all rounds: the job's thread runs to its end, for a large batch
                # in minutes.
                await self._stop(live)
            async with self._lock:
                if self._rounds.get(round_id) is live:
                    return await self._discarded(round_id, live)
            # Prepared or deleted in between: once more, with what there is now.

    @staticmethod
    async def _stop(live: LiveRound) -> None:
        """Ends all work on a round that is to be deleted.

        None begins again, and its record changes no more.
        """
        async with live.lock:
            live.deleted = True
            await live.stop()

    async def _discarded(self, round_id: str, live: LiveRound | None) -> Signed:
        """Erases a round that is stopped, or that there is not, under the lock of all rounds.

        Returns the discard.

        Under the same lock as `_prepare`: of a round that is being deleted no new key can be
        promised.
        """
        kept = self._parts.store.discard_of(round_id)
        if kept is not None:
            return kept
        # Of a damaged round nobody knows whether something left: the budget must stay charged.
        forwarded = round_id in self._damaged
        if live is not None:
            forwarded = (
                live.record.forwarded
            )  # stopped before: it cannot turn true after it was read and signed
            if not live.record.ended:
                self._parts.metrics.rounds_ended.labels(DELETED).inc()
        discard = Discard(round_id=round_id, node=self._parts.identity.name, forwarded=forwarded)
        signed = self._parts.identity.sign(discard)
        await in_thread(self._parts.store.discard, round_id, signed)
        self._rounds.pop(round_id, None)
        self._damaged.pop(round_id, None)
        return signed

    def _distrust(self, record: RoundRecord, away: int) -> None:
        """Raises `NodeFault` for an open round that must not go on here, although it is on the
        disk.

        1. The folder was not in use for long: it may be a restored backup, and the round one for
           which this node has signed since that nothing was forwarded, so that its budget was
           released.
        2. An honest node made the round's key, and this one is not ours.
        """
        if away > 1000 * self._parts.away_seconds:  # 1
            raise NodeFault(
                f"the state folder was not in use for more than {self._parts.away_seconds:g} s "
                f"and may be a copy that "
                "was put back: its open rounds are given up (`away_seconds`)"
            )
        if self._parts.foreign and not record.own_key().corrupt:  # 2
            raise NodeFault(
                f"round {record.round_id} was promised by an honest node; foreign code does not "
                f"go on with it"
            )

    async def _be_seen(self) -> None:
        try:
            await in_thread(self._parts.store.be_seen, self._parts.clock())
        except OSError as error:
            self._log.error("cannot write down that the state folder is in use", reason=str(error))

    async def _resume(self, live: LiveRound, away: int) -> None:
        record = live.record
        try:
            if not record.ended:
                self._distrust(record, away)
            if record.phase not in KEYLESS or (record.answerable and live.folder.has_key):
                self._adopt_keys(live, live.folder.read_key(self._key_bytes(record.own_key())))
            if record.manifest is not None:
                # Without `check_times`: the round was open, and its closing time may be over by
                # now.
                live.terms = check_manifest(record.manifest, record, self._parts.roster)
                if record.is_entry:
                    live.spool = self._spool(live)
                    if record.phase in {Phase.OPEN, Phase.MIXING}:
                        # before it is read: what this disk lost is no user's false claim
                        live.spool.require_whole()
                    if live.claims is not None and record.phase is Phase.OPEN:
                        await in_thread(
                            live.claims.remember, live.folder.envelopes, live.spool.accepted
                        )
        except ShuffleDPError as error:
            if not record.ended:
                await live.fail(error)
        # Without its secrets it can answer nothing: an earlier process ended while it erased them
        # and the rest.
        answerable = live.record.answerable and live.secret is not None
        await in_thread(live.folder.erase_consumed, live.record.phase, answerable=answerable)
        if live.record.phase in _WORKING:
            self._start(live)

    @staticmethod
    def _key_bytes(key: RoundKey) -> int:
        return suite_named(key.suite).private_key_bytes + (
            0 if key.mixing is UNSET else SECRET_BYTES
        )

    def _spool(self, live: LiveRound) -> Spool:
        terms, folder = live.require_terms(), live.folder
        live.claims = claim_check(live, self._parts.roster)
        size, limit, count = (
            terms.geometry.envelope_bytes,
            terms.manifest.max_reports,
            self._parts.metrics.accepted.inc,
        )
        if live.claims is None:
            return Spool(folder.index, folder.envelopes, size, limit, count)
        return Spool(folder.index, folder.envelopes, size, limit, count, live.claims.guard)

    def _start(self, live: LiveRound) -> None:
        # At most one job a round: two at a time would write two orders into one file.
        if live.job is None and not live.deleted:
            self._forget_hops(live)
            live.job = asyncio.create_task(self._parts.work.run(live))
