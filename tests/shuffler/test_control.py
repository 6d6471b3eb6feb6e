"""The analyst's calls: a node takes part in exactly what it verified, and says so, again and again
the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from shuffler_world import Round, World, manifest_digest

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Countersignature, Discard, RoundKey
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import (
    AccessDenied,
    ConfigError,
    DocumentError,
    ExpiredDocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundKeyError,
    RoundStateError,
    SignatureError,
    TooFewReportsError,
    UnknownRoundError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import batch_pb2, node_pb2


@pytest.fixture
async def running(world: World) -> World:
    await world.start()
    return world


# -------------------------------------------------------------------- PrepareRound


async def test_a_round_key_is_signed_fresh_and_the_same_for_the_same_question(
    running: World,
) -> None:
    round_, other = running.round(), running.round()
    signed = await running.prepare("node-1", round_.certificate, 1)
    key = verify_from(running.roster.party("node-1"), signed, RoundKey)
    assert (key.round_id, key.node, key.position) == (round_.round_id, "node-1", 1)
    assert key.certificate_digest == document_digest(round_.certificate)
    assert await running.prepare("node-1", round_.certificate, 1) == signed
    assert (
        from_json((await running.prepare("node-1", other.certificate, 1)).body, RoundKey).public_key
        != key.public_key
    )


async def test_a_round_is_prepared_in_one_way_only(running: World) -> None:
    round_ = running.round()
    await running.prepare("node-1", round_.certificate, 1)
    again = running.round(round_id=round_.round_id, users=3)
    for certificate, suite in ((round_.certificate, "hpke"), (again.certificate, "sealed-box")):
        with pytest.raises(RoundStateError, match="already prepared"):
            await running.prepare("node-1", certificate, 1, suite)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"deployment": "elsewhere"}, ForeignDocumentError),
        ({"stage": "final"}, ForeignDocumentError),
        ({"expires_at": 1}, ExpiredDocumentError),
        ({"route": ("node-1",)}, MalformedDocumentError),
        ({"route": ("node-1",) * 99}, MalformedDocumentError),
        ({"route": ("node-2", "node-1")}, ForeignDocumentError),
        ({"route": ("node-3", "node-2")}, ForeignDocumentError),
        ({"round_id": "../evil"}, UnknownRoundError),
        ({"round_id": ""}, UnknownRoundError),
    ],
)
async def test_a_certificate_that_opens_no_round_is_refused(
    running: World, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await running.prepare("node-1", running.round(**changes).certificate, 1)


async def test_only_the_accountants_word_and_a_place_on_the_route_count(running: World) -> None:
    certificate = running.round().certificate
    with pytest.raises(SignatureError):
        await running.prepare(
            "node-1", msgspec.structs.replace(certificate, body=certificate.body + " "), 1
        )
    with pytest.raises(ForeignDocumentError):
        await running.prepare("node-1", msgspec.structs.replace(certificate, signer="analyst"), 1)
    for position in (0, 3, 2**32 - 1):
        with pytest.raises(ForeignDocumentError, match="position"):
            await running.prepare("node-1", certificate, position)
    with pytest.raises(ConfigError, match="unknown suite"):
        await running.prepare("node-1", certificate, 1, "rot13")


# -------------------------------------------------------------------- SetManifest


async def test_a_countersignature_is_for_exactly_this_manifest(running: World) -> None:
    round_ = await running.open()
    assert round_.manifest is not None
    signed = await running.set_manifest("node-2", round_.manifest)
    word = verify_from(running.roster.party("node-2"), signed, Countersignature)
    assert (word.round_id, word.node, word.manifest_digest) == (
        round_.round_id,
        "node-2",
        manifest_digest(round_),
    )
    with pytest.raises(RoundStateError, match="a different manifest"):
        await running.set_manifest("node-2", running.manifest(round_, max_reports=999))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"deployment": "elsewhere"}, ForeignDocumentError),
        ({"min_reports": 1}, MalformedDocumentError),
        ({"max_reports": 1}, MalformedDocumentError),
        ({"closes_at": 1, "opens_at": 0}, ExpiredDocumentError),
        ({"opens_at": 10**15}, MalformedDocumentError),
        ({"closes_at": 10**15}, MalformedDocumentError),
    ],
)
async def test_a_manifest_outside_its_certificate_is_refused(
    running: World, changes: dict[str, Any], error: type[Exception]
) -> None:
    round_ = await running.prepare_all(running.round())
    with pytest.raises(error):
        await running.set_manifest("node-1", running.manifest(round_, **changes))
    await running.set_manifest("node-1", running.manifest(round_))


def _other_geometry(round_: Round) -> dict[str, Any]:
    return {"geometry": msgspec.structs.replace(round_.geometry, messages_per_user=2)}


async def test_a_manifest_with_another_certificate_geometry_or_route_is_refused(
    running: World,
) -> None:
    round_, other = (
        await running.prepare_all(running.round()),
        await running.prepare_all(running.round()),
    )
    first, second = round_.keys
    own = from_json(first.body, RoundKey)
    forged = running.deployment.identity_of("node-1").sign(
        msgspec.structs.replace(own, public_key="ab" * 32)
    )
    impostor = running.deployment.identity_of("analyst").sign(own)
    cases: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"certificate": other.certificate}, ForeignDocumentError),
        (_other_geometry(round_), MalformedDocumentError),
        ({"route": (first,)}, RoundKeyError),
        ({"route": (second, first)}, RoundKeyError),
        ({"route": (first, other.keys[1])}, RoundKeyError),
        ({"route": (first, first)}, RoundKeyError),
        ({"route": (forged, second)}, RoundKeyError),
        ({"route": (impostor, second)}, RoundKeyError),
        (
            {"route": (first, msgspec.structs.replace(second, body=second.body + " "))},
            RoundKeyError,
        ),
        ({"round_id": other.round_id}, DocumentError),
        ({"round_id": "00ff"}, UnknownRoundError),
    ]
    for changes, error in cases:
        with pytest.raises(error):
            await running.set_manifest("node-1", running.manifest(round_, **changes))
    await running.set_manifest("node-1", running.manifest(round_))


async def test_a_manifest_over_another_route_than_the_certified_one_is_refused(
    running: World,
) -> None:
    round_ = running.round(route=("node-1", "node-3"))
    first = await running.prepare("node-1", round_.certificate, 1)
    corrupt = msgspec.structs.replace(from_json(first.body, RoundKey), node="node-2", position=2)
    round_.keys = (first, running.deployment.identity_of("node-2").sign(corrupt))
    with pytest.raises(RoundKeyError, match="certified"):
        await running.set_manifest("node-1", running.manifest(round_))


async def test_a_manifest_must_be_the_analysts(running: World) -> None:
    round_ = await running.prepare_all(running.round())
    manifest = running.manifest(round_)
    with pytest.raises(SignatureError):
        await running.set_manifest(
            "node-1", msgspec.structs.replace(manifest, body=manifest.body + " ")
        )
    with pytest.raises(ForeignDocumentError):
        await running.set_manifest("node-1", round_.certificate)


# -------------------------------------------------------------------- CloseRound, WatchRound


async def test_too_few_reports_end_the_round_and_nothing_is_forwarded(running: World) -> None:
    round_ = await running.open()
    await running.submit(running.submission(round_))
    for _ in range(2):
        with pytest.raises(TooFewReportsError, match="1 reports arrived"):
            await running.close_round("node-1", round_.round_id)
    status = await running.ended("node-1", round_.round_id)
    assert (status.phase, status.error) == (node_pb2.ROUND_PHASE_FAILED, "TooFewReportsError")
    discard = from_json((await running.delete("node-1", round_.round_id)).body, Discard)
    assert not discard.forwarded


async def test_only_an_entry_with_a_manifest_can_be_closed(running: World) -> None:
    round_ = await running.open()
    with pytest.raises(RoundStateError, match="position 2"):
        await running.close_round("node-2", round_.round_id)
    prepared = await running.prepare_all(running.round())
    with pytest.raises(RoundStateError, match="no manifest"):
        await running.close_round("node-1", prepared.round_id)
    with pytest.raises(UnknownRoundError):
        await running.close_round("node-1", "00ff")


async def test_closing_twice_answers_the_same(running: World) -> None:
    await running.start_analyst()
    round_ = await running.open()
    for _ in range(3):
        await running.submit(running.submission(round_))
    assert await running.close_round("node-1", round_.round_id) == 3
    await running.ended("node-1", round_.round_id)
    assert await running.close_round("node-1", round_.round_id) == 3


async def test_a_watcher_sees_the_reports_come_in_and_the_round_go(running: World) -> None:
    round_ = await running.open()
    seen = []
    async for status in running.watch("node-1", round_.round_id):
        seen.append(status.accepted)
        if status.accepted == 2:
            await running.delete("node-1", round_.round_id)
        elif len(seen) == 1:
            for _ in range(2):
                await running.submit(running.submission(round_))
    assert seen[0] == 0
    assert seen[-1] == 2
    with pytest.raises(UnknownRoundError):
        await running.status("node-1", round_.round_id)


# -------------------------------------------------------------------- DeleteRound


async def test_a_deleted_round_never_comes_back(running: World) -> None:
    round_ = await running.open()
    await running.submit(running.submission(round_))
    first = await running.delete("node-1", round_.round_id)
    assert await running.delete("node-1", round_.round_id) == first
    assert verify_from(running.roster.party("node-1"), first, Discard).forwarded is False
    with pytest.raises(RoundStateError, match="never be used again"):
        await running.prepare("node-1", round_.certificate, 1)
    await running.stop("node-1")
    await running.start("node-1")
    await running.hang_up()
    assert await running.delete("node-1", round_.round_id) == first
    with pytest.raises(RoundStateError, match="never be used again"):
        await running.prepare("node-1", round_.certificate, 1)


async def test_a_round_never_known_is_discarded_for_good(running: World) -> None:
    round_ = running.round()
    discard = from_json((await running.delete("node-1", round_.round_id)).body, Discard)
    assert discard == Discard(round_id=round_.round_id, node="node-1", forwarded=False)
    with pytest.raises(RoundStateError):
        await running.prepare("node-1", round_.certificate, 1)
    with pytest.raises(UnknownRoundError):
        await running.delete("node-1", "../../etc/passwd")


async def test_a_batch_that_found_no_next_hop_was_not_forwarded(running: World) -> None:
    round_ = await running.open()
    for _ in range(2):
        await running.submit(running.submission(round_))
    await running.stop("node-2")
    await running.close_round("node-1", round_.round_id)
    await running.until("node-1", round_.round_id, node_pb2.ROUND_PHASE_RELAYING)
    assert not from_json((await running.delete("node-1", round_.round_id)).body, Discard).forwarded


async def test_a_next_hop_that_stays_away_fails_the_round(world: World) -> None:
    await world.start("node-1", relay_seconds=0.5)
    await world.start("node-2")
    round_ = await world.open()
    for _ in range(2):
        await world.submit(world.submission(round_))
    await world.stop("node-2")
    await world.close_round("node-1", round_.round_id)
    status = await world.ended("node-1", round_.round_id)
    assert (status.phase, status.error) == (node_pb2.ROUND_PHASE_FAILED, "UnreachableError")


async def test_a_next_hop_that_takes_the_batch_and_never_answers_fails_the_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hold(requests: AsyncIterator[batch_pb2.AddBatchRequest], _: object) -> None:
        async for _request in requests:
            pass
        await asyncio.Event().wait()  # until the caller hangs up

    monkeypatch.setattr(world.sink, "AddBatch", hold)
    await world.start_analyst()
    await world.start("node-1")
    await world.start("node-2", relay_seconds=0.5)
    round_ = await world.open()
    for _ in range(2):
        await world.submit(world.submission(round_))
    await world.close_round("node-1", round_.round_id)
    status = await world.ended("node-2", round_.round_id)
    assert (status.phase, status.error) == (node_pb2.ROUND_PHASE_FAILED, "UnreachableError")


async def test_an_abandoned_round_loses_its_key(running: World) -> None:
    opened, prepared = await running.open(), await running.prepare_all(running.round())
    node = running.running["node-2"].node
    await node.abandon_overdue_rounds(1000)
    assert (await running.status("node-2", opened.round_id)).phase == node_pb2.ROUND_PHASE_OPEN
    running.ahead = 4_000_000
    await node.abandon_overdue_rounds(1000)
    for round_ in (opened, prepared):
        assert (await running.ended("node-2", round_.round_id)).error == "ExpiredDocumentError"
        assert not (
            running.folder / "state" / "node-2" / "rounds" / round_.round_id / "key"
        ).exists()


# -------------------------------------------------------------------- who may call


@pytest.mark.parametrize("caller", ["client", "operator", "accountant", "node-2"])
async def test_only_the_analyst_controls_rounds(running: World, caller: str) -> None:
    node = running.node("node-1", caller)
    with pytest.raises(AccessDenied):
        async with translate_errors("node-1"):
            await node.PrepareRound(node_pb2.PrepareRoundRequest())
    with pytest.raises(AccessDenied):
        async with translate_errors("node-1"):
            await node.SetManifest(node_pb2.SetManifestRequest())
    with pytest.raises(AccessDenied):
        async with translate_errors("node-1"):
            await node.CloseRound(node_pb2.CloseRoundRequest())
    with pytest.raises(AccessDenied):
        async with translate_errors("node-1"):
            await node.DeleteRound(node_pb2.DeleteRoundRequest())
