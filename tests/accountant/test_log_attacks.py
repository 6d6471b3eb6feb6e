"""Attacks on the public log, each against two real devices; docs/log.md, "What is noticed by
whom"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from log_world import LogWorld

from shuffledp_accountant.log_audit import LogAudit
from shuffledp_accountant.log_reading import FolderSource, read_log
from shuffledp_client.log_memory import CONFLICT, SEEN
from shuffledp_client.verification import parse_announcement
from shuffledp_core.documents.models import Certificate, EndedLog, Manifest, Roster
from shuffledp_core.documents.signed import sign, verify
from shuffledp_core.errors import ConfigError, LedgerAwayError, LogProofError, SignatureError
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.transparency.entries import log_key_of
from shuffledp_core.transparency.logged import check_logged_once
from shuffledp_core.transparency.notes import check_note, parse_checkpoint, parse_note
from shuffledp_core.transparency.proofs import InclusionProof
from shuffledp_ops.keys.pki import ACCOUNTANT
from shuffledp_ops.keys.renewal import renew


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with LogWorld(tmp_path) as there:
        yield there


def test_devices_follow_an_honest_log(world: LogWorld) -> None:
    with world.branch("honest") as honest:
        first, second = honest.announce(), honest.announce()
    log = world.device("ada").verified(first).log
    assert log is not None
    assert (log.checkpoint.size, log.witnesses) == (1, ("witness-1", "witness-2"))
    # Later rounds, earlier ones, and again after a restart of the device.
    assert [world.device("ada").verified(shown).round_id for shown in (second, first, second)]
    assert world.device("bob").verified(second).log is not None


def test_an_equivocating_accountant_finds_no_witnesses_for_its_second_history(
    world: LogWorld,
) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("one") as left:
        shared = left.announce()
        ada.verified(shared)
        bob.verified(shared)
        with world.branch("two", of="one") as two:
            ada.verified(left.announce())
            round_id, certificate = two.certify()
            with pytest.raises(LedgerAwayError, match="too few witnesses"):
                two.proof(round_id, certificate)
            checkpoint = (two.folder / "log" / "checkpoint").read_bytes()
    # It shows the second history all the same.
    proof = InclusionProof(1, InclusionProof.from_bytes(log_of(shared)).hashes, checkpoint)
    lie = world.announcement(certificate, proof.to_bytes().decode())
    for device in (ada, bob):
        with pytest.raises(LogProofError, match=r"0 of the log's 2 witnesses"):
            device.verified(lie)


def test_a_split_view_with_all_witnesses_corrupt_is_noticed_where_the_views_meet(
    world: LogWorld,
) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("one") as left:
        shared = left.announce()
        ada.verified(shared)
        bob.verified(shared)
        with world.branch("two", of="one") as two:
            first = left.announce()
            world.corrupt("witness-1", "witness-2")
            second = two.announce()
            ada.verified(first)
            assert (
                bob.verified(second).log is not None
            )  # each sees one history, and no witness helps
            world.corrupt("witness-1", "witness-2")
            again = left.announce()
    ada.verified(again)
    for device, other in ((bob, again), (ada, second)):
        with pytest.raises(LogProofError, match="two histories"):
            device.verified(other)
    # Two signed checkpoints of one log that cannot both be true: anyone can check them.
    key = log_key_of(world.roster)
    for name in (SEEN, CONFLICT):
        proof = InclusionProof.from_bytes((world.folder / "bob" / "state" / name).read_bytes())
        assert parse_checkpoint(check_note(parse_note(proof.note), key)).size in {2, 3}


def test_a_ledger_restored_from_a_backup_is_noticed_by_the_next_device(world: LogWorld) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("ledger") as ledger:
        bob.verified(ledger.announce())
    with (
        world.branch("backup", of="ledger"),
        world.branch("ledger") as ledger,
    ):
        ada.verified(ledger.announce())
        ada.verified(ledger.announce())
    with world.branch("restored", of="backup", log=False) as restored:
        round_id, certificate = restored.certify()
        with pytest.raises(LedgerAwayError, match="too few witnesses"):  # they know better
            restored.proof(round_id, certificate)
        world.corrupt("witness-1", "witness-2")
        lie = restored.announce()
    with pytest.raises(LogProofError, match="two histories"):
        ada.verified(lie)
    bob.verified(lie)  # saw nothing of what was lost


def test_a_stale_checkpoint_does_not_hold_the_round(world: LogWorld) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("honest") as honest:
        stale = honest.announce()
        _, certificate = honest.certify()
    lie = world.announcement(certificate, log_of(stale).decode())
    for device in (ada, bob):
        with pytest.raises(LogProofError, match="does not show"):
            device.verified(lie)


def test_lying_witnesses_below_the_threshold_are_not_enough(world: LogWorld) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("one") as left:
        shared = left.announce()
        with world.branch("two", of="one") as two:
            ada.verified(left.announce())
            world.corrupt("witness-2")
            _, certificate = two.certify()
            checkpoint = (two.folder / "log" / "checkpoint").read_bytes()
    assert b"witness-2 " in checkpoint
    proof = InclusionProof(1, InclusionProof.from_bytes(log_of(shared)).hashes, checkpoint)
    lie = world.announcement(certificate, proof.to_bytes().decode())
    for device in (ada, bob):
        with pytest.raises(LogProofError, match=r"1 of the log's 2 witnesses.*signed: witness-2"):
            device.verified(lie)


def test_a_stopped_log_opens_no_round_and_devices_take_part_in_none(world: LogWorld) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("ledger") as ledger:
        ledger.announce()
    with world.branch("backup", of="ledger"), world.branch("ledger") as ledger:
        ledger.announce()
    # The old ledger under the newer log folder.
    (world.folder / "backup" / "log").rename(world.folder / "unused")
    (world.folder / "ledger" / "log").rename(world.folder / "backup" / "log")
    with world.branch("backup") as stopped:
        round_id, certificate = stopped.certify()
        with pytest.raises(LedgerAwayError, match="has stopped"):
            stopped.proof(round_id, certificate)
    unlogged = world.announcement(certificate, None)
    for device in (ada, bob):
        with pytest.raises(LogProofError, match="without a proof"):
            device.verified(unlogged)
    # Only a person who says so takes part.
    assert world.device("eve", require_log=False).verified(unlogged).log is None


def test_a_certificate_for_one_device_alone_is_not_the_one_in_the_log(world: LogWorld) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("honest") as honest:
        round_id, certificate = honest.certify()
        proof = honest.proof(round_id, certificate)
    identity = world.deployment.identity_of(ACCOUNTANT)
    genuine = verify(certificate, Certificate, ACCOUNTANT, identity.public_key)
    cheaper = msgspec.structs.replace(
        genuine, ledger=msgspec.structs.replace(genuine.ledger, spent=0.1)
    )
    ada.verified(world.announcement(certificate, proof))
    with pytest.raises(LogProofError, match="does not show"):
        bob.verified(world.announcement(sign(cheaper, ACCOUNTANT, identity.key), proof))


def test_after_a_restore_the_root_ends_the_log_and_devices_follow_the_next_one(
    world: LogWorld,
) -> None:
    ada, bob = world.device("ada"), world.device("bob")
    with world.branch("ledger") as ledger:
        bob.verified(ledger.announce())
    with world.branch("backup", of="ledger"), world.branch("ledger") as ledger:
        ada.verified(ledger.announce())
    checkpoint = world.folder / "ledger" / "log" / "checkpoint"
    renew(world.deployment.folder, new_roster=True, end_log=checkpoint)
    world.reload_roster()
    with world.branch("restored", of="backup", log=False) as restored:
        announced = restored.announce()
    for name in ("ada", "bob"):
        log = world.device(name).verified(announced).log
        assert log is not None
        assert log.checkpoint.origin == "shuffledp-ledger/demo/2"


def test_a_root_that_hides_the_end_of_a_log_is_noticed_by_the_device_that_saw_it(
    world: LogWorld,
) -> None:
    ada = world.device("ada")
    with world.branch("ledger") as ledger:
        ledger.announce()
        ada.verified(ledger.announce())
    terms = world.roster.log_terms
    assert terms is not None
    ended = EndedLog(size=1, root="00" * 32)
    world.change_roster(log=msgspec.structs.replace(terms, ended=(ended,)))
    with world.branch("restored") as restored:
        announced = restored.announce()
    with pytest.raises(LogProofError, match="ended at size 1"):
        world.device("ada").verified(announced)


def test_devices_and_witnesses_name_a_new_key_of_the_accountant_and_not_damage(
    world: LogWorld,
) -> None:
    with world.branch("ledger") as ledger:
        announced = ledger.announce()
        world.device("ada").verified(announced)
    seen = world.folder / "ada" / "state" / SEEN
    memory = seen.read_bytes()
    seen.write_bytes(memory.replace(b"\n1\n", b"\n2\n"))
    with pytest.raises(ConfigError, match="is damaged"):
        world.device("ada").verified(announced)
    seen.write_bytes(memory)
    new_key = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    parties = tuple(
        msgspec.structs.replace(party, identity_key=new_key) if party.name == ACCOUNTANT else party
        for party in world.roster.parties
    )
    with pytest.raises(ConfigError, match="the accountant has a new identity key"):
        world.change_roster(parties=parties)  # every party starts again, witnesses too
    with pytest.raises(ConfigError, match=r"another key .* has announced a new identity key"):
        world.device("ada").verified(announced)


def test_a_new_key_of_the_accountant_signs_the_next_log_and_devices_follow(
    world: LogWorld,
) -> None:
    with world.branch("ledger") as ledger:
        announced = ledger.announce()
        world.device("ada").verified(announced)
        saved = parse_announcement(announced)
    checkpoint = world.folder / "ledger" / "log" / "checkpoint"
    renew(world.deployment.folder, new_roster=True, end_log=checkpoint)
    world.reload_roster()
    world.change_accountant_key(Ed25519PrivateKey.generate())
    with world.branch("ledger", log=False) as ledger:
        announced = ledger.announce()
        log = read_log(FolderSource(ledger.folder / "log"), log_key_of(world.roster))
        entries = list(log.entries())
    for name in ("ada", "bob"):
        seen = world.device(name).verified(announced).log
        assert seen is not None
        assert seen.checkpoint.origin == "shuffledp-ledger/demo/2"
    # Certificates of both keys add up in one account.
    audit = LogAudit(world.roster)
    audit.replay(entries)
    assert audit.accounts["demo"].entry == 2
    with pytest.raises(SignatureError):
        LogAudit(without_former_keys(world.roster)).replay(entries)
    # The proof of a round that was saved before is still one, for the log that has ended.
    manifest = verify_from(world.roster.analyst, saved.manifest, Manifest)
    once = check_logged_once(
        str(saved.log).encode(), world.roster, "demo", manifest.round_id, manifest.certificate
    )
    assert once.checkpoint.origin == "shuffledp-ledger/demo"


def without_former_keys(roster: Roster) -> Roster:
    """As if the present key had signed the logs that have ended."""
    terms = roster.log_terms
    assert terms is not None
    ended = tuple(EndedLog(size=log.size, root=log.root) for log in terms.ended)
    return msgspec.structs.replace(roster, log=msgspec.structs.replace(terms, ended=ended))


def log_of(announced: bytes) -> bytes:
    log = parse_announcement(announced).log
    assert isinstance(log, str)
    return log.encode()
