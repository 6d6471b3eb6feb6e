"""A raw HTTP/2 client that can send what no correct library would send.

Frames as in RFC 9113, header fields as literals without indexing (RFC 7541, 6.2.2), gRPC's messages
on top.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from shuffledp_core.documents.models import Party, Roster
from shuffledp_core.runtime.addresses import host_and_port

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE: Final = 4
_DEFAULT_WINDOW: Final = 65_535
_LARGEST_FRAME: Final = 2**14


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """Encode one frame (RFC 9113, 4.1)."""
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def message(data: bytes, announced: int | None = None) -> bytes:
    """Encode a message in gRPC's framing; `announced` replaces the true length."""
    return b"\0" + (len(data) if announced is None else announced).to_bytes(4, "big") + data


def field(name: str, value: str) -> bytes:
    """Encode one header field, never indexed, never compressed."""
    return b"\0" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    data = text.encode()
    return _length(len(data)) + data


def _length(number: int) -> bytes:
    if number < 127:
        return bytes([number])
    number -= 127
    encoded = bytearray([127])
    while number >= 128:
        encoded.append(number % 128 + 128)
        number //= 128
    return bytes([*encoded, number])


class RawCaller:
    """One connection with the TLS key in `keys`, for any number of calls.

    It answers pings and keeps reading.

    Args:
        party: the party to call.
        keys: folder with a TLS key of the deployment; every device has one.
        roster: names the authority that the party is checked against.
        window: number of bytes of every answer to accept; 0: none.
        source: the address to call from.
    """

    def __init__(
        self,
        party: Party,
        keys: Path,
        roster: Roster,
        *,
        window: int = _DEFAULT_WINDOW,
        source: str = "",
    ) -> None:
        self._address = host_and_port(party.address)
        self._name = party.name
        self._context = ssl.create_default_context(cadata=roster.tls_authority)
        self._context.load_cert_chain(keys / "tls.pem", keys / "tls-key.pem")
        self._context.set_alpn_protocols(["h2"])
        self._window = window
        self._source = (source, 0) if source else None
        self._streams = count(1, 2)
        self._answering: asyncio.Task[None] | None = None
        self._room = self._first_room = _DEFAULT_WINDOW
        self._rooms: dict[int, int] = {}
        self._queues: dict[int, bytearray] = {}
        self._ends: set[int] = set()
        self.received = 0
        """Bytes of answers so far."""
        self.ended: set[int] = set()
        """Calls that the other side has ended."""

    async def open(self) -> None:
        """Connect. Raises `OSError` if the other side refuses."""
        self._reader, self._writer = await asyncio.open_connection(
            *self._address, ssl=self._context, server_hostname=self._name, local_addr=self._source
        )
        setting = _INITIAL_WINDOW_SIZE.to_bytes(2, "big") + self._window.to_bytes(4, "big")
        self._writer.write(PREFACE + frame(SETTINGS, payload=setting))
        self._answering = asyncio.ensure_future(self._answer())
        try:
            await self._writer.drain()
        except BaseException:
            await self.close()
            raise

    @property
    def open_still(self) -> bool:
        """True until the other side hangs up."""
        return self._answering is not None and not self._answering.done()

    def call(self, method: str) -> int:
        """Begin a call of a full method name; return its stream."""
        stream = next(self._streams)
        fields = [
            (":method", "POST"), (":scheme", "https"), (":path", method), (":authority",
            self._name),
            ("te", "trailers"), ("content-type", "application/grpc"),
        ]  # fmt: skip
        self._writer.write(
            frame(HEADERS, END_HEADERS, stream, b"".join(field(*pair) for pair in fields))
        )
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send bytes on a call as soon as the other side's window admits them.

        `end` ends the request with them.
        """
        self._queues[stream] = bytearray(data)
        if end:
            self._ends.add(stream)
        self._flush()

    async def drain(self) -> None:
        """Wait until nearly all bytes that the window admits are written.

        Raises `OSError` for a lost connection.
        """
        await self._writer.drain()

    def _flush(self) -> None:
        for stream, queue in list(self._queues.items()):
            while queue or stream in self._ends:
                room = max(
                    0, min(self._room, self._rooms.get(stream, self._first_room), _LARGEST_FRAME)
                )
                piece = bytes(queue[:room])
                if queue and not piece:
                    break
                del queue[: len(piece)]
                self._room -= len(piece)
                self._rooms[stream] = self._rooms.get(stream, self._first_room) - len(piece)
                last = not queue and stream in self._ends
                self._writer.write(frame(DATA, END_STREAM if last else 0, stream, piece))
                if last:
                    self._ends.discard(stream)
            if not queue:
                del self._queues[stream]

    def _take_settings(self, payload: bytes) -> None:
        for start in range(0, len(payload), 6):
            if int.from_bytes(payload[start : start + 2], "big") == _INITIAL_WINDOW_SIZE:
                size = int.from_bytes(payload[start + 2 : start + 6], "big")
                for stream in self._rooms:
                    self._rooms[stream] += size - self._first_room
                self._first_room = size
        self._writer.write(frame(SETTINGS, ACK))
        self._flush()

    def _widen(self, stream: int, room: int) -> None:
        if stream:
            self._rooms[stream] = self._rooms.get(stream, self._first_room) + room
        else:
            self._room += room
        self._flush()

    async def close(self) -> None:
        """Hang up; every socket is closed when this returns."""
        if self._answering is not None:
            self._answering.cancel()
            self._writer.transport.abort()
            await asyncio.wait({self._answering})
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _answer(self) -> None:
        """Read frames, answer pings and settings, and restore only the connection's window.

        The windows of streams are not restored.
        """
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                stream = int.from_bytes(head[5:9], "big")
                if head[3] == SETTINGS and head[4] != ACK:
                    self._take_settings(payload)
                elif head[3] == WINDOW_UPDATE:
                    self._widen(stream, int.from_bytes(payload, "big"))
                elif head[3] in {HEADERS, RESET} and (head[3] == RESET or head[4] & END_STREAM):
                    self.ended.add(stream)
                elif head[3] == PING and head[4] != ACK:
                    self._writer.write(frame(PING, ACK, payload=payload))
                elif head[3] == DATA:
                    self.received += len(payload)
                    if payload:
                        self._writer.write(
                            frame(WINDOW_UPDATE, payload=len(payload).to_bytes(4, "big"))
                        )
