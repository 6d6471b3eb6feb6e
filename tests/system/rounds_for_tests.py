"""Small rounds for system tests."""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_adversary.attacks.exchange.rounds import charge_of
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import UnreachableError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import StageClock, control_of, read_result
from shuffledp_proto.v1 import analyst_pb2
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

T = TypeVar("T")

USERS = 40
LARGEST = 3


def small_plan(system: LocalSystem, **changes: object) -> RoundPlan:
    """40 users, values 0..3, three bits each: a second of work."""
    fields: dict[str, object] = {
        "population": system.population, "mechanism": "rr-shuffle", "size": LARGEST,
        "epsilon": 4.0, "delta": 1e-3,
        "min_reports": USERS, "max_reports": USERS, "route": system.route, "open_seconds": 120.0,
    }  # fmt: skip
    return RoundPlan(**(fields | changes))  # type: ignore[arg-type]


def small_values(users: int = USERS) -> NDArray[np.int64]:
    """0, 1, 2, 3, 0, 1, ..."""
    return np.arange(users, dtype=np.int64) % (LARGEST + 1)


def quiet() -> Stages:
    """Progress that shows nothing."""
    return Stages(Console(quiet=True))


async def small_round(
    system: LocalSystem, pool: ProcessPoolExecutor, **changes: object
) -> RoundReport:
    """One small round to its verified end."""
    return await run_round(
        system, small_plan(system, **changes), small_values(), pool, quiet(), StageClock()
    )


async def ended(system: LocalSystem, round_id: str) -> Signed:
    """The signed result of a published round; raises what failed another."""
    async with control_of(system.deployment) as control, translate_errors("analyst"):
        async for event in control.FollowRound(analyst_pb2.FollowRoundRequest(round_id=round_id)):
            if event.stage == "ended":
                signed = Signed.from_bytes(event.result)
                read_result(system.deployment, signed)
                return signed
    raise UnreachableError("the analyst stopped reporting")


async def until_released(system: LocalSystem, round_id: str) -> None:
    """Wait until the charge is released: after the announcement if a node answers late."""
    while await charge_of(system, round_id) != "released":  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(0.05)


async def within_a_minute(work: Awaitable[T]) -> T:
    """No end within a minute of an idle machine is a hang; a busy one gets four."""
    async with asyncio.timeout(240):
        return await work


async def submit_some(
    system: LocalSystem, pool: ProcessPoolExecutor, round_id: str, users: int
) -> None:
    """New users submit, and hold their receipts."""
    await Fleet(system, round_id, small_values(users), pool, quiet(), {}).submit()


async def restart(system: LocalSystem, name: str) -> None:
    """Starts a killed process again and waits until it serves."""
    system.processes[name].start()
    await system.until_healthy(name)
