"""The public log of a running accountant's ledger, and its replay by a stranger."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from accountant_world import PLAN, World
from structlog.testing import capture_logs
from typer.testing import CliRunner

from shuffledp_accountant.ledger_app import app
from shuffledp_accountant.log_audit import LogAudit
from shuffledp_accountant.log_reading import FolderSource, read_log
from shuffledp_accountant.service import open_accountant
from shuffledp_core.documents.models import Certificate
from shuffledp_core.documents.signed import Signed, sign, to_json, verify
from shuffledp_core.errors import (
    FalseCertificateError,
    LogProofError,
    MalformedDocumentError,
    SignatureError,
)
from shuffledp_core.transparency.entries import LedgerEvent, LedgerLogEntry, ledger_log_key
from shuffledp_core.transparency.notes import Checkpoint, NoteKey, sign_note
from shuffledp_core.transparency.tiles import bundles_between, pack_bundle, tiles_since
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash
from shuffledp_ops.keys.pki import ACCOUNTANT


def log_key(world: World) -> NoteKey:
    roster = world.deployment.roster
    return ledger_log_key(roster.deployment, bytes.fromhex(roster.accountant.identity_key))


def entries_of(world: World) -> list[LedgerLogEntry]:
    return list(read_log(FolderSource(world.config.log_folder), log_key(world)).entries())


def replay(world: World, entries: list[LedgerLogEntry]) -> LogAudit:
    audit = LogAudit(world.deployment.roster)
    audit.replay(entries)
    return audit


def write_log(world: World, folder: Path, entries: list[bytes]) -> None:
    """A log of any entries, signed by the real accountant: what a lying one could show."""
    tree = MerkleTree(leaf_hash(entry) for entry in entries)
    files = dict(tiles_since(tree, 0))
    for path, begin, end in bundles_between(0, len(entries)):
        files[path] = pack_bundle(entries[begin:end])
    key = log_key(world)
    text = Checkpoint(key.name, tree.size, tree.root()).to_text()
    note = sign_note(text, key, world.deployment.identity_of(ACCOUNTANT).key.sign)
    files["checkpoint"] = note.encode()
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def signed_again(world: World, wire: str, **changes: object) -> str:
    """A certificate with other content, signed by the accountant all the same."""
    identity = world.deployment.identity_of(ACCOUNTANT)
    certificate = verify(
        Signed.from_bytes(wire.encode()), Certificate, ACCOUNTANT, identity.public_key
    )
    changed = msgspec.structs.replace(certificate, **changes)
    return sign(changed, ACCOUNTANT, identity.key).to_bytes().decode()


async def three_rounds(world: World) -> list[str]:
    """One settled, one released, one open."""
    caller = world.caller()
    rounds = [secrets.token_hex(16) for _ in range(3)]
    for round_id in rounds:
        await caller.certify(round_id)
    await caller.settle(rounds[0], 300, world.headers(rounds[0], 300))
    await caller.release(rounds[1], world.discards(rounds[1]))
    return rounds


@pytest.fixture
def web_server(world: World) -> Iterator[str]:
    """The log's folder behind an ordinary web server."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(world.config.log_folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_every_change_is_in_the_log_before_it_is_answered(world: World) -> None:
    caller = world.caller()
    round_id = secrets.token_hex(16)
    certificate = await caller.certify(round_id)
    (entry,) = entries_of(world)
    assert entry.event is LedgerEvent.RESERVED
    assert entry.documents == (certificate.decode(),)
    final = await caller.settle(round_id, 300, world.headers(round_id, 300))
    assert await caller.settle(round_id, 300, world.headers(round_id, 300)) == final
    assert [entry.documents[0].encode() for entry in entries_of(world)] == [certificate, final]


async def test_a_stranger_replays_the_log_to_the_ledger_s_own_account(world: World) -> None:
    rounds = await three_rounds(world)
    account = replay(world, entries_of(world)).accounts["demo"]
    assert (account.entry, account.settled, account.released) == (3, 1, 1)
    assert set(account.open) == {rounds[2]}
    budget = await world.caller().budget()
    assert account.limit == budget.limit_epsilon
    # The release came after the newest certificate, whose statement it makes smaller.
    assert account.spent > budget.spent_epsilon > 0


async def test_the_command_reads_a_web_server_and_remembers(
    world: World, web_server: str, tmp_path: Path
) -> None:
    await three_rounds(world)
    roster = world.deployment
    options = ["--roster", str(roster.roster_file), "--root-key", roster.root_key]
    memory = ["--remember", str(tmp_path / "checkpoint")]
    shown = CliRunner().invoke(app, ["audit-log", web_server, *options, *memory])
    assert shown.exit_code == 0, shown.output
    assert "5 entries, no contradiction" in shown.output
    assert "rounds charged: 3 (settled 1, released 1, open 1)" in shown.output
    await world.caller().certify(secrets.token_hex(16))
    again = CliRunner().invoke(app, ["audit-log", web_server, *options, *memory])
    assert "6 entries" in again.output
    entries = [entry.to_bytes() for entry in entries_of(world)]
    write_log(world, tmp_path / "fork", [*entries[:3], entries[5]])
    fork = CliRunner().invoke(app, ["audit-log", str(tmp_path / "fork"), *options, *memory])
    assert isinstance(fork.exception, LogProofError)
    assert "prove two histories" in str(fork.exception)


async def test_a_changed_file_of_the_log_is_refused(world: World) -> None:
    await three_rounds(world)
    folder = world.config.log_folder
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.parent.name.endswith(".p") and file.name != "5":
            continue  # of an earlier checkpoint
        content = file.read_bytes()
        for index in (0, len(content) // 2, len(content) - 1):
            changed = content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]
            file.write_bytes(changed)
            with pytest.raises((LogProofError, MalformedDocumentError, SignatureError)):
                entries_of(world)
        file.write_bytes(content)
    assert len(entries_of(world)) == 5


async def test_a_lying_accountant_is_convicted_by_its_own_log(world: World) -> None:
    rounds = await three_rounds(world)
    entries = entries_of(world)
    first, second, third, settled, released = entries
    position = world.read(second.documents[0].encode()).ledger
    cheap = msgspec.structs.replace(position, spent=position.spent / 2 if position.spent else 0.0)
    tight = msgspec.structs.replace(position, limit=position.limit / 1000)
    cheaper = signed_again(world, second.documents[0], ledger=cheap)
    beyond = signed_again(world, second.documents[0], ledger=tight)
    forwarded = world.discard(rounds[1], "node-2", forwarded=True).decode()
    lies = {
        "charged twice": [first, first],
        "comes next": [first, third],
        "is not reserved": [settled],
        "compose to": [first, with_documents(second, cheaper)],
        "exceeds the population's budget": [first, with_documents(second, beyond)],
        "without node-3": [first, second, with_documents(released, *released.documents[:2])],
        "does not say": [first, second, with_documents(released, forwarded)],
        "another round's": [first, with_documents(settled, *first.documents)],
    }
    for words, lie in lies.items():
        with pytest.raises((LogProofError, FalseCertificateError), match=words):
            replay(world, lie)
    certificate = world.read(second.documents[0].encode())
    forged = sign(certificate, ACCOUNTANT, world.deployment.identity_of("analyst").key)
    with pytest.raises(SignatureError):
        replay(world, [first, with_documents(second, forged.to_bytes().decode())])


async def test_what_a_crash_left_unwritten_is_in_the_log_after_the_next_start(
    world: World, tmp_path: Path
) -> None:
    """The crash: between the ledger's commit and the log's files."""
    await three_rounds(world)
    folder = tmp_path / "log"
    shutil.copytree(world.config.log_folder, folder)
    round_id = secrets.token_hex(16)
    await world.caller().certify(round_id)
    config = msgspec.structs.replace(world.config, log=folder)
    _, ledger = open_accountant(config, world.deployment.roster)
    ledger.close()
    entries = list(read_log(FolderSource(folder), log_key(world)).entries())
    assert entries == entries_of(world)
    assert entries[-1].round_id == round_id


async def test_a_log_that_shows_more_than_the_ledger_is_not_written_to(
    world: World, tmp_path: Path
) -> None:
    """The ledger was restored from a backup, or another one was put in its place."""
    await three_rounds(world)
    shown = (world.config.log_folder / "checkpoint").read_bytes()
    empty = msgspec.structs.replace(world.config, ledger=f"sqlite:///{tmp_path / 'other.db'}")
    with capture_logs() as lines:
        accountant, ledger = open_accountant(empty, world.deployment.roster)
        accountant.certify(secrets.token_hex(16), to_json(PLAN))
        accountant.publish_log()
    ledger.close()
    assert [line["event"].partition(":")[0] for line in lines] == ["public log stopped"]
    assert (world.config.log_folder / "checkpoint").read_bytes() == shown
    assert len(entries_of(world)) == 5


def with_documents(entry: LedgerLogEntry, *documents: str) -> LedgerLogEntry:
    return msgspec.structs.replace(entry, documents=documents)
