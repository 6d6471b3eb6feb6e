"""Callers of the HTTPS gateway and their connections: who they are, what time they get, how often
they may ask."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
from client_rounds import ROUND_ID
from gateway_world import connected, device_context, http, server_of, slow_reader
from simulated_round import SimulatedRound

from shuffledp_client.gateway import rate as rates
from shuffledp_client.gateway.app import peer_of
from shuffledp_client.gateway.connections import BoundedConnection
from shuffledp_client.gateway.rate import Rate, Room
from shuffledp_core.errors import BusyError
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport import connections
from shuffledp_ops.keys.pki import Deployment


async def test_a_caller_that_is_gone_before_it_has_an_address_ends_nobody_but_itself(
    tmp_path: Path,
    deployment: Deployment,
    simulated: SimulatedRound,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request and a reset right behind the handshake: the server accepts what has no other side
    any more."""
    simulated.board, simulated.piece = bytes(2**20), 2**16
    server = server_of(deployment, tmp_path / "gateway")
    ended: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(server._connections, "end", ended.put_nowait)
    port = await server.start()
    async with asyncio.timeout(240):
        for _ in range(5):
            await ask_and_reset(
                deployment,
                port,
                f"GET /v1/rounds/{ROUND_ID}/board HTTP/1.1\r\nhost: gateway\r\n\r\n",
            )
            peer = await ended.get()
            assert connections.peer_of(peer) is None
            server._connections.hang_up(peer)
            server._connections._close_surplus()
    assert server._watching is not None
    assert not server._watching.done()
    await server.stop()


async def test_the_body_of_a_request_that_waited_behind_another_has_its_own_time(
    tmp_path: Path, deployment: Deployment
) -> None:
    server = server_of(deployment, tmp_path / "gateway")
    port = await server.start()
    reader, writer = await connected(deployment, f"127.0.0.1:{port}")
    writer.write(
        b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n"
        + f"POST /v1/rounds/{ROUND_ID}/submissions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n"  # noqa: E501
        "content-length: 5000\r\n\r\n{".encode()
    )
    async with asyncio.timeout(240):
        assert b'"ok"' in await reader.readuntil(b"}")
    (connection,) = server._state.connections
    assert isinstance(connection, BoundedConnection)
    assert connection._answering()
    assert connection._overdue is None
    writer.transport.abort()
    await server.stop()


@pytest.mark.parametrize("caller", ["refuses to end TLS", "never begins TLS"])
async def test_no_connection_outlives_the_gateway(
    tmp_path: Path, deployment: Deployment, caller: str
) -> None:
    """Either caller would be waited for for an hour."""
    server = server_of(
        deployment, tmp_path / "gateway", limits=Limits(handshake_seconds=3600, answer_seconds=3600)
    )
    port = await server.start()
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.settimeout(0)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        if caller == "refuses to end TLS":
            tls, outgoing = await handshaken(sock, deployment)
            tls.write(b"\0\1\2\3\r\n\r\n")
            await loop.sock_sendall(sock, outgoing.read())
            # The gateway refuses what is no HTTP and begins to end TLS, in which this caller does
            # not take part.
            while not any(one.transport.is_closing() for one in server._state.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await server.stop()
        async with asyncio.timeout(240):
            with contextlib.suppress(ConnectionResetError):
                while await loop.sock_recv(sock, 2**16):
                    pass
    assert not server._state.connections


async def test_slow_readers_at_one_address_keep_no_other_address_from_boards(
    tmp_path: Path, deployment: Deployment, simulated: SimulatedRound
) -> None:
    """40 readers take all four slots and read nothing.

    Each honest download gets the whole board at once.
    """
    simulated.board, simulated.piece = bytes(2**23), 2**18
    where = f"/v1/rounds/{ROUND_ID}/board"
    limits = Limits(answer_seconds=3600)  # none of the slow ones leaves for its slowness
    server = server_of(deployment, tmp_path / "gateway", boards=4, limits=limits)
    address = f"127.0.0.1:{await server.start()}"
    slow, statuses = [], []
    async with asyncio.timeout(240), http(deployment) as honest:
        for _ in range(40):
            reader, writer = await slow_reader(deployment, address, source="127.0.0.2")
            writer.write(f"GET {where} HTTP/1.1\r\nhost: gateway\r\n\r\n".encode())
            slow.append(writer)
            statuses.append((await reader.readline()).split()[1])
        assert statuses == [b"200"] * 4 + [b"503"] * 36
        for _ in range(6):
            answer = await honest.get(f"https://localhost:{address.rpartition(':')[2]}{where}")
            assert (answer.status_code, answer.content == simulated.board) == (200, True)
    for writer in slow:
        writer.transport.abort()
    await server.stop()


async def handshaken(
    sock: socket.socket, deployment: Deployment
) -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """A device's TLS over a socket, up to the last bytes of the handshake, which wait in the BIO to
    be sent."""
    loop, incoming, outgoing = asyncio.get_running_loop(), ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = device_context(deployment).wrap_bio(incoming, outgoing, server_hostname="gateway")
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            await loop.sock_sendall(sock, outgoing.read())
            incoming.write(await loop.sock_recv(sock, 2**16))
        else:
            return tls, outgoing


async def ask_and_reset(deployment: Deployment, port: int, request: str) -> None:
    """A device whose last bytes of the handshake, request and reset arrive at once."""
    with socket.socket() as sock:
        sock.settimeout(0)
        sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )  # closing it is a reset
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        tls, outgoing = await handshaken(sock, deployment)
        tls.write(request.encode())
        sock.send(
            outgoing.read()
        )  # not awaited: the server, in the same loop, has no turn before the reset


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        (("192.0.2.1", 5), ("192.0.2.1", 5)),
        (("::ffff:192.0.2.1", 5), ("192.0.2.1", 5)),
        (("2001:db8::1", 5), ("2001:db8::1", 5)),
        (("fe80::1%cafe0", 5), ("fe80::1", 5)),  # not the escape %ca of a URL
        (None, None),
    ],
)
def test_callers_are_named_so_that_their_connections_are_found(client: Any, peer: Any) -> None:
    assert connections.peer_of(peer_of({"client": client})) == peer


def test_the_rate_is_of_an_address_and_comes_back_with_time() -> None:
    now = 0.0
    rate = Rate(60, lambda: now)
    for _ in range(60):
        rate.take("192.0.2.1")
    for same in ("192.0.2.1", "::ffff:192.0.2.1"):
        with pytest.raises(BusyError, match="more than 60 requests in a minute"):
            rate.take(same)
    rate.take("192.0.2.2")
    for number in range(60):
        rate.take(f"2001:db8::{number:x}")
    with pytest.raises(BusyError):  # one customer has as many addresses as it likes
        rate.take("2001:db8::ffff%eth0")
    rate.take("2001:db8:0:1::1")
    now = 2.0
    rate.take("192.0.2.1")
    rate.take("192.0.2.1")
    with pytest.raises(BusyError):
        rate.take("192.0.2.1")


def test_addresses_are_forgotten_before_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rates, "MAX_ADDRESSES", 10)
    rate = Rate(1, lambda: 0.0)
    rate.take("first")
    with pytest.raises(BusyError):
        rate.take("first")
    for number in range(10):
        rate.take(str(number))
    assert len(rate._buckets) == 10
    rate.take("first")


def test_room_is_given_back_whatever_happens() -> None:
    room = Room(10)
    with room.place() as take:
        take(9)
        with pytest.raises(BusyError):
            take(2)
    with room.place() as take:
        take(10)
