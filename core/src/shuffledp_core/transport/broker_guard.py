"""A guard between the MQTT library and an untrusted broker. docs/protocol.md, "Announcements".

The library (aiomqtt, on Eclipse Paho) trusts its broker: it collects packets of up to 256 MiB and
queues without bound. The guard holds the connection to the broker, TLS included, and passes single
packets on to the library over a Unix socket in a private folder. It passes on only the answers that
the library's own requests call for, byte for byte, and documents of one subscription, within the
limits below. Anything else ends the connection. Why a guard:
docs/adr/0006-mqtt-library-behind-a-guard.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import Any, Final

from aiomqtt import Topic

from shuffledp_core.runtime.config import BrokerConfig

MAX_PUBLISH_BYTES: Final = 2**20
"""Longest packet received: announcements have kilobytes, a mebibyte holds hundreds of nodes."""

MAX_UNREAD: Final = 8
"""Documents that wait for the listener. The next one stays with the broker (flow control)."""

PACKETS_PER_SECOND: Final = 50.0
"""Rate, and burst, at which packets are received. A broker that sends more is read more slowly."""

CONNECT_SECONDS: Final = 10.0
"""Limit for TCP and TLS to be established, and again for the broker to accept."""

ANSWER_SECONDS: Final = 30.0
"""Limit for a packet to be sent and answered, or received once begun: 1 MiB at 300 kbit/s."""

_BUFFER_BYTES: Final = 2**14
"""A stream stops reading at twice this."""

_PIECE_BYTES: Final = 2**16 + 4
"""Packets are sent in pieces of this size. The first holds a topic of any length and the packet
identifier."""

_MAX_REQUEST_BYTES: Final = 2**28
"""Longer than any packet of MQTT; requests come from this process."""

_CONNECT, _PUBLISH, _PUBACK, _SUBSCRIBE, _SUBACK = 1, 3, 4, 8, 9
_PINGREQ, _PINGRESP, _DISCONNECT = 12, 13, 14
_QOS_1, _QOS_2 = 0b0010, 0b0100
_ACCEPTED: Final = b"\x20\x02\x00\x00"
_UNAVAILABLE: Final = b"\x20\x02\x00\x03"
_REFUSALS: Final = (
    "protocol",
    "identifier",
    "unavailable",
    "user name or password",
    "not authorised",
)


@contextlib.asynccontextmanager
async def run_guard(broker: BrokerConfig, pattern: str | None) -> AsyncIterator[BrokerGuard]:
    """Connect to the broker and run a guard in front of it; a client reaches it at its `path`.

    Args:
        broker: address of the broker.
        pattern: the topics whose documents are passed on ("+" is any level); None for none.

    Raises:
        OSError, TimeoutError: the broker is unreachable, or no folder for temporary files exists.
    """
    async with asyncio.timeout(CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(
            broker.host,
            broker.port,
            limit=_BUFFER_BYTES,
            ssl=ssl.create_default_context() if broker.tls else None,
        )
    try:
        # The folder is accessible to this user alone, so no other user can reach the socket.
        with tempfile.TemporaryDirectory(prefix="shuffledp-", ignore_cleanup_errors=True) as folder:
            guard = BrokerGuard(f"{folder}/mqtt", pattern, reader, writer)
            # Started apart: a server whose creation is cancelled would leave its socket behind.
            server = await asyncio.start_unix_server(
                guard.serve,
                guard.path,
                limit=_BUFFER_BYTES,
                start_serving=False,
            )
            try:
                await server.start_serving()
                yield guard
            finally:
                server.close()
                await guard.hang_up()
    finally:
        writer.transport.abort()  # a broker that reads nothing must not keep what was not sent


class BrokerGuard:
    """The guard of one connection; see `run_guard`."""

    def __init__(
        self,
        path: str,
        pattern: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.path = path
        self.ended = asyncio.get_running_loop().create_future()
        """Done as soon as the connection to the broker has ended."""
        self.fault: Exception | None = None
        """What the broker did to end the connection."""
        self._pattern = pattern
        self._broker = reader
        self._to_broker = writer
        self._answers = set[bytes]()
        self._accepted = False
        self._stopped = asyncio.Event()
        self.request = asyncio.Lock()
        """Held while the library makes a request, its opening included; see `serve`."""
        self._room = asyncio.Semaphore(MAX_UNREAD)
        self._client: tuple[asyncio.Task[Any], asyncio.StreamWriter] | None = None
        """The task that serves the client, and the way to the client."""

    def release_document(self) -> None:
        """Make room for one more document: the listener has read one."""
        self._room.release()

    def stop(self) -> None:
        """End the connection. A client that still waits for the broker's acceptance is refused."""
        self._stopped.set()

    async def hang_up(self) -> None:
        """Close the connection to the client after the client has closed its own end.

        A task that was left to do so would be cancelled with the event loop, and the connection
        would stay open.
        """
        await asyncio.sleep(0)  # a client that was accepted just now begins to be served
        if self._client is None:
            return
        serving, writer = self._client
        self.stop()
        # A transport that sent its last bytes after `close` has ended, and in Python 3.11 `abort`
        # raises AttributeError then.
        if not writer.is_closing() or writer.transport.get_write_buffer_size():
            writer.transport.abort()
        await asyncio.wait({serving})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the client until either side hangs up or breaks a limit, or `stop` is called."""
        serving = asyncio.current_task()
        if serving is not None:
            self._client = serving, writer
        # aiomqtt registers its socket with the event loop from a thread, and sends CONNECT only
        # afterwards. A refusal before CONNECT would close a socket that is still to be registered.
        connect = await reader.read(1)
        pumps = [
            asyncio.ensure_future(self._forward_requests(connect, reader)),
            asyncio.ensure_future(self._forward_answers(writer)),
            asyncio.ensure_future(self._stopped.wait()),
        ]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            errors = [pump.exception() for pump in done]
            self.fault = next((error for error in errors if isinstance(error, Exception)), None)
        finally:
            self._to_broker.transport.abort()
            self.ended.set_result(None)
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
            # aiomqtt 2.5 does not notice the end of a connection while it opens it: it would wait
            # for an answer until its time limit, and forget the end if that follows the answer too
            # closely.
            if not self._accepted:
                writer.write(_UNAVAILABLE)
            # aiomqtt registers a request's socket for writing one step of the event loop later, by
            # its number. Were the socket closed by then, that number would be invalid, or another
            # socket's.
            async with self.request:
                writer.close()

    async def _forward_requests(self, first: bytes, client: asyncio.StreamReader) -> None:
        """Forward the client's packets and note the answers they permit; hold DISCONNECT back.

        `first` is the first byte of the first packet, empty if the client has hung up.
        """
        with contextlib.suppress(asyncio.IncompleteReadError):
            while first and first[0] >> 4 != _DISCONNECT:
                encoded, length = await _read_length(client, _MAX_REQUEST_BYTES)
                piece = await client.readexactly(min(length, _PIECE_BYTES))
                self._answers.add(_answer(first[0], piece))
                async with asyncio.timeout(ANSWER_SECONDS):
                    self._to_broker.write(first + encoded + piece)
                    await self._to_broker.drain()
                    while length := length - len(piece):
                        piece = await client.readexactly(min(length, _PIECE_BYTES))
                        self._to_broker.write(piece)
                        await self._to_broker.drain()
                first = await client.read(1)

    async def _forward_answers(self, client: asyncio.StreamWriter) -> None:
        """Forward the broker's packets at the permitted rate; raise on any forbidden packet."""
        clock = asyncio.get_running_loop().time
        due = 0.0
        while True:
            # No limit on the wait for a packet to begin: silence is permitted, and the caller
            # bounds the whole.
            first = await self._broker.readexactly(1)
            async with asyncio.timeout(ANSWER_SECONDS):
                encoded, length = await _read_length(self._broker, MAX_PUBLISH_BYTES)
                body = await self._broker.readexactly(length)
            now = clock()
            # A token bucket in one number: silence earns a second's credit at most.
            due = max(due, now - 1.0) + 1 / PACKETS_PER_SECOND
            await asyncio.sleep(max(due - now, 0.0))
            if first[0] >> 4 != _PUBLISH:
                self._take_answer(first + encoded + body)
            elif not self._is_subscribed(first[0], body):
                continue
            else:
                await self._room.acquire()
            client.write(first + encoded + body)
            await client.drain()

    def _take_answer(self, packet: bytes) -> None:
        """Check that a pending request permits this answer, and mark the request as answered."""
        if packet[:3] == _ACCEPTED[:3] and 1 <= packet[3] <= len(_REFUSALS):
            raise ConnectionError(f"it refuses the connection: {_REFUSALS[packet[3] - 1]}")
        if packet not in self._answers:
            raise ConnectionError(f"it sends {packet[:8].hex()}, which no request calls for")
        self._answers.remove(packet)
        self._accepted |= packet == _ACCEPTED

    def _is_subscribed(self, first: int, body: bytes) -> bool:
        """True if a document's topic is subscribed to. Raise if the packet is not permitted.

        Packets of QoS 1 are permitted, because some brokers send a last will at its own QoS 1,
        whatever the subscription asks for.
        """
        if self._pattern is None or first & _QOS_2:
            raise ConnectionError(f"it sends a packet {first:02x} that no subscription calls for")
        end = 2 + int.from_bytes(body[:2], "big")
        if end + (2 if first & _QOS_1 else 0) > len(body):
            raise ConnectionError("it sends a truncated packet")
        try:
            return Topic(body[2:end].decode()).matches(self._pattern)
        except ValueError as error:
            raise ConnectionError("it sends a document on an invalid topic") from error


def _answer(first: int, start: bytes) -> bytes:
    """The only answer that a request permits; empty if the request has none."""
    kind = first >> 4
    if kind == _CONNECT:
        return _ACCEPTED
    if kind == _PUBLISH and first & _QOS_1:
        topic = int.from_bytes(start[:2], "big")
        return bytes([_PUBACK << 4, 2]) + start[2 + topic : 4 + topic]
    if kind == _SUBSCRIBE:
        return bytes([_SUBACK << 4, 3]) + start[:2] + b"\0"  # granted: QoS 0
    return bytes([_PINGRESP << 4, 0]) if kind == _PINGREQ else b""


async def _read_length(reader: asyncio.StreamReader, longest: int) -> tuple[bytes, int]:
    """Read the length of a packet, at most four bytes: return the bytes and their value."""
    encoded = b""
    length = 0
    while not encoded or encoded[-1] & 128:
        encoded += await reader.readexactly(1)
        length |= (encoded[-1] & 127) << 7 * (len(encoded) - 1)
        if length > longest or len(encoded) > 4:
            raise ConnectionError(f"it sends a packet of {length} bytes or more, not {longest}")
    return encoded, length
