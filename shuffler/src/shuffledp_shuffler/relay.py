"""Delivery of a batch to the next hop, with retries for a bounded time while it is unreachable.

It is harmless to deliver a batch again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    BusyError,
    DiskError,
    ExpiredTLSCertificateError,
    NodeFault,
    UnreachableError,
)
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import channel_to
from shuffledp_proto.v1 import batch_pb2, batch_pb2_grpc

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 10.0

SLOWEST_LINE: Final = 8 * 2**10
"""Bytes per second; a hop that takes a batch at least at this rate never counts as stalled."""


@dataclass(frozen=True)
class Relay:
    """The sender of batches: the client side of `AddBatch`.

    `patience` is how long, in seconds, the next hop may be unreachable. A hop also has this long to
    take each chunk and to answer, in addition to the time that the bytes need at `SLOWEST_LINE`: a
    hop that holds the connection and does nothing counts as unreachable, while a batch of any size
    has enough time.
    """

    keys: Path
    roster: Roster
    patience: float

    async def send(
        self,
        target: Party,
        header: Signed,
        path: Path,
        started: Callable[[], Awaitable[None]],
        progress: Callable[[int], None],
    ) -> None:
        """Send a batch; return once `target` has all of it on disk.

        Args:
            target: the next hop.
            header: the signed batch header, which commits to the records.
            path: the packed records.
            started: awaited before the first byte can leave, once the target's TLS identity is
                verified.
            progress: called with the number of bytes sent so far.

        Raises:
            UnreachableError: the target was unreachable, or took nothing, for longer than
                `patience`.
            ShuffleDPError: an error that the target returned.
        """
        deadline = time.monotonic() + self.patience
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._attempt(target, header, path, started, progress)
            except NodeFault as error:
                # By exact class: a refusal, such as `BadBatchError`, is a `NodeFault` too and would
                # be the same again.
                if type(error) not in {
                    UnreachableError,
                    BusyError,
                    DiskError,
                    ExpiredTLSCertificateError,
                    NodeFault,
                }:
                    raise
                if time.monotonic() + pause >= deadline:
                    raise UnreachableError(
                        f"{target.name} did not accept the batch within {self.patience:g} s: "
                        f"{error}; start it and open a new round"
                    ) from error
                structlog.get_logger().warning(
                    "next hop did not take the batch; retrying",
                    target=target.name,
                    reason=str(error),
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _attempt(
        self,
        target: Party,
        header: Signed,
        path: Path,
        started: Callable[[], Awaitable[None]],
        progress: Callable[[int], None],
    ) -> None:
        # A fresh channel for every attempt: a used one waits by its own, longer, schedule before it
        # reconnects.
        async with channel_to(target, self.keys, self.roster) as channel:
            try:
                async with asyncio.timeout(min(CONNECT_SECONDS, self.patience)):
                    await channel.channel_ready()
            except TimeoutError as error:
                raise UnreachableError(
                    f"no connection to {target.name} at {target.address}"
                ) from error
            # Only now that the connection stands: a node that reached no one can still sign that
            # nothing left it.
            await started()
            try:
                async with translate_errors(target.name):
                    await self._stream(
                        batch_pb2_grpc.BatchSinkStub(channel), header, path, progress
                    )
            except TimeoutError as error:
                raise UnreachableError(
                    f"{target.name} accepted no data for {self.patience:g} s"
                ) from error

    async def _stream(
        self,
        stub: batch_pb2_grpc.BatchSinkAsyncStub,
        header: Signed,
        path: Path,
        progress: Callable[[int], None],
    ) -> None:
        call = stub.AddBatch()

        async def write(request: batch_pb2.AddBatchRequest) -> None:
            async with asyncio.timeout(self._time_limit(request.ByteSize())):
                await call.write(request)

        with path.open("rb") as file:
            total = os.fstat(file.fileno()).st_size
            try:
                await write(batch_pb2.AddBatchRequest(header=header.to_bytes()))
                for offset in range(0, total, CHUNK_BYTES):
                    data = await asyncio.to_thread(os.pread, file.fileno(), CHUNK_BYTES, offset)
                    await write(
                        batch_pb2.AddBatchRequest(chunk=batch_pb2.Chunk(offset=offset, data=data))
                    )
                    progress(offset + len(data))
                await call.done_writing()
            except asyncio.InvalidStateError:
                # the target has answered already: it has this batch, or refuses it; the answer says
                # which
                pass
        async with asyncio.timeout(
            self._time_limit(min(total, CHUNK_BYTES))
        ):  # the last chunk may still be on its way
            await call

    def _time_limit(self, length: int) -> float:
        return self.patience + length / SLOWEST_LINE
