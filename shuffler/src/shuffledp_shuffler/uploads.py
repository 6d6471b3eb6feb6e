"""Limits on envelopes that are being received: number, bytes, and slowest rate.

Every caller here has shown a credential of the population. So an attacker can hold only one upload
per credential, and each only while its bytes arrive at the required rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from shuffledp_core.errors import BadBatchError, BusyError, InvalidSubmissionError
from shuffledp_core.transport.chunks import CHUNK_BYTES, Offsets
from shuffledp_core.transport.receiving import Chunks

GRACE_SECONDS: Final = 10.0
"""Total time in seconds that an upload may stall, enough for a lost packet or two."""

REPEATS: Final = 8
"""Most calls of one credential, one under way and the others waiting for it; a device that lost an
answer calls again.
"""


@dataclass(frozen=True)
class UploadLimits:
    """Limits of `Uploads`.

    At most `places` envelopes, or `size` bytes of them, are received at a time. At most `line`
    calls wait for a place, and at most as many submissions that came in one message wait for their
    checks. One upload takes at most `seconds`, and brings at least `rate` bytes per second.
    """

    places: int
    size: int
    line: int
    seconds: float
    rate: float


@dataclass
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: int = 0


class Uploads:
    """Uploads that are in progress at a node, of all its rounds. Used from one event loop."""

    def __init__(self, bounds: UploadLimits) -> None:
        self._bounds = bounds
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._head = asyncio.Lock()
        self._room = asyncio.Event()
        self._waiting = self._count = self._bytes = self._messages = 0

    @asynccontextmanager
    async def turn(self, round_id: str, credential: str) -> AsyncIterator[bool]:
        """Context that serialises the calls of a credential; yields True if this one had to wait.

        Raises `BusyError` if the credential has too many calls.
        """
        key = (round_id, credential)
        turn = self._turns.setdefault(key, _Turn())
        if turn.calls >= REPEATS:
            raise BusyError(
                "this credential already has as many calls under way as it may have; wait for "
                "one of them to end"
            )
        repeated = turn.calls > 0
        turn.calls += 1
        try:
            async with turn.lock:
                yield repeated
        finally:
            turn.calls -= 1
            if not turn.calls:
                del self._turns[key]

    @asynccontextmanager
    async def reserve(self, length: int) -> AsyncIterator[None]:
        """Context that reserves room for an envelope, in order of arrival.

        Raises `BusyError` if too many calls wait for room already. An envelope that is longer than
        `size` gets its place when it is the only one.
        """
        await self._wait_for_room(length)
        try:
            yield
        finally:
            self._count -= 1
            self._bytes -= length
            self._room.set()

    @asynccontextmanager
    async def arriving(self, chunks: Chunks, length: int) -> AsyncIterator[bytes]:
        """Context that receives an envelope of this length and holds its room.

        See `reserve` and `gather`.
        """
        async with self.reserve(length):
            yield await self.gather(chunks, length)

    def begin_messages(self, count: int) -> int:
        """Count one-message submissions until `end_messages`; return how many have room.

        The caller must refuse the others. Submissions that have room need no upload place: they
        have arrived completely, and slow uploads must not delay them.
        """
        begun = min(count, max(0, self._bounds.line - self._messages))
        self._messages += begun
        return begun

    def end_messages(self, count: int) -> None:
        """Stop counting submissions that `begin_messages` counted."""
        self._messages -= count

    def message_refusal(self) -> BusyError:
        """The refusal of a submission for which `begin_messages` has no room."""
        return BusyError(
            f"this node is checking {self._messages} submissions, the maximum; send yours again "
            "later"
        )

    async def _wait_for_room(self, length: int) -> None:
        if self._waiting >= self._bounds.line:
            raise BusyError(
                f"{self._waiting} submissions already wait on this node, the maximum; send yours "
                "again later"
            )
        self._waiting += 1
        try:
            async with (
                self._head
            ):  # only the first in line looks for room: small envelopes never starve a large one
                while self._full(length):
                    self._room.clear()
                    await self._room.wait()
                self._count += 1
                self._bytes += length
        finally:
            self._waiting -= 1

    def _full(self, length: int) -> bool:
        too_long = self._bytes + length > self._bounds.size
        return self._count >= self._bounds.places or (too_long and self._count > 0)

    async def gather(self, chunks: Chunks, total: int) -> bytes:
        """Receive an envelope in chunks.

        Raises `InvalidSubmissionError` if it is incomplete or has another length, `BusyError` if it
        is too slow.
        """
        offsets = Offsets(total)
        envelope = bytearray()
        began = asyncio.get_running_loop().time()
        try:
            # Counted from the beginning, not from the last chunk: a byte now and then must not hold
            # a place for ever.
            async with asyncio.timeout_at(began + self._patience(offsets)) as scope:
                async for offset, data in chunks:
                    offsets.accept(offset, len(data))
                    envelope += data
                    scope.reschedule(began + self._patience(offsets))
            offsets.finish()
        except BadBatchError as error:
            raise InvalidSubmissionError(
                f"the envelope must have {total} bytes: {error}"
            ) from error
        except TimeoutError as error:
            raise BusyError(
                f"only {offsets.received} of {total} bytes of the envelope arrived: an upload "
                f"may take {self._bounds.seconds:g} s, and must not be slower than "
                f"{self._bounds.rate:g} bytes a second; send it again"
            ) from error
        return bytes(envelope)

    def _patience(self, offsets: Offsets) -> float:
        """Deadline for the next chunk, in seconds from the start; received bytes extend it."""
        following = min(offsets.received + CHUNK_BYTES, offsets.total)
        return min(self._bounds.seconds, GRACE_SECONDS + following / self._bounds.rate)
