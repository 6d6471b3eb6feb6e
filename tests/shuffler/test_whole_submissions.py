"""Submissions in one message: checked, stored and answered in groups, each as if it were alone."""

from __future__ import annotations

import asyncio

import pytest
from shuffler_world import Round, Submission, World

from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Receipt
from shuffledp_core.documents.signed import Signed, sign
from shuffledp_core.documents.submission import SubmissionClaim
from shuffledp_core.errors import (
    DifferentSubmissionError,
    InvalidSubmissionError,
    MalformedDocumentError,
    SubmissionClosedError,
    UnknownCredentialError,
    UnknownRoundError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.chunks import WHOLE_BYTES
from shuffledp_proto.v1 import node_pb2


@pytest.fixture
async def round_(world: World) -> Round:
    await world.start()
    return await world.open()


def message(submission: Submission) -> node_pb2.SubmitWholeRequest:
    return node_pb2.SubmitWholeRequest(header=submission.header, envelope=submission.envelope)


def claiming(world: World, round_: Round, envelope_digest: str) -> Submission:
    """The submission of a user whose genuine claim names this digest."""
    user = world.user()
    name = user.key.public_key().public_bytes_raw().hex()
    claim = SubmissionClaim(
        round_id=round_.round_id, credential=name, envelope_digest=envelope_digest
    )
    submission = world.submission(round_, user)
    submission.header.claim = sign(claim, name, user.key).to_bytes()
    return submission


async def test_a_bad_submission_costs_nobody_else_in_its_group(world: World, round_: Round) -> None:
    good = [world.submission(round_) for _ in range(40)]
    stranger, torn, copied, foreign = (world.submission(round_) for _ in range(4))
    stranger.header.credential = sign_by_itself(stranger)
    torn.header.claim = b"{"
    foreign.header.round_id = "ff" * 16
    bad = {
        UnknownCredentialError: message(stranger),
        MalformedDocumentError: message(torn),
        InvalidSubmissionError: message(claiming(world, round_, digest(copied.envelope))),
        UnknownRoundError: message(foreign),
    }
    calls = [message(submission) for submission in good]
    for place, wrong in enumerate(bad.values()):
        calls.insert(7 * place, wrong)
    outcomes = await asyncio.gather(
        *(world.send_whole(call) for call in calls), return_exceptions=True
    )
    refused = [type(outcome) for outcome in outcomes if not isinstance(outcome, Signed)]
    assert refused == list(bad)
    receipts = {
        verify_from(world.roster.party("node-1"), signed, Receipt)
        for signed in outcomes
        if isinstance(signed, Signed)
    }
    assert {(one.credential, one.submission_digest) for one in receipts} == {
        (one.credential, digest(one.envelope)) for one in good
    }
    assert (await world.status("node-1", round_.round_id)).accepted == len(good)


def sign_by_itself(submission: Submission) -> bytes:
    credential = Signed.from_bytes(submission.header.credential)
    return Signed(
        label=credential.label, signer=credential.signer, body=credential.body, signature="00" * 64
    ).to_bytes()


async def test_in_one_message_and_as_a_stream_it_is_the_same_submission(
    world: World, round_: Round
) -> None:
    submission = world.submission(round_)

    async def send(*, streams: bool) -> Receipt:
        world.streams = streams
        return await world.submit(submission)

    receipts = await asyncio.gather(*(send(streams=bool(number % 2)) for number in range(6)))
    assert len(set(receipts)) == 1
    assert (await world.status("node-1", round_.round_id)).accepted == 1


async def test_a_submission_spelled_otherwise_on_the_wire_is_the_same_submission(
    world: World, round_: Round
) -> None:
    """Message and frames can be written in many ways by anyone.

    What is signed and hashed cannot.
    """
    submission = world.submission(round_)
    first = message(submission).SerializeToString()
    decoy = node_pb2.SubmitWholeRequest(
        envelope=b"of two envelopes the last one counts"
    ).SerializeToString()
    unknown = (
        bytes([15 << 3 | 2, 4]) + b"more"
    )  # a field of number 15, which this message does not have
    calls = [
        node_pb2.SubmitWholeRequest.FromString(data)
        for data in (first, decoy + first, first + unknown)
    ]
    for name in ("credential", "claim"):
        respelled = node_pb2.SubmitWholeRequest.FromString(first)
        frame: bytes = getattr(respelled.header, name)
        setattr(respelled.header, name, b" " + frame.replace(b'"label"', b'"\\u006cabel"'))
        calls.append(respelled)
    receipts = {(await world.send_whole(call)).to_bytes() for call in calls}
    assert len(receipts) == 1
    assert (await world.status("node-1", round_.round_id)).accepted == 1
    again = node_pb2.SubmitWholeRequest.FromString(first + decoy)
    with pytest.raises(InvalidSubmissionError):
        await world.send_whole(again)


async def test_slow_streams_keep_no_message_waiting(world: World) -> None:
    await world.start(max_submissions=1, waiting_submissions=1)
    round_ = await world.open()
    slow = [world.node("node-1", "client").Submit() for _ in range(2)]
    for call in slow:  # and nothing of their envelopes, ever
        await call.write(node_pb2.SubmitRequest(header=world.submission(round_).header))
    await world.submit(world.submission(round_))
    for call in slow:
        call.cancel()


async def test_a_message_longer_than_a_window_is_told_to_stream(
    world: World, round_: Round
) -> None:
    submission = world.submission(round_)
    submission.envelope = bytes(WHOLE_BYTES)
    with pytest.raises(InvalidSubmissionError, match="stream it"):
        await world.send_whole(message(submission))


async def test_who_hangs_up_gets_the_receipt_when_it_comes_again(
    world: World, round_: Round
) -> None:
    submission = world.submission(round_)
    for _ in range(3):
        call = world.node("node-1", "client").SubmitWhole(message(submission))
        await call.wait_for_connection()
        call.cancel()
    assert (await world.submit(submission)).credential == submission.credential
    assert (await world.status("node-1", round_.round_id)).accepted == 1


async def test_after_the_close_a_claim_of_anything_is_a_typed_refusal(
    world: World, round_: Round
) -> None:
    """Nothing of an envelope is looked at then, so its claimed digest may be no digest at all."""
    accepted, other = world.submission(round_), world.submission(round_)
    await world.submit(other)
    receipt = await world.submit(accepted)
    await world.close_round("node-1", round_.round_id)
    for claimed in ("", "no hex", "ab" * 32):
        with pytest.raises(SubmissionClosedError):
            await world.send_whole(message(claiming(world, round_, claimed)))
    accepted.envelope = b""
    assert await world.submit(accepted) == receipt
    other.header.credential, other.header.claim = accepted.header.credential, other.header.claim
    with pytest.raises(InvalidSubmissionError):
        await world.submit(other)


async def test_another_submission_is_refused_in_the_same_group_too(
    world: World, round_: Round
) -> None:
    user = world.user()
    calls = [message(world.submission(round_, user)) for _ in range(5)]
    outcomes = await asyncio.gather(
        *(world.send_whole(call) for call in calls), return_exceptions=True
    )
    assert sum(isinstance(outcome, Signed) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, DifferentSubmissionError) for outcome in outcomes) == 4
