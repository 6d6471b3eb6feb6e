"""State of a running round, and the calls that the analyst accepts about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import ParamSpec, TypeVar

import structlog

from shuffledp_analyst.disk import typed_disk_errors, write_when_room
from shuffledp_analyst.ending import AnalystServices
from shuffledp_analyst.metrics import RoundView
from shuffledp_analyst.mixproof import ProvableMixing
from shuffledp_analyst.progress import NodeStatus, Progress
from shuffledp_analyst.round import RoundLifecycle, RoundStage
from shuffledp_core.documents.headers import check_size
from shuffledp_core.documents.models import BatchHeader, Certificate, Manifest, RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import RoundFailed, RoundStateError, ShuffleDPError
from shuffledp_core.mixproof.history import check_readable, most_bytes
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transport.receiving import batch_chunks, check_digest, let_through, receive
from shuffledp_core.vocabulary import Mix
from shuffledp_proto.v1 import batch_pb2

P = ParamSpec("P")
T = TypeVar("T")


class RunningRound:
    """A running round: its state, and calls about it. `lifetime.run_round` runs its stages."""

    def __init__(self, services: AnalystServices, round_id: str, plan: RoundPlan) -> None:
        self.services = services
        self.files = services.records.files(round_id)
        self.round = RoundLifecycle(round_id, plan)
        self.progress = Progress()
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[bytes] = loop.create_future()
        self.failure: asyncio.Future[ShuffleDPError] = loop.create_future()
        self.close_now = asyncio.Event()
        self.delivered = asyncio.Event()
        self.relayed = asyncio.Event()
        self.statuses: dict[str, NodeStatus] = {}
        self.traces: dict[str, asyncio.Task[None]] = {}
        self.headers: dict[str, Signed] = {}
        self.certificate: tuple[Signed, Certificate] | None = None
        self.manifest: tuple[Signed, Manifest] | None = None
        self.log = structlog.get_logger().bind(round=round_id)
        self._receiving = asyncio.Lock()

    @property
    def round_id(self) -> str:
        """Identifier of the round."""
        return self.round.round_id

    def view(self) -> RoundView:
        """The view of this round for the metrics page."""
        return RoundView(self.round, self.statuses, self.progress.events)

    def end_submissions(self) -> None:
        """Close submissions now instead of at the closing time.

        Harmless if they are closed already.
        """
        if self.round.stage is RoundStage.PLANNED:
            raise RoundStateError(f"round {self.round_id} is not open yet")
        self.close_now.set()

    def abort(self, reason: str) -> None:
        """Abort the round; raise `RoundStateError` if it has ended or can no longer be aborted."""
        if self.round.has_ended or self.failure.done():
            raise RoundStateError(f"round {self.round_id} has ended already")
        self.fail(RoundFailed(f"aborted by the operator: {reason or 'no reason given'}"))

    def fail(self, error: ShuffleDPError) -> None:
        """End the round without a result; only the first failure counts."""
        if not self.failure.done():
            self.failure.set_result(error)

    async def deliver(
        self, signed: Signed, header: BatchHeader, parts: AsyncIterable[batch_pb2.AddBatchRequest]
    ) -> None:
        """Receive the final batch after a header that the last node signed.

        docs/protocol.md, "Batches".

        1. A repetition of the committed batch is read to its end and accepted.
        2. The header fits this round (`RoundLifecycle.check_batch`), and this analyst has the
           memory to read the history.
        3. All bytes arrive.
        4. They have the committed digest.

        If step 2 or 4 fails, the node has signed something that does not fit its batch, and the
        round fails. Step 3 fails if the connection breaks, or if the disk here is full
        (`DiskError`); the sender may then repeat the batch until the round's deadline.
        """
        async with self._receiving:
            if self.round.batch is not None and header == self.round.batch:  # 1
                await let_through(batch_chunks(parts), self.files.batch.length())
                return
            length = self._judge(lambda: self._check_length(header))  # 2
            with typed_disk_errors():
                received = await receive(
                    batch_chunks(parts),
                    length,
                    self.files.batch.part,
                )  # 3
                self._judge(lambda: self._commit(signed, header, received))  # 4
            self.delivered.set()

    def _check_length(self, header: BatchHeader) -> int:
        length = self.round.check_batch(header)
        if self.manifest is not None and isinstance(header.history, int):
            memory = self.services.config.history_memory
            check_readable(self.manifest[1], header.history, memory, "history_memory")
        return length

    def _commit(self, signed: Signed, header: BatchHeader, received: str) -> None:
        check_digest(header.digest, received)
        check_size(signed.signer, len(signed.to_bytes()))
        # Again: the round may have gone on, or ended, while the batch arrived.
        self.round.check_batch(header)
        self.files.batch.commit(signed)
        self.round.deliver(header)  # after the disk: a repetition is acknowledged from here on

    def _judge(self, check: Callable[[], T]) -> T:
        try:
            return check()
        except RoundStateError:  # too early or too late: no evidence against any party
            raise
        except ShuffleDPError as error:
            self.fail(error)
            raise

    # For the stages and watchers

    def fail_unforeseen(self, error: BaseException) -> None:
        """End the round because of an error that only a bug can cause."""
        self.log.error("unexpected failure, which ends the round", exc_info=error)
        self.fail(RoundFailed(f"the analyst itself failed ({type(error).__name__}); see its log"))

    def adopt_manifest(self, signed: Signed, manifest: Manifest) -> None:
        """Adopt the manifest that every node countersigned; submissions are now open."""
        self.manifest = signed, manifest
        most_history = most_bytes(manifest) if manifest.geometry.mix == Mix.VERIFIED else 0
        self.round.open(manifest.geometry, most_history)

    def certified(self) -> tuple[Signed, Certificate]:
        """The plan's certificate, as a signed document and verified."""
        if self.certificate is None:
            raise ValueError("the certificate is known only once the round is open")
        return self.certificate

    def announced(self) -> tuple[Signed, Manifest]:
        """The manifest, as a signed document and verified."""
        if self.manifest is None:
            raise ValueError("the manifest is known only once the round is open")
        return self.manifest

    def mixing(self) -> ProvableMixing:
        """The analyst's part in this round's provable mixing."""
        return ProvableMixing(self.announced(), self.certified()[1], self.services.peers)

    async def write(self, write: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a write to the round's files in a thread.

        The round pauses while the disk is full.
        """
        return await write_when_room(lambda: in_thread(write, *args, **kwargs))
