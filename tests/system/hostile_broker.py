"""A broker that speaks enough MQTT 3.1.1 to be connected to, and then does what its script says.

One trick a connection; after the last one it is honest. `python hostile_broker.py PORT announce`,
on the other hand, is its victim: the real announcer, with less patience, so that withheld answers
do not make a test wait. With `listen` in place of `announce` it is a listener that reads slowly,
and prints how many bytes its memory grew by."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shuffledp_client.transport import listen_for_announcements
from shuffledp_core.runtime.config import BrokerConfig
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.transport import broker_guard
from shuffledp_core.transport.announce import Announcer, Pauses, manifest_topic

FLOOD_BYTES = 2**28
"""What a flood sends at most, if nobody stops it: 256 MiB, the largest packet of MQTT."""

ANSWER_SECONDS = 2.0
"""The victim's patience."""

HELD_SECONDS = 2.5
"""For so long nothing is read."""

CONNACK = bytes.fromhex("20020000")

DOCUMENT_TOPIC = manifest_topic("demo", "0" * 32).encode()


class Line:
    """The broker's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sent = 0

    async def packet(self) -> tuple[int, bytes]:
        """The next packet of the client: its first byte, and what follows the length."""
        head = (await self.reader.readexactly(1))[0]
        length, shift, more = 0, 0, True
        while more:
            byte = (await self.reader.readexactly(1))[0]
            length, shift, more = length | (byte & 127) << shift, shift + 7, byte > 127
        return head, await self.reader.readexactly(length)

    async def until(self, kind: int) -> tuple[int, bytes]:
        """The next packet of this kind."""
        while (packet := await self.packet())[0] >> 4 != kind:
            pass
        return packet

    async def welcome(self) -> None:
        """Answers CONNECT as a good broker does."""
        await self.until(1)
        await self.say(CONNACK)

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.sent += len(data)

    async def flood(self, piece: bytes, most: int | None = None) -> None:
        while self.sent < (most or FLOOD_BYTES):
            await self.say(piece)

    async def gone(self) -> None:
        """Until the client has hung up; what it still sends is thrown away."""
        while await self.reader.read(2**16):
            pass


Trick = Callable[[Line], Awaitable[None]]


def document(topic: bytes, payload: bytes, flags: int = 1) -> bytes:
    """A PUBLISH; `flags` 1: retained, at QoS 0. At QoS 1 or 2 its number is 7."""
    number = b"\0\7" if flags & 6 else b""
    body = len(topic).to_bytes(2, "big") + topic + number + payload
    length, rest = bytearray(), len(body)
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    return bytes([0x30 | flags, *length, rest]) + body


# What a broker does to whoever publishes.


async def silence(line: Line) -> None:
    await line.gone()


async def refusal(line: Line) -> None:
    await line.until(1)
    await line.say(bytes.fromhex("20020005"))
    await line.gone()


async def nonsense(line: Line) -> None:
    await line.flood(b"HTTP/1.1 200 OK\r\n\r\n")


async def hang_up(line: Line) -> None:
    await line.welcome()


async def half_a_packet(line: Line) -> None:
    await line.welcome()
    await line.until(3)
    await line.say(b"\x40")
    await line.gone()


async def withheld_acknowledgement(line: Line) -> None:
    await line.welcome()
    await line.gone()


async def a_wrong_topic_to_whoever_gave_up_waiting(line: Line) -> None:
    """Nothing is read until the client has lost its patience and says goodbye, which is then not
    read either."""
    await line.welcome()
    await asyncio.sleep(HELD_SECONDS)
    await line.flood(document(b"#", b"x"), 2**20)
    await line.gone()


async def a_wrong_topic_after_the_acknowledgement(line: Line) -> None:
    await acknowledged(line)
    await line.flood(document(b"#", b"x"), 2**22)
    await line.gone()


async def wrong_numbers(line: Line) -> None:
    await line.welcome()
    await line.until(3)
    await line.flood(
        b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in range(1000, 2**16))
    )


async def one_endless_packet(line: Line) -> None:
    """The largest length that MQTT can write: before any callback, a client that trusts it has kept
    it all."""
    await acknowledged(line)
    await line.say(b"\x31\xff\xff\xff\x7f")
    await line.flood(bytes(2**16))


async def retained_documents_without_end(line: Line) -> None:
    await acknowledged(line)
    await line.flood(document(b"a/topic", bytes(2**15)))


async def documents_that_are_never_released(line: Line) -> None:
    """At QoS 2 a client keeps what the broker has not released, for each of 65,535 numbers."""
    await acknowledged(line)
    await line.flood(document(b"a/topic", bytes(2**15), flags=5))


async def answers_that_nobody_asked_for(line: Line) -> None:
    await acknowledged(line)
    await line.flood(b"\xd0\x00" * 2**15, 2**24)


async def acknowledged(line: Line) -> None:
    """A good broker until the first document is acknowledged."""
    await line.welcome()
    _, body = await line.until(3)
    start = 2 + int.from_bytes(body[:2], "big")
    await line.say(b"\x40\x02" + body[start : start + 2])


async def hang_up_before_acknowledging(line: Line) -> None:
    await line.welcome()
    await line.until(3)


# What a broker does to a listener.


async def subscribed(line: Line) -> None:
    """A good broker until the subscription is confirmed."""
    await line.welcome()
    _, body = await line.until(8)
    await line.say(b"\x90\x03" + body[:2] + b"\x00")


async def one_document(line: Line) -> None:
    await subscribed(line)
    await line.say(document(DOCUMENT_TOPIC, b"{}"))


class HostileBroker:
    """Use as an async context manager.

    It serves TLS if it is given a context, and listens on `host`.
    """

    def __init__(
        self, script: Sequence[Trick], *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._script = list(script)
        self._tls = tls
        self._host = host
        self.port = 0
        self.connections = 0
        self.sent: list[tuple[str, int]] = []
        """What was done to each connection, and how many bytes it took."""
        self.published: dict[str, bytes] = {}
        """What was published in honest connections."""
        self.connected = asyncio.Event()
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig(host=self._host, port=self.port, tls=self._tls is not None)

    async def __aenter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, 0), family=family)
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12
        )  # what it does not read stays with the client
        self._server = await asyncio.start_server(
            self._serve, sock=listener, limit=2**12, ssl=self._tls
        )
        self.port = listener.getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def until_published(self, topic: str) -> None:
        """Until there is a document on a topic, from an honest connection."""
        while topic not in self.published:
            self._arrived.clear()
            await self._arrived.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.connected.set()
        trick = self._script.pop(0) if self._script else self._honest
        line = Line(reader, writer)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await trick(line)
        self.sent.append((getattr(trick, "__name__", "honest"), line.sent))
        writer.transport.abort()

    async def _honest(self, line: Line) -> None:
        await line.welcome()
        while True:
            head, body = await line.packet()
            if head >> 4 == 12:
                await line.say(b"\xd0\x00")
            elif head >> 4 == 3:
                start = 2 + int.from_bytes(body[:2], "big")
                self.published[body[2:start].decode()] = body[start + 2 :]
                await line.say(b"\x40\x02" + body[start : start + 2])
                self._arrived.set()


# The victim.

STATUS = "shuffledp/v1/demo/nodes/node-1/status"

DOCUMENT = 2**23
"""Bytes of the document that the victim announces."""


async def announce(broker: BrokerConfig) -> None:
    """Announce the status and one document of `DOCUMENT` bytes until killed."""
    patience = asyncio.ensure_future(_gain_patience())
    announcer = Announcer.with_status(broker, STATUS, pauses=Pauses(0.01, 0.1))
    announcer.publish("shuffledp/v1/demo/rounds/0/result", bytes(DOCUMENT))
    try:
        await announcer.run()
    finally:
        patience.cancel()


async def _gain_patience() -> None:
    """Wait little for a broker, and twice as long every half minute.

    On a busy machine an honest broker needs more than the first limits too.
    """
    patience = 1.0
    while True:
        broker_guard.CONNECT_SECONDS = patience  # type: ignore[misc]
        broker_guard.ANSWER_SECONDS = patience * ANSWER_SECONDS  # type: ignore[misc]
        await asyncio.sleep(30)
        patience *= 2


async def listen(broker: BrokerConfig) -> None:
    """Listen twice, reading ten documents a second.

    Write by how many bytes the second time made the process larger.
    """
    await _read_slowly(broker)
    before = peak("self")
    await _read_slowly(broker)
    sys.stdout.write(str(peak("self") - before))


async def _read_slowly(broker: BrokerConfig) -> None:
    async for _ in listen_for_announcements(broker, "demo", None, 2.0):
        await asyncio.sleep(0.1)


def peak(process: int | str) -> int:
    """The most memory that a process ever had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    configure_logs("debug")
    victim = {"announce": announce, "listen": listen}[sys.argv[2]]
    asyncio.run(victim(BrokerConfig(host="127.0.0.1", port=int(sys.argv[1]))))
