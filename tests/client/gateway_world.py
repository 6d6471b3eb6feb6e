"""A gateway in front of a simulated round, and devices of it: real TLS, real HTTP, real gRPC behind
it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from client_rounds import NOW, POPULATION

from shuffledp_client import Device
from shuffledp_client.config import ClientConfig
from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_client.gateway.server import GatewayServer
from shuffledp_client.transport import Backoff
from shuffledp_core.runtime.config import load_config
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_ops.keys.pki import Deployment, write_client

QUICK = Backoff(attempts=3, first=0.01, longest=0.01)


@asynccontextmanager
async def gateway(deployment: Deployment, state: Path, **changes: Any) -> AsyncIterator[str]:
    """A running gateway; its host:port."""
    server = server_of(deployment, state, **changes)
    port = await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()


def device_config(
    folder: Path, deployment: Deployment, *lines: str, address: str | None = None
) -> ClientConfig:
    """A new user of the deployment, with keys, state and configuration in `folder`.

    Over the gateway at `address`.
    """
    if not (folder / "keys").exists():
        write_client(folder / "keys", deployment, POPULATION)
    path = folder / "client.toml"
    over = [] if address is None else ["[gateway]", f'address = "{address}"']
    path.write_text(
        f'keys = "keys"\nroster = "{deployment.roster_file}"\nroot_key = '
        f'"{deployment.root_key}"\nstate = "state"\n'
        + "\n".join(["wait_seconds = 60", *over, "[policy]", *(lines or ["epsilon = 1.0"])])
        + "\ndelta = 1e-6\nepsilon_corrupted = inf\n"
    )
    return load_config(path, ClientConfig)


def device(
    folder: Path, deployment: Deployment, *lines: str, address: str | None = None, clock: int = NOW
) -> Device:
    """The device of `device_config`, at a time."""
    return Device(
        device_config(folder, deployment, *lines, address=address),
        backoff=QUICK,
        clock=lambda: clock,
    )


def http(deployment: Deployment, keys: Path | None = None) -> httpx.AsyncClient:
    """A plain HTTPS client with the devices' TLS pair, as somebody else would write it."""
    context = ssl.create_default_context(cadata=deployment.roster.tls_authority)
    pair = keys or deployment.keys_of("client")
    context.load_cert_chain(pair / "tls.pem", pair / "tls-key.pem")
    return httpx.AsyncClient(verify=context, trust_env=False, timeout=240)


@asynccontextmanager
async def liar(deployment: Deployment, answer: bytes) -> AsyncIterator[str]:
    """A server with a gateway's certificate that answers every request with these bytes, and hangs
    up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = deployment.keys_of(GATEWAY)
    context.load_cert_chain(pair / "tls.pem", pair / "tls-key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def answer(
    content: bytes, status: str = "200 OK", kind: str = "application/json", *headers: str
) -> bytes:
    """An HTTP answer."""
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        f"content-length: {len(content)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + content


def server_of(deployment: Deployment, state: Path, **changes: Any) -> GatewayServer:
    """A gateway that is not started yet."""
    fields: dict[str, Any] = {
        "keys": deployment.keys_of(GATEWAY), "roster": deployment.roster_file,
        "root_key": deployment.root_key,
        "listen": "127.0.0.1:0", "state": state,
    }  # fmt: skip
    return GatewayServer(GatewayConfig(**(fields | changes)), deployment.roster)


async def connected(
    deployment: Deployment, address: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A device's TLS connection, for bytes that no HTTP client would send."""
    host, _, port = address.rpartition(":")
    context = device_context(deployment)
    return await asyncio.open_connection(host, int(port), ssl=context, server_hostname="gateway")


async def slow_reader(
    deployment: Deployment, address: str, source: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection from a source address whose buffers hold next to nothing of what is not
    read."""
    host, _, port = address.rpartition(":")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.bind((source, 0))
    sock.connect((host, int(port)))
    context = device_context(deployment)
    return await asyncio.open_connection(
        sock=sock, ssl=context, server_hostname="gateway", limit=1024
    )


def device_context(deployment: Deployment) -> ssl.SSLContext:
    """TLS as devices speak it."""
    context = ssl.create_default_context(cadata=deployment.roster.tls_authority)
    pair = deployment.keys_of("client")
    context.load_cert_chain(pair / "tls.pem", pair / "tls-key.pem")
    return context
