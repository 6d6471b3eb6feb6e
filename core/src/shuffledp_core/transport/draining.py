"""Drains a refused caller's request, so that a caller which is still writing gets the refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from shuffledp_core.errors import BusyError, ShuffleDPError
from shuffledp_core.transport.doorway import Line

DRAIN_BYTES: Final = 4 * 2**20
DRAIN_SECONDS: Final = 1.0
"""Bytes and time that a refused caller may still send. grpcio reports "internal error" to a caller
refused while it
writes, instead of the refusal itself, so what is on its way is let in and thrown away."""


class Request(Protocol):
    """A protobuf message."""

    def ByteSize(self) -> int:  # noqa: N802 - protobuf's name
        """Length of the message on the wire, in bytes."""
        ...


@asynccontextmanager
async def draining(requests: AsyncIterator[Request], line: Line, peer: str) -> AsyncIterator[None]:
    """Context that reads what the caller is still writing before a refusal by the block goes out.

    Meanwhile the caller stands in `line`, like one whose first message is awaited. A caller that is
    refused because that line is full is refused at once.
    """
    try:
        yield
    except BusyError:
        raise
    except ShuffleDPError:
        with suppress(TimeoutError, BusyError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await line.wait(_discard(requests), peer)
        raise


async def _discard(requests: AsyncIterator[Request]) -> None:
    size = 0
    async for request in requests:
        size += request.ByteSize()
        if size > DRAIN_BYTES:
            return
