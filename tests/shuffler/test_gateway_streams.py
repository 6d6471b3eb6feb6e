"""Long streams of submissions to a real node: each is taken as if it were alone, whatever else the
stream brings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest
from shuffler_world import Round, Submission, World

from shuffledp_client.transport import Backoff, with_retries
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Receipt
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    BusyError,
    DifferentSubmissionError,
    InvalidSubmissionError,
    MalformedDocumentError,
    MalformedRequestError,
    ShuffleDPError,
    SubmissionClosedError,
    UnknownRoundError,
    by_code,
)
from shuffledp_core.runtime.config import Limits
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.chunks import WHOLE_BYTES
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler import gateways
from shuffledp_shuffler.gateways import Begun, Gateways


@pytest.fixture
async def round_(world: World) -> Round:
    await world.start()
    return await world.open()


def message(*submissions: Submission) -> node_pb2.SubmitManyRequest:
    wholes = [
        node_pb2.SubmitWholeRequest(header=one.header, envelope=one.envelope) for one in submissions
    ]
    return node_pb2.SubmitManyRequest(submissions=wholes)


async def answers(
    world: World, requests: list[node_pb2.SubmitManyRequest]
) -> list[Receipt | type[ShuffleDPError]]:
    """All answers of one stream, each a checked receipt or the class of the refusal."""
    found: list[Receipt | type[ShuffleDPError]] = []
    async with translate_errors("node-1"):
        async for response in world.node("node-1", "client").SubmitMany(iter(requests)):
            found += [answer(world, one) for one in response.answers]
    return found


def answer(world: World, one: node_pb2.SubmissionAnswer) -> Receipt | type[ShuffleDPError]:
    if one.WhichOneof("answer") == "refusal":
        assert one.refusal.reason
        return by_code(one.refusal.error)
    return verify_from(world.roster.party("node-1"), Signed.from_bytes(one.receipt), Receipt)


def receipt_of(submission: Submission) -> tuple[str, str]:
    return submission.credential, digest(submission.envelope)


async def test_a_refused_submission_is_answered_in_its_place_and_ends_nothing(
    world: World, round_: Round
) -> None:
    good = [world.submission(round_) for _ in range(200)]
    torn, foreign, long = (world.submission(round_) for _ in range(3))
    torn.header.claim = b"{"
    foreign.header.round_id = "ff" * 16
    long.envelope = bytes(WHOLE_BYTES)
    user = world.user()
    first, other = world.submission(round_, user), world.submission(round_, user)
    wrong = {
        3: (torn, MalformedDocumentError),
        50: (foreign, UnknownRoundError),
        100: (long, InvalidSubmissionError),
        190: (other, DifferentSubmissionError),
    }
    requests = [first, *good]
    for place, (submission, _) in wrong.items():
        requests.insert(place, submission)
    found = await answers(world, [message(one) for one in requests])
    assert len(found) == len(requests)
    for place, (sent, got) in enumerate(zip(requests, found, strict=True)):
        if place in wrong:
            assert got is wrong[place][1]
        else:
            assert isinstance(got, Receipt)
            assert (got.credential, got.submission_digest) == receipt_of(sent)
    assert (await world.status("node-1", round_.round_id)).accepted == 201


async def test_in_a_stream_and_alone_it_is_the_same_submission(world: World, round_: Round) -> None:
    submission = world.submission(round_)
    alone = await world.submit(submission)
    assert await answers(world, [message(submission)] * 3) == [alone] * 3
    assert (await world.status("node-1", round_.round_id)).accepted == 1


async def test_many_in_one_message_are_as_many_in_as_many(world: World, round_: Round) -> None:
    """Each answer is its own submission's, also behind one that is refused in the middle of a
    message."""
    sent = [world.submission(round_) for _ in range(90)]
    torn = world.submission(round_)
    torn.header.claim = b"{"
    found = await answers(world, [message(*sent[:30], torn, *sent[30:60]), message(*sent[60:])])
    assert found.pop(30) is MalformedDocumentError
    assert [
        (one.credential, one.submission_digest) for one in found if isinstance(one, Receipt)
    ] == [receipt_of(one) for one in sent]
    assert (await world.status("node-1", round_.round_id)).accepted == 90


async def test_a_message_without_a_submission_ends_the_stream(world: World, round_: Round) -> None:
    """Otherwise whoever sends nothing but such messages would keep the node busy without a
    refusal."""
    good = world.submission(round_)
    with pytest.raises(MalformedRequestError, match="contains no submission"):
        await answers(world, [message(good), message()])
    assert (await world.status("node-1", round_.round_id)).accepted == 1


async def test_bytes_that_are_no_message_end_the_stream_behind_what_came_before(
    world: World, round_: Round
) -> None:
    good = [message(world.submission(round_)) for _ in range(20)]
    call: Any = world.channel("node-1", "client").stream_stream(
        "/shuffledp_proto.v1.Node/SubmitMany",
        response_deserializer=node_pb2.SubmitManyResponse.FromString,
    )
    found: list[Receipt | type[ShuffleDPError]] = []

    async def read() -> None:
        sent = [
            *(one.SerializeToString() for one in good),
            b"\xff" * 40,
            good[0].SerializeToString(),
        ]
        async with translate_errors("node-1"):
            async for response in call(iter(sent)):
                found.extend(answer(world, one) for one in response.answers)

    with pytest.raises(MalformedRequestError):
        await read()
    assert len(found) == 20
    assert all(isinstance(one, Receipt) for one in found)


async def test_what_is_too_long_for_any_message_ends_its_own_stream_alone(
    world: World, round_: Round
) -> None:
    endless = world.submission(round_)
    endless.envelope = bytes(5 * 2**20)
    with pytest.raises(ShuffleDPError):
        await answers(world, [message(world.submission(round_)), message(endless)])
    good = world.submission(round_)
    assert isinstance((await answers(world, [message(good)]))[0], Receipt)


async def test_behind_the_close_a_stream_goes_on_and_answers_what_was_accepted(
    world: World, round_: Round
) -> None:
    early, other, late = (world.submission(round_) for _ in range(3))
    call = world.node("node-1", "client").SubmitMany()
    for one in (early, other):
        await call.write(message(one))
    before = [answer(world, one) for one in (await _some(call, 2))]
    assert await world.close_round("node-1", round_.round_id) == 2
    for one in (late, early):
        await call.write(message(one))
    after = [answer(world, one) for one in (await _some(call, 2))]
    assert after == [SubmissionClosedError, before[0]]
    await call.done_writing()
    assert await call.code() == grpc.StatusCode.OK


async def _some(call: Any, number: int) -> list[node_pb2.SubmissionAnswer]:
    found: list[node_pb2.SubmissionAnswer] = []
    while len(found) < number:
        found += (await call.read()).answers
    return found


async def test_who_takes_no_answers_in_is_hung_up_on(
    world: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The node stops reading, so that the writer stands still, and gives the connection up.

    Others are served.
    """
    await world.start(limits=Limits(answer_seconds=0.2))
    round_ = await world.open()
    one = message(world.submission(round_))
    call = world.node("node-1", "client").SubmitMany()

    async def write() -> None:
        while True:
            await call.write(one)

    with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
        await write()
    # Over the connection that was closed, perhaps in the middle of this call: a device asks again.
    other = world.submission(round_)
    assert isinstance(await with_retries(lambda: world.submit(other), Backoff()), Receipt)
    assert (
        "unexpected failure" not in capsys.readouterr().out
    )  # nobody may fill the log by hanging up
    assert not [record for record in caplog.records if "grpc" in record.name]


async def test_a_killed_node_has_everything_on_disk_that_its_stream_answered(world: World) -> None:
    process = await world.start_process("node-1")
    await world.start("node-2")
    round_ = await world.open()
    sent = [world.submission(round_) for _ in range(60)]
    call = world.node("node-1", "client").SubmitMany(iter([message(one) for one in sent]))
    receipts = [answer(world, one) for one in await _some(call, 1)]
    await world.kill(process)
    await world.start_process("node-1")
    assert (await world.status("node-1", round_.round_id)).accepted >= len(receipts)
    # All again, over a new stream: each is there once, and those that were answered get the very
    # same receipt.
    again = await answers(world, [message(one) for one in sent])
    assert again[: len(receipts)] == receipts
    assert [
        (one.credential, one.submission_digest) for one in again if isinstance(one, Receipt)
    ] == [receipt_of(one) for one in sent]
    assert (await world.status("node-1", round_.round_id)).accepted == len(sent)


async def test_a_stream_that_hangs_up_leaves_no_room_taken(world: World) -> None:
    """What it began is still under way when it hangs up.

    Whoever comes again, as a device does, finds room after it.
    """
    await world.start(waiting_submissions=8)
    round_ = await world.open()
    for _ in range(3):
        call = world.node("node-1", "client").SubmitMany(
            iter([message(world.submission(round_)) for _ in range(30)])
        )
        await call.read()
        call.cancel()
    one = message(world.submission(round_))
    async with asyncio.timeout(240):
        while not isinstance(answer := (await answers(world, [one]))[0], Receipt):
            assert answer is BusyError


async def test_a_full_line_refuses_one_and_the_stream_goes_on(world: World) -> None:
    """With one place in line for all: whoever finds it taken is told to come again, each by
    itself."""
    await world.start(waiting_submissions=1)
    round_ = await world.open()
    found = await answers(world, [message(world.submission(round_)) for _ in range(40)])
    assert len(found) == 40
    assert isinstance(found[0], Receipt)
    assert {one for one in found if not isinstance(one, Receipt)} <= {BusyError}
    assert (await world.status("node-1", round_.round_id)).accepted == sum(
        isinstance(one, Receipt) for one in found
    )


# ------------------------------------------------------------------ bounds, without a network


def refuse_all(piece: Sequence[None]) -> Begun:
    """Every submission refused at once."""
    refused: Begun = asyncio.get_running_loop().create_future()
    refused.set_result([InvalidSubmissionError("no") for _ in piece])
    return refused


async def test_a_stream_that_brings_nothing_for_a_receipt_loses_its_place() -> None:
    async def silent() -> AsyncIterator[list[None]]:
        await asyncio.Event().wait()
        yield []

    async def refused() -> AsyncIterator[list[None]]:
        while True:
            yield [None]
            await asyncio.sleep(0)

    streams: Gateways[None] = Gateways(refuse_all, patience=0.05)
    for source in (silent(), refused()):
        with pytest.raises(BusyError, match="was accepted for"):
            async for _ in streams.answers(source):
                pass


async def test_refusals_that_come_one_by_one_keep_no_place_either() -> None:
    """There is always a next submission under way, so that the stream never waits for one."""
    begun: asyncio.Queue[Begun] = asyncio.Queue()

    def take(_: Sequence[None]) -> Begun:
        answer: Begun = asyncio.get_running_loop().create_future()
        begun.put_nowait(answer)
        return answer

    async def refuse() -> None:
        while True:
            if begun.qsize() > 3:
                begun.get_nowait().set_result([InvalidSubmissionError("no")])
            await asyncio.sleep(0)

    async def endless() -> AsyncIterator[list[None]]:
        while True:
            yield [None]
            await asyncio.sleep(0)

    refusing = asyncio.create_task(refuse())
    with pytest.raises(BusyError, match="was accepted for"):
        async for _ in Gateways(take, patience=0.05).answers(endless()):
            pass
    refusing.cancel()


async def test_one_stream_too_many_is_refused_and_its_end_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateways, "STREAMS", 1)
    streams: Gateways[None] = Gateways(refuse_all)
    leave = asyncio.Event()

    async def waits() -> AsyncIterator[list[None]]:
        yield [None]
        await leave.wait()

    first = streams.answers(waits())
    assert len(await anext(first)) == 1
    with pytest.raises(BusyError, match="already has 1 open streams"):
        await anext(streams.answers(waits()))
    await first.aclose()
    assert len(await anext(streams.answers(waits()))) == 1


@pytest.mark.parametrize("length", [1, 7, 64, 1000])
async def test_no_more_is_read_than_may_be_under_way(length: int) -> None:
    begun: list[Begun] = []
    sizes: list[int] = []

    def take(piece: Sequence[int]) -> Begun:
        sizes.append(len(piece))
        begun.append(asyncio.get_running_loop().create_future())
        return begun[-1]

    async def many() -> AsyncIterator[list[int]]:
        for _ in range(0, 1000, length):
            yield list(range(length))

    stream = Gateways(take).answers(many())
    waiting = asyncio.ensure_future(anext(stream))
    for _ in range(50 + 3 * gateways.UNDER_WAY):
        await asyncio.sleep(0)
    assert gateways.UNDER_WAY - min(length, 64) < sum(sizes) <= gateways.UNDER_WAY
    begun[0].set_result([InvalidSubmissionError("no")] * sizes[0])
    assert len(await waiting) == sizes[0]
    await stream.aclose()


async def test_a_failure_that_nobody_foresaw_ends_the_stream_at_once() -> None:
    """It would keep its place and be silent, and its caller would then hear of a time that is
    over."""

    def take(_: Sequence[int]) -> Begun:
        raise ZeroDivisionError

    async def two() -> AsyncIterator[list[int]]:
        yield [1]
        yield [2]

    async with asyncio.timeout(240):  # a silent stream may take longer
        with pytest.raises(ZeroDivisionError):
            async for _ in Gateways(take, patience=1000).answers(two()):
                pass
