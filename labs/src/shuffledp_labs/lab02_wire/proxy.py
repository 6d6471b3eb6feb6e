"""A proxy in front of a node: records what an observer on the path sees.

It records the caller and the number of bytes of each connection.

It cannot read what it forwards: the connection is TLS from the client to the node.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from shuffledp_core.runtime.addresses import host_and_port

_PIECE: Final = 2**16


@dataclass
class Flow:
    """One connection: the caller's name, and the bytes that the caller has sent so far."""

    caller: str
    sent: int = 0


class Proxy:
    """A proxy that forwards each connection to `listen` on to `target`; both are host:port.

    Use as an async context manager.

    Attributes:
        caller: name of the caller of later connections. A real observer reads the caller's address;
            on one machine all addresses are equal, so the name is set here.
        flows: every connection so far.
    """

    def __init__(self, listen: str, target: str) -> None:
        self.caller = ""
        self.flows: list[Flow] = []
        self._listen = host_and_port(listen)
        self._target = host_and_port(target)
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._ended = False
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, *self._listen)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        if self._server is not None:
            self._server.close()
        left = dict(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for writer in left.values():
            await _close(writer)

    def of(self, callers: set[str]) -> tuple[tuple[str, int], ...]:
        """Number of bytes in each connection of these callers, as (caller, bytes)."""
        return tuple((flow.caller, flow.sent) for flow in self.flows if flow.caller in callers)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # No coroutine: one that is cancelled before its first step could not close what it was
        # given.
        if self._ended:
            writer.close()
            return
        flow = Flow(self.caller)
        self.flows.append(flow)
        task = asyncio.ensure_future(self._serve(reader, writer, flow))
        self._open[task] = writer
        task.add_done_callback(lambda task: self._open.pop(task, None))

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: Flow
    ) -> None:
        # Cancelled at the end as a matter of course; the caller that goes away first is no fault
        # either.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._forward(reader, writer, flow)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: Flow
    ) -> None:
        try:
            behind, before = await asyncio.open_connection(*self._target)
        except OSError:
            await _close(writer)
            raise
        pumps = [
            asyncio.ensure_future(_pump(reader, before, flow)),
            asyncio.ensure_future(_pump(behind, writer, None)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            await _close(before)
            await _close(writer)


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, flow: Flow | None
) -> None:
    while data := await source.read(_PIECE):
        if flow is not None:
            flow.sent += len(data)
        target.write(data)
        await target.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
