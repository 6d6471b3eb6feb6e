"""Denial-of-service attacks on a party by devices and by strangers, as contexts.

Each lasts as long as its block.

A device has the TLS certificate that all devices share, and need not be enrolled. A stranger has
nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.runtime.addresses import host_and_port
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.keys.pki import Deployment
from shuffledp_proto.v1 import analyst_pb2, batch_pb2, node_pb2
from shuffledp_sim.hostile.wire import RawCaller, message

SUBMIT: Final = "/shuffledp_proto.v1.Node/Submit"
GET_BOARD: Final = "/shuffledp_proto.v1.Analyst/GetBoard"
GET_RESULT: Final = "/shuffledp_proto.v1.Analyst/GetResult"

CALLS: Final = 100
"""Calls on one connection."""


class Devices:
    """A deployment's devices that attack one party; `source` is the address that they call from."""

    def __init__(self, deployment: Deployment, party: Party, source: str = "127.0.0.2") -> None:
        self._keys = deployment.keys_of(CLIENT)
        self._roster: Roster = deployment.roster
        self._party = party
        # Not the honest callers' address: surplus connections are taken from the address that has
        # most.
        self._source = source

    @asynccontextmanager
    async def connect(self, number: int, *, window: int = 65_535) -> AsyncIterator[list[RawCaller]]:
        """Context with `number` open connections, or as many as the party accepts."""
        callers: list[RawCaller] = []
        try:
            for _ in range(number):
                caller = RawCaller(
                    self._party, self._keys, self._roster, window=window, source=self._source
                )
                with suppress(OSError):
                    await caller.open()
                    callers.append(caller)
            yield callers
        finally:
            for caller in callers:
                await caller.close()

    @asynccontextmanager
    async def stuck_readers(
        self, round_id: str, number: int, method: str = GET_BOARD
    ) -> AsyncIterator[list[RawCaller]]:
        """Context with open calls that request a board (or a result) and never read it."""
        request = message(analyst_pb2.GetBoardRequest(round_id=round_id).SerializeToString())
        async with self.connect(-(-number // CALLS), window=0) as callers:
            await self._call(callers, number, method, request, end=True)
            yield callers

    @asynccontextmanager
    async def unfinished_messages(
        self, number: int, length: int, method: str = SUBMIT
    ) -> AsyncIterator[list[RawCaller]]:
        """Context with open calls whose first message lacks its last byte."""
        async with self.connect(-(-number // CALLS)) as callers:
            await self._call(callers, number, method, message(bytes(length - 1), length), end=False)
            yield callers

    @asynccontextmanager
    async def silent_calls(
        self, number: int, connections: int = 4, method: str = SUBMIT
    ) -> AsyncIterator[list[RawCaller]]:
        """Context with open calls that send no request."""
        async with self.connect(connections) as callers:
            await self._call(callers, number, method, b"", end=False)
            yield callers

    @asynccontextmanager
    async def unbacked_envelopes(
        self, round_id: str, number: int, length: int
    ) -> AsyncIterator[list[RawCaller]]:
        """Context with submissions of forged credential and claim, and a truncated envelope."""
        header = node_pb2.SubmissionHeader(round_id=round_id, credential=_FORGED, claim=_FORGED)
        first = message(node_pb2.SubmitRequest(header=header).SerializeToString())
        chunk = node_pb2.SubmitRequest(chunk=batch_pb2.Chunk(offset=0, data=bytes(length)))
        async with self.connect(-(-number // CALLS)) as callers:
            await self._call(
                callers, number, SUBMIT, first + message(chunk.SerializeToString()), end=False
            )
            yield callers

    async def _call(
        self, callers: list[RawCaller], number: int, method: str, data: bytes, *, end: bool
    ) -> None:
        for index in range(number):
            caller = callers[index % len(callers)]
            stream = caller.call(method)
            if data or end:
                caller.send(stream, data, end=end)
            if index % CALLS == 0:
                await asyncio.sleep(0)
        for caller in callers:
            with suppress(OSError):
                await caller.drain()


_FORGED: Final = (
    b'{"label":"credential","signer":"demo","body":"{}","signature":"' + b"0" * 128 + b'"}'
)


@contextmanager
def silent_connections(
    address: str, number: int, source: str = "127.0.0.2"
) -> Iterator[list[socket.socket]]:
    """Context with open TCP connections of strangers, on which nothing is ever sent."""
    sockets: list[socket.socket] = []
    try:
        for _ in range(number):
            link = socket.socket()
            sockets.append(link)
            link.setblocking(False)  # noqa: FBT003 - the library's signature
            link.bind((source, 0))
            with suppress(BlockingIOError):
                link.connect(host_and_port(address))
        yield sockets
    finally:
        for link in sockets:
            link.close()
