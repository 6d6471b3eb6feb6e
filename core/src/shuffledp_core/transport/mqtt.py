"""The part of MQTT 3.1.1 that announcements need, for an untrusted broker. docs/protocol.md, "Announcements".

An answer is compared with the bytes that it must be, and nothing else is read. Only documents of a subscription are
parsed, their length first. Nothing is queued: what nobody reads stays with the broker, by TCP's own flow control, so
that memory is one packet and the stream's buffer. Anything else is a `BrokerError`, within the time-outs below. Why not
a library: docs/adr/0006-own-mqtt-client.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from shuffledp_core.config import BrokerConfig, broker_password
from shuffledp_core.errors import BrokerError

MAX_PUBLISH_BYTES: Final = 2**20
"""Longest packet received: announcements have some kilobytes, a mebibyte holds a route of hundreds of nodes."""

MAX_EARLY: Final = 16
"""Documents that may come before the subscription is confirmed; MQTT allows it."""

PACKETS_PER_SECOND: Final = 50.0
"""Rate, and burst, at which packets are received. A broker that sends more is read more slowly."""

CONNECT_SECONDS: Final = 10.0
"""Limit for TCP and TLS to stand, and again for the broker to accept."""

ANSWER_SECONDS: Final = 30.0
"""Limit for a packet to be sent and answered, or received once it has begun: a mebibyte over 300 kbit/s."""

KEEPALIVE_SECONDS: Final = 60
"""Interval between two signs of life of a connection that publishes. One that listens is short, and gives none."""

_STREAM_BYTES: Final = 2**14
"""The stream stops reading at twice this."""

_PIECE_BYTES: Final = 2**16

_CONNECT, _CONNACK, _PUBLISH, _PUBACK, _SUBSCRIBE, _SUBACK, _PINGREQ, _PINGRESP = 1, 2, 3, 4, 8, 9, 12, 13
_QOS_1, _QOS_2 = 0b0010, 0b0100
_REFUSALS: Final = ("", "protocol", "identifier", "unavailable", "user name or password", "not authorised")


@dataclass(frozen=True)
class Will:
    """Last will: the payload that the broker retains on `topic` when it loses the connection."""

    topic: str
    payload: bytes


@contextlib.asynccontextmanager
async def connected(broker: BrokerConfig, will: Will | None = None) -> AsyncIterator[Connection]:
    """A connection that the broker has accepted. It is cut at the end without DISCONNECT, so the will is published.

    Raises:
        BrokerError: the broker is away, refuses, or is no MQTT broker.
    """
    with _broker_at_fault(broker):
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                broker.host,
                broker.port,
                limit=_STREAM_BYTES,
                ssl=ssl.create_default_context() if broker.tls else None,
            )
    try:
        connection = Connection(broker, reader, writer)
        await connection.open(will)
        yield connection
    finally:
        writer.transport.abort()  # a broker that reads nothing must not keep what was not sent


class Connection:
    """One connection to a broker. One call at a time; after a `BrokerError` it is unusable."""

    def __init__(self, broker: BrokerConfig, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._broker = broker
        self._reader = reader
        self._writer = writer
        self._number = 0

    async def open(self, will: Will | None) -> None:
        """Sends CONNECT with a fresh client identifier and a clean session, and waits for CONNACK."""
        password = broker_password() if self._broker.username else None
        # Random: of two connections with one identifier a broker drops the older, so others must not know ours.
        flags, fields = 0b10, [_text(secrets.token_hex(8).encode())]
        if will is not None:
            flags |= 0b101100  # retained, QoS 1
            fields += [_text(will.topic.encode()), _text(will.payload)]
        for bit, text in ((0b10000000, self._broker.username), (0b1000000, password)):
            if text is not None:
                flags |= bit
                fields.append(_text(text.encode()))
        keepalive = KEEPALIVE_SECONDS if will is not None else 0
        head = _text(b"MQTT") + bytes([4, flags]) + keepalive.to_bytes(2, "big")
        with _broker_at_fault(self._broker):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._ask(_packet(_CONNECT, 0, head, *fields), _packet(_CONNACK, 0, b"\0\0"))

    async def publish(self, topic: str, payload: bytes) -> None:
        """Publishes a retained document on a topic; returns when the broker has acknowledged it (QoS 1)."""
        number = self._next_number()
        packet = _packet(_PUBLISH, 0b0011, _text(topic.encode()), number, payload)
        await self._ask(packet, _packet(_PUBACK, 0, number))

    async def ping(self) -> None:
        """Sends PINGREQ and waits for PINGRESP."""
        await self._ask(_packet(_PINGREQ, 0), _packet(_PINGRESP, 0))

    async def quiet(self, until: asyncio.Event, seconds: float) -> None:
        """Waits for the event, for at most `seconds`. Raises `BrokerError` when the broker sends anything or leaves."""
        said = asyncio.ensure_future(self._reader.read(1))
        happened = asyncio.ensure_future(until.wait())
        try:
            await asyncio.wait({said, happened}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if said.done():
                with _broker_at_fault(self._broker):
                    raise ConnectionError("it sent something unasked" if said.result() else "it closed the connection")
        finally:
            for task in (said, happened):
                task.cancel()
            await asyncio.wait({said, happened})  # the stream has one reader at a time

    async def subscribe(self, pattern: str) -> AsyncIterator[bytes]:
        """The payloads on all topics of a pattern, in which "+" is any name; the retained ones first.

        At QoS 0, so that nothing has to be answered. Other topics are skipped.
        """
        number, early = self._next_number(), list[bytes]()
        confirmed = _packet(_SUBACK, 0, number + b"\0")
        packets = self._packets()
        with _broker_at_fault(self._broker):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._send(_packet(_SUBSCRIBE, 0b0010, number, _text(pattern.encode()), b"\0"))
                while (packet := await anext(packets)) != confirmed:
                    early.append(packet)
                    if len(early) > MAX_EARLY:
                        raise ConnectionError("it does not confirm the subscription")

        async def payloads() -> AsyncIterator[bytes]:
            with _broker_at_fault(self._broker):
                wanted = pattern.encode().split(b"/")
                for packet in early:
                    if (payload := _payload(packet, wanted)) is not None:
                        yield payload
                early.clear()
                async for packet in packets:
                    if (payload := _payload(packet, wanted)) is not None:
                        yield payload

        return payloads()

    async def _packets(self) -> AsyncIterator[bytes]:
        """Packets as they come: documents, or a confirmed subscription; at most `PACKETS_PER_SECOND`."""
        clock, due = asyncio.get_running_loop().time, 0.0
        while True:
            # No limit on the wait for a packet to begin: a listener expects silence, and its caller bounds the whole.
            head = await self._reader.readexactly(1)
            async with asyncio.timeout(ANSWER_SECONDS):
                length, encoded = 0, b""
                while not encoded or encoded[-1] & 128:
                    encoded += await self._reader.readexactly(1)
                    length |= (encoded[-1] & 127) << 7 * (len(encoded) - 1)
                    # Three bytes of length reach 2 MiB; MQTT's fourth could only announce more than is taken.
                    if length > MAX_PUBLISH_BYTES or len(encoded) > 3:
                        raise ConnectionError(f"it sends a packet of {length} bytes and more")
                body = await self._reader.readexactly(length)
            now = clock()
            # A token bucket in one number: silence earns a second's credit at most, 50 packets.
            due = max(due, now - 1.0) + 1 / PACKETS_PER_SECOND
            await asyncio.sleep(max(due - now, 0.0))
            yield head + encoded + body

    async def _ask(self, packet: bytes, answer: bytes) -> None:
        """Sends a packet and reads its only legal answer, byte for byte."""
        with _broker_at_fault(self._broker):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._send(packet)
                said = await self._reader.readexactly(len(answer))
            if said[:3] == answer[:3] and answer[0] >> 4 == _CONNACK and 0 < said[3] < len(_REFUSALS):
                raise ConnectionError(f"it refuses the connection: {_REFUSALS[said[3]]}")
            if said != answer:
                raise ConnectionError(f"it answered {said.hex()}, not {answer.hex()}")

    async def _send(self, packet: bytes) -> None:
        for start in range(0, len(packet), _PIECE_BYTES):  # the transport copies what it cannot send at once
            self._writer.write(packet[start : start + _PIECE_BYTES])
            await self._writer.drain()

    def _next_number(self) -> bytes:
        self._number = self._number % 0xFFFF + 1
        return self._number.to_bytes(2, "big")


def _payload(packet: bytes, wanted: list[bytes]) -> bytes | None:
    """The payload of a document; None when it is on a topic outside the subscription.

    Some brokers pass a last will on at its own QoS 1; it is taken, and not answered.
    """
    if packet[0] >> 4 != _PUBLISH or packet[0] & _QOS_2:
        raise ConnectionError(f"it sends a packet {packet[:1].hex()} to somebody who listens")
    start = next(at for at in range(1, len(packet)) if packet[at] < 128) + 1
    end = start + 2 + int.from_bytes(packet[start : start + 2], "big")
    payload = end + (2 if packet[0] & _QOS_1 else 0)  # the number of the packet
    if start + 2 > len(packet) or payload > len(packet):
        raise ConnectionError("it sends a torn packet")
    topic = packet[start + 2 : end].split(b"/")
    matches = len(topic) == len(wanted) and all(b in (a, b"+") for a, b in zip(topic, wanted, strict=True))
    return packet[payload:] if matches else None


def _packet(kind: int, flags: int, *body: bytes) -> bytes:
    length, rest = bytearray(), sum(map(len, body))
    while rest >= 128:
        length.append(rest % 128 | 128)
        rest //= 128
    return b"".join((bytes([kind << 4 | flags, *length, rest]), *body))


def _text(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


@contextlib.contextmanager
def _broker_at_fault(broker: BrokerConfig) -> Iterator[None]:
    """Turns what sockets, TLS, names and time-outs raise into the one typed error."""
    try:
        yield
    except TimeoutError as error:
        raise BrokerError(f"the broker at {broker.host}:{broker.port} does not answer") from error
    except (OSError, EOFError, UnicodeError) as error:
        raise BrokerError(f"the broker at {broker.host}:{broker.port} cannot be used: {error}") from error
