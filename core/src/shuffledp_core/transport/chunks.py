"""Bytes of any length as chunks with offsets, so that a torn stream is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp_core.errors import BadBatchError

CHUNK_BYTES: Final = 2**18
"""Payload of one chunk: large enough that the call's cost vanishes, and small, because a server
must hold one for every
call that has begun a chunk and does not finish it."""

WHOLE_BYTES: Final = 2**16
"""Longest submission in one message, documents included: one HTTP/2 window, so that what waits to
be checked
holds no more than gRPC keeps for any stream that is not read."""


def chunks(data: bytes | memoryview, size: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
    """Splits data into (offset, piece) pairs, in order; none for no bytes."""
    view = memoryview(data)
    for offset in range(0, len(view), size):
        yield offset, bytes(view[offset : offset + size])


class Offsets:
    """Checks that chunks arrive in order, without gaps, and not beyond the announced length."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.received = 0

    def accept(self, offset: int, length: int) -> None:
        """Counts a chunk.

        Raises `BadBatchError` if it does not continue the stream or overruns it.
        """
        if offset != self.received:
            raise BadBatchError(
                f"the next chunk should begin at offset {self.received}, but one at offset "
                f"{offset} arrived; send everything again"
            )
        if self.received + length > self.total:
            raise BadBatchError(f"more bytes arrived than the announced {self.total}")
        self.received += length

    def finish(self) -> None:
        """Raises `BadBatchError` if bytes are missing."""
        if self.received != self.total:
            raise BadBatchError(
                f"only {self.received} of {self.total} bytes arrived; send everything again"
            )
