"""Streams of submissions, each from a gateway that forwards those of many devices.

docs/protocol.md, "Submit".

A stream has no privileges over single calls: every submission in it is checked and answered
separately, and the number under way is bounded. It saves the cost of separate calls, and fills the
groups that are stored together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import BusyError, ShuffleDPError

STREAMS: Final = 64
"""Most streams of submissions at a node."""

UNDER_WAY: Final = 64
"""Most submissions of a stream that are being checked; more are read once it has answers. The
setting `waiting_submissions` limits those of all streams and single calls together.
"""

PATIENCE_SECONDS: Final = 60.0
"""Seconds within which a stream must bring a submission that gets a receipt. A stream without valid
credentials must not keep its place.
"""

Request = TypeVar("Request")
Answer: TypeAlias = Signed | ShuffleDPError
"""A receipt, or the error with which the submission was refused."""
Begun: TypeAlias = asyncio.Future[list[Signed | Exception]]
"""Submissions that were begun together: the future receipt of each, or its error."""


@dataclass(frozen=True)
class _End:
    """The end of a stream's requests; `error` is its cause, unless the caller ended it."""

    error: Exception | None


class Gateways(Generic[Request]):
    """All streams of submissions at a node.

    `take` begins to check at most `UNDER_WAY` submissions; for `patience` see `PATIENCE_SECONDS`.
    """

    def __init__(
        self,
        take: Callable[[Sequence[Request]], Begun],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._take = take
        self._patience = patience
        self._streams = 0

    async def answers(
        self, requests: AsyncIterator[Sequence[Request]]
    ) -> AsyncGenerator[list[Answer], None]:
        """Yield the answers to one stream in the order of its requests, as soon as they are ready.

        `requests` yields the submissions of one message after the other.

        Raises:
            BusyError: there are too many streams; or none of this stream's submissions got a
                receipt for too long.
            ShuffleDPError: an error that `requests` raised, after all earlier submissions are
                answered.
        """
        with self._stream_slot():
            stream = _Stream(self._take, self._patience)
            reading = asyncio.create_task(stream.read(requests))
            try:
                async for group in stream.groups():
                    yield group
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    @contextmanager
    def _stream_slot(self) -> Iterator[None]:
        if self._streams >= STREAMS:
            raise BusyError(
                f"this node already has {STREAMS} open streams of submissions; send yours in "
                "single calls, or later"
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


class _Stream(Generic[Request]):
    """One stream: `read` queues the submissions it begins, `groups` yields their answers."""

    def __init__(self, take: Callable[[Sequence[Request]], Begun], patience: float) -> None:
        self._take = take
        self._patience = patience
        self._line: asyncio.Queue[Begun | _End] = asyncio.Queue()
        self._next: Begun | _End | None = None
        self._under_way = 0
        self._answered = asyncio.Event()

    async def read(self, requests: AsyncIterator[Sequence[Request]]) -> None:
        """Begin the submissions of each message in order, up to `UNDER_WAY` at a time.

        Waits while too many are still unanswered.
        """
        error: Exception | None = None
        try:
            async for message in requests:
                for start in range(0, len(message), UNDER_WAY):
                    piece = message[start : start + UNDER_WAY]
                    await self._wait_for_room(len(piece))
                    self._line.put_nowait(self._take(piece))
        except Exception as failure:  # noqa: BLE001 - `groups` raises it: nobody else looks at this task
            error = failure
        self._line.put_nowait(_End(error))

    async def _wait_for_room(self, count: int) -> None:
        while self._under_way + count > UNDER_WAY:
            self._answered.clear()
            await self._answered.wait()
        self._under_way += count

    async def groups(self) -> AsyncIterator[list[Answer]]:
        """Yield the answers in groups of one or more; raise the error that ended the stream."""
        clock = asyncio.get_running_loop().time
        latest = clock() + self._patience
        while not isinstance(first := await self._first(latest), _End):
            group = await _answers(first)
            while (begun := self._ready()) is not None:
                group += await _answers(begun)
            yield group
            self._under_way -= len(group)
            self._answered.set()
            if any(isinstance(answer, Signed) for answer in group):
                latest = clock() + self._patience
            elif (
                clock() >= latest
            ):  # also where there is always a next one, which need not be waited for
                raise self._late()
        if first.error is not None:
            raise first.error

    async def _first(self, latest: float) -> Begun | _End:
        """The next submissions that began; waits until the time `latest` of the loop's clock."""
        item, self._next = self._next, None
        try:
            async with asyncio.timeout_at(latest):
                return item or await self._line.get()
        except TimeoutError as error:
            raise self._late() from error

    def _late(self) -> BusyError:
        return BusyError(
            f"no submission on this stream was accepted for {self._patience:g} s, so it was "
            "closed; open another one"
        )

    def _ready(self) -> Begun | None:
        """The next submissions if their answers are ready, otherwise None."""
        if self._next is None and not self._line.empty():
            self._next = self._line.get_nowait()
        item = self._next
        if item is None or isinstance(item, _End) or not item.done():
            return None
        self._next = None
        return item


async def _answers(begun: Begun) -> list[Answer]:
    if not begun.done():
        await asyncio.wait(
            (begun,)
        )  # cancels nothing: a caller that hangs up does not end what is counted
    return [_answer(outcome) for outcome in begun.result()]


def _answer(outcome: Signed | Exception) -> Answer:
    if isinstance(outcome, Signed | ShuffleDPError):
        return outcome
    raise outcome
