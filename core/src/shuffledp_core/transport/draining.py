"""Refusing a caller that is still writing, so that it hears the refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from shuffledp_core.errors import ShuffleDPError

DRAIN_BYTES: Final = 4 * 2**20
DRAIN_SECONDS: Final = 1.0
"""What a refused caller may still send. grpcio reports "internal error" to a caller that is refused while it writes,
instead of the refusal itself, so what is on its way is let in and thrown away."""


class _Request(Protocol):
    """A protobuf message."""

    def ByteSize(self) -> int:  # noqa: N802 - protobuf's name
        """Its length on the wire."""
        ...


@asynccontextmanager
async def draining(requests: AsyncIterator[_Request]) -> AsyncIterator[None]:
    """When the block refuses, takes in what the caller is still writing before the refusal goes out."""
    try:
        yield
    except ShuffleDPError:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await _discard(requests)
        raise


async def _discard(requests: AsyncIterator[_Request]) -> None:
    size = 0
    async for request in requests:
        size += request.ByteSize()
        if size > DRAIN_BYTES:
            return
