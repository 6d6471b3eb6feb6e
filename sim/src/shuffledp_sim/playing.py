"""One round on a running local system, from values to a verified answer.

For demo, load tests and attacks.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.progress import Stages
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import Signed
from shuffledp_core.mechanisms import Mechanism
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import (
    StageClock,
    abort_round,
    control_of,
    follow_round,
    make_report,
    open_round,
    read_result,
    with_published,
)
from shuffledp_proto.v1 import analyst_pb2_grpc
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

WATCH_SECONDS: Final = 0.2
"""Interval at which the local processes are checked."""


async def run_round(
    system: LocalSystem,
    plan: RoundPlan,
    values: NDArray[np.int64],
    pool: ProcessPoolExecutor,
    stages: Stages,
    clock: StageClock,
    *,
    capped: int = 0,
    credentials: list[bytes] | None = None,
) -> RoundReport:
    """Open a round, play one user per value, and wait for the verified result.

    Args:
        system: running processes.
        plan: the plan of the round.
        values: shape (users,), int64, inside the plan's domain.
        pool: sealing processes.
        stages: display of the progress.
        clock: filled by stage.
        capped: shown in the report.
        credentials: gets the credential id of each user, in the order of `values`.

    Raises:
        ShuffleDPError: whatever ended the round; the round is aborted then.
    """
    async with control_of(system.deployment) as control:
        with clock.stage("open"), stages.one("open"):
            opened = await open_round(control, plan)
        fleet = Fleet(system, opened.round_id, values, pool, stages, clock.seconds)
        try:
            signed = await _until_ended(system, control, opened.round_id, fleet, stages, clock)
        except BaseException as error:
            await abort_round(control, opened.round_id, str(error) or type(error).__name__)
            raise
    result = read_result(system.deployment, signed)
    if credentials is not None:
        credentials.extend(fleet.credentials)
    with clock.stage("verify"):
        await fleet.verify(signed)
    clock.finish()
    stages.finish()
    report = make_report(system.deployment, opened, signed, result, clock.seconds)
    report = await with_published(system.deployment, report)
    return replace(report, truth=count_truth(report.final.mechanism, values), capped=capped)


async def _until_ended(
    system: LocalSystem,
    control: analyst_pb2_grpc.RoundControlAsyncStub,
    round_id: str,
    fleet: Fleet,
    stages: Stages,
    clock: StageClock,
) -> Signed:
    """Wait for the signed result; raise the first failure of follower, fleet or a process."""
    follower = asyncio.ensure_future(follow_round(control, round_id, stages, clock))
    others = [asyncio.ensure_future(fleet.submit()), asyncio.ensure_future(_watch(system))]
    try:
        while not follower.done():
            waiting = [task for task in (follower, *others) if not task.done()]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                if other.done():
                    other.result()
        return follower.result()
    finally:
        for task in (follower, *others):
            task.cancel()
        await asyncio.gather(follower, *others, return_exceptions=True)


async def _watch(system: LocalSystem) -> None:
    while True:
        system.check_alive()
        await asyncio.sleep(WATCH_SECONDS)


def count_truth(mechanism: Mechanism, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exact answer for these values: the histogram, shape (k,), or the sum, shape (1,)."""
    return mechanism.truth(values)
