"""The analyst's disk is full, at every stage of a round: refused or paused, and continued once
there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from analyst_world import HANG_SECONDS, World, plan
from small_disk import SmallDisk
from structlog.testing import capture_logs
from structlog.typing import EventDict

from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import DiskError, RoundStateError, UnreachableError
from shuffledp_proto.v1 import analyst_pb2

NAMED = "ab" * 16
MOST_PAGES = 8
"""More free pages than any stage below needs for the small files of a small round."""


@pytest.fixture
async def world(tmp_path: Path, small_disk: SmallDisk) -> AsyncIterator[World]:
    """As everywhere here, but the analyst's state has a small disk of its own."""
    (tmp_path / "state").symlink_to(small_disk.path)
    world = World(tmp_path)
    await world.start()
    yield world
    await world.close()


async def wait_until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_SECONDS):  # only an analyst that never does it takes so long
        while not happened():  # noqa: ASYNC110 - a log tells nobody that it was written to
            await asyncio.sleep(0)


async def wait_until_refused(log: list[EventDict]) -> None:
    """Returns once the disk has refused a write of the analyst."""
    await wait_until(lambda: is_refused(log))


def is_refused(log: list[EventDict]) -> bool:
    return any("No space left" in str(entry.get("reason")) for entry in log)


async def open_named(world: World, round_id: str) -> None:
    async with world.control() as stub:
        await stub.OpenRound(analyst_pb2.OpenRoundRequest(plan=to_json(plan()), round_id=round_id))


async def relay_batch(world: World, round_id: str) -> None:
    """Delivers the batch of a "silent" last node, again and again while the analyst cannot take it,
    as a node does."""
    reports = world.entry.rounds[round_id].reports
    messages = [message for report in reports for message in report]
    while True:
        try:
            await world.deliver(round_id, messages, len(reports))
        except UnreachableError:
            await asyncio.sleep(0)
        else:
            break
    world.last.rounds[round_id].forwarded = True
    world.last.done(round_id, len(reports), b"".join(messages))


async def test_a_round_is_refused_before_anything_is_charged(
    world: World, small_disk: SmallDisk
) -> None:
    small_disk.fill()
    with pytest.raises(DiskError, match=r"analyst.*No space left.*free some space"):
        await open_named(world, NAMED)
    assert world.accountant.ledger == {}
    small_disk.make_room()
    await open_named(
        world, NAMED
    )  # the same name, as a campaign asks again: nothing of the refused round is left
    world.reports(NAMED, 3)
    await world.end_submissions(NAMED)
    assert (await world.ended(NAMED)).outcome == "published"


@pytest.mark.parametrize("pages", range(MOST_PAGES))
async def test_an_opening_succeeds_or_is_refused_and_released(
    world: World, small_disk: SmallDisk, pages: int
) -> None:
    small_disk.fill(pages)
    try:
        await open_named(world, NAMED)
    except DiskError:
        small_disk.make_room()
        if world.accountant.ledger:
            assert (await world.ended(NAMED)).error == "DiskError"
            assert world.accountant.ledger == {NAMED: "released"}
    else:
        small_disk.make_room()
        await world.abort(NAMED)
        await world.ended(NAMED)
        assert world.accountant.ledger == {NAMED: "released"}
    assert (await world.whole_round()).outcome == "published"


@pytest.mark.parametrize("pages", range(MOST_PAGES))
async def test_an_open_round_waits_for_room_and_is_published(
    world: World, small_disk: SmallDisk, pages: int
) -> None:
    world.last.faults.add("silent")
    await open_named(world, NAMED)
    sent = world.reports(NAMED, 5)
    with capture_logs() as log:
        small_disk.fill(pages)
        await world.end_submissions(NAMED)
        delivery = asyncio.ensure_future(relay_once_closed(world))
        await wait_until(lambda: delivery.done() or is_refused(log))
        small_disk.make_room()
        await delivery
    assert (await world.ended(NAMED)).accepted == 5
    board = await world.board(NAMED)
    assert {board[start : start + 17] for start in range(0, len(board), 17)} == sent
    assert world.accountant.ledger == {NAMED: "settled"}


async def relay_once_closed(world: World) -> None:
    await world.happened.until(lambda: world.entry.rounds[NAMED].forwarded)
    await relay_batch(world, NAMED)


async def test_a_batch_that_has_no_room_is_not_acknowledged_and_not_lost(
    world: World, small_disk: SmallDisk
) -> None:
    world.last.faults.add("silent")
    await open_named(world, NAMED)
    sent = world.reports(NAMED, 100)  # their batch takes two pages
    await world.end_submissions(NAMED)
    await world.happened.until(lambda: world.entry.rounds[NAMED].forwarded)
    await wait_until((small_disk.path / "rounds" / NAMED / "closed").exists)
    small_disk.fill(1)
    reports = world.entry.rounds[NAMED].reports
    messages = [message for report in reports for message in report]
    with pytest.raises(DiskError, match="No space left"):
        await world.deliver(NAMED, messages, len(reports))
    small_disk.make_room()
    await relay_batch(world, NAMED)
    assert (await world.ended(NAMED)).outcome == "published"
    assert len(await world.board(NAMED)) == 17 * len(sent)


async def test_a_round_is_given_up_on_a_full_disk_and_ends_when_there_is_room(
    world: World, small_disk: SmallDisk
) -> None:
    await open_named(world, NAMED)
    with capture_logs() as log:
        small_disk.fill()
        await world.abort(NAMED)
        await wait_until_refused(log)
        with pytest.raises(RoundStateError):
            await world.abort(NAMED)
        small_disk.make_room()
        result = await world.ended(NAMED)
    assert "aborted by the operator" in str(result.reason)
    assert world.accountant.ledger == {NAMED: "released"}


async def test_an_analyst_that_starts_on_a_full_disk_goes_on_with_its_rounds(
    world: World, small_disk: SmallDisk
) -> None:
    await open_named(world, NAMED)
    world.reports(NAMED, 5)
    await world.stop_analyst()
    small_disk.fill()
    with capture_logs() as log:
        await world.start_analyst()
        await world.end_submissions(NAMED)
        await wait_until_refused(log)
        small_disk.make_room()
        assert (await world.ended(NAMED)).outcome == "published"
