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

from shuffledp_client import long_stream
from shuffledp_client.long_stream import LongStream
from shuffledp_client.submission import PreparedSubmission, check_receipt, prepare
from shuffledp_client.transport import Backoff
from shuffledp_client.verification import parse_announcement, verify_round
from shuffledp_core.errors import (
    DifferentSubmissionError,
    DocumentError,
    NodeFault,
    UnreachableError,
)
from shuffledp_core.transport.tls import CLIENT

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
