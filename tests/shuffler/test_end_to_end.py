"""Two real nodes over mutual TLS: what goes in at the entry comes out at the analyst, once, in
another order."""

from __future__ import annotations

import asyncio

from shuffler_world import World

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.headers import check_headers
from shuffledp_core.documents.models import BatchHeader, Discard
from shuffledp_core.documents.signed import Signed
from shuffledp_core.runtime.keys import verify_from
from shuffledp_proto.v1 import node_pb2


async def test_every_accepted_message_reaches_the_analyst_once(world: World) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    submissions = [world.submission(round_) for _ in range(40)]
    await asyncio.gather(*(world.submit(submission) for submission in submissions))
    assert await world.close_round("node-1", round_.round_id) == 40
    for name in world.names:
        status = await world.ended(name, round_.round_id)
        assert status.phase == node_pb2.ROUND_PHASE_DONE, status.reason
        assert status.accepted == 40
    sent = [message for submission in submissions for message in submission.messages]
    board = world.board(round_)
    assert sorted(board) == sorted(sent)
    assert board != sent


async def test_after_its_part_a_node_keeps_neither_key_nor_data(world: World) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    for _ in range(2):
        await world.submit(world.submission(round_))
    await world.close_round("node-1", round_.round_id)
    for name in world.names:
        await world.ended(name, round_.round_id)
        discard = verify_from(
            world.roster.party(name), await world.delete(name, round_.round_id), Discard
        )
        assert discard.forwarded
        state = world.folder / "state" / name
        files = {path.name for path in state.rglob("*") if path.is_file()}
        node = {"lock", "seen", "roster-seen", "ledger-positions.json"}
        assert files == {*node, f"{round_.round_id}.json"}


async def test_a_node_that_is_done_says_so_with_the_signed_header_of_its_batch(
    world: World,
) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    for _ in range(3):
        await world.submit(world.submission(round_))
    assert (await world.status("node-1", round_.round_id)).header == b""
    await world.close_round("node-1", round_.round_id)
    headers = []
    for name in world.names:
        async for status in world.watch(name, round_.round_id):
            assert (status.header != b"") == (status.phase == node_pb2.ROUND_PHASE_DONE)
        headers.append(Signed.from_bytes(status.header))
    route = [world.roster.party(name) for name in world.names]
    check_headers(headers, route, round_.round_id, round_.geometry.messages_per_user, 3)
    last = verify_from(route[-1], headers[-1], BatchHeader)
    assert last.digest == digest(world.sink.batches[round_.round_id])


async def test_a_restarted_node_still_gives_the_header_of_a_batch_it_relayed(world: World) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    for _ in range(2):
        await world.submit(world.submission(round_))
    await world.close_round("node-1", round_.round_id)
    before = (await world.ended("node-2", round_.round_id)).header
    await world.stop("node-2")
    await world.hang_up()
    await world.start("node-2")
    assert (await world.ended("node-2", round_.round_id)).header == before != b""
