"""What happens when parts die, lie or are missing: a clear end in bounded time, and the next round works."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from rounds_for_tests import USERS, quiet, small_plan, small_round, small_values

from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.errors import (
    BudgetExceeded,
    ShuffleDPError,
    TooFewReportsError,
    UnreachableError,
)
from shuffledp_core.transport.announce import Announcer, manifest_topic
from shuffledp_core.transport.rpc_errors import translated
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.fleet import Fleet
from shuffledp_sim.processes import Budget, LocalSystem
from shuffledp_sim.rounds import control_of, open_round, read_result


async def ended(system: LocalSystem, round_id: str) -> None:
    """Waits for the end of a round; raises what failed it."""
    async with control_of(system) as control, translated("analyst"):
        async for event in control.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            if event.stage == "ended":
                read_result(system, Signed.from_bytes(event.result))
                return
    raise UnreachableError("the analyst stopped reporting")


async def within_a_minute(work: Awaitable[None]) -> None:
    async with asyncio.timeout(60):
        await work


async def submit_some(system: LocalSystem, pool: ProcessPoolExecutor, round_id: str, users: int) -> None:
    await Fleet(system, round_id, small_values(users), pool, quiet(), {}).submit()


async def restart(system: LocalSystem, name: str) -> None:
    system.processes[name].start()
    await system.until_healthy(name)


@pytest.mark.parametrize("victim", ["node-1", "node-2", "node-3", "analyst", "accountant"])
async def test_killing_a_process_fails_the_round_clearly_and_the_next_round_works(
    system: LocalSystem, pool: ProcessPoolExecutor, victim: str
) -> None:
    async with control_of(system) as control:
        opened = await open_round(control, small_plan(system))
    await submit_some(system, pool, opened.round_id, USERS - 1)
    system.processes[victim].kill()
    if victim == "accountant":  # only missed at the end
        await submit_some(system, pool, opened.round_id, 1)
    with pytest.raises(ShuffleDPError) as failure:
        await within_a_minute(ended(system, opened.round_id))
    assert victim in str(failure.value)
    await restart(system, victim)
    report = await small_round(system, pool)
    assert report.accepted == USERS


async def test_acknowledged_submissions_survive_kill_9_of_the_entry_node(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    async with control_of(system) as control:
        opened = await open_round(control, small_plan(system))
    first = Fleet(system, opened.round_id, small_values(USERS // 2), pool, quiet(), {})
    await first.submit()
    system.processes["node-1"].kill()
    await restart(system, "node-1")
    await submit_some(system, pool, opened.round_id, USERS - USERS // 2)
    await within_a_minute(ended(system, opened.round_id))
    async with control_of(system) as control:
        async for event in control.FollowRound(analyst_pb2.FollowRoundRequest(round_id=opened.round_id)):
            if event.stage == "ended":
                signed = Signed.from_bytes(event.result)
    assert read_result(system, signed).accepted == USERS
    await first.verify(signed)


async def test_a_round_below_its_minimum_ends_without_a_result(system: LocalSystem, pool: ProcessPoolExecutor) -> None:
    async with control_of(system) as control:
        opened = await open_round(control, small_plan(system))
        await submit_some(system, pool, opened.round_id, USERS - 1)
        async with translated("analyst"):
            await control.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=opened.round_id))
    with pytest.raises(TooFewReportsError, match="39"):
        await within_a_minute(ended(system, opened.round_id))


async def test_a_round_goes_on_without_the_broker(system: LocalSystem, pool: ProcessPoolExecutor) -> None:
    system.processes["broker"].kill()
    async with control_of(system) as control:
        opened = await open_round(control, small_plan(system))
    await submit_some(system, pool, opened.round_id, USERS)
    await within_a_minute(ended(system, opened.round_id))


async def test_a_lying_broker_cannot_mislead_a_client(system: LocalSystem, pool: ProcessPoolExecutor) -> None:
    assert system.broker is not None
    async with control_of(system) as control:
        opened = await open_round(control, small_plan(system))
        other = await open_round(control, small_plan(system))
    liar = Announcer(system.broker)
    liar.publish(manifest_topic(system.deployment.roster.deployment, opened.round_id), to_json(other.announcement))
    task = asyncio.ensure_future(liar.run())
    fleet = Fleet(system, opened.round_id, small_values(), pool, quiet(), {})
    verified = await fleet.find_round()
    assert verified.round_id == opened.round_id
    task.cancel()


async def test_the_round_that_would_overspend_is_refused_with_what_is_left(
    tmp_path: Path, pool: ProcessPoolExecutor
) -> None:
    async with LocalSystem(tmp_path / "poor", nodes=2, budget=Budget(5.0, 1e-3)) as poor:
        await small_round(poor, pool)
        with pytest.raises(BudgetExceeded, match="left"):
            await small_round(poor, pool)


@pytest.mark.parametrize(
    "wrong",
    [{"mechanism": "nope"}, {"epsilon": float("inf")}, {"delta": 2.0}, {"size": 0}, {"route": ("node-1",)},
     {"route": ("node-1", "node-9")}, {"suite": "rot13"}, {"population": "nobody"}, {"max_distance": 99}],
)  # fmt: skip
async def test_a_plan_that_cannot_be_is_refused_before_anything_is_reserved(
    system: LocalSystem, wrong: dict[str, object]
) -> None:
    async with control_of(system) as control:
        with pytest.raises(ShuffleDPError) as refusal:
            await open_round(control, small_plan(system, **wrong))
    assert not isinstance(refusal.value, UnreachableError)


@pytest.mark.parametrize("name", ["node-1", "analyst", "accountant"])
def test_a_port_in_use_is_one_line_and_exit_code_2(running: LocalSystem, tmp_path: Path, name: str) -> None:
    config = (running.folder / f"{name}.toml").read_text().replace(f"state/{name}", str(tmp_path / "state"))
    file = running.folder / f"second-{name}.toml"
    file.write_text(config)
    role = running.deployment.roster.party(name).role
    module = "shuffledp_shuffler" if role == "node" else f"shuffledp_{role}"
    done = subprocess.run(
        [sys.executable, "-m", f"{module}.cli", "--config", str(file)], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
