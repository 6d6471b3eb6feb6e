"""Servers take renewed TLS files without a restart: real handshakes, no waiting for time."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from structlog.testing import capture_logs

from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transport.probe import ask_health
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import OPERATOR, channel_to
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_ops.keys.pki import Deployment, create_deployment
from shuffledp_ops.keys.renewal import renew
from shuffledp_sim.system.ports import Ports

NODE = "node-1"
EXPIRY = "shuffledp_tls_certificate_expiry_timestamp_seconds"


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    names = (NODE, "analyst", "accountant")
    with Ports(len(names)) as ports:
        pairs = zip(names, ports.numbers, strict=True)
        addresses = {name: f"127.0.0.1:{port}" for name, port in pairs}
        yield create_deployment(tmp_path / "keys", addresses)


@asynccontextmanager
async def running_node(deployment: Deployment) -> AsyncIterator[Service]:
    config = ServiceConfig(
        name=NODE,
        keys=deployment.keys_of(NODE),
        roster=deployment.roster_file,
        root_key=deployment.root_key,
        listen=deployment.roster.party(NODE).address,
        state=deployment.folder,
    )
    service = Service(config, deployment.roster, {}, (), lambda _server: None)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@asynccontextmanager
async def connection(deployment: Deployment) -> AsyncIterator[grpc.aio.Channel]:
    roster, keys = deployment.roster, deployment.keys_of(OPERATOR)
    async with channel_to(roster.party(NODE), keys, roster, own_connection=True) as channel:
        assert await ask_health(channel)
        yield channel


async def served_certificate(deployment: Deployment) -> x509.Certificate:
    """The certificate that the server shows in a new handshake, as OpenSSL sees it."""
    address = deployment.roster.party(NODE).address
    keys = deployment.keys_of(OPERATOR)
    command = ["openssl", "s_client", "-connect", address, "-alpn", "h2"]
    command += ["-cert", str(keys / "tls.pem"), "-key", str(keys / "tls-key.pem")]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    printed, _ = await process.communicate()
    return x509.load_pem_x509_certificate(printed[printed.index(b"-----BEGIN") :])


def certificate_on_disk(deployment: Deployment) -> x509.Certificate:
    files = TLSFiles.load(deployment.keys_of(NODE), deployment.roster.tls_authority)
    return x509.load_pem_x509_certificate(files.chain)


def shown_expiry(service: Service) -> float | None:
    return service.metrics.registry.get_sample_value(EXPIRY, {"certificate": "own"})


async def test_a_renewed_certificate_serves_new_connections_and_old_ones_go_on(
    deployment: Deployment,
) -> None:
    async with running_node(deployment) as service, connection(deployment) as old:
        first = await served_certificate(deployment)
        assert first == certificate_on_disk(deployment)
        renew(deployment.folder, [NODE], now=dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
        second = await served_certificate(deployment)
        assert second == certificate_on_disk(deployment)
        assert second.public_bytes(Encoding.DER) != first.public_bytes(Encoding.DER)
        assert shown_expiry(service) == second.not_valid_after_utc.timestamp()
        assert await ask_health(old)  # the connection of before
        async with connection(deployment):
            pass


async def test_files_that_do_not_fit_are_logged_once_and_the_old_pair_stays(
    deployment: Deployment, tmp_path: Path
) -> None:
    async with running_node(deployment) as service:
        first = await served_certificate(deployment)
        keys, kept = deployment.keys_of(NODE), tmp_path / "first"
        shutil.copytree(keys, kept)
        renew(deployment.folder, [NODE])
        new_key = (keys / "tls-key.pem").read_bytes()
        with capture_logs() as log:
            shutil.copy(kept / "tls-key.pem", keys / "tls-key.pem")  # one file of two was replaced
            assert await served_certificate(deployment) == first
            assert await served_certificate(deployment) == first
            reasons = [line["reason"] for line in log if "unusable" in line["event"]]
        assert len(reasons) == 1
        assert "replace both files" in reasons[0]
        (keys / "tls-key.pem").write_bytes(new_key)
        assert await served_certificate(deployment) == certificate_on_disk(deployment) != first
        assert shown_expiry(service) is not None


@pytest.mark.parametrize("name", ["tls.pem", "tls-key.pem"])
async def test_unreadable_or_expired_files_change_nothing(
    deployment: Deployment, name: str
) -> None:
    async with running_node(deployment):
        first = await served_certificate(deployment)
        renew(deployment.folder, [NODE], now=dt.datetime.now(dt.UTC) - dt.timedelta(days=400))
        assert await served_certificate(deployment) == first
        (deployment.keys_of(NODE) / name).write_text("nothing")
        assert await served_certificate(deployment) == first
        (deployment.keys_of(NODE) / name).unlink()
        assert await served_certificate(deployment) == first
        async with connection(deployment):
            pass
