"""One round from plan to result: the I/O (clock, peers, files) around the pure `RoundLifecycle`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
import numpy as np
import structlog

from shuffledp_analyst.disk import typed_disk_errors, write_when_room
from shuffledp_analyst.ending import AnalystServices, end_failed, end_published
from shuffledp_analyst.metrics import PUBLISHED, RoundView
from shuffledp_analyst.mixproof import ProvableMixing, check_route_keys
from shuffledp_analyst.opening import (
    check_corrupt,
    check_countersignature,
    check_final_certificate,
    check_plan_certificate,
    check_round_key,
    make_manifest,
)
from shuffledp_analyst.progress import (
    ACCEPTING,
    CERTIFYING,
    DECODING,
    DONE,
    FAILED,
    OPEN,
    Event,
    NodeStatus,
    Progress,
)
from shuffledp_analyst.round import RoundLifecycle, Stage
from shuffledp_core.answering.decoding import Bytes, decode
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.headers import check_headers, check_size
from shuffledp_core.documents.losses import Losses
from shuffledp_core.documents.models import (
    Announcement,
    BatchHeader,
    Certificate,
    HistoryDigest,
    Manifest,
    Result,
    RoundPlan,
)
from shuffledp_core.documents.signed import Signed, from_json, to_json, verify
from shuffledp_core.errors import (
    CountMismatchError,
    MalformedDocumentError,
    NodeFault,
    RoundFailed,
    RoundStateError,
    ShuffleDPError,
    UnreachableError,
    by_code,
)
from shuffledp_core.mixproof.history import check_readable, most_bytes
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transport.announce import manifest_topic
from shuffledp_core.transport.receiving import batch_chunks, check_digest, let_through, receive
from shuffledp_core.vocabulary import Outcome
from shuffledp_proto.v1 import batch_pb2

MAX_ATTEMPTS: Final = 3
"""Number of processes that try to decode a batch when none of them survives it."""

P = ParamSpec("P")
T = TypeVar("T")


class RunningRound:
    """A round in work. `run` is its whole life; the other methods are called meanwhile."""

    def __init__(self, services: AnalystServices, round_id: str, plan: RoundPlan) -> None:
        self._services = services
        self._peers = services.peers
        self.round = RoundLifecycle(round_id, plan)
        self.progress = Progress()
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[bytes] = loop.create_future()
        self._failure: asyncio.Future[ShuffleDPError] = loop.create_future()
        self._close_now = asyncio.Event()
        self._delivered = asyncio.Event()
        self._statuses: dict[str, NodeStatus] = {}
        self._traces: dict[str, asyncio.Task[None]] = {}
        self._headers: dict[str, Signed] = {}
        self._relayed = asyncio.Event()
        self._receiving = asyncio.Lock()
        self._certificate: tuple[Signed, Certificate] | None = None
        self._manifest: tuple[Signed, Manifest] | None = None
        self._closes_at = 0
        self._mixed_by = 0.0
        self._log = structlog.get_logger().bind(round=round_id)

    @property
    def _id(self) -> str:
        return self.round.round_id

    # What others may ask for meanwhile

    def view(self) -> RoundView:
        """The view of this round for the metrics page."""
        return RoundView(self.round, self._statuses, self.progress.events)

    def end_submissions(self) -> None:
        """Closes submissions now instead of at the closing time.

        Harmless when they have ended already.
        """
        if self.round.stage is Stage.PLANNED:
            raise RoundStateError(f"round {self._id} is not open yet")
        self._close_now.set()

    def abort(self, reason: str) -> None:
        """Gives the round up; `RoundStateError` when it has ended or can no longer be stopped."""
        if self.round.ended or self._failure.done():
            raise RoundStateError(f"round {self._id} has ended already")
        self.fail(RoundFailed(f"given up by the operator: {reason or 'no reason given'}"))

    def fail(self, error: ShuffleDPError) -> None:
        """Ends the round without a result; the first failure counts."""
        if not self._failure.done():
            self._failure.set_result(error)

    async def deliver(
        self, signed: Signed, header: BatchHeader, parts: AsyncIterable[batch_pb2.AddBatchRequest]
    ) -> None:
        """Takes the final batch behind a header that the last node signed.

        Docs/protocol.md, "Batches".

        1. A repeat of the committed batch is let through and accepted.
        2. The header fits this round (`RoundLifecycle.check_batch`), and the history is not longer
           than is read here.
        3. All bytes arrive.
        4. They have the committed digest.

        A node that breaks 2 or 4 has signed what cannot be, and the round fails. Step 3 may be a
        torn connection, or a full disk here (`DiskError`): the sender may repeat it until the
        round's deadline.
        """
        async with self._receiving:
            if self.round.batch is not None and header == self.round.batch:  # 1
                await let_through(batch_chunks(parts), self._services.records.batch_bytes(self._id))
                return
            length = self._judge(lambda: self._length(header))  # 2
            with typed_disk_errors():
                found = await receive(
                    batch_chunks(parts), length, self._services.records.batch_part(self._id)
                )  # 3
                self._judge(lambda: self._commit(signed, header, found))  # 4
            self._delivered.set()

    def _length(self, header: BatchHeader) -> int:
        length = self.round.check_batch(header)
        if self._manifest is not None and isinstance(header.history, int):
            memory = self._services.config.history_memory
            check_readable(self._manifest[1], header.history, memory, "history_memory")
        return length

    def _commit(self, signed: Signed, header: BatchHeader, found: str) -> None:
        check_digest(header.digest, found)
        check_size(signed.signer, len(signed.to_bytes()))
        self.round.check_batch(
            header
        )  # again: the round may have gone on, or ended, while the batch arrived
        self._services.records.commit_batch(self._id, signed)
        self.round.delivered(header)  # behind the disk: a repeat is acknowledged from here on

    def _judge(self, check: Callable[[], T]) -> T:
        try:
            return check()
        except RoundStateError:  # too early or too late: no evidence against anybody
            raise
        except ShuffleDPError as error:
            self.fail(error)
            raise

    # The life of a round

    def resume(self) -> None:
        """Resumes, in place of the opening, a round that an earlier process announced, where its
        records leave it.

        Nodes and accountant are asked again for their answers: closing, statuses, headers and the
        settlement are idempotent, and the batch lies verified on the disk.

        1. The announcement is our own, its certificate the accountant's.
        2. Until the entry node may have been told to close, submissions go on until their closing
           time.
        3. A batch that was complete is the last node's.

        Raises:
            UnknownRoundError: the round was never announced.
            DocumentError: step 1 or 3, the files are not what was written.
        """
        services = self._services
        data = services.records.announcement(self._id)  # 1
        own = services.identity
        announced = from_json(data, Announcement).manifest
        manifest = verify(announced, Manifest, own.name, own.public_key)
        certificate = verify_from(self._peers.accountant, manifest.certificate, Certificate)
        self._certificate = manifest.certificate, certificate
        self._manifest = announced, manifest
        self._closes_at = manifest.closes_at
        self._opened(manifest)
        self.opened.set_result(data)
        self.progress.report(Event(ACCEPTING, total=self.round.plan.max_reports))
        # Announced again below: the earlier process may have died before the broker had it.
        if not services.records.is_closing(self._id):  # 2
            services.publish(manifest_topic(services.deployment, self._id), data)
            return
        self.round.end_submissions()
        header = services.records.batch_header(self._id)  # 3
        if header is not None:
            self.round.delivered(
                verify_from(self._peers.node(self.round.plan.route[-1]), header, BatchHeader)
            )
            self._delivered.set()

    async def run(self) -> None:
        """Runs the round from opening to its end, until nothing is left to do or the process
        stops.
        """
        watchers: list[asyncio.Task[None]] = []
        life = asyncio.ensure_future(self._live(watchers))
        ends: set[asyncio.Future[Any]] = {life, self._failure}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            at_work = (life, *watchers, *self._traces.values())
            for task in at_work:
                task.cancel()
            await asyncio.gather(*at_work, return_exceptions=True)
        self._adopt_failure(life)
        route = self.round.plan.route
        if self.round.stage is Stage.PUBLISHED:
            await end_published(self._services, self._id, route, self.progress)
            return
        error = self._failure.result()
        self._log.warning(
            "round failed", error=type(error).__name__, reason=str(error), stage=self.round.stage
        )
        self.round.failed()
        if not self.opened.done():
            self.opened.set_exception(error)
            self.opened.exception()  # whoever opened may be gone; then nobody else looks at it
        await end_failed(self._services, self._id, route, error, self.progress)

    def _adopt_failure(self, life: asyncio.Task[None]) -> None:
        """Makes the error that ended the round's task its failure, unless it already has one."""
        error = None if life.cancelled() else life.exception()
        if isinstance(error, ShuffleDPError):
            self.fail(error)
        elif error is not None:
            self._fail_unforeseen(error)

    def _fail_unforeseen(self, error: BaseException) -> None:
        self._log.error("unexpected failure", exc_info=error)
        self.fail(RoundFailed(f"the analyst itself failed ({type(error).__name__}); see its log"))

    async def _live(self, watchers: list[asyncio.Task[None]]) -> None:
        announcement = await self._open() if self.round.stage is Stage.PLANNED else None
        watchers += [
            asyncio.ensure_future(self._beside(self._watch, name)) for name in self.round.plan.route
        ]
        if announcement is not None:
            self.opened.set_result(announcement)
        await self._accept()
        await self._await_batch()
        draft = await self._decode()
        await self._await_headers()
        await self._publish(await self._settle(draft))

    async def _open(self) -> bytes:
        services, plan = self._services, self.round.plan
        signed = await self._peers.certify(self._id, plan)  # 2 of docs/protocol.md, "Opening"
        # Only now: certifying may take long, and must not be taken off the time for submissions.
        opens_at = services.clock()
        self._closes_at = opens_at + round(plan.open_seconds * 1000)
        certificate = check_plan_certificate(
            signed, self._peers.accountant, services.deployment, self._id, plan, self._closes_at
        )
        self._certificate = signed, certificate
        keys = await self._prepare_all()  # 3
        check_route_keys(certificate, signed, keys)
        corrupt = check_corrupt(keys, plan)  # 5, before a manifest names such a node
        if corrupt:
            self._log.warning("corrupt nodes on the route, as the plan allows", nodes=corrupt)
        manifest = make_manifest(
            services.deployment, certificate, signed, keys, plan, (opens_at, self._closes_at)
        )
        signed_manifest = services.identity.sign(manifest)  # 4: its keys are all verified
        said = await asyncio.gather(
            *(self._countersign(name, signed_manifest) for name in plan.route)
        )
        announcement = to_json(
            Announcement(manifest=signed_manifest, countersignatures=tuple(said))
        )
        with typed_disk_errors():
            # Before it is published: devices may submit at once.
            services.records.keep_announcement(self._id, announcement)
        self._manifest = signed_manifest, manifest
        self._opened(manifest)
        services.publish(manifest_topic(services.deployment, self._id), announcement)
        self.progress.report(Event(ACCEPTING, total=plan.max_reports))
        self._log.info("round open", route=plan.route)
        return announcement

    def _opened(self, manifest: Manifest) -> None:
        self.round.opened(
            manifest.geometry, most_bytes(manifest) if manifest.geometry.verified else 0
        )

    async def _prepare_all(self) -> list[Signed]:
        places = list(enumerate(self.round.plan.route, 1))
        if not self._certified()[1].verified:
            return await asyncio.gather(*(self._prepare(name, place) for place, name in places))
        keys: list[Signed] = []
        for (
            place,
            name,
        ) in places:  # in turn: each node's keys rest on those of all before it, which it checks
            keys.append(await self._prepare(name, place, tuple(keys)))
        return keys

    async def _prepare(self, name: str, position: int, before: tuple[Signed, ...] = ()) -> Signed:
        if self._certificate is None:
            raise ValueError("keys are asked for under a certificate")
        signed, suite = self._certificate[0], self.round.plan.suite
        key = await self._peers.prepare(name, position, signed, suite, before)
        check_round_key(key, self._peers.node(name), position, suite, signed, self._id)
        return key

    async def _countersign(self, name: str, manifest: Signed) -> Signed:
        said = await self._peers.set_manifest(name, manifest)
        check_countersignature(said, self._peers.node(name), manifest, self._id)
        return said

    async def _beside(self, work: Callable[[str], Awaitable[None]], name: str) -> None:
        """What is at work about one node, beside the life of the round: its failure is the
        round's.
        """
        try:
            await work(name)
        except ShuffleDPError as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - nobody looks at this task: the round would wait for its deadline
            self._fail_unforeseen(error)

    async def _watch(self, name: str) -> None:
        """Follows one node until it is done; raises its failure."""
        entry = name == self.round.plan.route[0]
        async for status in self._peers.watch(name, self._id):
            self._statuses[name] = status
            if status.phase == FAILED:
                raise by_code(status.error)(f"{name}: {status.reason or 'it gave no reason'}")
            if status.accused:
                self._trace(name)
            if entry and status.phase == OPEN:
                self._count(status.accepted)
            self.progress.report_work(name, status)
            if status.phase == DONE:
                self._keep_header(name, status.header)

    def _trace(self, name: str) -> None:
        """Begins to trace what a node accuses, unless that is under way."""
        self._require_provable(name)
        if name not in self._traces or self._traces[name].done():
            self._log.warning("records of a batch say nothing", node=name)
            self._traces[name] = asyncio.ensure_future(self._beside(self._settle_accusation, name))

    def _require_provable(self, name: str) -> None:
        if not self._certified()[1].verified:
            raise NodeFault(f"{name} accuses records of a plain round, in which nobody traces any")

    async def _settle_accusation(self, name: str) -> None:
        try:
            await self._mixing().settle(name)
        except RoundStateError as error:  # it has gone on, or failed: its status says which
            self._log.info("nothing to trace any more", node=name, reason=str(error))

    def _keep_header(self, name: str, data: bytes) -> None:
        """Keeps a node's header of the batch it relayed.

        All are verified together, before the settlement.
        """
        try:
            check_size(name, len(data))  # it goes into the result
            self._headers[name] = Signed.from_bytes(data)
        except MalformedDocumentError as error:
            raise NodeFault(
                f"{name} is done but gave no header of the batch it relayed: {error}"
            ) from error
        if len(self._headers) == len(self.round.plan.route):
            self._relayed.set()

    def _count(self, accepted: int) -> None:
        if self.round.stage is Stage.OPEN:
            self.progress.report(Event(ACCEPTING, done=accepted, total=self.round.plan.max_reports))
        if accepted >= self.round.plan.max_reports:
            self._close_now.set()

    async def _accept(self) -> None:
        loop, started = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        if self.round.stage is Stage.OPEN:
            await self._await_closing_time()
            # Before the call, whose answer a crash may lose: the entry node may then have closed,
            # and sent its batch.
            await self._write(self._services.records.mark_closing, self._id)
            self.round.end_submissions()
        entry = self.round.plan.route[0]
        accepted = await self._peers.persistently(lambda: self._peers.close(entry, self._id))
        self.round.closed(accepted)
        self._services.withdraw(self._id)
        self.progress.report(
            Event(
                ACCEPTING,
                done=accepted,
                total=self.round.plan.max_reports,
                seconds=loop.time() - started,
            )
        )
        self._log.info("submissions closed", accepted=accepted)

    async def _await_closing_time(self) -> None:
        left = (self._closes_at - self._services.clock()) / 1000
        try:
            await asyncio.wait_for(self._close_now.wait(), max(left, 0.0))
        except TimeoutError:
            self._log.info("closing time")

    async def _await_batch(self) -> None:
        services, seconds = self._services, self._services.config.mix_timeout_seconds
        # From the disk: a round that ends this process again and again before it has its batch is
        # given up in the end.
        now = services.clock()
        closed_at = await self._write(services.records.closed_at, self._id, now)
        left = seconds - max(0, now - closed_at) / 1000
        # Perhaps to an earlier process: the nodes need time to say again that they are done.
        if self._delivered.is_set():
            left = max(left, services.config.recovery_seconds)
        self._mixed_by = asyncio.get_running_loop().time() + left
        try:
            async with asyncio.timeout_at(self._mixed_by):
                await self._delivered.wait()
        except TimeoutError as error:
            raise UnreachableError(
                f"the last node, {self.round.plan.route[-1]}, delivered nothing within {seconds} "
                f"s of the close; "
                "look at the nodes' status, or raise mix_timeout_seconds"
            ) from error

    async def _await_headers(self) -> None:
        try:
            async with asyncio.timeout_at(self._mixed_by):
                await self._relayed.wait()
        except TimeoutError as error:
            missing = ", ".join(name for name in self.round.plan.route if name not in self._headers)
            raise UnreachableError(
                f"{missing}: not done within {self._services.config.mix_timeout_seconds} s of the "
                f"close, though the "
                "batch has arrived; look at the nodes' status, or raise mix_timeout_seconds"
            ) from error

    async def _decode(self) -> Result:
        loop, started = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        batch = self.round.decoding()[1]
        # Counted on disk before decoding begins: an out-of-memory kill gives no other chance to.
        attempts = await self._write(self._services.records.count_attempt, self._id)
        if attempts > MAX_ATTEMPTS:  # what kills us must not do so for ever
            raise RoundFailed(
                f"the analyst ended {MAX_ATTEMPTS} times while it decoded the batch; has it the "
                f"memory?"
            )
        signed, certificate = self._certified()
        mechanism = certificate.mechanism
        geometry = Geometry.of(
            mechanism, self.round.plan.suite, len(self.round.plan.route), self.round.plan.mix
        )
        self.progress.report(Event(DECODING, total=batch.records))
        packed, board_digest, history, accepted = await self._board(batch)
        board = await asyncio.to_thread(
            decode,
            packed,
            geometry,
            mechanism.alphabet,
            accepted,
            batch.dropped,
            mechanism.counts_of,
        )
        answer = await asyncio.to_thread(
            estimate, mechanism, board.counts, accepted, batch.dropped + board.invalid
        )
        if batch.dropped or board.invalid:
            self._log.warning(
                "messages lost",
                dropped=batch.dropped,
                outside_alphabet=board.outside,
                repeated_tags=board.repeated,
            )
        self._services.records.forget_attempts(self._id)
        self.progress.report(
            Event(DECODING, "", board.messages, board.messages, loop.time() - started)
        )
        self._services.metrics.messages.inc(board.messages)
        return Result(
            deployment=self._services.deployment,
            round_id=self._id,
            outcome=Outcome.PUBLISHED,
            accepted=accepted,
            messages=board.messages,
            board_digest=board_digest,
            estimate=answer,
            plan_certificate=signed,
            dropped=batch.dropped,
            outside_alphabet=board.outside,
            repeated_tags=board.repeated,
            history=history,
        )

    async def _board(
        self, batch: BatchHeader
    ) -> tuple[Bytes, str, HistoryDigest | msgspec.UnsetType, int]:
        """The board, its digest, in a verified round those of its history, and the number of
        reports on it.

        In a verified round the batch is opened first, and users whose messages say nothing are left
        out.
        """
        delivered = self._services.records.batch(self._id)
        if not self._certified()[1].verified:
            return (
                np.memmap(delivered, dtype=np.uint8, mode="r"),
                batch.digest,
                msgspec.UNSET,
                batch.users,
            )
        data = await in_thread(delivered.read_bytes)
        opened = await self._mixing().open(batch, data, self._services.identity)
        await self._write(
            self._services.records.keep_opened, self._id, opened.board, opened.history
        )
        return (
            opened.board,
            digest(opened.board),
            HistoryDigest(digest=digest(opened.history), length=len(opened.history)),
            opened.users,
        )

    def _mixing(self) -> ProvableMixing:
        if self._manifest is None:
            raise ValueError("an open round has its manifest")
        return ProvableMixing(self._manifest, self._certified()[1], self._peers)

    async def _settle(self, draft: Result) -> Result:
        loop, started = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        self.round.certifying()
        self.progress.report(Event(CERTIFYING, total=1))
        certificate, accepted = self._certified()[1], draft.accepted
        losses = Losses(draft.dropped, draft.outside_alphabet + draft.repeated_tags)
        headers = [self._headers[name] for name in self.round.plan.route]
        nodes = [self._peers.node(name) for name in self.round.plan.route]
        # The accountant checks the same; here the last node's own batch is known, and its header is
        # held against it.
        each = certificate.mechanism.messages_per_user
        dropped = check_headers(
            headers, nodes, self._id, each, accepted, excluding=certificate.verified
        )
        if dropped != losses.dropped:
            raise CountMismatchError(
                f"the last node delivered a batch with {losses.dropped} onions dropped, and says "
                f"{dropped} of it now"
            )
        signed = await self._peers.persistently(
            lambda: self._peers.settle(self._id, accepted, headers, losses.invalid)
        )
        check_final_certificate(signed, self._peers.accountant, certificate, accepted, losses)
        self.progress.report(Event(CERTIFYING, "", 1, 1, loop.time() - started))
        return msgspec.structs.replace(draft, final_certificate=signed, headers=tuple(headers))

    async def _publish(self, result: Result) -> None:
        """Publishes the result, the round's commit point.

        An abort that was answered a moment ago still counts.
        """
        signed = self._services.identity.sign(result)

        async def publish() -> None:
            # No `await` in here: an abort comes before, and counts, or finds the round ended.
            if self._failure.done():
                raise self._failure.result()
            self._services.records.publish(self._id, signed)
            self.round.published()

        await write_when_room(publish)
        self._services.metrics.rounds.labels(PUBLISHED).inc()
        self._log.info("published", accepted=result.accepted, messages=result.messages)

    async def _write(self, write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a write to the round's record in a thread.

        Pauses the round while the disk is full.
        """
        return await write_when_room(lambda: in_thread(write, *args, **kwargs))

    def _certified(self) -> tuple[Signed, Certificate]:
        if self._certificate is None:
            raise ValueError("an open round has its certificate")
        return self._certificate
