"""A node's state that comes back from a copy has forgotten what it promised: it must not be used
again. About 4 s."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from shuffler_world import Round, World

from shuffledp_core.documents.models import Discard
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import ExpiredDocumentError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_proto.v1 import node_pb2

TEN_MINUTES = 600_000
AN_HOUR = 3_600_000
MARGIN = 60_000
"""Of clocks and of a slow machine; nothing waits for it."""


def copied(world: World) -> Path:
    """A copy of the state of all nodes, as a backup makes it."""
    return Path(shutil.copytree(world.folder / "state", world.folder / "backup"))


async def restored(world: World, backup: Path) -> None:
    """The nodes' state is that of the backup, and they run again."""
    await world.hang_up()
    for name in list(world.running):
        await world.stop(name)
    shutil.rmtree(world.folder / "state")
    shutil.copytree(backup, world.folder / "state")
    await world.start()


async def discarded(world: World, round_: Round) -> None:
    """Every node signs that nothing left it: with these words the accountant gives the budget
    back."""
    for name in world.names:
        assert not from_json((await world.delete(name, round_.round_id)).body, Discard).forwarded


def phase_on_disk(world: World, name: str, round_: Round) -> str:
    return world.record(name, round_.round_id).phase.value


@pytest.mark.parametrize("off", [-TEN_MINUTES - MARGIN, TEN_MINUTES + MARGIN])
async def test_a_certificate_is_good_for_a_new_round_for_ten_minutes(
    world: World, off: int
) -> None:
    world.ahead = -AN_HOUR  # the node runs for long
    await world.start()
    world.ahead = 0
    with pytest.raises(ExpiredDocumentError, match=r"issued .* clock"):
        await world.prepare("node-1", world.round(issued_at=system_clock() + off).certificate, 1)
    for inside in (-TEN_MINUTES + MARGIN, 0, TEN_MINUTES - MARGIN):
        await world.prepare("node-1", world.round(issued_at=system_clock() + inside).certificate, 1)


async def test_a_restored_node_does_not_take_a_released_certificate_again(world: World) -> None:
    """Before the copy the round was unknown, after it it was deleted: what is restored knows
    neither."""
    await world.start()
    backup = copied(world)
    round_ = await world.open()
    await discarded(world, round_)
    await restored(world, backup)
    for place, name in enumerate(world.names, 1):
        with pytest.raises(ExpiredDocumentError, match="before this node was started"):
            await world.prepare(name, round_.certificate, place)
    await world.open()  # a new round works at once


async def test_a_restored_round_that_was_open_in_an_old_copy_goes_no_further(world: World) -> None:
    """The copy holds round keys and submissions of a round that was given back to the budget
    since."""
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    for _ in range(2):
        await world.submit(world.submission(round_))
    backup = copied(world)
    await discarded(world, round_)
    world.ahead = AN_HOUR + MARGIN
    await restored(world, backup)
    for name in world.names:
        status = await world.status(name, round_.round_id)
        assert (status.phase, status.error) == (node_pb2.ROUND_PHASE_FAILED, "NodeFault")
        assert not (world.folder / "state" / name / "rounds" / round_.round_id / "key").exists()
    with pytest.raises(Exception, match="copy"):
        await world.close_round("node-1", round_.round_id)
    assert world.sink.calls == 0


async def test_a_node_that_was_away_for_less_takes_its_open_round_up_again(world: World) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    for _ in range(2):
        await world.submit(world.submission(round_))
    world.ahead = AN_HOUR - MARGIN
    await restored(world, copied(world))
    assert phase_on_disk(world, "node-2", round_) == "open"
    assert await world.close_round("node-1", round_.round_id) == 2
    assert (await world.ended("node-2", round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE


async def test_a_state_folder_that_does_not_say_when_it_was_used_is_an_old_one(
    world: World,
) -> None:
    await world.start()
    round_ = await world.open()
    backup = copied(world)
    for file in backup.glob("*/seen"):
        file.unlink()
    await restored(world, backup)
    assert phase_on_disk(world, "node-1", round_) == "failed"
