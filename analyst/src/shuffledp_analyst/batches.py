"""Reception of the final batch: a stream of chunks into a file, verified before it counts."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterable
from pathlib import Path

from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.errors import BadBatchError
from shuffledp_core.transport.chunks import Offsets
from shuffledp_proto.v1 import batch_pb2


async def read_header(parts: AsyncIterable[batch_pb2.AddBatchRequest]) -> bytes:
    """Reads the signed header at the start of a stream; `BadBatchError` when it begins otherwise."""
    async for part in parts:
        if part.WhichOneof("part") == "header":
            return part.header
        break
    raise BadBatchError("a batch must begin with its signed header; send it all again")


async def spool(parts: AsyncIterable[batch_pb2.AddBatchRequest], length: int, path: Path) -> str:
    """Writes the chunks behind the header to `path` and syncs it; returns their SHA-256 in hex.

    The file is removed unless every part is a chunk at the next offset and all of `length` bytes arrived.

    Raises:
        BadBatchError: the stream is torn or overlong. A dropped connection looks the same: the sender may repeat.
    """
    offsets, sha = Offsets(length), hashlib.sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for part in parts:
                data = _chunk(part, offsets)
                await asyncio.to_thread(file.write, data)
                sha.update(data)
            offsets.finish()
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
    except BaseException:
        os.unlink(path)  # noqa: PTH108 - a mere unlink does not block
        raise
    return sha.hexdigest()


async def let_through(parts: AsyncIterable[batch_pb2.AddBatchRequest], length: int) -> None:
    """Reads and discards the chunks of a batch that is here already.

    A sender that is answered while it writes may take the answer for a failure, and would send it all for ever.

    Raises:
        BadBatchError: more than `length` bytes, or chunks out of order.
    """
    offsets = Offsets(length)
    async for part in parts:
        _chunk(part, offsets)


def _chunk(part: batch_pb2.AddBatchRequest, offsets: Offsets) -> bytes:
    if part.WhichOneof("part") != "chunk":
        raise BadBatchError("only chunks may follow the header of a batch; send it all again")
    offsets.accept(part.chunk.offset, len(part.chunk.data))
    return part.chunk.data


def check_digest(header: BatchHeader, found: str) -> None:
    """Raises `BadBatchError` unless the bytes are those that the sender committed to."""
    if found != header.digest:
        raise BadBatchError(f"the batch has digest {found} where its sender signed {header.digest}")
