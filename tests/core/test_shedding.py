"""A server whose program is behind: gRPC refuses calls by itself, and callers know it as busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from shuffledp_core.errors import BusyError
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.rpc_errors import SHED_SECONDS, error_of_call
from shuffledp_core.transport.tls import server_options

QUEUED = 4


class StuckServer:
    """A server whose only call blocks the event loop until `release` is set."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()
        self.port = 0
        self._stop = asyncio.Event()
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    async def _call(self, request: bytes, _context: Any) -> bytes:
        self.entered.set()
        self.release.wait()
        return request

    async def _serve(self) -> None:
        options = server_options(Limits(queued_calls=QUEUED))
        server = grpc.aio.server(options=options)
        handler: Any = grpc.unary_unary_rpc_method_handler(self._call)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("test.Stuck", {"Call": handler})]
        )
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._listening.set()
        await self._stop.wait()
        await server.stop(None)

    def start(self) -> None:
        self._thread.start()
        self._listening.wait()

    def stop(self) -> None:
        self.release.set()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def stuck() -> Iterator[StuckServer]:
    server = StuckServer()
    server.start()
    yield server
    server.stop()


def test_calls_beyond_the_queue_are_refused_while_the_program_is_stuck(stuck: StuckServer) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{stuck.port}") as channel:
        call: Any = channel.unary_unary("/test.Stuck/Call")
        first = call.future(b"first")
        stuck.entered.wait()
        # One call may have been taken from the queue already, to be started next.
        others = [call.future(b"other") for _ in range(2 * QUEUED + 2)]
        ended = threading.Event()
        for other in others:
            other.add_done_callback(lambda _: ended.set())
        assert ended.wait(timeout=60)  # while the loop is still stuck
        shed = next(other for other in others if other.done())
        assert shed.code() is grpc.StatusCode.CANCELLED
        error = error_of_call(shed, "node-1")
        assert isinstance(error, BusyError)
        assert error.wait_seconds == SHED_SECONDS
        stuck.release.set()
        assert first.result() == b"first"
        # Those that found room are answered.
        answered = sum(other.exception() is None for other in others)
        assert 0 < answered <= 2 * QUEUED + 1
