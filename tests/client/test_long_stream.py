"""A gateway submits for many devices over one stream.

Every device gets what it would have got by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, Draft, make_deployment, make_members
from simulated_round import SimulatedRound

from shuffledp_client import blocks, long_stream
from shuffledp_client.blocks import Block, make_blocks
from shuffledp_client.long_stream import LongStream
from shuffledp_client.submission import PreparedSubmission, check_receipt, prepare
from shuffledp_client.transport import Backoff
from shuffledp_client.verification import parse_announcement, verify_round
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    BusyError,
    DifferentSubmissionError,
    DocumentError,
    NodeFault,
    UnreachableError,
)
from shuffledp_core.transport.tls import CLIENT
from shuffledp_proto.v1 import node_pb2

AT_ONCE = Backoff(attempts=4, first=0.01, longest=0.01)


@dataclass
class Scene:
    simulated: SimulatedRound
    prepared: list[PreparedSubmission]
    gateway: LongStream

    async def all_submit(self) -> list[object]:
        return await asyncio.gather(
            *map(self.gateway.submit, self.prepared), return_exceptions=True
        )


@asynccontextmanager
async def scene(folder: Path, devices: int = 40) -> AsyncIterator[Scene]:
    deployment = make_deployment(folder / "deployment")
    simulated, roster = SimulatedRound(Draft(deployment), folder), deployment.roster
    verified = verify_round(
        parse_announcement(simulated.announcement), roster, LENIENT, POPULATION, NOW, ROUND_ID
    )
    prepared = [prepare(verified, 1, member) for member in make_members(deployment, devices)]
    keys = deployment.keys_of(CLIENT)
    async with simulated, LongStream(roster.party("node-1"), keys, roster, AT_ONCE) as gateway:
        yield Scene(simulated, prepared, gateway)


def all_have_receipts(scene: Scene, answers: list[object]) -> None:
    entry = scene.simulated.draft.deployment.roster.party("node-1")
    for prepared, receipt in zip(scene.prepared, answers, strict=True):
        check_receipt(prepared, entry, receipt)  # type: ignore[arg-type] # an error among them fails here


async def test_many_devices_share_one_stream_and_each_gets_its_own_receipt(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        all_have_receipts(here, await here.all_submit())
        assert (here.simulated.gateways, here.simulated.calls) == (1, 1)
        assert sorted(here.simulated.accepted.values()) == sorted(
            one.envelope for one in here.prepared
        )


async def test_a_stream_that_breaks_is_opened_again_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as here:
        here.simulated.broken_after = 7
        all_have_receipts(here, await here.all_submit())
        assert here.simulated.gateways == 2
        assert len(here.simulated.accepted) == 40


async def test_a_refusal_is_its_own_devices_error_and_nobody_elses(tmp_path: Path) -> None:
    async with scene(tmp_path, devices=9) as here:
        other = here.prepared[4]
        here.simulated.accepted[other.claim.signer] = b"another one"
        answers = await here.all_submit()
        assert isinstance(answers.pop(4), DifferentSubmissionError)
        del here.prepared[4]
        all_have_receipts(here, answers)
        assert here.simulated.gateways == 1


async def test_a_node_that_answers_too_often_is_not_believed(tmp_path: Path) -> None:
    """Doubled answers shift all that follow: a receipt for another device is none, and one too many
    is a fault."""
    async with scene(tmp_path, devices=5) as here:
        here.simulated.times = 2
        answers = await here.all_submit()
        assert any(isinstance(answer, DocumentError | NodeFault) for answer in answers)
        entry = here.simulated.draft.deployment.roster.party("node-1")
        for prepared, answer in zip(here.prepared, answers, strict=True):
            if not isinstance(answer, Exception):
                check_receipt(prepared, entry, answer)  # type: ignore[arg-type]


async def test_what_is_too_long_for_a_message_goes_as_from_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, devices=3) as here:
        monkeypatch.setattr(long_stream, "WHOLE_BYTES", 1)
        all_have_receipts(here, await here.all_submit())
        assert (here.simulated.gateways, here.simulated.calls) == (0, 3)


async def test_a_node_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, devices=2) as here:
        monkeypatch.setattr(long_stream, "CALL_SECONDS", 0.2)
        here.simulated.times = 0
        answers = await here.all_submit()
        assert {type(answer) for answer in answers} == {UnreachableError}


async def test_a_device_that_gives_up_costs_no_other_its_receipt(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        calls = [asyncio.ensure_future(here.gateway.submit(one)) for one in here.prepared]
        for _ in range(3):
            await asyncio.sleep(0)
        for call in calls[::3]:
            call.cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        left = [
            place
            for place, answer in enumerate(answers)
            if not isinstance(answer, asyncio.CancelledError)
        ]
        assert len(left) >= 26
        here.prepared = [here.prepared[place] for place in left]
        all_have_receipts(here, [answers[place] for place in left])


async def test_a_closed_gateway_leaves_nobody_waiting(tmp_path: Path) -> None:
    async with scene(tmp_path, devices=3) as here:
        here.simulated.times = 0
        calls = [asyncio.ensure_future(here.gateway._send(one)) for one in here.prepared]
        await here.simulated.opened.wait()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(answer) for answer in answers} == {UnreachableError}


# ------------------------------------------------------------------ blocks


def blocks_of(scene: Scene) -> list[Block]:
    made, long = make_blocks([(one, one.messages) for one in scene.prepared])
    assert not long
    return made


async def test_a_block_gets_every_receipt_in_one_answer(tmp_path: Path) -> None:
    async with scene(tmp_path, devices=20) as here:
        (block,) = blocks_of(here)
        assert await here.gateway.submit_block(block) == [None] * 20
        assert (here.simulated.gateways, here.simulated.calls) == (1, 1)
        assert here.simulated.accepted == {one.claim.signer: one.envelope for one in here.prepared}
        assert block.messages == tuple(one.messages for one in here.prepared)


async def test_blocks_are_cut_where_a_message_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path) as here:
        length = max(each.ByteSize() for each in blocks_of(here)[0].parse())
        monkeypatch.setattr(blocks, "WHOLE_BYTES", 7 * length)
        cut = blocks_of(here)
        assert max(map(len, cut)) in {7, 8}
        assert sum(map(len, cut)) == 40
        outcomes = await asyncio.gather(*map(here.gateway.submit_block, cut))
        assert [error for block in outcomes for error in block] == [None] * 40
        monkeypatch.setattr(blocks, "WHOLE_BYTES", 1)
        assert make_blocks([(one, b"") for one in here.prepared]) == ([], here.prepared)


async def test_a_block_is_sent_again_over_a_new_stream(tmp_path: Path) -> None:
    async with scene(tmp_path, devices=20) as here:
        here.simulated.broken_after = 7
        (block,) = blocks_of(here)
        assert await here.gateway.submit_block(block) == [None] * 20
        assert here.simulated.gateways == 2
        assert len(here.simulated.accepted) == 20


async def test_a_refusal_in_a_block_is_one_users_alone(tmp_path: Path) -> None:
    async with scene(tmp_path, devices=9) as here:
        here.simulated.accepted[here.prepared[4].claim.signer] = b"another one"
        outcomes = await here.gateway.submit_block(blocks_of(here)[0])
        assert isinstance(outcomes.pop(4), DifferentSubmissionError)
        assert outcomes == [None] * 8


async def test_who_finds_no_room_in_a_block_comes_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, devices=9) as here:
        accept = here.simulated.accept
        busy = {here.prepared[2].claim.signer: 2, here.prepared[8].claim.signer: 1}

        def accept_later(header: node_pb2.SubmissionHeader, envelope: bytes) -> Signed:
            name = Signed.from_bytes(header.claim).signer
            if busy.get(name):
                busy[name] -= 1
                raise BusyError("no room")
            return accept(header, envelope)

        monkeypatch.setattr(here.simulated, "accept", accept_later)
        assert await here.gateway.submit_block(blocks_of(here)[0]) == [None] * 9
        assert not any(busy.values())
        assert here.simulated.gateways == 1


async def test_receipts_of_other_submissions_are_none(tmp_path: Path) -> None:
    """Doubled answers shift all that follow."""
    async with scene(tmp_path, devices=5) as here:
        here.simulated.times = 2
        outcomes = await here.gateway.submit_block(blocks_of(here)[0])
        assert outcomes[0] is None
        assert all(isinstance(one, DocumentError | NodeFault) for one in outcomes[1:])


async def test_a_block_that_is_never_answered_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, devices=2) as here:
        monkeypatch.setattr(long_stream, "CALL_SECONDS", 0.2)
        here.simulated.times = 0
        outcomes = await here.gateway.submit_block(blocks_of(here)[0])
        assert {type(one) for one in outcomes} == {UnreachableError}
