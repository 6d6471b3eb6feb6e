"""A device sends what fits in one message, and streams the rest.

The entry node sees the same submission.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from client_rounds import LENIENT, NOW, POPULATION, ROUND_ID, Draft, make_deployment, make_members
from simulated_round import SimulatedRound

from shuffledp_client import transport
from shuffledp_client.submission import prepare
from shuffledp_client.transport import EntryNode
from shuffledp_client.verification import parse_announcement, verify_round
from shuffledp_core.transport.chunks import WHOLE_BYTES
from shuffledp_core.transport.tls import CLIENT
from shuffledp_proto.v1 import node_pb2


async def test_the_longest_message_goes_whole_and_a_byte_more_is_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = make_deployment(tmp_path / "deployment")
    simulated, roster = SimulatedRound(Draft(deployment), tmp_path), deployment.roster
    verified = verify_round(
        parse_announcement(simulated.announcement), roster, LENIENT, POPULATION, NOW, ROUND_ID
    )
    small, large = (prepare(verified, 1, member) for member in make_members(deployment, 2))
    header = node_pb2.SubmissionHeader(
        round_id=ROUND_ID, credential=small.credential.to_bytes(), claim=small.claim.to_bytes()
    )
    length = node_pb2.SubmitWholeRequest(header=header, envelope=small.envelope).ByteSize()
    assert length < WHOLE_BYTES
    async with (
        simulated,
        EntryNode(roster.party("node-1"), deployment.keys_of(CLIENT), roster) as entry,
    ):
        monkeypatch.setattr(transport, "WHOLE_BYTES", length)
        await entry.submit(small)
        assert (simulated.calls, simulated.streams) == (1, 0)
        monkeypatch.setattr(transport, "WHOLE_BYTES", length - 1)
        await entry.submit(large)
        assert (simulated.calls, simulated.streams) == (2, 1)
    assert list(simulated.accepted.values()) == [small.envelope, large.envelope]


async def test_a_node_of_an_earlier_release_is_sent_a_stream_and_asked_only_once(
    tmp_path: Path,
) -> None:
    deployment = make_deployment(tmp_path / "deployment")
    simulated, roster = (
        SimulatedRound(Draft(deployment), tmp_path, offers_whole=False),
        deployment.roster,
    )
    verified = verify_round(
        parse_announcement(simulated.announcement), roster, LENIENT, POPULATION, NOW, ROUND_ID
    )
    first, second = (prepare(verified, 1, member) for member in make_members(deployment, 2))
    async with (
        simulated,
        EntryNode(roster.party("node-1"), deployment.keys_of(CLIENT), roster) as entry,
    ):
        for submission in (first, second):
            await entry.submit(submission)
    assert (simulated.unimplemented, simulated.streams) == (1, 2)
    assert list(simulated.accepted.values()) == [first.envelope, second.envelope]
