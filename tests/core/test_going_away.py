"""A server that says it goes away before it has looked at a call: the caller hears so at once, and
decides itself."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from shuffledp_core.errors import UnreachableError
from shuffledp_core.transport.probe import ask_health
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.tls import OPERATOR, channel_to
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_sim.system.ports import Ports

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, GOAWAY, ACK = 1, 4, 7, 1
INTERNAL_ERROR = 2


def frame(kind: int, flags: int = 0, payload: bytes = b"") -> bytes:
    """One HTTP/2 frame of stream 0 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 0]) + payload


class GoingAway:
    """An HTTP/2 server over mutual TLS that answers every call with GOAWAY: no stream was
    processed."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        keys = deployment.keys_of(name)
        self._context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cadata=deployment.roster.tls_authority
        )
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_cert_chain(keys / "tls.pem", keys / "tls-key.pem")
        self._context.set_alpn_protocols(["h2"])
        self.calls = 0

    async def listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._context)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            assert await reader.readexactly(len(PREFACE)) == PREFACE
            writer.write(frame(SETTINGS))
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == SETTINGS and head[4] != ACK:
                    writer.write(frame(SETTINGS, ACK))
                if head[3] == HEADERS:
                    self.calls += 1
                    writer.write(frame(GOAWAY, 0, bytes(4) + INTERNAL_ERROR.to_bytes(4, "big")))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the caller has hung up, or the test is over
        finally:
            writer.close()


async def test_a_call_that_a_leaving_server_never_looked_at_is_not_repeated_in_secret(
    tmp_path: Path,
) -> None:
    names = ("node-1", "analyst", "accountant")
    with Ports(len(names)) as ports:
        addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(names, ports.numbers, strict=True)
        }
        deployment = create_deployment(tmp_path / "keys", addresses)
        server = GoingAway(deployment, "node-1")
        async with await server.listen(ports.numbers[0]):
            party, keys = deployment.roster.party("node-1"), deployment.keys_of(OPERATOR)
            async with channel_to(party, keys, deployment.roster) as channel:
                with pytest.raises(UnreachableError):
                    async with translate_errors("node-1"):
                        await ask_health(channel)
    assert server.calls == 1
