"""Accepted submissions of the entry node, on disk before acknowledgement (invariant 4).

Each credential submits once.

Sealed envelopes all have one length, so they lie packed in one flat file, in order of arrival. A
SQLite index (WAL, synchronous=FULL) says which credentials were accepted with which envelope
digest; its number of rows is the number of envelopes that count, so that a crash between the two
writes leaves nothing but ignored bytes at the file's end.

All writes go through one thread with group commit: whatever arrived while the last commit was under
way shares the next one, so that many concurrent submissions cost one flush of each file. The same
thread checks and answers them (`Steps`), so that a whole group costs one change of threads each
way.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

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
ItemT = TypeVar("ItemT")

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


ItemT_contra = TypeVar("ItemT_contra", contravariant=True)
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Steps(Protocol[ItemT_contra, AnswerT_co]):
    """What to do with submissions besides storing them, in the writer's thread.

    Items that are stored together and have equal steps are checked and answered together.
    """

    def check(self, items: Sequence[ItemT_contra]) -> Sequence[Submission | Exception]:
        """Return each item's submission, with an envelope of the round's length, or its error."""

    def answer(self, stored: Sequence[Submission]) -> Sequence[AnswerT_co]:
        """The answer to each stored submission."""


@dataclass(frozen=True, eq=False)
class _OneByOne(Generic[T]):
    """The `Steps` of a single submission."""

    check_one: Callable[[], Submission]
    answer_one: Callable[[Submission], T]

    def check(self, items: Sequence[None]) -> Sequence[Submission]:
        return [self.check_one() for _ in items]

    def answer(self, stored: Sequence[Submission]) -> Sequence[T]:
        return [self.answer_one(submission) for submission in stored]


@dataclass(eq=False)
class _Request:
    """One request to the writer: items that are answered together.

    `weight` is the total length of their envelopes in bytes. If `is_single`, the answer is that of
    the only item, or its exception; otherwise it is a list of answers and exceptions.
    """

    steps: Steps[Any, Any]
    items: Sequence[Any]
    weight: int
    is_single: bool
    answer: asyncio.Future[Any] = field(repr=False)
    outcomes: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class _Entry:
    """One item while its group is processed; the outcome is its answer or its exception."""

    steps: Steps[Any, Any]
    submission: Submission | None = None
    outcome: Any = None


@dataclass
class _AcceptedRows:
    """The accepted submissions with which those of a group may collide.

    Envelope digests by credential, and all of them as a set. `rows` are those that the group adds.
    """

    digests_of: dict[bytes, bytes]
    digests: set[bytes]
    rows: list[tuple[bytes, bytes]] = field(default_factory=list)

    def add(self, credential: bytes, digest: bytes) -> None:
        """Accept a submission of the group; later ones of the group are compared with it, too."""
        self.digests_of[credential] = digest
        self.digests.add(digest)
        self.rows.append((credential, digest))


@dataclass(eq=False)
class _Close:
    """A request to refuse further submissions; the answer is the final count."""

    answer: asyncio.Future[int]


def _trouble(error: sqlite3.Error) -> str:
    """Describe an SQLite error: a damaged database, or the reason why a write failed."""
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return f"the index of accepted submissions is damaged: {error}"
    return (
        f"the index of accepted submissions cannot be written ({error}): is the disk of the "
        "state folder full?"
    )


class Spool:
    """The accepted submissions of one round, on disk.

    Used from one event loop; the user must call `shut` in the end.
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
        """Open or create the index and the file of envelopes.

        Raises `NodeFault` if they contradict each other or are damaged.

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
        self._deferred: _Request | None = None
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
        """Raise `NodeFault` if the file has fewer envelopes than the index."""
        size = os.fstat(self._file).st_size
        if size < self._accepted * self._envelope_bytes:
            raise NodeFault(
                f"the envelope file has {size} bytes, but {self._accepted} accepted submissions "
                f"need {self._accepted * self._envelope_bytes}; the disk lost data and the round "
                "cannot continue"
            )

    def store(
        self,
        check: Callable[[], Submission],
        make_answer: Callable[[Submission], T],
        weight: int,
    ) -> asyncio.Future[T]:
        """Check, store and answer a submission in the writer's thread.

        The future gives the answer once the submission is on disk, stored now or earlier. If a
        caller cancels the future, the submission is still stored.

        Args:
            check: gives the submission, with an envelope of the round's length unless it is
                refused, or raises.
            make_answer: makes the answer from the stored submission.
            weight: length of the envelope, bytes.

        Raises:
            UnknownRoundError: at once; the round was deleted.
            ShuffleDPError: the error that `check` raised, or with which the submission is refused.
            DifferentSubmissionError: the credential submitted something else.
            InvalidSubmissionError: another credential submitted this very envelope.
            SubmissionClosedError: the round is closed or full.
            NodeFault: the disk refused the write; nothing was acknowledged.
        """
        steps = _OneByOne(check, make_answer)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._enqueue(_Request(steps, [None], weight, is_single=True, answer=answer))
        return answer

    def store_all(
        self, steps: Steps[ItemT, T], items: Sequence[ItemT], weight: int
    ) -> asyncio.Future[list[T | Exception]]:
        """Vectorised `store`: the answer to each item, or the exception that `store` would raise.

        At most `MAX_GROUP` items; `weight` is the length of all their envelopes.

        Raises:
            UnknownRoundError: at once; the round was deleted.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._enqueue(_Request(steps, items, weight, is_single=False, answer=answer))
        return answer

    async def find(self, credential: str) -> str | None:
        """Look up the digest of the credential's accepted envelope; None if it has none."""
        lookup = Submission(credential, "", None)
        return await self.store(
            lambda: lookup, lambda _: self._digest_of(bytes.fromhex(credential)), 0
        )

    async def close(self) -> int:
        """Refuse every later submission; return the number of accepted ones. Idempotent."""
        # In the queue like any submission: what was put before it is in, and what comes later is
        # refused.
        answer: asyncio.Future[int] = self._loop.create_future()
        self._enqueue(_Close(answer))
        return await answer

    def shut(self) -> None:
        """Process what is queued, then stop the writer and release the files. Idempotent."""
        if not self._shut:
            self._shut = True
            self._queue.put(None)
            self._thread.join()
            self._database.close()
            os.close(self._file)

    def _enqueue(self, item: _Request | _Close) -> None:
        if self._shut:
            raise UnknownRoundError("the round was deleted during the call")
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
        """Take the next requests from the queue, at least one, up to a close or the end.

        Also returns the last item taken: a request, a close, or None at the end.
        """
        group: list[_Request] = []
        item: _Request | _Close | None = self._deferred or self._queue.get()
        self._deferred = None
        count = weight = 0
        while isinstance(item, _Request):
            count += len(item.items)
            if group and count > MAX_GROUP:
                self._deferred = item
                break
            group.append(item)
            weight += item.weight
            if count >= MAX_GROUP or weight >= MAX_GROUP_BYTES:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        return group, item

    def _process(self, group: list[_Request]) -> None:
        entries: list[_Entry] = []
        for steps, requests in groupby(group, key=lambda request: request.steps):
            entries += _check(steps, [item for request in requests for item in request.items])
        try:
            stored = self._commit([entry for entry in entries if entry.submission is not None])
        except (OSError, sqlite3.Error) as error:
            if self._database.in_transaction:
                self._database.execute(
                    "ROLLBACK"
                )  # bytes already written lie beyond the count and are overwritten
            failure = NodeFault(
                f"the submission could not be stored ({error}); send it again later"
            )
            for entry in entries:
                if entry.submission is not None:
                    entry.outcome = failure
        else:
            # Answered only behind the COMMIT: what an answer says is on disk, also of others in
            # the same group.
            for steps, answered in groupby(stored, key=lambda entry: entry.steps):
                _answer_entries(steps, list(answered))
        outcomes = (entry.outcome for entry in entries)
        for request in group:
            request.outcomes = [next(outcomes) for _ in request.items]
        self._loop.call_soon_threadsafe(_answer, group)

    def _commit(self, entries: list[_Entry]) -> list[_Entry]:
        """Commit a group: envelopes first, then the index, so that indexed envelopes always exist.

        Returns the stored submissions and the queries; the outcome of the others is their refusal.
        """
        if not entries:
            return []
        self._database.execute("BEGIN IMMEDIATE")
        accepted = self._look_up(entries)
        fresh: list[bytes] = []
        stored = []
        for entry in entries:
            if entry.submission is not None:
                entry.outcome = self._admit(entry.submission, accepted, fresh)
            if entry.outcome is None:
                stored.append(entry)
        if fresh:
            self._database.executemany("INSERT INTO accepted VALUES (?, ?)", accepted.rows)
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

    def _look_up(self, entries: list[_Entry]) -> _AcceptedRows:
        """Look up which of a group's submissions are already accepted."""
        complete = [
            entry.submission
            for entry in entries
            if entry.submission is not None and entry.submission.envelope is not None
        ]
        credentials = [bytes.fromhex(submission.credential) for submission in complete]
        # What a refused submission names as its digest no one has compared with anything.
        digests = [
            bytes.fromhex(submission.digest)
            for submission in complete
            if submission.refusal is None
        ]
        return _AcceptedRows(
            dict(self._select("credential, digest", "credential", credentials)),
            {digest for digest, _ in self._select("digest, credential", "digest", digests)},
        )

    def _select(self, columns: str, column: str, values: list[bytes]) -> list[tuple[bytes, bytes]]:
        """The rows that have one of these values in a column, for at most one group of values."""
        places = ", ".join("?" * len(values))
        query = f"SELECT {columns} FROM accepted WHERE {column} IN ({places})"  # noqa: S608 - constants
        return self._database.execute(query, values).fetchall()

    def _admit(
        self, submission: Submission, accepted: _AcceptedRows, fresh: list[bytes]
    ) -> ShuffleDPError | None:
        if submission.envelope is None:
            return None
        credential = bytes.fromhex(submission.credential)
        stored = accepted.digests_of.get(credential)
        # First of all: the repetition of an accepted submission is answered also when the round is
        # closed or full.
        if stored is not None:
            return None if stored.hex() == submission.digest else different_submission()
        if submission.refusal is not None:
            return submission.refusal
        digest = bytes.fromhex(submission.digest)
        # A copy would be dropped in the mix as repeated onions and cost the round reports; here it
        # costs nothing.
        if digest in accepted.digests:
            return InvalidSubmissionError(
                "another credential has already submitted this same envelope; seal your own"
            )
        if self._closed or self._accepted + len(fresh) >= self._max_reports:
            return SubmissionClosedError(
                "the round is full" if not self._closed else "the round is closed"
            )
        refusal = self._guard(submission.credential, submission.envelope)
        if refusal is None:
            accepted.add(credential, digest)
            fresh.append(submission.envelope)
        return refusal

    def _digest_of(self, credential: bytes) -> str | None:
        row = self._database.execute(
            "SELECT digest FROM accepted WHERE credential = ?", (credential,)
        ).fetchone()
        return None if row is None else bytes(row[0]).hex()


def _check(steps: Steps[Any, Any], items: Sequence[Any]) -> list[_Entry]:
    """An entry for each item: its submission, or the error as its outcome."""
    try:
        checked = steps.check(items)
    # Whatever it is, it concerns only these callers, and the thread must go on for the others.
    except Exception as error:  # noqa: BLE001
        checked = [error] * len(items)
    return [
        _Entry(steps, outcome=result)
        if isinstance(result, Exception)
        else _Entry(steps, submission=result)
        for result in checked
    ]


def _answer_entries(steps: Steps[Any, Any], entries: list[_Entry]) -> None:
    """Make the answers to all entries that were stored."""
    submissions = [entry.submission for entry in entries if entry.submission is not None]
    try:
        answers = steps.answer(submissions)
    except sqlite3.Error as error:
        answers = [NodeFault(f"{_trouble(error)}; send it again later")] * len(entries)
    except Exception as error:  # noqa: BLE001 - as above
        answers = [error] * len(entries)
    for entry, answer in zip(entries, answers, strict=True):
        entry.outcome = answer


def different_submission() -> DifferentSubmissionError:
    """The error for a second, different envelope of one credential."""
    return DifferentSubmissionError(
        "this credential has already submitted a different envelope to this round; only the "
        "first one counts"
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
        if not request.is_single:
            request.answer.set_result(request.outcomes)
        elif isinstance(request.outcomes[0], Exception):
            request.answer.set_exception(request.outcomes[0])
        else:
            request.answer.set_result(request.outcomes[0])
