"""Results in the public log: devices believe no other, and the log convicts who publishes two;
docs/log.md."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from accountant_world import NODES
from log_results import USERS, DirectLink, LoggedRound
from log_world import LogWorld
from typer.testing import CliRunner

from shuffledp_accountant.ledger_app import app
from shuffledp_accountant.log_audit import LogAudit
from shuffledp_accountant.log_reading import FolderSource, read_log
from shuffledp_client.log_memory import CONFLICT, SEEN
from shuffledp_client.transport import RoundEnd
from shuffledp_client.verification import parse_announcement
from shuffledp_core.documents.digests import digest, document_digest
from shuffledp_core.documents.models import Countersignature, Manifest
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.errors import (
    DocumentError,
    FalseResultError,
    LedgerAwayError,
    LogProofError,
    MalformedDocumentError,
    MalformedRequestError,
    RoundStateError,
    SignatureError,
    UnknownRoundError,
)
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.entries import LedgerEvent, LedgerLogEntry, log_key_of
from shuffledp_core.transparency.proofs import InclusionProof
from shuffledp_ops.keys.renewal import renew


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with LogWorld(tmp_path) as there:
        yield there


async def played(
    world: LogWorld, round_: LoggedRound
) -> tuple[DirectLink, DirectLink, bytes, Signed]:
    """A round that ada and bob have answered: their links, its board and its final certificate."""
    links = DirectLink(round_), DirectLink(round_)
    for name, link in zip(("ada", "bob"), links, strict=True):
        await round_.answer(world.device(name, link=link))
    board = round_.board()
    return *links, board, round_.settle(board)


def show(link: DirectLink, board: bytes, result: Signed, proof: bytes | None) -> None:
    link.board_bytes, link.end = board, RoundEnd(result, log=proof)


async def test_devices_believe_the_result_that_is_in_the_log(world: LogWorld) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        ada, bob, board, final = await played(world, round_)
        result = round_.result(board, final)
        proof = round_.log(result)
        assert round_.log(result) == proof  # asked for again: the same entry
        for name, link in (("ada", ada), ("bob", bob)):
            show(link, board, result, proof)
            device = world.device(name, link=link)
            assert (await device.verify(round_.round_id)).board_digest == digest(board)
            seen = (world.folder / name / "state" / SEEN).read_bytes()
            assert seen == proof  # and the newer log is remembered
        parties = ["--roster", str(world.deployment.roster_file)]
        parties += ["--root-key", world.deployment.root_key]
        command = ["audit-log", str(honest.folder / "log"), *parties]
        audited = CliRunner().invoke(app, command)
    assert "3 entries, no contradiction" in audited.output
    assert "results of settled rounds in the log: 1" in audited.output


async def test_a_split_view_of_a_result_shows_the_second_device_one_that_is_not_logged(
    world: LogWorld,
) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        ada, bob, board, final = await played(world, round_)
        result = round_.result(board, final)
        proof = round_.log(result)
        other_board = round_.board()  # other people's answers, with bob's among them
        other = round_.result(other_board, final)
        with pytest.raises(RoundStateError, match="another result"):
            round_.log(other)
    show(ada, board, result, proof)
    await world.device("ada", link=ada).verify(round_.round_id)
    for claimed, words in ((proof, "does not show"), (None, "without a proof")):
        show(bob, other_board, other, claimed)
        device = world.device("bob", link=bob)
        with pytest.raises(LogProofError, match=words):
            await device.verify(round_.round_id)
        # Both signed results are evidence against the analyst: one is in the log, this one is kept.
        assert device.store.load(round_.round_id).result == other
    assert (world.folder / "bob" / "state" / CONFLICT).read_bytes() == proof
    show(bob, board, result, proof)
    assert await world.device("bob", link=bob).verify(round_.round_id)


async def test_two_histories_with_two_results_are_noticed_where_they_meet(world: LogWorld) -> None:
    with world.branch("one") as left:
        round_ = LoggedRound(world, left)
        ada, bob, board, final = await played(world, round_)
        result, other_board = round_.result(board, final), round_.board()
        other = round_.result(other_board, final)
        with world.branch("two", of="one") as two:
            proof = round_.log(result)
            round_.branch = two
            with pytest.raises(LedgerAwayError, match="too few witnesses"):
                round_.log(other)
            world.corrupt("witness-1", "witness-2")
            other_proof = round_.log(other)
        show(ada, board, result, proof)
        show(bob, other_board, other, other_proof)
        for name, link in (("ada", ada), ("bob", bob)):  # no witness helps, and each believes
            await world.device(name, link=link).verify(round_.round_id)
        world.corrupt("witness-1", "witness-2")
        following = left.announce()
    world.device("ada").verified(following)
    with pytest.raises(LogProofError, match="two histories"):
        world.device("bob").verified(following)


async def test_two_manifests_of_a_round_are_noticed_by_the_device_whose_one_is_not_logged(
    world: LogWorld,
) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        proof = honest.proof(round_.round_id, round_.certificate)
        second = world.announcement(round_.certificate, proof)  # every node signs this one, too
        ada = DirectLink(round_)
        bob = DirectLink(round_)
        await round_.answer(world.device("ada", link=ada))
        await round_.answer(world.device("bob", link=bob), second)
        board = round_.board()
        final = round_.settle(board)
        result = round_.result(board, final)
        logged = round_.log(result)
    show(ada, board, result, logged)
    await world.device("ada", link=ada).verify(round_.round_id)
    show(bob, board, result, logged)
    device = world.device("bob", link=bob)
    with pytest.raises(FalseResultError, match="a different manifest"):
        await device.verify(round_.round_id)
    # What bob keeps convicts the analyst and every node: they signed both, under one round id.
    stored = device.store.load(round_.round_id)
    assert stored.result == result
    shown = [parse_announcement(round_.announcement), stored.announcement]
    manifests = [verify_from(world.roster.analyst, one.manifest, Manifest) for one in shown]
    assert [manifest.round_id for manifest in manifests] == [round_.round_id] * 2
    assert shown[0].manifest != shown[1].manifest
    for one in shown:
        signed = {
            verify_from(world.roster.party(word.signer), word, Countersignature).manifest_digest
            for word in one.countersignatures
        }
        assert signed == {document_digest(one.manifest)}
        assert {word.signer for word in one.countersignatures} == set(NODES)


async def test_no_device_answers_under_a_manifest_that_a_node_did_not_sign(
    world: LogWorld,
) -> None:
    """An honest node signs the first manifest of a round only (tests/shuffler/test_control.py)."""
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        proof = honest.proof(round_.round_id, round_.certificate)
        first = parse_announcement(round_.announcement)
        second = parse_announcement(world.announcement(round_.certificate, proof))
    for node in NODES:
        signatures = [word for word in second.countersignatures if word.signer != node]
        of_first = [word for word in first.countersignatures if word.signer == node]
        for words, error in ((signatures, SignatureError), (signatures + of_first, DocumentError)):
            lie = msgspec.structs.replace(second, countersignatures=tuple(words))
            for name in ("ada", "bob"):
                with pytest.raises(error, match=r"not countersigned by|manifest"):
                    world.device(name).verified(to_json(lie))


async def test_a_result_that_hides_its_manifest_is_not_believed(world: LogWorld) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        ada, bob, board, final = await played(world, round_)
        result = round_.result(board, final, manifest_digest=msgspec.UNSET)
        proof = round_.log(result)
    for name, link in (("ada", ada), ("bob", bob)):
        show(link, board, result, proof)
        device = world.device(name, link=link)
        with pytest.raises(MalformedDocumentError, match="does not name its manifest"):
            await device.verify(round_.round_id)
        assert device.store.load(round_.round_id).result == result


async def test_a_stale_checkpoint_does_not_hold_the_result(world: LogWorld) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        ada, bob, board, final = await played(world, round_)
        result = round_.result(board, final)
        stale = honest.proof(round_.round_id, round_.certificate).encode()
        proof = round_.log(result)
    shown, older = InclusionProof.from_bytes(proof), InclusionProof.from_bytes(stale)
    lie = InclusionProof(shown.index, shown.hashes, older.note, older.extra).to_bytes()
    for name, link in (("ada", ada), ("bob", bob)):
        for claimed in (stale, lie):
            show(link, board, result, claimed)
            with pytest.raises(LogProofError, match=r"does not show|has no entry"):
                await world.device(name, link=link).verify(round_.round_id)


async def test_a_result_in_a_log_that_has_ended_is_believed(world: LogWorld) -> None:
    with world.branch("ledger") as ledger:
        round_ = LoggedRound(world, ledger)
        ada, bob, board, final = await played(world, round_)
        result = round_.result(board, final)
        proof = round_.log(result)
        checkpoint = ledger.folder / "log" / "checkpoint"
    renew(world.deployment.folder, new_roster=True, end_log=checkpoint)
    world.reload_roster()
    for name, link in (("ada", ada), ("bob", bob)):
        show(link, board, result, proof)
        await world.device(name, link=link).verify(round_.round_id)


async def test_a_device_whose_policy_does_not_require_the_log_asks_for_no_proof(
    world: LogWorld,
) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        ada, _, board, final = await played(world, round_)
        result = round_.result(board, final)
    show(ada, board, result, None)
    device = world.device("ada", require_log=False, link=ada)
    assert (await device.verify(round_.round_id)).result.accepted == USERS


def test_only_a_settled_round_has_a_result_and_only_one(world: LogWorld) -> None:
    first, second = (f"{number:064x}" for number in (1, 2))
    with world.branch("honest") as honest:
        accountant = honest.accountant
        round_id, _ = honest.certify()
        with pytest.raises(RoundStateError, match="only a settled round"):
            accountant.log_result(round_id, first)
        with pytest.raises(UnknownRoundError):
            accountant.log_result(secrets.token_hex(16), first)
        honest.settle(round_id, USERS)
        with pytest.raises(MalformedRequestError, match="64 lower-case"):
            accountant.log_result(round_id, "A" * 64)
        accountant.log_result(round_id, first)
        accountant.log_result(round_id, first)
        with pytest.raises(RoundStateError, match="another result"):
            accountant.log_result(round_id, second)


def test_an_audit_convicts_two_results_and_one_without_a_settled_charge(world: LogWorld) -> None:
    with world.branch("honest") as honest:
        round_id, _ = honest.certify()
        honest.settle(round_id, USERS)
        honest.accountant.log_result(round_id, "ab" * 32)
        honest.accountant.publish_log()
        folder = honest.folder / "log"
        entries = list(read_log(FolderSource(folder), log_key_of(world.roster)).entries())
    reserved, settled, published = entries
    assert published.event is LedgerEvent.PUBLISHED
    audit = LogAudit(world.roster)
    audit.replay(entries)
    assert audit.accounts["demo"].results == {round_id}
    second = LedgerLogEntry.from_bytes(published.to_bytes().replace(b"ab" * 32, b"cd" * 32))
    for lie, words in (
        ([*entries, second], "a second result"),
        ([*entries, published], "a second result"),
        ([reserved, published, settled], "its charge is not settled"),
        ([published], "its charge is not settled"),
    ):
        with pytest.raises(LogProofError, match=words):
            LogAudit(world.roster).replay(lie)


def test_an_entry_of_a_result_is_determined_by_the_signed_result(world: LogWorld) -> None:
    with world.branch("honest") as honest:
        round_ = LoggedRound(world, honest)
        result = round_.result(board := round_.board(), round_.settle(board))
        round_.log(result)
        log = read_log(FolderSource(honest.folder / "log"), log_key_of(world.roster))
        assert [entry.to_bytes() for entry in log.entries()][-1] == round_.entry(result)
    expected = (
        f'{{"event":"published","population":"demo","round_id":"{round_.round_id}",'
        f'"documents":[],"digest":"{document_digest(result)}"}}'
    )
    assert round_.entry(result).decode() == expected
