"""TLS certificates that have ended, and authorities that follow each other: real handshakes, nobody
waits for time."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from shuffledp_core.errors import ConfigError, ExpiredTLSCertificateError, UnreachableError
from shuffledp_core.runtime.config import ServiceConfig
from shuffledp_core.transport.probe import ask_health
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_core.transport.service import Service
from shuffledp_core.transport.tls import (
    CLIENT,
    OPERATOR,
    channel_to,
    server_credentials,
    server_options,
)
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_ops.keys.pki import Deployment, create_deployment, open_deployment
from shuffledp_ops.keys.renewal import renew
from shuffledp_sim.system.ports import Ports

NOW = dt.datetime.now(dt.UTC)
NODE = "node-1"


def days(count: int) -> dt.timedelta:
    return dt.timedelta(days=count)


@pytest.fixture
def addresses() -> Iterator[dict[str, str]]:
    names = (NODE, "analyst", "accountant")
    with Ports(len(names)) as ports:
        yield {name: f"127.0.0.1:{port}" for name, port in zip(names, ports.numbers, strict=True)}


@pytest.fixture
def deployment(tmp_path: Path, addresses: dict[str, str]) -> Deployment:
    return create_deployment(tmp_path / "keys", addresses)


@asynccontextmanager
async def serving(deployment: Deployment) -> AsyncIterator[None]:
    """The node as a process whose certificate was valid when it was started: nothing looks at it
    now."""
    server = grpc.aio.server(options=server_options())
    servicer = health.aio.HealthServicer()
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    files = TLSFiles.load(deployment.keys_of(NODE), deployment.roster.tls_authority)
    server.add_secure_port(deployment.roster.party(NODE).address, server_credentials(files))
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def ask(deployment: Deployment, caller: str = OPERATOR) -> bool:
    roster = deployment.roster
    party, keys = roster.party(NODE), deployment.keys_of(caller)
    async with (
        channel_to(party, keys, roster, own_connection=True) as channel,
        translate_errors(NODE),
    ):
        return await ask_health(channel)


def config_of(deployment: Deployment) -> ServiceConfig:
    return ServiceConfig(
        name=NODE, keys=deployment.keys_of(NODE), roster=deployment.roster_file,
        root_key=deployment.root_key,
        listen=deployment.roster.party(NODE).address, state=deployment.folder,
    )  # fmt: skip


async def test_a_server_whose_certificate_has_ended_is_not_believed_and_the_error_says_renew(
    deployment: Deployment,
) -> None:
    renew(deployment.folder, [NODE], now=NOW - days(400))
    async with serving(deployment):
        with pytest.raises(
            ExpiredTLSCertificateError, match=f"{NODE}.* has expired.*shuffledp keys renew"
        ):
            await ask(deployment)
    renew(deployment.folder, [NODE])
    async with serving(deployment):
        assert await ask(deployment)


async def test_a_caller_hears_of_the_end_of_its_own_certificate_before_it_calls(
    deployment: Deployment,
) -> None:
    renew(deployment.folder, [CLIENT], now=NOW - days(400))
    ended = f"{NOW - days(35):%Y-%m-%d}"
    async with serving(deployment):
        with pytest.raises(
            ExpiredTLSCertificateError, match=rf"client/tls\.pem ended on {ended}.*keys renew"
        ):
            await ask(deployment, CLIENT)
        assert await ask(deployment, OPERATOR)


async def test_a_service_does_not_start_with_a_certificate_that_has_ended(
    deployment: Deployment,
) -> None:
    renew(deployment.folder, [NODE], now=NOW - days(400))
    with pytest.raises(
        ExpiredTLSCertificateError, match=r"node-1/tls\.pem ended on .*shuffledp keys renew"
    ) as ended:
        Service(config_of(deployment), deployment.roster, {}, (), lambda _server: None)
    assert ended.value.exit_code == 2


async def test_a_service_does_not_start_with_a_roster_whose_authority_has_ended(
    tmp_path: Path, addresses: dict[str, str]
) -> None:
    old = create_deployment(tmp_path / "keys", addresses, now=NOW - days(1100))
    with pytest.raises(
        ExpiredTLSCertificateError, match=r"authority ended on .*keys renew --authority"
    ):
        Service(config_of(old), old.roster, {}, (), lambda _server: None)


def test_what_is_no_certificate_is_refused_by_its_name(deployment: Deployment) -> None:
    keys = deployment.keys_of(NODE)
    with pytest.raises(ConfigError, match="the roster's TLS authority"):
        TLSFiles.load(keys, "nothing")
    (keys / "tls.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"tls\.pem"):
        TLSFiles.load(keys, deployment.roster.tls_authority)


async def test_holders_of_the_old_and_the_new_roster_and_certificates_all_reach_each_other(
    deployment: Deployment, tmp_path: Path
) -> None:
    shutil.copytree(deployment.folder, tmp_path / "old")
    old = open_deployment(tmp_path / "old")
    assert renew(deployment.folder, new_authority=True).bridged
    new = open_deployment(deployment.folder)
    states = [
        Deployment(keys.folder, known.roster, old.root_key)
        for keys in (old, new)
        for known in (old, new)
    ]
    for server in states:
        async with serving(server):
            for caller in states:
                assert await ask(caller)


async def test_the_next_authority_stands_alone_when_the_one_before_has_ended(
    tmp_path: Path, addresses: dict[str, str]
) -> None:
    old = create_deployment(tmp_path / "keys", addresses, now=NOW - days(1100))
    assert renew(old.folder, new_authority=True, now=NOW - days(40)).bridged
    renew(old.folder, [NODE])  # the bridge has ended, and goes along
    new = open_deployment(old.folder)
    assert new.roster.tls_authority.count("BEGIN CERTIFICATE") == 2
    async with serving(new):
        assert await ask(new)
        with pytest.raises(ExpiredTLSCertificateError, match="authority ended"):
            await ask(old)


async def test_two_renewals_end_the_trust_in_the_first_authority(
    deployment: Deployment, tmp_path: Path
) -> None:
    shutil.copytree(deployment.folder, tmp_path / "old")
    old = open_deployment(tmp_path / "old")
    renew(deployment.folder, new_authority=True)
    renew(deployment.folder, new_authority=True)
    new = open_deployment(deployment.folder)
    assert old.roster.tls_authority not in new.roster.tls_authority
    async with serving(new):
        assert await ask(new)
    async with serving(
        Deployment(old.folder, new.roster, new.root_key)
    ):  # its key may be known to others
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(new)
