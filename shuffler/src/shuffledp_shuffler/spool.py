"""Accepted submissions of the entry node, on disk before acknowledgement (invariant 4).

Each credential submits once.

Sealed envelopes all have one length, so they lie packed in one flat file, in order of arrival. A
SQLite index (WAL, synchronous=FULL) says which credentials were accepted with which envelope
digest; its number of rows is the number of envelopes that count, so that a crash between the two
writes leaves nothing but ignored bytes at the file's end.

All writes go through one thread with group commit: whatever arrived while the last commit was under
way shares the next one, so that many concurrent submissions cost one flush of each file. The same
thread checks and answers them where it is told how (`take`), so that a whole group costs one change
of threads each way.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from shuffledp_core.errors import (
    DifferentSubmissionError,
    InvalidSubmissionError,
    NodeFault,
    ShuffleDPError,
    SubmissionClosedError,
    UnknownRoundError,
)
from shuffledp_core.runtime.files import sync

T = TypeVar("T")

MAX_GROUP: Final = 256
"""Most submissions in one commit.

All are answered at once. With more than `Limits.unread_answers`, the first answers would count as
answers that their callers do not take in, and honest connections would be closed.
"""

MAX_GROUP_BYTES: Final = 16 * 2**20
"""Envelope bytes after which a commit takes no more submissions."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS accepted (
    credential BLOB PRIMARY KEY, digest BLOB NOT NULL UNIQUE
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Submission:
    """A genuine submission; without an envelope, a query for the credential's accepted one.

    `refusal` is the error for a new submission; a repetition of an accepted one still gets its
    receipt.
    """

    credential: str
    digest: str
    envelope: bytes | None = field(repr=False)
    refusal: ShuffleDPError | None = None


CheckTogether: TypeAlias = Callable[[Sequence[bytes]], Sequence[ShuffleDPError | None]]
"""The refusal of each of some envelopes, or None."""


@dataclass(eq=False)
class _Request:
    """One request to the writer.

    `check` gives the submission or raises; `make_answer` makes the answer once it is stored.

    `weight` is the length of the envelope, bytes; `check_together` see `Spool.store`.
    """

    check: Callable[[], Submission]
    make_answer: Callable[[Submission], Any]
    weight: int
    answer: asyncio.Future[Any] = field(repr=False)
    check_together: CheckTogether | None = None
    outcome: Any = None

    def run_check(self) -> Submission | None:
        """Checks the submission; returns None after an error, which is then the outcome."""
        try:
            return self.check()
        # Whatever it is, it concerns only this caller, and the thread must go on for the others.
        except Exception as error:  # noqa: BLE001
            self.outcome = error
            return None

    def settle(self, submission: Submission) -> None:
        """Makes the answer."""
        try:
            self.outcome = self.make_answer(submission)
        except sqlite3.Error as error:
            self.outcome = NodeFault(f"{_trouble(error)}; send it again later")
        except Exception as error:  # noqa: BLE001 - as above
            self.outcome = error


@dataclass(eq=False)
class _Close:
    """A request to refuse further submissions; the answer is the final count."""

    answer: asyncio.Future[int]


def _trouble(error: sqlite3.Error) -> str:
    """Describe an SQLite error: a damaged database, or what prevents writing."""
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return f"the index of accepted submissions is damaged: {error}"
    return (
        f"the index of accepted submissions cannot be written ({error}): is the disk of the "
        "state folder full?"
    )


class Spool:
    """Accepted submissions of one round, on disk.

    Used from one event loop; `shut` must be called in the end.
    """

    def __init__(
        self,
        index: Path,
        envelopes: Path,
        envelope_bytes: int,
        max_reports: int,
        accepted: Callable[[int], None] = lambda _count: None,
        guard: Callable[[str, bytes], ShuffleDPError | None] = lambda _credential, _envelope: None,
    ) -> None:
        """Opens or creates both files.

        Raises `NodeFault` when they contradict each other or are damaged.

        `accepted` is called once per commit, in the writer's thread, with the number of submissions
        added. `guard` may refuse a submission that conflicts with an accepted one; it is called in
        the same thread, so that two conflicting ones cannot both pass.
        """
        self._count = accepted
        self._guard = guard
        self._envelope_bytes = envelope_bytes
        self._max_reports = max_reports
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Request | _Close | None] = queue.SimpleQueue()
        self._closed = False
        self._shut = False
        self._file = os.open(envelopes, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.close(
                os.open(index, os.O_RDWR | os.O_CREAT, 0o600)
            )  # SQLite would make it with the umask's mode
            # Opened here and used by the writer's thread alone, until that has ended.
            self._database = sqlite3.connect(index, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            # NORMAL, which is usual with WAL, may lose the last commits in a power cut: receipts
            # were signed for them.
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
            self._accepted = int(
                self._database.execute("SELECT count(*) FROM accepted").fetchone()[0]
            )
        except sqlite3.Error as error:
            os.close(self._file)
            raise NodeFault(f"{_trouble(error)}; the round cannot go on") from error
        # The files' names, too, must survive before the first receipt rests on them.
        sync(index.parent)
        self._thread = threading.Thread(target=self._work, name="spool", daemon=True)
        self._thread.start()

    @property
    def accepted_count(self) -> int:
        """Number of committed submissions."""
        return self._accepted

    def require_whole(self) -> None:
        """Raises `NodeFault` when the file holds fewer envelopes than the index."""
        size = os.fstat(self._file).st_size
        if size < self._accepted * self._envelope_bytes:
            raise NodeFault(
                f"the envelope file has {size} bytes where {self._accepted} accepted submissions "
                f"need {self._accepted * self._envelope_bytes}; the disk lost data and the round "
                "cannot go on"
            )

    def store(
        self,
        check: Callable[[], Submission],
        make_answer: Callable[[Submission], T],
        weight: int,
        check_together: CheckTogether | None = None,
    ) -> asyncio.Future[T]:
        """Checks, stores and answers a submission in the writer's thread.

        The future gives the answer once the submission is on disk, now or already before. A caller
        that cancels it leaves the submission to be stored all the same.

        Args:
            check: gives the submission, with an envelope of the round's length unless it is
                refused, or raises.
            make_answer: makes the answer from the stored submission.
            weight: length of the envelope, bytes.
            check_together: checks the envelopes of a group behind `check`, those that no `check`
                refused; one function for all of a round.

        Raises:
            UnknownRoundError: at once; the round was deleted.
            ShuffleDPError: what `check` raised or the submission is refused with.
            DifferentSubmissionError: the credential submitted something else.
            InvalidSubmissionError: another credential submitted this very envelope.
            SubmissionClosedError: the round is closed or full.
            NodeFault: the disk refused the write; nothing was acknowledged.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._enqueue(_Request(check, make_answer, weight, answer, check_together))
        return answer

    async def find(self, credential: str) -> str | None:
        """Look up the digest of the credential's accepted envelope; None without one."""
        lookup = Submission(credential, "", None)
        return await self.store(
            lambda: lookup, lambda _: self._digest_of(bytes.fromhex(credential)), 0
        )

    async def close(self) -> int:
        """Refuses every later submission; returns the final number. Idempotent."""
        # In the queue like any submission: what was put before it is in, and what comes later is
        # refused.
        answer: asyncio.Future[int] = self._loop.create_future()
        self._enqueue(_Close(answer))
        return await answer

    def shut(self) -> None:
        """Ends the writer, after what is queued, and releases the files. Idempotent."""
        if not self._shut:
            self._shut = True
            self._queue.put(None)
            self._thread.join()
            self._database.close()
            os.close(self._file)

    def _enqueue(self, item: _Request | _Close) -> None:
        if self._shut:
            raise UnknownRoundError("the round was deleted while the call was under way")
        self._queue.put(item)

    def _work(self) -> None:
        while True:
            group, last = self._take_group()
            if group:
                self._process(group)
            if isinstance(last, _Close):
                self._closed = True
                self._loop.call_soon_threadsafe(_settle, last.answer, self._accepted)
            elif last is None:
                return

    def _take_group(self) -> tuple[list[_Request], _Request | _Close | None]:
        """Takes the next requests, at least one, up to a close or the end.

        Also returns the last item taken.
        """
        group: list[_Request] = []
        item = self._queue.get()
        weight = 0
        while isinstance(item, _Request):
            group.append(item)
            weight += item.weight
            if len(group) >= MAX_GROUP or weight >= MAX_GROUP_BYTES:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        return group, item

    def _process(self, group: list[_Request]) -> None:
        checked = [
            (request, submission)
            for request in group
            if (submission := request.run_check()) is not None
        ]
        checked = _check_together(checked)
        try:
            stored = self._commit(checked)
        except (OSError, sqlite3.Error) as error:
            if self._database.in_transaction:
                self._database.execute(
                    "ROLLBACK"
                )  # bytes already written lie beyond the count and are overwritten
            failure = NodeFault(
                f"the submission could not be stored ({error}); send it again later"
            )
            for request, _ in checked:
                request.outcome = failure
        else:
            for request, submission in stored:
                # Answered only behind the COMMIT: what an answer says is on disk, also of others in
                # the same group.
                request.settle(submission)
        self._loop.call_soon_threadsafe(_answer, group)

    def _commit(
        self, group: list[tuple[_Request, Submission]]
    ) -> list[tuple[_Request, Submission]]:
        """Commit a group: envelopes first, then the index, so that indexed envelopes always exist.

        Returns the stored submissions and the queries; the others have their refusal as outcome.
        """
        if not group:
            return []
        self._database.execute("BEGIN IMMEDIATE")
        fresh: list[bytes] = []
        stored = []
        for request, submission in group:
            request.outcome = self._admit(submission, self._accepted + len(fresh), fresh)
            if request.outcome is None:
                stored.append((request, submission))
        if fresh:
            # At the committed count, not at the file's end: bytes that a crash left beyond it are
            # overwritten.
            data = b"".join(fresh)
            offset = self._accepted * self._envelope_bytes
            written = 0
            while written < len(data):
                written += os.pwrite(self._file, memoryview(data)[written:], offset + written)
            os.fdatasync(self._file)  # before COMMIT, from which on these envelopes count
        self._database.execute("COMMIT")
        self._accepted += len(fresh)
        self._count(len(fresh))
        return stored

    def _admit(
        self, submission: Submission, count: int, fresh: list[bytes]
    ) -> ShuffleDPError | None:
        if submission.envelope is None:
            return None
        credential = bytes.fromhex(submission.credential)
        stored = self._digest_of(credential)
        # First of all: the repetition of an accepted submission is answered also when the round is
        # closed or full.
        if stored is not None:
            return None if stored == submission.digest else different_submission()
        if submission.refusal is not None:
            return submission.refusal
        # Not before: what a refused submission names as its digest nobody has compared with
        # anything.
        digest = bytes.fromhex(submission.digest)
        # A copy would be dropped in the mix as repeated onions and cost the round reports; here it
        # costs nothing.
        if self._database.execute("SELECT 1 FROM accepted WHERE digest = ?", (digest,)).fetchone():
            return InvalidSubmissionError(
                "another credential already submitted this very envelope; seal your own"
            )
        if self._closed or count >= self._max_reports:
            return SubmissionClosedError(
                "the round is full" if not self._closed else "the round is closed"
            )
        refusal = self._guard(submission.credential, submission.envelope)
        if refusal is None:
            self._database.execute("INSERT INTO accepted VALUES (?, ?)", (credential, digest))
            fresh.append(submission.envelope)
        return refusal

    def _digest_of(self, credential: bytes) -> str | None:
        row = self._database.execute(
            "SELECT digest FROM accepted WHERE credential = ?", (credential,)
        ).fetchone()
        return None if row is None else bytes(row[0]).hex()


def _check_together(
    group: list[tuple[_Request, Submission]],
) -> list[tuple[_Request, Submission]]:
    """The submissions that pass `check_together`; the others have their refusal as outcome."""
    envelopes: dict[CheckTogether, list[tuple[_Request, bytes]]] = {}
    for request, submission in group:
        check, envelope = request.check_together, submission.envelope
        if check is not None and envelope is not None and submission.refusal is None:
            envelopes.setdefault(check, []).append((request, envelope))
    for check, pairs in envelopes.items():
        try:
            refusals = check([envelope for _, envelope in pairs])
        except ShuffleDPError as error:  # such as an erased key, which concerns all of them
            refusals = [error] * len(pairs)
        for (request, _), refusal in zip(pairs, refusals, strict=True):
            request.outcome = refusal
    return [(request, submission) for request, submission in group if request.outcome is None]


def different_submission() -> DifferentSubmissionError:
    """The error for a second, different envelope of one credential."""
    return DifferentSubmissionError(
        "this credential already submitted a different envelope to this round; only the first one "
        "counts"
    )


def _settle(answer: asyncio.Future[int], count: int) -> None:
    if not answer.done():
        answer.set_result(count)


def _answer(group: Iterable[_Request]) -> None:
    for request in group:
        # Its caller has gone, and the submission may be stored all the same: sent again, it gets
        # its receipt.
        if request.answer.done():
            continue
        if isinstance(request.outcome, Exception):
            request.answer.set_exception(request.outcome)
        else:
            request.answer.set_result(request.outcome)
