"""A call that grpc.aio cancels by itself is a party that does not answer.

A cancellation from outside stays one.
"""

import asyncio

import pytest

from shuffledp_core.errors import UnreachableError
from shuffledp_core.transport.rpc_errors import translate_errors


async def test_a_call_cancelled_by_nobody_here_is_a_party_that_does_not_answer() -> None:
    with pytest.raises(UnreachableError, match="node-1"):
        async with translate_errors("node-1"):
            raise asyncio.CancelledError


async def test_a_caller_that_is_cancelled_is_cancelled() -> None:
    async def call() -> None:
        async with translate_errors("node-1"):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
