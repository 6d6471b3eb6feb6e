"""A node's disk is full, at every stage of a round: refused or paused, and continued once there is
room."""

from __future__ import annotations

import asyncio

import pytest
from shuffler_world import Round, Submission, World
from small_disk import SmallDisk
from structlog.testing import capture_logs
from structlog.typing import EventDict

from shuffledp_core.errors import DiskError, NodeFault
from shuffledp_proto.v1 import node_pb2

FREE_PAGES = (1, 2, 3, 4)
"""Fewer than closing, mixing and relaying a round of 60 users take: which step is refused depends
on the number.
"""


@pytest.fixture
def entry_disk(world: World, small_disk: SmallDisk) -> SmallDisk:
    """The disk of the entry node's state folder."""
    return use_disk(world, "node-1", small_disk)


def use_disk(world: World, name: str, disk: SmallDisk) -> SmallDisk:
    state = world.folder / "state"
    state.mkdir()
    (state / name).symlink_to(disk.path)
    return disk


async def submit_reports(world: World, round_: Round, count: int = 5) -> list[Submission]:
    submissions = [world.submission(round_) for _ in range(count)]
    await asyncio.gather(*map(world.submit, submissions))
    return submissions


async def require_published(world: World, round_: Round, submissions: list[Submission]) -> None:
    """Every acknowledged message reaches the analyst, once."""
    for name in world.names:
        status = await world.ended(name, round_.round_id)
        assert status.phase == node_pb2.ROUND_PHASE_DONE, status.reason
    assert sorted(world.board(round_)) == sorted(
        message for sent in submissions for message in sent.messages
    )


async def test_a_closing_round_is_refused_and_closes_when_there_is_room(
    world: World, entry_disk: SmallDisk
) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    submissions = await submit_reports(world, round_)
    entry_disk.fill()
    with pytest.raises(DiskError, match="No space left"):
        await world.close_round("node-1", round_.round_id)
    entry_disk.make_room()
    assert await world.close_round("node-1", round_.round_id) == len(submissions)
    await require_published(world, round_, submissions)


@pytest.mark.parametrize("pages", FREE_PAGES)
async def test_a_round_that_mixes_waits_for_room(
    world: World, entry_disk: SmallDisk, pages: int
) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    submissions = await submit_reports(world, round_, 60)
    entry_disk.fill(pages)
    with capture_logs() as log:
        try:
            await world.close_round("node-1", round_.round_id)
        except DiskError:
            entry_disk.make_room()
            await world.close_round("node-1", round_.round_id)
        async with asyncio.timeout(240):  # only a node that does neither takes so long
            while not is_refused(log):  # noqa: ASYNC110 - a log tells nobody that it was written to
                await asyncio.sleep(0)
        entry_disk.make_room()
        await require_published(world, round_, submissions)


def is_refused(log: list[EventDict]) -> bool:
    return any("No space left" in str(entry) for entry in log)


async def test_a_node_that_starts_on_a_full_disk_keeps_what_it_acknowledged(
    world: World, entry_disk: SmallDisk
) -> None:
    await world.start_analyst()
    await world.start("node-2")
    process = await world.start_process("node-1", workers=1)
    round_ = await world.open()
    submissions = await submit_reports(world, round_)
    await world.kill(process)
    entry_disk.fill()
    process = await world.start_process("node-1", workers=1)
    with pytest.raises(NodeFault):
        await world.submit(world.submission(round_))
    entry_disk.make_room()
    await world.kill(process)
    await world.start_process("node-1", workers=1)
    submissions += await submit_reports(world, round_)
    assert await world.close_round("node-1", round_.round_id) == len(submissions)
    await require_published(world, round_, submissions)
