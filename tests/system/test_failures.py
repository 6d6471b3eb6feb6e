"""What happens when parts die, lie or are missing: a clear end in bounded time, and the next round
works."""

import asyncio
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console
from rounds_for_tests import (
    USERS,
    ended,
    quiet,
    restart,
    small_plan,
    small_round,
    small_values,
    submit_some,
    within_a_minute,
)

from shuffledp.progress import Stages
from shuffledp_adversary.attacks.exchange.rounds import charge_of
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import (
    BudgetExceeded,
    ShuffleDPError,
    TooFewReportsError,
    UnreachableError,
)
from shuffledp_core.transport.announce import Announcer, manifest_topic
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_ops.rounds.running import control_of, open_round, read_result
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.system.nursery import Nursery
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.fleet import Fleet


@pytest.mark.parametrize("victim", ["node-1", "node-2", "node-3", "analyst", "accountant"])
async def test_killing_a_process_fails_the_round_clearly_and_the_next_round_works(
    system: LocalSystem, pool: ProcessPoolExecutor, victim: str
) -> None:
    async with control_of(system.deployment) as control:
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


async def test_an_analyst_that_is_killed_while_nodes_mix_publishes_when_it_is_back(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    """The last receipt closes the round: the kill hits the closing, the mixing or the delivery, and
    each must do."""
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
    await submit_some(system, pool, opened.round_id, USERS)
    system.processes["analyst"].kill()
    await restart(system, "analyst")
    signed = await within_a_minute(ended(system, opened.round_id))
    assert read_result(system.deployment, signed).accepted == USERS
    assert await charge_of(system, opened.round_id) == "settled"


async def test_a_round_below_its_minimum_ends_without_a_result(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
        await submit_some(system, pool, opened.round_id, USERS - 1)
        async with translate_errors("analyst"):
            await control.EndSubmissions(
                analyst_pb2.EndSubmissionsRequest(round_id=opened.round_id)
            )
    with pytest.raises(TooFewReportsError, match="39"):
        await within_a_minute(ended(system, opened.round_id))


async def test_a_round_goes_on_without_the_broker(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    system.processes["broker"].kill()
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
    await submit_some(system, pool, opened.round_id, USERS)
    await within_a_minute(ended(system, opened.round_id))


async def test_a_lying_broker_cannot_mislead_a_client(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    assert system.broker is not None
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
        other = await open_round(control, small_plan(system))
    liar = Announcer(system.broker)
    liar.publish(
        manifest_topic(system.deployment.roster.deployment, opened.round_id),
        to_json(other.announcement),
    )
    task = asyncio.ensure_future(liar.run())
    fleet = Fleet(system, opened.round_id, small_values(), pool, quiet(), {})
    verified = await fleet.find_round()
    assert verified.round_id == opened.round_id
    task.cancel()


async def test_the_round_that_would_overspend_is_refused_with_what_is_left(
    tmp_path: Path, pool: ProcessPoolExecutor, nursery: Nursery | None
) -> None:
    budget = LocalBudget(5.0, 1e-3)
    async with LocalSystem(tmp_path / "poor", nodes=2, budget=budget, nursery=nursery) as poor:
        await small_round(poor, pool)
        with pytest.raises(BudgetExceeded, match="left"):
            await small_round(poor, pool)


@pytest.mark.parametrize(
    "wrong",
    [{"mechanism": "nope"}, {"epsilon": float("inf")}, {"delta": 2.0}, {"size": 0},
    {"route": ("node-1",)},
     {"route": ("node-1", "node-9")}, {"suite": "rot13"}, {"population": "nobody"},
     {"max_distance": 99}],
)  # fmt: skip
async def test_a_plan_that_cannot_be_is_refused_before_anything_is_reserved(
    system: LocalSystem, wrong: dict[str, object]
) -> None:
    async with control_of(system.deployment) as control:
        with pytest.raises(ShuffleDPError) as refusal:
            await open_round(control, small_plan(system, **wrong))
    assert not isinstance(refusal.value, UnreachableError)


@pytest.mark.parametrize("name", ["node-1", "analyst", "accountant"])
def test_a_port_in_use_is_one_line_and_exit_code_2(
    running: LocalSystem, tmp_path: Path, name: str
) -> None:
    config = (
        (running.folder / f"{name}.toml")
        .read_text()
        .replace(f"state/{name}", str(tmp_path / "state"))
    )
    file = running.folder / f"second-{name}.toml"
    file.write_text(config)
    role = running.deployment.roster.party(name).role
    module = "shuffledp_shuffler" if role == "node" else f"shuffledp_{role}"
    done = subprocess.run(
        [sys.executable, "-m", f"{module}.cli", "--config", str(file)], capture_output=True,
        text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["node-1", "analyst"])
def test_a_second_process_on_the_same_state_is_refused(running: LocalSystem, name: str) -> None:
    role = running.deployment.roster.party(name).role
    module = "shuffledp_shuffler" if role == "node" else f"shuffledp_{role}"
    command = [
        sys.executable,
        "-m",
        f"{module}.cli",
        "--config",
        str(running.folder / f"{name}.toml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "another process" in done.stderr
    assert running.processes[name].alive


class Interrupted(Stages):
    """Interrupts the work it shows when the first users are sealed: most of them are not even begun
    then."""

    work: asyncio.Future[None]

    def update(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002 - as it is inherited
        if stage == "sealing":
            self.work.cancel()


async def test_a_fleet_that_is_cancelled_leaves_nothing_under_way(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
    stages = Interrupted(Console(quiet=True))
    fleet = Fleet(system, opened.round_id, small_values(), pool, stages, {})
    stages.work = asyncio.ensure_future(fleet.submit())
    with pytest.raises(asyncio.CancelledError):
        await stages.work
    names = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}
    assert {name for name in names if name.startswith("Fleet.")} == set()
