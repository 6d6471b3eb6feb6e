"""A cheating node asks the student's code, over a local connection, which records to send.

The node is a process of the running system and has the pool; the student's code runs in the
grader's sandbox and returns the records to send. So the node needs no sandbox of its own, and the
grader sees every fault of the student's code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import msgspec

from shuffledp_adversary.attacks.exchange.tampering import Pool
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.runtime.addresses import host_and_port

_LONGEST: Final = 16 * 2**20


@dataclass(frozen=True)
class AskedPool(Pool):
    """A node's pool as the answering program gets it.

    Attributes:
        spare: records of the node's own that decrypt at all later parties, as many as `records`;
            only in a verified round, where the program has no keys to make such records.
    """

    spare: Sequence[bytes] = ()


class PoolQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A node's pool in the form in which it is sent."""

    geometry: Geometry
    round_id: str
    public_keys: list[bytes]
    position: int
    records: list[bytes]
    victim: list[bytes]
    spare: list[bytes]

    @classmethod
    def of(cls, pool: Pool, spare: Sequence[bytes] = ()) -> PoolQuestion:
        """Make the question from a pool, without the parts that only attacks need."""
        return cls(
            geometry=pool.geometry,
            round_id=pool.round_id,
            public_keys=list(pool.public_keys),
            position=pool.position,
            records=pool.records,
            victim=pool.victim,
            spare=list(spare),
        )

    def pool(self) -> AskedPool:
        """Rebuild the pool from the question."""
        return AskedPool(
            self.geometry,
            self.round_id,
            self.public_keys,
            self.position,
            self.records,
            self.victim,
            spare=self.spare,
        )


class Answerer:
    """Answers a node's questions with the function `answer`, in its own thread.

    Use as an async context manager.

    Attributes:
        failure: the first exception of `answer`; the node then sends on its honest output.
    """

    def __init__(self, answer: Callable[[AskedPool], Sequence[bytes]]) -> None:
        self.failure: Exception | None = None
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Address host:port of the running answerer."""
        if self._server is None:
            raise ValueError("the answerer does not run")
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LONGEST)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            question = msgspec.json.decode(await reader.readline(), type=PoolQuestion)
            writer.write(msgspec.json.encode(await self._call_answer(question.pool())) + b"\n")
            await writer.drain()
        finally:
            writer.close()
            await writer.wait_closed()

    async def _call_answer(self, pool: AskedPool) -> list[bytes]:
        try:
            return list(await asyncio.to_thread(self._answer, pool))
        except Exception as error:  # noqa: BLE001 - raised again by whoever started the round
            self.failure = self.failure or error
            return pool.records


async def ask(address: str, pool: Pool, spare: Sequence[bytes] = ()) -> list[bytes]:
    """Ask the answerer at host:port what to send instead of the pool's records; return that.

    Raises `OSError`.
    """
    reader, writer = await asyncio.open_connection(*host_and_port(address), limit=_LONGEST)
    try:
        writer.write(msgspec.json.encode(PoolQuestion.of(pool, spare)) + b"\n")
        await writer.drain()
        return msgspec.json.decode(await reader.readline(), type=list[bytes])
    finally:
        writer.close()
        await writer.wait_closed()
