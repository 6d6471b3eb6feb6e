"""Attackers of our own leave no socket behind in the tests that play them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import msgspec
import pytest

from shuffledp_ops.keys.pki import Deployment
from shuffledp_sim.hostile.callers import Devices


@pytest.mark.parametrize("hung_up_on", [False, True])
async def test_no_connection_outlives_its_block(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, *, hung_up_on: bool
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = deployment.keys_of("node-1")
    context.load_cert_chain(keys / "tls.pem", keys / "tls-key.pem")
    sockets: list[socket.socket] = []
    connect = asyncio.open_connection

    async def listed(
        *arguments: object, **named: object
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await connect(*arguments, **named)  # type: ignore[arg-type]
        sockets.append(writer.get_extra_info("socket"))
        return reader, writer

    async def reset(_: asyncio.StreamWriter) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(asyncio, "open_connection", listed)
    if hung_up_on:
        monkeypatch.setattr(asyncio.StreamWriter, "drain", reset)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        party = msgspec.structs.replace(deployment.roster.party("node-1"), address=address)
        async with Devices(deployment, party).connect(3) as callers:
            assert len(callers) == (0 if hung_up_on else 3)
        assert [sock.fileno() for sock in sockets] == [-1] * 3
