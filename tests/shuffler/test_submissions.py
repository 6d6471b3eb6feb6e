"""Submitting: what the entry node accepts, and the one typed error for everything else."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any

import grpc
import pytest
from shuffler_world import Round, Running, Submission, World

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Credential
from shuffledp_core.documents.signed import sign
from shuffledp_core.errors import (
    AccessDenied,
    BusyError,
    DifferentSubmissionError,
    InvalidSubmissionError,
    MalformedDocumentError,
    RoundStateError,
    SubmissionClosedError,
    UnknownCredentialError,
    UnknownRoundError,
)
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import batch_pb2, node_pb2
from shuffledp_shuffler.app import build


@pytest.fixture(params=["in one message", "as a stream"])
async def round_(world: World, request: pytest.FixtureRequest) -> Round:
    world.streams = request.param == "as a stream"
    await world.start()
    return await world.open()


async def accepted(world: World, round_: Round) -> int:
    return int((await world.status("node-1", round_.round_id)).accepted)


async def test_a_receipt_names_credential_and_envelope_and_is_the_same_every_time(
    world: World, round_: Round
) -> None:
    submission = world.submission(round_)
    receipts = await asyncio.gather(*(world.submit(submission) for _ in range(5)))
    assert len(set(receipts)) == 1
    assert receipts[0].credential == submission.credential
    assert receipts[0].submission_digest == digest(submission.envelope)
    assert await accepted(world, round_) == 1


async def test_a_second_different_submission_is_refused(world: World, round_: Round) -> None:
    user = world.user()
    await world.submit(world.submission(round_, user))
    with pytest.raises(DifferentSubmissionError):
        await world.submit(world.submission(round_, user))
    assert await accepted(world, round_) == 1


async def test_after_the_close_only_a_repetition_is_answered(world: World, round_: Round) -> None:
    user = world.user()
    first, other = world.submission(round_, user), world.submission(round_)
    receipt = await world.submit(first)
    await world.submit(other)
    await world.close_round("node-1", round_.round_id)
    assert await world.submit(first) == receipt
    with pytest.raises(DifferentSubmissionError):
        await world.submit(world.submission(round_, user))
    with pytest.raises(SubmissionClosedError):
        await world.submit(world.submission(round_))


async def test_too_early_too_late_and_too_many_are_refused(world: World) -> None:
    await world.start()
    early = await world.open(opens_at=system_clock() + 300_000)
    with pytest.raises(SubmissionClosedError, match="opens at"):
        await world.submit(world.submission(early))
    full = await world.open(max_reports=2)
    for _ in range(2):
        await world.submit(world.submission(full))
    with pytest.raises(SubmissionClosedError, match="full"):
        await world.submit(world.submission(full))


async def test_after_the_closing_time_nothing_new_is_taken(world: World) -> None:
    await world.start()
    round_ = await world.open()
    submission = world.submission(round_)
    receipt = await world.submit(submission)
    world.ahead = 700_000
    with pytest.raises(SubmissionClosedError, match="closed at"):
        await world.submit(world.submission(round_))
    assert await world.submit(submission) == receipt


@pytest.mark.parametrize("change", [-1, 1, -200])
async def test_an_envelope_of_another_length_is_refused(
    world: World, round_: Round, change: int
) -> None:
    sealed = world.submission(round_).envelope
    wrong = sealed[:change] if change < 0 else sealed + bytes(change)
    with pytest.raises(InvalidSubmissionError):
        await world.submit(world.submission(round_, envelope=wrong))
    assert await accepted(world, round_) == 0


async def test_an_envelope_for_another_round_or_altered_does_not_open(
    world: World, round_: Round
) -> None:
    other = await world.open()
    with pytest.raises(InvalidSubmissionError, match="does not open"):
        await world.submit(world.submission(round_, envelope=world.submission(other).envelope))
    with pytest.raises(InvalidSubmissionError, match="for round"):
        await world.submit(world.submission(round_, round_id=other.round_id))


async def test_an_envelope_with_the_same_onion_twice_is_refused(
    world: World, round_: Round
) -> None:
    """Sealed with a fresh layer each, equal plain messages are fine; a copied onion is not."""
    geometry = round_.geometry
    message = world.messages(geometry)[0]
    again = seal_envelope(
        geometry, round_.round_id, round_.public_keys(), [message] * geometry.messages_per_user
    )
    await world.submit(world.submission(round_, envelope=again))
    suite, keys = suite_named(geometry.suite), round_.public_keys()
    onion = suite.sealer(keys[1], binding(round_.round_id, 2))(message)
    copied = suite.sealer(keys[0], binding(round_.round_id, 1))(onion * geometry.messages_per_user)
    with pytest.raises(InvalidSubmissionError, match="same onion twice"):
        await world.submit(world.submission(round_, envelope=copied))


async def test_a_stranger_is_refused(world: World, round_: Round) -> None:
    user = world.user()
    name = user.key.public_key().public_bytes_raw().hex()
    user.credential = sign(Credential(population="demo", public_key=name), "demo", user.key)
    with pytest.raises(UnknownCredentialError):
        await world.submit(world.submission(round_, user))


async def test_a_claim_of_another_user_is_refused(world: World, round_: Round) -> None:
    mine, theirs = world.submission(round_), world.submission(round_)
    mine.header.claim = theirs.header.claim
    with pytest.raises(InvalidSubmissionError):
        await world.submit(mine)


async def test_an_envelope_that_somebody_else_submitted_is_refused(
    world: World, round_: Round
) -> None:
    sealed = world.submission(round_).envelope
    await world.submit(world.submission(round_, envelope=sealed))
    with pytest.raises(InvalidSubmissionError, match="another credential"):
        await world.submit(world.submission(round_, envelope=sealed))


async def test_streams_that_are_no_submission_are_refused(world: World, round_: Round) -> None:
    header = node_pb2.SubmitRequest(header=world.submission(round_).header)
    chunk = node_pb2.SubmitRequest(chunk=batch_pb2.Chunk(offset=5, data=b"x"))
    for parts in (
        [],
        [chunk],
        [header, header],
        [header, chunk],
        [header],
        [node_pb2.SubmitRequest()],
    ):
        with pytest.raises(InvalidSubmissionError):
            await world.send_submission(parts)
    garbage = node_pb2.SubmissionHeader(round_id=round_.round_id, credential=b"{", claim=b"\xff")
    with pytest.raises(MalformedDocumentError):
        await world.send_submission([node_pb2.SubmitRequest(header=garbage)])


async def test_only_the_entry_takes_submissions_and_only_from_clients(
    world: World, round_: Round
) -> None:
    with pytest.raises(RoundStateError, match="position 2"):
        await world.submit(world.submission(round_), name="node-2")
    with pytest.raises(AccessDenied):
        await world.submit(world.submission(round_), caller="node-2")
    unknown = world.submission(round_)
    unknown.header.round_id = "ff00"
    with pytest.raises(UnknownRoundError):
        await world.submit(unknown)
    prepared = await world.prepare_all(world.round())
    with pytest.raises(RoundStateError, match="no manifest"):
        await world.submit(world.submission(prepared))


async def in_time(world: World, submission: Submission) -> None:
    """Submits as a device does: again, when a busy machine was slower than the node's patience, or
    when silent calls
    that arrive only now took its place. A minute is a hang."""
    async with asyncio.timeout(240):
        while True:
            try:
                await world.submit(submission)
            except BusyError as error:
                if not re.search(
                    "must not be slower than|call again, and send without pauses", str(error)
                ):
                    raise
            else:
                return


async def test_a_submission_that_never_ends_gives_its_place_back(world: World) -> None:
    await world.start(submission_seconds=0.5, max_submissions=1)
    round_ = await world.open()
    call = world.node("node-1", "client").Submit()
    await call.write(node_pb2.SubmitRequest(header=world.submission(round_).header))
    await in_time(world, world.submission(round_))
    with pytest.raises(BusyError, match="must not be slower than"):
        async with translate_errors("node-1"):
            await call


async def silent_calls(world: World, number: int) -> list[Any]:
    """Calls that reach the entry node, in this order, and say nothing."""
    calls = []
    for _ in range(number):
        calls.append(world.node("node-1", "client").Submit())
        with suppress(grpc.aio.AioRpcError):  # sent away already
            await calls[-1].wait_for_connection()
    return calls


async def test_a_stranger_takes_no_place_however_long_its_envelope_stays_away(world: World) -> None:
    await world.start(max_submissions=1)
    round_ = await world.open()
    stranger = world.user()
    name = stranger.key.public_key().public_bytes_raw().hex()
    stranger.credential = sign(Credential(population="demo", public_key=name), "demo", stranger.key)
    forged = world.submission(round_)
    forged.header.claim = world.submission(round_).header.claim
    for header, refusal in (
        (world.submission(round_, stranger).header, UnknownCredentialError),
        (forged.header, InvalidSubmissionError),
    ):
        call = world.node("node-1", "client").Submit()
        await call.write(node_pb2.SubmitRequest(header=header))  # and nothing of the envelope, ever
        with pytest.raises(refusal):
            async with translate_errors("node-1"), asyncio.timeout(240):
                await call
    await in_time(world, world.submission(round_))


async def test_silent_calls_give_way_to_who_has_something_to_say(world: World) -> None:
    await world.start(limits=Limits(silent_calls=10, request_seconds=600.0), max_submissions=1)
    round_ = await world.open()
    silent = await silent_calls(world, 60)
    await in_time(world, world.submission(round_))
    for call in silent[:50]:
        with pytest.raises(BusyError, match="busy with other callers"):
            async with translate_errors("node-1"), asyncio.timeout(240):
                await call
    for call in silent[50:]:
        call.cancel()


async def test_a_call_that_never_begins_is_told_so(world: World) -> None:
    await world.start(limits=Limits(request_seconds=0.2))
    silent = world.node("node-1", "client").Submit()
    with pytest.raises(BusyError, match="did not begin"):
        async with translate_errors("node-1"):
            await silent


async def test_devices_that_are_waited_for_do_not_keep_the_analyst_out(world: World) -> None:
    await world.start(limits=Limits(silent_calls=1, request_seconds=600.0, streams=1000))
    silent = await silent_calls(world, 300)
    async with asyncio.timeout(240):
        round_ = await world.open()
    await in_time(world, world.submission(round_))
    for call in silent:
        call.cancel()


async def test_a_submission_that_overlaps_the_opening_is_too_early_and_not_another_one(
    world: World,
) -> None:
    opens = system_clock() + 600_000
    readings = [opens - 1, opens]
    world.streams = True
    node, service = build(
        world.config("node-1"), lambda: readings.pop(0) if world.ahead else system_clock()
    )
    await service.start()
    world.running["node-1"] = Running(node, service)
    await world.start("node-2")
    round_ = await world.open(opens_at=opens, closes_at=opens + 600_000)
    world.ahead = 1
    with pytest.raises(SubmissionClosedError, match="opens at"):
        await world.submit(world.submission(round_))
