"""TLS is renewed while a deployment runs: services are restarted one by one, and rounds work all
the time.

About 40 s on a quiet machine. Nothing waits for time to pass: what has ended is issued in the past.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
from concurrent.futures import ProcessPoolExecutor

import grpc
import pytest
from pages import metrics_of
from rounds_for_tests import (
    USERS,
    ended,
    restart,
    small_plan,
    small_round,
    submit_some,
    within_a_minute,
)

from shuffledp_core.errors import ConfigError, ExpiredTLSCertificateError
from shuffledp_core.transport.tls import server_credentials, server_options
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_ops.keys.pki import ACCOUNTANT, ANALYST, open_deployment
from shuffledp_ops.keys.renewal import renew
from shuffledp_ops.rounds.running import control_of, open_round, read_result
from shuffledp_sim.system.processes import STOP_SECONDS, LocalSystem

OBSERVED = True
PATIENT = True

SERIES = "shuffledp_tls_certificate_expiry_timestamp_seconds"


def stop(system: LocalSystem, name: str) -> None:
    system.processes[name].signal_group(signal.SIGTERM)
    system.processes[name].wait(STOP_SECONDS)


async def ends_shown(system: LocalSystem, name: str) -> dict[str, float]:
    page = (await metrics_of(system))[name]
    return {
        line.split('"')[1]: float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith(SERIES + "{")
    }


def ends_on_disk(system: LocalSystem, name: str) -> dict[str, float]:
    files = TLSFiles.load(
        system.deployment.keys_of(name),
        open_deployment(system.deployment.folder).roster.tls_authority,
    )
    return {"own": files.own_end.timestamp(), "authority": files.authority_end.timestamp()}


@pytest.mark.slow
async def test_services_are_restarted_one_by_one_and_rounds_work_before_between_and_after(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(
        days=1
    )  # another end than that of the first certificates
    assert renew(system.deployment.folder, new_authority=True, now=yesterday).bridged
    for name in system.route:  # within a round that was opened before
        assert await ends_shown(system, name) != ends_on_disk(system, name)
        stop(system, name)
        await restart(system, name)
        assert await ends_shown(system, name) == ends_on_disk(system, name)
    await submit_some(system, pool, opened.round_id, USERS)
    signed = await within_a_minute(ended(system, opened.round_id))
    assert read_result(system.deployment, signed).accepted == USERS
    for name in (ACCOUNTANT, ANALYST):  # between rounds
        assert (await small_round(system, pool)).accepted == USERS
        stop(system, name)
        await restart(system, name)
        assert await ends_shown(system, name) == ends_on_disk(system, name)
    assert (
        await small_round(system, pool)
    ).accepted == USERS  # operator and devices have the old roster
    system.deployment = open_deployment(system.deployment.folder)
    assert (await small_round(system, pool)).accepted == USERS


async def test_a_node_whose_certificate_has_ended_is_named_with_what_to_do_and_works_when_it_is_renewed(  # noqa: E501
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    folder, roster = system.deployment.folder, system.deployment.roster
    stop(system, "node-2")
    renew(folder, ["node-2"], now=dt.datetime.now(dt.UTC) - dt.timedelta(days=400))
    with pytest.raises(
        ConfigError, match=r"did not start: .*tls\.pem ended on .*shuffledp keys renew"
    ):
        await restart(system, "node-2")
    # One that was started in time, and runs on: only its certificate matters here.
    server = grpc.aio.server(options=server_options())
    files = TLSFiles.load(folder / "node-2", roster.tls_authority)
    server.add_secure_port(roster.party("node-2").address, server_credentials(files))
    await server.start()
    try:
        async with control_of(system.deployment) as control:
            with pytest.raises(
                ExpiredTLSCertificateError, match=r"node-2 .* has expired; .*shuffledp keys renew"
            ):
                await within_a_minute(open_round(control, small_plan(system)))
    finally:
        await server.stop(None)
    renew(folder, ["node-2"])
    await asyncio.to_thread(system.processes["node-2"].start)
    await system.until_healthy("node-2")
    assert (await small_round(system, pool)).accepted == USERS
