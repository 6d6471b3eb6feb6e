"""Devices without a credential, and strangers without anything, against real processes: memory,
places, descriptors.

Each attack was seen to work before there were limits: 800 stuck readers took the analyst to 4 GiB,
500 unfinished messages node 1 to 1.9 GiB; 1,500 silent calls and 2,500 silent connections kept
every honest submission out."""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from rounds_for_tests import USERS, ended, small_plan, small_round, submit_some, within_a_minute

from shuffledp_client.transport import AnalystReader
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_core.transport.tls import CLIENT
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.hostile.callers import GET_BOARD, GET_RESULT, Devices, silent_connections
from shuffledp_sim.load.machine import usage_of
from shuffledp_sim.system.processes import LocalBudget, LocalSystem

MIB = 2**20
BOARD_BYTES = 4 * MIB
CONNECTIONS = 200
USUAL_FILES = 1024
"""Descriptors that a process commonly may have when nobody says anything."""

LIMITS: dict[str, float | str] = {
    "limits.connections": CONNECTIONS,
    "limits.request_seconds": 600.0,  # nothing here is saved by patience that ends
    "limits.handshake_seconds": 600.0,
    "limits.answer_seconds": 3.0,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """A system whose services are patient with silence, so that only their bounds in number
    help."""
    settings = dict.fromkeys(("node", "analyst"), LIMITS)
    local = LocalSystem(
        tmp_path_factory.mktemp("attacked"),
        nodes=2,
        budget=LocalBudget(1e9, 1e-2),
        settings=settings,
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, USUAL_FILES), hard))
    try:
        asyncio.run(local.start())
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # ours: we play many devices
        yield local
    finally:
        local.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
async def opened(system: LocalSystem) -> str:
    """An open round."""
    async with control_of(system.deployment) as control:
        return (await open_round(control, small_plan(system, max_reports=2 * USERS))).round_id


def attackers_of(system: LocalSystem, name: str) -> Devices:
    return Devices(system.deployment, system.deployment.roster.party(name))


def from_now(system: LocalSystem, name: str) -> int:
    """Memory now; `peak` is the largest since.

    Parties are not dumpable, so only root may reset the peak. Without root it counts from the peak
    so far."""
    with suppress(PermissionError):
        Path(f"/proc/{system.processes[name].pid}/clear_refs").write_text(
            "5"
        )  # see proc(5): resets VmHWM
    return peak(system, name)


def peak(system: LocalSystem, name: str) -> int:
    usage = usage_of(system.processes[name].pid, alone=True)
    assert usage is not None
    return usage.peak_bytes


def descriptors(system: LocalSystem, name: str) -> int:
    return sum(1 for _ in Path(f"/proc/{system.processes[name].pid}/fd").iterdir())


def published(system: LocalSystem) -> tuple[str, bytes]:
    """A large board among the analyst's records, as a large round leaves it."""
    round_id, board = secrets.token_hex(16), secrets.token_bytes(BOARD_BYTES)
    folder = system.folder / "state" / "analyst" / "rounds" / round_id
    folder.mkdir(parents=True)
    (folder / "finished").touch()
    (folder / "result.json").write_bytes(board[: 2**14])
    (folder / "board").write_bytes(board)
    return round_id, board


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not holds():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("method", [GET_BOARD, GET_RESULT])
async def test_readers_that_take_nothing_in_cost_little_and_shut_nobody_out(
    system: LocalSystem, method: str
) -> None:
    round_id, board = published(system)
    before = from_now(system, "analyst")
    async with attackers_of(system, "analyst").stuck_readers(round_id, 600, method) as attackers:
        roster, keys = system.deployment.roster, system.deployment.keys_of(CLIENT)
        async with AnalystReader.of(keys, roster) as analyst:
            assert await within_a_minute(analyst.board(round_id, len(board))) == board
        assert peak(system, "analyst") - before < 300 * MIB
        await until(lambda: not any(one.open_still for one in attackers))


@pytest.mark.parametrize("length", [3 * MIB, CHUNK_BYTES])
async def test_messages_without_their_end_cost_little_and_shut_nobody_out(
    system: LocalSystem, pool: ProcessPoolExecutor, opened: str, length: int
) -> None:
    before = from_now(system, "node-1")
    async with attackers_of(system, "node-1").unfinished_messages(400, length):
        await within_a_minute(submit_some(system, pool, opened, 2))
    assert peak(system, "node-1") - before < 200 * MIB


async def test_envelopes_that_nobody_signed_cost_little_and_shut_nobody_out(
    system: LocalSystem, pool: ProcessPoolExecutor, opened: str
) -> None:
    before = from_now(system, "node-1")
    async with attackers_of(system, "node-1").unbacked_envelopes(
        opened, 400, CHUNK_BYTES
    ) as attackers:
        await within_a_minute(submit_some(system, pool, opened, 2))
        await until(lambda: sum(len(one.ended) for one in attackers) >= 400)
    assert peak(system, "node-1") - before < 200 * MIB


async def test_silent_calls_shut_nobody_out(
    system: LocalSystem, pool: ProcessPoolExecutor, opened: str
) -> None:
    async with attackers_of(system, "node-1").silent_calls(1500, connections=4) as attackers:
        await within_a_minute(submit_some(system, pool, opened, 2))
        assert all(one.open_still for one in attackers)  # they are there, and may stay


@pytest.mark.skipif(
    os.geteuid() != 0, reason="parties are not dumpable: only root may see their descriptors"
)
async def test_silent_connections_take_a_bounded_number_of_descriptors_and_shut_nobody_out(
    system: LocalSystem, pool: ProcessPoolExecutor, opened: str
) -> None:
    at_rest = descriptors(system, "node-1")
    with silent_connections(system.deployment.roster.party("node-1").address, 1500):
        await within_a_minute(submit_some(system, pool, opened, 2))
        await until(lambda: descriptors(system, "node-1") <= CONNECTIONS + at_rest)


@pytest.fixture
async def besieged(system: LocalSystem) -> AsyncIterator[None]:
    """Silent calls and connections at the entry node and at the analyst, as long as the test
    lasts."""
    addresses = [system.deployment.roster.party(name).address for name in ("node-1", "analyst")]
    node, analyst = (attackers_of(system, name) for name in ("node-1", "analyst"))
    async with node.silent_calls(600), analyst.silent_calls(600, method=GET_BOARD):
        with silent_connections(addresses[0], 600), silent_connections(addresses[1], 600):
            yield


@pytest.mark.usefixtures("besieged")
async def test_what_devices_do_does_not_keep_operator_and_analyst_from_a_whole_round(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    report = await within_a_minute(small_round(system, pool))
    assert report.accepted == USERS
    await within_a_minute(system.until_healthy("node-1"))
    await within_a_minute(ended(system, report.round_id))
