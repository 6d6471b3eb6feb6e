"""Batches between hops: a node believes its predecessor's commitment and nothing less, and nothing
is half done."""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import Any

import pytest
from shuffler_world import Round, World

from shuffledp_core.documents.models import BatchHeader, Discard
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    AccessDenied,
    BadBatchError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundStateError,
    SignatureError,
    UnknownRoundError,
)
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import batch_pb2, batch_pb2_grpc, node_pb2

USERS = 4
ROOM = 6
"""Messages that may be lost: of 4 reports with 3 messages the certificate counts on 2."""


@pytest.fixture
async def round_(world: World) -> Round:
    await world.start_analyst()
    await world.start()
    return await world.open()


def onions(world: World, round_: Round, users: int = USERS) -> list[bytes]:
    """What an honest node 1 would relay."""
    seal = suite_named(round_.geometry.suite).sealer(
        round_.public_keys()[1], binding(round_.round_id, 2)
    )
    return [seal(message) for _ in range(users) for message in world.messages(round_.geometry)]


async def waits(world: World, round_: Round) -> bool:
    status = await world.status("node-2", round_.round_id)
    uploads = world.folder / "state" / "node-2" / "uploads"
    return bool(status.phase == node_pb2.ROUND_PHASE_OPEN) and not list(uploads.iterdir())


async def test_a_repeated_batch_is_harmless_and_another_one_is_refused(
    world: World, round_: Round
) -> None:
    data, other = b"".join(onions(world, round_)), b"".join(onions(world, round_))
    header = world.header(round_, data, USERS)
    await world.add_batch(header, data)
    await world.add_batch(header, data)
    with pytest.raises(BadBatchError, match="a different header"):
        await world.add_batch(world.header(round_, other, USERS), other)
    assert (await world.ended("node-2", round_.round_id)).phase == node_pb2.ROUND_PHASE_DONE
    await world.add_batch(header, data)
    assert world.sink.calls == 1


async def test_a_large_batch_can_be_repeated_whatever_became_of_it(world: World) -> None:
    """Larger than what a connection buffers: the sender is still writing when the node knows the
    answer."""
    await world.start()
    round_ = await world.open(RRShuffle(max_value=600, randomise=Fraction(1, 4)))
    data = secrets.token_bytes(200 * 600 * round_.geometry.record_bytes(2))
    header = world.header(round_, data, 200)
    for _ in range(3):
        await world.add_batch(header, data)
    assert (await world.ended("node-2", round_.round_id)).error == "BadBatchError"
    await world.add_batch(header, data)


@pytest.mark.parametrize(
    ("cut", "extra"),
    [(1, b""), (113, b""), (0, b"x"), (10**9, b"")],
    ids=["torn", "short", "long", "empty"],
)
async def test_a_batch_of_another_length_than_announced_is_refused(
    world: World, round_: Round, cut: int, extra: bytes
) -> None:
    data = b"".join(onions(world, round_))
    header = world.header(round_, data, USERS)
    with pytest.raises(BadBatchError):
        await world.add_batch(header, data[: max(0, len(data) - cut)] + extra)
    assert await waits(world, round_)
    await world.add_batch(header, data)


async def test_other_bytes_than_committed_are_refused(world: World, round_: Round) -> None:
    data = b"".join(onions(world, round_))
    with pytest.raises(BadBatchError, match="digest"):
        await world.add_batch(world.header(round_, data, USERS), data[:-1] + bytes([data[-1] ^ 1]))
    assert await waits(world, round_)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": 1},
        {"position": 3},
        {"users": 1},
        {"users": 1001},
        {"records": 11},
        {"dropped": 1},
        {"dropped": ROOM + 1, "records": 12 - ROOM - 1},
        {"dropped": -1, "records": 13},
        {"digest": "AB" * 32},
    ],
)
async def test_a_header_that_does_not_fit_the_round_is_refused(
    world: World, round_: Round, changes: dict[str, Any]
) -> None:
    data = b"".join(onions(world, round_))
    with pytest.raises(BadBatchError):
        await world.add_batch(world.header(round_, data, USERS, **changes), data)
    assert await waits(world, round_)


async def fails(world: World, round_: Round, records: list[bytes], reason: str) -> None:
    data = b"".join(records)
    await world.add_batch(world.header(round_, data, USERS), data)
    status = await world.ended("node-2", round_.round_id)
    assert status.phase == node_pb2.ROUND_PHASE_FAILED
    assert status.error == "BadBatchError"
    assert reason in status.reason
    assert world.sink.calls == 0
    left = {
        path.name
        for path in (world.folder / "state" / "node-2" / "rounds" / round_.round_id).iterdir()
    }
    assert left == {"record.json"}


async def drops(
    world: World, round_: Round, records: list[bytes], dropped: int, before: int = 0
) -> None:
    """The batch goes through without so many of its records, and the node signs for them."""
    data = b"".join(records)
    header = world.header(round_, data, USERS, dropped=before, records=3 * USERS - before)
    await world.add_batch(header, data)
    status = await world.ended("node-2", round_.round_id)
    assert status.phase == node_pb2.ROUND_PHASE_DONE, status.reason
    said = verify_from(world.roster.party("node-2"), Signed.from_bytes(status.header), BatchHeader)
    assert (said.users, said.dropped, said.records) == (
        USERS,
        before + dropped,
        len(records) - dropped,
    )
    assert len(world.board(round_)) == len(set(world.board(round_))) == said.records


async def test_of_a_repeated_onion_one_is_kept(world: World, round_: Round) -> None:
    records = onions(world, round_)
    await drops(world, round_, [*records[:-2], records[0], records[0]], 2)


async def test_an_onion_for_another_round_is_dropped(world: World, round_: Round) -> None:
    other = await world.open()
    await drops(world, round_, [*onions(world, round_)[:-1], onions(world, other)[0]], 1)


async def test_an_onion_with_one_flipped_bit_is_dropped(world: World, round_: Round) -> None:
    records = onions(world, round_)
    await drops(world, round_, [*records[:-1], records[-1][:-1] + bytes([records[-1][-1] ^ 1])], 1)


async def test_what_was_dropped_before_is_counted_on(world: World, round_: Round) -> None:
    records = onions(world, round_)[: 3 * USERS - 2]
    await drops(world, round_, [*records[:-1], secrets.token_bytes(len(records[0]))], 1, before=2)


async def test_as_many_onions_are_dropped_as_the_plan_has_room_for(
    world: World, round_: Round
) -> None:
    records = onions(world, round_)
    await drops(
        world,
        round_,
        [secrets.token_bytes(len(record)) for record in records[:ROOM]] + records[ROOM:],
        ROOM,
    )


async def test_one_onion_more_fails_the_round_before_anything_is_forwarded(
    world: World, round_: Round
) -> None:
    records = onions(world, round_)
    broken = [secrets.token_bytes(len(record)) for record in records[: ROOM + 1]] + records[
        ROOM + 1 :
    ]
    await fails(world, round_, broken, "7 onions of 4 reports failed to decrypt")
    discard = verify_from(
        world.roster.party("node-2"), await world.delete("node-2", round_.round_id), Discard
    )
    assert not discard.forwarded


async def test_only_the_predecessor_is_believed(world: World, round_: Round) -> None:
    data = b"".join(onions(world, round_))
    header = world.header(round_, data, USERS)
    with pytest.raises(AccessDenied):
        await world.add_batch(header, data, caller="client")
    with pytest.raises(ForeignDocumentError):
        await world.add_batch(header, data, caller="node-2")
    with pytest.raises(AccessDenied, match="predecessor"):
        await world.add_batch(
            world.header(round_, data, USERS, signer="node-2"), data, caller="node-2"
        )
    forged = world.header(round_, data, USERS)
    forged = type(forged)(
        label=forged.label, signer=forged.signer, body=forged.body + " ", signature=forged.signature
    )
    with pytest.raises(SignatureError):
        await world.add_batch(forged, data)
    assert await waits(world, round_)


async def test_a_batch_for_no_round_or_a_round_without_manifest_is_refused(
    world: World, round_: Round
) -> None:
    data = b"".join(onions(world, round_))
    with pytest.raises(UnknownRoundError):
        await world.add_batch(world.header(round_, data, USERS, round_id="00ff"), data)
    with pytest.raises(UnknownRoundError):
        await world.add_batch(world.header(round_, data, USERS, round_id="../../etc"), data)
    prepared = await world.prepare_all(world.round())
    with pytest.raises(RoundStateError):
        await world.add_batch(world.header(prepared, data, USERS), data)
    to_entry = world.header(round_, data, USERS, signer="node-2", position=1)
    with pytest.raises(AccessDenied, match="predecessor"):
        await world.add_batch(to_entry, data, name="node-1", caller="node-2")


async def test_streams_that_are_no_batch_are_refused(world: World, round_: Round) -> None:
    data = b"".join(onions(world, round_))
    header = batch_pb2.AddBatchRequest(header=world.header(round_, data, USERS).to_bytes())
    stub = batch_pb2_grpc.BatchSinkStub(world.channel("node-2", "node-1"))
    chunk = batch_pb2.AddBatchRequest(chunk=batch_pb2.Chunk(offset=113, data=data))
    for parts in ([], [chunk], [header, header], [header, chunk], [batch_pb2.AddBatchRequest()]):
        with pytest.raises(BadBatchError):
            async with translate_errors("node-2"):
                await stub.AddBatch(iter(parts))
    with pytest.raises(MalformedDocumentError):
        await world.add_batch(b"\x00", b"")
    assert await waits(world, round_)
