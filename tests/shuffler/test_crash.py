"""kill -9 at the worst moments, on the node's own program, and a start with the same state
folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from fractions import Fraction
from pathlib import Path

import pytest
from shuffler_world import Round, Submission, World, garbage_inside

from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import NodeFault, ShuffleDPError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.config import MixingConfig
from shuffledp_shuffler.round_state import Phase
from shuffledp_shuffler.spill import SPILL

WIDE = RRShuffle(max_value=600, randomise=Fraction(1, 4))
"""600 messages a user, so that a few users make a batch that takes a while to peel."""

BEYOND_MEMORY = MixingConfig(memory=2**20)
"""Of 15,000 records, which take three times as much with the work on them."""


def sent(submissions: list[Submission]) -> list[bytes]:
    return sorted(message for submission in submissions for message in submission.messages)


async def done(world: World, round_: Round) -> None:
    for name in world.names:
        status = await world.ended(name, round_.round_id)
        assert status.phase == node_pb2.ROUND_PHASE_DONE, status.reason


def children(pid: int) -> list[Path]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}") for child in listed]


async def working(world: World, process: asyncio.subprocess.Process, round_: Round) -> list[Path]:
    """The child processes of node 2, once it mixes and has some."""
    await world.until("node-2", round_.round_id, node_pb2.ROUND_PHASE_MIXING)
    async with asyncio.timeout(240):
        while len(found := children(process.pid)) < 2:  # noqa: ASYNC110 - the worker, and multiprocessing's resource tracker
            await asyncio.sleep(0.01)
    return found


async def test_what_was_acknowledged_before_kill_9_arrives_exactly_once(world: World) -> None:
    await world.start_analyst()
    await world.start("node-2")
    entry = await world.start_process("node-1", workers=1)
    round_ = await world.open()
    submissions = [world.submission(round_) for _ in range(60)]
    acknowledged: list[Submission] = []

    async def send(submission: Submission) -> None:
        with contextlib.suppress(ShuffleDPError, asyncio.CancelledError):
            await world.submit(submission)
            acknowledged.append(submission)
            if len(acknowledged) == 25:
                entry.kill()

    await asyncio.gather(*(send(submission) for submission in submissions))
    await world.kill(entry)
    assert len(acknowledged) >= 25

    await world.start_process("node-1", workers=1)
    stored = (await world.status("node-1", round_.round_id)).accepted
    assert stored >= len(acknowledged)
    for submission in submissions:
        await world.submit(submission)
    assert await world.close_round("node-1", round_.round_id) == len(submissions)
    await done(world, round_)
    assert sorted(world.board(round_)) == sent(submissions)


async def test_a_node_killed_in_the_middle_of_mixing_mixes_again(world: World) -> None:
    """Both nodes mix through the disk."""
    await world.start("node-1", mixing=BEYOND_MEMORY)
    second = await world.start_process("node-2", workers=1, mixing=BEYOND_MEMORY)
    round_ = await world.open(WIDE)
    submissions = [world.submission(round_) for _ in range(25)]
    await asyncio.gather(*(world.submit(submission) for submission in submissions))
    await world.close_round("node-1", round_.round_id)
    workers = await working(world, second, round_)
    await world.kill(second)
    assert world.record("node-2", round_.round_id).phase is Phase.MIXING
    async with asyncio.timeout(240):
        while any(worker.exists() for worker in workers):  # noqa: ASYNC110 - another process's end is no event here
            await asyncio.sleep(0.05)

    await world.start_analyst()
    await world.start_process("node-2", workers=1, mixing=BEYOND_MEMORY)
    await done(world, round_)
    assert sorted(world.board(round_)) == sent(submissions)
    assert world.sink.calls == 1
    assert not list((world.folder / "state").rglob(f"*{SPILL}"))


async def test_a_batch_that_is_mixed_again_loses_the_same_onions(world: World) -> None:
    """Once by a node that is killed before it commits, once after its restart.

    The counts are those of one mixing.
    """
    await world.start("node-1")
    second = await world.start_process("node-2", workers=1)
    round_ = await world.open(WIDE)
    submissions = [world.submission(round_) for _ in range(24)]
    spoiled = world.submission(round_, envelope=garbage_inside(round_))
    await asyncio.gather(*(world.submit(submission) for submission in (*submissions, spoiled)))
    await world.close_round("node-1", round_.round_id)
    await working(world, second, round_)
    await world.kill(second)
    assert world.record("node-2", round_.round_id).phase is Phase.MIXING

    await world.start_analyst()
    await world.start_process("node-2", workers=1)
    await done(world, round_)
    assert sorted(world.board(round_)) == sent(submissions)
    header = world.record("node-2", round_.round_id).outgoing
    assert header is not None
    said = from_json(header.body, BatchHeader)
    assert (said.users, said.dropped, said.records) == (25, 600, 24 * 600)


async def test_an_entry_node_killed_right_after_the_close_mixes_and_relays(world: World) -> None:
    await world.start_analyst()
    await world.start("node-2")
    entry = await world.start_process("node-1", workers=1)
    round_ = await world.open()
    submissions = [world.submission(round_) for _ in range(5)]
    for submission in submissions:
        await world.submit(submission)
    await world.close_round("node-1", round_.round_id)
    await world.kill(entry)
    await world.start_process("node-1", workers=1)
    await done(world, round_)
    assert sorted(world.board(round_)) == sent(submissions)
    assert await world.submit(submissions[0])


async def test_a_node_killed_while_the_next_hop_is_away_relays_the_very_same_batch(
    world: World,
) -> None:
    await world.start_analyst()
    await world.start("node-2")
    entry = await world.start_process("node-1", workers=1)
    round_ = await world.open()
    submissions = [world.submission(round_) for _ in range(5)]
    for submission in submissions:
        await world.submit(submission)
    await world.stop("node-2")
    await world.close_round("node-1", round_.round_id)
    await world.until("node-1", round_.round_id, node_pb2.ROUND_PHASE_RELAYING)
    committed = world.record("node-1", round_.round_id).outgoing
    await world.kill(entry)
    await world.start("node-2")
    await world.start_process("node-1", workers=1)
    await done(world, round_)
    assert world.record("node-2", round_.round_id).incoming == committed
    assert sorted(world.board(round_)) == sent(submissions)


async def test_a_killed_worker_costs_time_and_nothing_else(world: World) -> None:
    await world.start_analyst()
    await world.start("node-1")
    second = await world.start_process("node-2", workers=1)
    round_ = await world.open(WIDE)
    submissions = [world.submission(round_) for _ in range(20)]
    await asyncio.gather(*(world.submit(submission) for submission in submissions))
    await world.close_round("node-1", round_.round_id)
    for worker in await working(world, second, round_):
        os.kill(int(worker.name), signal.SIGKILL)
    await done(world, round_)
    assert sorted(world.board(round_)) == sent(submissions)


@pytest.mark.parametrize("damaged", ["record.json", "key", "index.sqlite", "envelopes"])
async def test_a_damaged_round_fails_alone_and_the_node_still_starts(
    world: World, damaged: str
) -> None:
    await world.start_analyst()
    await world.start()
    broken, sound = await world.open(), await world.open()
    kept = [world.submission(sound) for _ in range(2)]
    for submission in (world.submission(broken), *kept):
        await world.submit(submission)
    await world.stop("node-1")
    folder = world.folder / "state" / "node-1" / "rounds" / broken.round_id
    (folder / damaged).write_bytes(b"not what it was")
    await world.start("node-1")
    await world.hang_up()
    if damaged == "record.json":
        with pytest.raises(NodeFault, match="damaged"):
            await world.status("node-1", broken.round_id)
    else:
        status = await world.ended("node-1", broken.round_id)
        assert (status.phase, status.error) == (node_pb2.ROUND_PHASE_FAILED, "NodeFault")
    await world.delete("node-1", broken.round_id)
    await world.close_round("node-1", sound.round_id)
    await done(world, sound)
    assert sorted(world.board(sound)) == sent(kept)
