"""Receives a batch: a stream of chunks into a file that is verified and synced before use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from shuffledp_core.errors import BadBatchError
from shuffledp_core.runtime.files import erase
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.transport.chunks import Offsets
from shuffledp_proto.v1 import batch_pb2

Chunks = AsyncIterable[tuple[int, bytes]]
"""The pieces of one whole, each with its offset."""


async def read_header(requests: AsyncIterable[batch_pb2.AddBatchRequest]) -> bytes:
    """The signed header that begins a batch; `BadBatchError` if the stream begins otherwise."""
    async for request in requests:
        if request.WhichOneof("part") == "header":
            return request.header
        break
    raise BadBatchError("a batch must begin with its signed header; send everything again")


async def batch_chunks(
    requests: AsyncIterable[batch_pb2.AddBatchRequest],
) -> AsyncIterator[tuple[int, bytes]]:
    """The chunks after the header; raises `BadBatchError` if anything else follows."""
    async for request in requests:
        if request.WhichOneof("part") != "chunk":
            raise BadBatchError("only chunks may follow a batch's header; send everything again")
        yield request.chunk.offset, request.chunk.data


async def receive(chunks: Chunks, total: int, path: Path) -> str:
    """Write exactly `total` bytes to `path`, mode 0600, and sync; return their SHA-256 in hex.

    After an error the file is erased.

    Raises:
        BadBatchError: the stream is torn or overlong. A dropped connection looks the same: the
            sender may repeat.
    """
    offsets = Offsets(total)
    digest = hashlib.sha256()
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def store(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    try:
        with file:
            async for offset, data in chunks:
                offsets.accept(offset, len(data))
                await in_thread(store, data)
            offsets.finish()
            file.flush()
            await in_thread(os.fsync, file.fileno())
    # Also when cancelled: a connection that goes away cancels us, and must leave no torn file
    # behind.
    except BaseException:
        await in_thread(erase, path)
        raise
    return digest.hexdigest()


async def gather(chunks: Chunks, most: int) -> bytes:
    """Join all chunks into one string of at most `most` bytes.

    Raises `BadBatchError` if they are out of order, or more than `most` bytes.
    """
    offsets = Offsets(most)
    received = bytearray()
    async for offset, data in chunks:
        offsets.accept(offset, len(data))
        received += data
    return bytes(received)


async def let_through(chunks: Chunks, total: int) -> None:
    """Read and discard the chunks of a batch that has already been received.

    A sender that is answered while it writes may mistake the answer for a failure, and would repeat
    forever.

    Raises:
        BadBatchError: more than `total` bytes, or chunks out of order.
    """
    offsets = Offsets(total)
    async for offset, data in chunks:
        offsets.accept(offset, len(data))


def check_digest(signed: str, actual: str) -> None:
    """Raise `BadBatchError` unless the digest is the one to which the sender committed."""
    if actual != signed:
        raise BadBatchError(
            f"the batch has digest {actual}, but its sender signed {signed}; send it again"
        )
