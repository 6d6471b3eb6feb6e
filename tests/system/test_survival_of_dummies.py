"""A node's dummies survive kill -9: it mixes again with the same ones."""

import asyncio
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rounds_for_tests import (
    USERS,
    ended,
    quiet,
    restart,
    small_plan,
    small_values,
    within_a_minute,
)

from shuffledp_client.transport import AnalystReader
from shuffledp_core.documents.models import Certificate
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_ops.rounds.running import control_of, open_round, read_result
from shuffledp_sim.system.processes import LocalSystem
from shuffledp_sim.users.fleet import Fleet

BEFORE, LAST, ANALYST = "node-2", "node-3", "analyst"
"""The last node's dummies go out as plain messages, so that they can be compared with the board."""

MESSAGES = 200
"""Messages of a user."""

PATIENT = True
"""Parties are halted, and a node is killed and started again within a round."""


def find_dummies(folder: Path) -> list[Path]:
    """Files of dummies below this state folder."""
    return list(folder.rglob("dummies"))


def send_signal(system: LocalSystem, name: str, number: signal.Signals) -> None:
    os.kill(system.processes[name].pid, number)


async def until_written(folder: Path) -> Path:
    """The file of dummies in this state folder, once it is complete."""
    async with asyncio.timeout(240):
        while not (files := find_dummies(folder)):  # noqa: ASYNC110 - the file of another process
            await asyncio.sleep(0.005)
    return files[0]


async def test_a_node_killed_after_it_drew_its_dummies_adds_the_same_ones(
    system: LocalSystem, pool: ProcessPoolExecutor
) -> None:
    plan = small_plan(
        system,
        mechanism="node-sum",
        size=MESSAGES,
        adjacency=Adjacency.METRIC,
        delta=1e-6,
    )
    async with control_of(system.deployment) as control:
        opened = await open_round(control, plan)
    fleet = Fleet(system, opened.round_id, small_values(), pool, quiet(), {})
    # A node's file is there until it has passed its batch on. So the last node is halted until the
    # one before it has drawn its own dummies, and then the analyst, to whom the last node sends.
    send_signal(system, LAST, signal.SIGSTOP)
    await fleet.submit()
    await until_written(system.folder / "state" / BEFORE)
    send_signal(system, ANALYST, signal.SIGSTOP)
    send_signal(system, LAST, signal.SIGCONT)
    file = await until_written(system.folder / "state" / LAST)
    system.processes[LAST].kill()
    send_signal(system, ANALYST, signal.SIGCONT)
    written = file.read_bytes()
    await restart(system, LAST)

    signed = await within_a_minute(ended(system, opened.round_id))
    result = read_result(system.deployment, signed)
    assert result.accepted == USERS
    assert isinstance(result.final_certificate, Signed)
    final = from_json(result.final_certificate.body, Certificate)
    geometry = Geometry.of(final.mechanism, plan.suite, len(plan.route))
    width = geometry.plain_bytes
    assert len(written) == geometry.dummies_per_node * width
    async with AnalystReader.of(system.deployment.own_keys, system.deployment.roster) as analyst:
        board = await analyst.board(opened.round_id, result.messages * width)
    records = [board[start : start + width] for start in range(0, len(board), width)]
    assert len(records) == geometry.count_records(geometry.hops + 1, USERS, 0)
    drawn = {written[start : start + width] for start in range(0, len(written), width)}
    assert len(drawn) == geometry.dummies_per_node
    assert sum(record in drawn for record in records) == geometry.dummies_per_node
    assert not file.exists()
    await fleet.verify(signed)
