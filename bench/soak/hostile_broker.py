"""A broker that accepts every client, acknowledges no publication, and sends unasked packets."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Final

CONNECT, CONNACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP = 1, 2, 8, 9, 12, 13
PAYLOAD: Final = bytes(2**20)
TOPICS: Final = (b"#", b"", b"shuffledp/v1/x/rounds/y/manifest", b"\xff\xfe", b"+/+")


def packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    """An MQTT 3.1.1 control packet (2.2)."""
    length = bytearray()
    size = len(body)
    while True:
        size, digit = divmod(size, 128)
        length.append(digit | (128 if size else 0))
        if not size:
            return bytes([kind << 4 | flags]) + bytes(length) + body


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one client."""
    flood = asyncio.ensure_future(_flood(writer))
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readexactly(1))[0] >> 4
            body = await reader.readexactly(await _length(reader))
            if head == CONNECT:
                writer.write(packet(CONNACK, b"\0\0"))
            elif head == SUBSCRIBE:
                writer.write(packet(SUBACK, body[:2] + b"\0"))
            elif head == PINGREQ:
                writer.write(packet(PINGRESP, b""))
    flood.cancel()
    writer.close()


async def _length(reader: asyncio.StreamReader) -> int:
    size = shift = 0
    while True:
        digit = (await reader.readexactly(1))[0]
        size |= (digit & 127) << shift
        shift += 7
        if digit < 128:
            return size


async def _flood(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await asyncio.sleep(2)
        while True:
            for topic in TOPICS:
                writer.write(packet(3, len(topic).to_bytes(2, "big") + topic + PAYLOAD))
                await writer.drain()
                await asyncio.sleep(0.5)


async def main() -> None:
    """Serve until the process is stopped."""
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[-1])) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
