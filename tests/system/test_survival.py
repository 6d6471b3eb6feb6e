"""What was acknowledged survives kill -9 of any process, once, in exactly one round (invariant
4)."""

from concurrent.futures import ProcessPoolExecutor

import pytest
from rounds_for_tests import (
    USERS,
    ended,
    quiet,
    restart,
    small_plan,
    small_values,
    submit_some,
    within_a_minute,
)

from shuffledp_ops.rounds.running import control_of, open_round, read_result
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

PATIENT = True


@pytest.mark.parametrize("victim", ["node-1", "node-2", "node-3"])
async def test_acknowledged_submissions_survive_kill_9_of_a_node(
    system: LocalSystem, pool: ProcessPoolExecutor, victim: str
) -> None:
    async with control_of(system.deployment) as control:
        opened = await open_round(control, small_plan(system))
    first = Fleet(system, opened.round_id, small_values(USERS // 2), pool, quiet(), {})
    await first.submit()
    system.processes[victim].kill()
    await restart(system, victim)
    await submit_some(system, pool, opened.round_id, USERS - USERS // 2)
    signed = await within_a_minute(ended(system, opened.round_id))
    assert read_result(system.deployment, signed).accepted == USERS
    await first.verify(signed)
