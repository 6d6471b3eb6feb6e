"""All rounds of an analyst: opening, look-up, and resumption after a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from shuffledp_analyst.announcing import resume_round
from shuffledp_analyst.disk import typed_disk_errors
from shuffledp_analyst.ending import AnalystServices, end_failed, end_published
from shuffledp_analyst.lifetime import run_round
from shuffledp_analyst.listing import Summary, page_of_rounds
from shuffledp_analyst.metrics import NewestRound
from shuffledp_analyst.opening import read_plan
from shuffledp_analyst.progress import ENDED, Event, Progress
from shuffledp_analyst.round import RoundStage
from shuffledp_analyst.running import RunningRound
from shuffledp_core.documents.models import BatchHeader, Result, Roster, RoundPlan
from shuffledp_core.documents.signed import Signed, verify
from shuffledp_core.errors import (
    AccessDenied,
    DiskError,
    DocumentError,
    RoundFailed,
    RoundStateError,
    ShuffleDPError,
    UnknownRoundError,
    UnreachableError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.receiving import batch_chunks, let_through, read_header
from shuffledp_core.vocabulary import Outcome
from shuffledp_proto.v1 import batch_pb2

BOARD_BYTES: Final = 2**16
"""Length in bytes of one piece of a board; one piece is in memory for every reader."""


class ShownResult(NamedTuple):
    """A round's signed result, the nodes' discards, and the log's proof; any may be empty."""

    result: bytes
    discards: tuple[bytes, ...]
    log_proof: bytes


class Coordinator:
    """Rounds of an analyst, running (in memory) and ended (on disk).

    One instance per process and state folder.
    """

    def __init__(self, services: AnalystServices, roster: Roster) -> None:
        self._services = services
        self._roster = roster
        self._rounds: dict[str, RunningRound] = {}
        self._progress: dict[str, Progress] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken = asyncio.Event()
        self._newest: RunningRound | None = None
        self._log = structlog.get_logger()
        services.metrics.registry.register(
            NewestRound(
                lambda: [running.round for running in list(self._rounds.values())],
                lambda: None if self._newest is None else self._newest.view(),
            )
        )

    async def run(self) -> None:
        """Background task: resume what a crash interrupted, then wait for the first broken round.

        If a round's failure cannot even be recorded, the process ends, and the next start resumes
        the round from its record. A record that cannot be read does not end the process: it is set
        aside. Cancelling this task stops all rounds where they are.
        """
        for round_id in self._services.records.find_unfinished():
            try:
                life = self._resume(round_id)
            except (DocumentError, UnknownRoundError, OSError) as error:
                self._log.error("unreadable round set aside", round=round_id, reason=str(error))
                with suppress(OSError):
                    self._services.records.set_aside(round_id)
            else:
                self._start(round_id, life)
        try:
            await self._broken.wait()
            for task in self._tasks:
                if task.done():
                    task.result()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Cancel every running round; the files show what to resume at the next start."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, round_id: str, life: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(life)
        self._tasks.add(task)

        def over(done: asyncio.Task[None]) -> None:
            if not done.cancelled() and done.exception() is not None:
                self._broken.set()  # kept in the set: `run` raises it
                return
            self._tasks.discard(done)
            self._rounds.pop(round_id, None)
            self._progress.pop(round_id, None)

        task.add_done_callback(over)

    def _resume(self, round_id: str) -> Coroutine[Any, Any, None]:
        """A coroutine with the remaining work of a round that an earlier process began.

        Raises:
            DocumentError, UnknownRoundError, OSError: its plan or its result cannot be read.
        """
        services, progress = self._services, Progress()
        plan = services.records.files(round_id).plan()
        if services.records.files(round_id).has_ended():
            published = self._result(round_id).outcome == Outcome.PUBLISHED
            self._progress[round_id] = progress
            if published:
                services.unlogged.add(round_id)
                return end_published(services, round_id, plan.route, progress)
            return end_failed(services, round_id, plan.route, None, progress)
        self._log.warning("resuming an interrupted round", round=round_id)
        running = RunningRound(services, round_id, plan)
        try:
            resume_round(running)
        except ShuffleDPError as error:
            self._progress[round_id] = progress
            refused = RoundFailed(
                f"the analyst was restarted and cannot go on with the round: {error}; open a new "
                "one"
            )
            return end_failed(services, round_id, plan.route, refused, progress)
        self._rounds[round_id] = self._newest = running
        self._progress[round_id] = running.progress
        return run_round(running)

    def _result(self, round_id: str) -> Result:
        signed = Signed.from_bytes(self._services.records.files(round_id).result())
        identity = self._services.identity
        return verify(signed, Result, identity.name, identity.public_key)

    # For the operator

    async def open(self, plan: bytes, named: str = "") -> tuple[str, bytes]:
        """Open a round from the JSON of a plan; return its identifier and announcement.

        Args:
            plan: the JSON of the plan.
            named: identifier that the operator has drawn; an existing round of this name is not
                opened again.

        Raises:
            ConfigError: the plan is impossible.
            RoundStateError: the round of this name has another plan, or was never announced.
            UnreachableError: the named round is not resumed yet after a restart; the call may be
                repeated.
            DiskError: this analyst's disk refused to keep the round.
            ShuffleDPError: the opening failed, and the round with it.
        """
        checked = read_plan(plan, self._roster)
        if named and self._services.records.is_known(named):
            return await self._find_opened(named, checked)
        round_id = named or secrets.token_hex(16)
        # No `await` from the look above to here: of two calls at once the second finds the round of
        # the first.
        with typed_disk_errors():
            self._services.records.create(round_id, checked)
        running = RunningRound(self._services, round_id, checked)
        self._rounds[round_id] = self._newest = running
        self._progress[round_id] = running.progress
        self._start(round_id, run_round(running))
        try:
            # Shielded: an operator who hangs up must not cancel the future that the round itself
            # will set.
            return round_id, await asyncio.shield(running.opened)
        except ShuffleDPError as error:
            if isinstance(error, DiskError) and isinstance(error.__cause__, OSError):
                # at once: the disk is this analyst's own, and the round may end only when it has
                # room
                raise
            async for _ in running.progress.follow():  # until nodes and ledger are dealt with
                pass
            raise

    async def _find_opened(self, round_id: str, plan: RoundPlan) -> tuple[str, bytes]:
        """The answer to a repeated request to open a round: the existing announcement."""
        try:
            stored = self._services.records.files(round_id).plan()
        except (DocumentError, UnknownRoundError) as error:
            raise RoundStateError(
                f"the record of round {round_id} on this analyst cannot be read; open a new "
                "round under a new round id"
            ) from error
        if stored != plan:
            raise RoundStateError(
                f"round {round_id} was opened with another plan; draw a new round id"
            )
        running = self._rounds.get(round_id)
        if running is not None:
            return round_id, await asyncio.shield(running.opened)
        self._require_resumed(round_id)
        try:
            return round_id, self.announcement(round_id)
        except UnknownRoundError as error:
            raise RoundStateError(
                f"round {round_id} ended before it was announced: see its result for the reason, "
                "and open a new round under a new id"
            ) from error

    def _require_resumed(self, round_id: str) -> None:
        """Raise `UnreachableError` for a round that `run` has not resumed yet.

        Raises `UnknownRoundError` for a round without a record.
        """
        if not self._services.records.files(round_id).has_ended():
            self._services.records.files(round_id).plan()
            raise UnreachableError(
                f"the analyst has restarted and has not resumed round {round_id} yet; retry"
            )

    async def follow(self, round_id: str) -> AsyncIterator[Event]:
        """Yield the events of a round until its end; for an ended round, only the end.

        Raises:
            UnknownRoundError: there is no such round.
            UnreachableError: it is not resumed yet after a restart; the call may be repeated.
        """
        progress = self._progress.get(round_id)
        if progress is None:
            self._require_resumed(round_id)
            yield Event(ENDED, result=self.ending(round_id).result)
            return
        async for event in progress.follow():
            yield event

    def end_submissions(self, round_id: str) -> None:
        """Close submissions now; harmless if they are closed already."""
        running = self._rounds.get(round_id)
        if running is not None:
            running.end_submissions()
        else:
            self.ending(round_id)

    def abort(self, round_id: str, reason: str) -> None:
        """Abort a running round; raise `RoundStateError` if it has ended."""
        running = self._rounds.get(round_id)
        if running is not None:
            running.abort(reason)
            return
        self.ending(round_id)
        raise RoundStateError(f"round {round_id} has ended already")

    async def page_of_rounds(self, after: str, limit: int) -> tuple[list[Summary], bool]:
        """A page of rounds, newest first, and True if there are older rounds.

        See `listing.page_of_rounds`.
        """
        return await asyncio.to_thread(page_of_rounds, self._services.records, after, limit)

    # For the last node

    async def deliver(self, peer: str, parts: AsyncIterable[batch_pb2.AddBatchRequest]) -> None:
        """Receive the final batch of the round that its header names.

        Raises:
            AccessDenied: the caller is not the last node of that round.
            UnknownRoundError: the analyst has no such round.
            UnreachableError: the round is not resumed yet after a restart; the sender tries again.
            ShuffleDPError: as `RunningRound.deliver`.
        """
        signed = Signed.from_bytes(await read_header(parts))
        header = verify_from(self._roster.party(peer), signed, BatchHeader)
        plan = self._services.records.files(header.round_id).plan()
        if peer != plan.route[-1]:
            raise AccessDenied(
                f"{peer!r} is not the last node of round {header.round_id}; only that one delivers"
            )
        running = self._rounds.get(header.round_id)
        if running is not None and running.round.stage is not RoundStage.FAILED:
            await running.deliver(signed, header, parts)
        elif running is None and not self._services.records.files(header.round_id).has_ended():
            raise UnreachableError(
                f"the analyst has restarted and has not resumed round {header.round_id} yet; "
                "send the batch again"
            )
        elif not self._is_delivered(header):
            raise RoundStateError(f"round {header.round_id} has ended and takes no further batch")
        else:
            # The round is over and holds this very batch: the last node has only lost the answer.
            await let_through(
                batch_chunks(parts), self._services.records.files(header.round_id).batch.length()
            )

    def _is_delivered(self, header: BatchHeader) -> bool:
        """True if the round was published from the batch with this header."""
        published = self._result(header.round_id).outcome == Outcome.PUBLISHED
        return (
            published
            and self._services.records.files(header.round_id).batch.digest() == header.digest
        )

    # For all callers

    def announcement(self, round_id: str) -> bytes:
        """The announcement of a round; with an empty identifier, of the newest open round."""
        if round_id:
            return self._services.records.files(round_id).announcement()
        for newest, running in reversed(self._rounds.items()):
            if running.round.stage is RoundStage.OPEN:
                return self._services.records.files(newest).announcement()
        raise UnknownRoundError("no round is open; name a round, or wait for the next one")

    def ending(self, round_id: str) -> ShownResult:
        """A round's result with related documents.

        Raises `UnknownRoundError` while there is no result, or while it is not in the public log
        yet.
        """
        if round_id in self._services.unlogged:
            raise UnknownRoundError(f"the result of round {round_id} is not in the public log yet")
        files = self._services.records.files(round_id)
        return ShownResult(files.result(), files.discards(), files.log_proof())

    def board(self, round_id: str) -> AsyncIterator[tuple[int, bytes]]:
        """The published board in chunks with their offsets.

        Raises `UnknownRoundError` if there is none.
        """
        return _file_chunks(self._services.records.files(round_id).board())

    def tile(self, round_id: str, index: int) -> bytes:
        """A tile of the published board; raises `UnknownRoundError` if there is none."""
        return self._services.records.files(round_id).tiles.read(index)

    def history(self, round_id: str) -> AsyncIterator[tuple[int, bytes]]:
        """The published history in chunks with their offsets.

        Raises `UnknownRoundError` if there is none.
        """
        return _file_chunks(self._services.records.files(round_id).history())


async def _file_chunks(path: Path) -> AsyncIterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        offset = 0
        while data := await asyncio.to_thread(file.read, BOARD_BYTES):
            yield offset, data
            offset += len(data)
