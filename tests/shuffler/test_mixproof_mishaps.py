"""Verified rounds among mishaps for which nobody is to blame: new rosters, slow threads, bugs,
damaged calls."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mixing_cheats import flipped
from mixproof_world import (
    MixproofRound,
    open_mixproof,
    prepare,
)
from shuffler_world import World
from test_mixproof_nodes import accused, spoiled_round

from shuffledp_analyst.config import AnalystConfig
from shuffledp_analyst.mixproof import ProvableMixing
from shuffledp_analyst.peers import Peers
from shuffledp_analyst.records import Records
from shuffledp_analyst.running import RunningRound
from shuffledp_core.documents.models import BatchHeader, Certificate, Discard, Manifest, RoundPlan
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import (
    ForeignDocumentError,
    NodeFault,
    PolicyRefusal,
    RoundStateError,
    UnansweredError,
    UnknownRoundError,
)
from shuffledp_core.mixproof import hops
from shuffledp_core.mixproof.evidence import AccusedRecord, Transcript
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.history import Accusation, most_bytes, pack_document, unpack_document
from shuffledp_core.runtime.keys import ROOT, load_identity
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_core.vocabulary import Mix
from shuffledp_ops.keys.pki import next_roster
from shuffledp_proto.v1 import batch_pb2, node_pb2
from shuffledp_shuffler.live import LiveRound

FAILED, DONE = node_pb2.ROUND_PHASE_FAILED, node_pb2.ROUND_PHASE_DONE


def rotate_enrolment(world: World) -> None:
    """Publishes a roster with another enrolment key for the population."""
    fresh = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    populations = tuple(
        msgspec.structs.replace(each, enrolment_key=fresh) for each in world.roster.populations
    )
    root = load_identity(world.deployment.folder / "root", ROOT)
    renewed = next_roster(world.roster, dt.datetime.now(dt.UTC), populations=populations)
    world.deployment.roster_file.write_bytes(root.sign(renewed).to_bytes())


async def test_a_roster_with_another_enrolment_key_has_nobody_named(world: World) -> None:
    """By the new key nobody on honest node 1's list is enrolled.

    The round ends at who has the new roster.
    """
    round_ = await spoiled_round(world)
    await accused(world, round_)
    rotate_enrolment(world)
    await world.hang_up()
    await world.stop("node-2")
    await world.start("node-2")
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "ForeignDocumentError")
    assert "this roster's enrolment key of 'demo' is not the one" in status.reason
    assert "node 1" not in status.reason


async def test_nodes_with_rosters_of_two_enrolment_keys_make_no_keys_together(world: World) -> None:
    await world.start("node-1")
    rotate_enrolment(world)
    await world.start("node-2")
    with pytest.raises(ForeignDocumentError, match="not the one that the round uses"):
        await open_mixproof(world)


async def test_a_round_whose_work_ends_late_keeps_no_other_round_from_being_deleted_or_prepared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread is not interrupted: a deletion waits for it, which with a large batch takes
    minutes."""
    at_work, may_end, stopping = threading.Event(), threading.Event(), asyncio.Event()
    honest, stop = hops.Hop.release, LiveRound.stop

    def slow(self: hops.Hop, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        if self.position != 1:
            at_work.set()
            may_end.wait()
        return honest(self, random)

    async def stopped(self: LiveRound) -> None:
        stopping.set()
        await stop(self)

    await world.start()
    await world.start_analyst()
    round_, other = await open_mixproof(world), await open_mixproof(world)
    for _ in range(2):
        await round_.send(round_.submission(world.user()))
    monkeypatch.setattr(hops.Hop, "release", slow)
    await world.close_round("node-1", round_.round.round_id)
    await asyncio.to_thread(at_work.wait)
    monkeypatch.setattr(LiveRound, "stop", stopped)
    deletions = [
        asyncio.ensure_future(world.delete("node-2", round_.round.round_id)) for _ in range(2)
    ]
    try:
        await stopping.wait()
        # Only a node that waits for the other round's thread takes so long.
        async with asyncio.timeout(240):
            await world.delete("node-2", other.round.round_id)
            await open_mixproof(world)
        with pytest.raises(UnknownRoundError):
            await prepare(world, "node-2", round_.round.certificate, 2, round_.round.keys[:1])
        assert not any(deletion.done() for deletion in deletions)
    finally:
        may_end.set()
    first, second = await asyncio.gather(*deletions)
    assert first == second
    assert not from_json(first.body, Discard).forwarded
    assert world.sink.batches == {}
    with pytest.raises(RoundStateError, match="can never be used again"):
        await prepare(world, "node-2", round_.round.certificate, 2, round_.round.keys[:1])


async def test_who_brings_a_transcript_hears_also_of_a_failure_that_nobody_foresaw(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: hops.Hop, __: Transcript | None) -> None:
        raise ZeroDivisionError

    round_ = await spoiled_round(world)
    await accused(world, round_)
    transcript = await round_.transcript(await round_.accusation("node-2"))
    monkeypatch.setattr(hops.Hop, "settle", failing)
    with pytest.raises(NodeFault, match=r"unexpected failure \(ZeroDivisionError\)"):
        async with asyncio.timeout(240):  # only a caller who is never answered waits so long
            await round_.settle("node-2", transcript)
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "NodeFault")


async def test_a_disk_that_lost_submissions_is_said_to_have_lost_them(world: World) -> None:
    await world.start()
    round_ = await open_mixproof(world)
    await round_.send(round_.submission(world.user()))
    await world.stop("node-1")
    envelopes = world.folder / "state" / "node-1" / "rounds" / round_.round.round_id / "envelopes"
    envelopes.write_bytes(b"not what it was")
    await world.start("node-1")
    await world.hang_up()
    status = await world.ended("node-1", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "NodeFault")
    assert "the disk lost data" in status.reason


def config_of(world: World) -> AnalystConfig:
    return AnalystConfig(
        name="analyst",
        keys=world.deployment.keys_of("analyst"),
        roster=world.deployment.roster_file,
        root_key=world.deployment.root_key,
        listen=world.roster.analyst.address,
        state=world.folder / "state" / "analyst",
    )


class TornCalls(Peers):
    """The analyst's calls, of which the first so many of each kind are damaged on their way."""

    def __init__(self, world: World, torn: int) -> None:
        super().__init__(config_of(world), world.roster)
        self.torn = torn
        self.answers = self.transcripts = 0

    async def answer(self, name: str, round_id: str, inquiry: bytes, most: int) -> bytes:
        self.answers += 1
        answer = await super().answer(name, round_id, inquiry, most)
        return answer[:-9] + flipped(answer[-9:]) if self.answers <= self.torn else answer

    async def settle_accusation(self, name: str, round_id: str, transcript: bytes) -> None:
        self.transcripts += 1
        if self.transcripts <= self.torn:
            transcript = pack_document(
                replace(unpack_document(transcript, Transcript), passages=())
            )
        await super().settle_accusation(name, round_id, transcript)


def analysts_part(round_: MixproofRound, peers: Peers) -> ProvableMixing:
    signed = round_.round.manifest
    assert signed is not None
    certificate = from_json(round_.round.certificate.body, Certificate)
    return ProvableMixing((signed, from_json(signed.body, Manifest)), certificate, peers)


async def test_the_analyst_asks_once_more_for_what_was_damaged_on_its_way(world: World) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    await analysts_part(round_, torn := TornCalls(world, 1)).settle("node-2")
    assert (torn.answers, torn.transcripts) == (
        3,
        2,
    )  # a trace twice, a passage, and the transcript twice
    assert (await world.ended("node-2", round_.round.round_id)).phase == DONE


async def test_the_analyst_does_not_ask_for_ever(world: World) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    with pytest.raises(UnansweredError):
        await analysts_part(round_, torn := TornCalls(world, 100)).settle("node-2")
    assert (torn.answers, torn.transcripts) == (2, 0)


class Babbler(Peers):
    """The analyst's calls to nodes of whom one accuses every record many times."""

    async def accusation(self, name: str, round_id: str, most: int) -> bytes:
        said = unpack_document(await super().accusation(name, round_id, most), Accusation)
        return pack_document(replace(said, accused=said.accused * 1000))


async def test_an_analyst_traces_no_more_than_any_node_would_accuse(world: World) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    with pytest.raises(UnansweredError, match="node-2 accuses 1000 records, more than"):
        await analysts_part(round_, Babbler(config_of(world), world.roster)).settle("node-2")


class Rambler(Peers):
    """The analyst's calls to nodes of whom one accuses records that take more memory than bytes."""

    async def accusation(self, name: str, round_id: str, most: int) -> bytes:
        said = unpack_document(await super().accusation(name, round_id, most), Accusation)
        return pack_document(replace(said, accused=(AccusedRecord(0, b"", ()),) * 10_000))


async def test_an_accusation_of_many_small_values_is_not_read(world: World) -> None:
    round_ = await spoiled_round(world)
    await accused(world, round_)
    with pytest.raises(
        UnansweredError, match=r"the accusation of node-2 cannot be read: .* more than"
    ):
        await analysts_part(round_, Rambler(config_of(world), world.roster)).settle("node-2")


async def test_a_history_that_is_longer_than_the_analyst_reads_ends_the_round_before_it_arrives(
    world: World, tmp_path: Path
) -> None:
    """Its sender needs none of it: by the manifest alone nearly every user might have been
    accused."""
    await world.start()
    round_ = await open_mixproof(world, min_reports=2, max_reports=100)
    signed = round_.round.manifest
    assert signed is not None
    manifest, config = (
        from_json(signed.body, Manifest),
        msgspec.structs.replace(config_of(world), history_memory=2**20),
    )
    plan = RoundPlan(
        population="demo", mechanism="rr-shuffle", size=3, epsilon=1.0, delta=1e-6, min_reports=2,
        max_reports=100,
        route=tuple(world.names), mix=Mix.VERIFIED,
    )  # fmt: skip
    services = SimpleNamespace(peers=None, config=config, records=Records(tmp_path))
    running = RunningRound(services, manifest.round_id, plan)  # type: ignore[arg-type]
    running.adopt_manifest(signed, manifest)
    running.round.end_submissions()

    async def nothing() -> AsyncIterator[batch_pb2.AddBatchRequest]:
        raise AssertionError("nothing of it is read")
        yield

    header = BatchHeader(
        round_id=manifest.round_id, position=len(world.names) + 1, users=2, digest="00" * 32,
        records=2 * round_.terms.messages_per_user, history=most_bytes(manifest),
    )  # fmt: skip
    with pytest.raises(PolicyRefusal, match="raise `history_memory`"):
        await running.deliver(
            world.deployment.identity_of("node-2").sign(header), header, nothing()
        )
    assert isinstance(running.failure.result(), PolicyRefusal)
