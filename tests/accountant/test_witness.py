"""The witness program over HTTP: the answers of C2SP tlog-witness, and its memory."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from log_world import LogWorld
from structlog.testing import capture_logs

from shuffledp_accountant.witnesses import WitnessClient
from shuffledp_core.documents.models import Witness
from shuffledp_core.errors import ConfigError, DocumentError, UnreachableError
from shuffledp_core.transparency.cosignatures import check_cosignature, witness_key
from shuffledp_core.transparency.entries import log_key_of
from shuffledp_core.transparency.notes import Checkpoint, NoteKey, parse_note, sign_note
from shuffledp_core.transparency.proofs import MAX_PROOF_BYTES, AddCheckpoint
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash
from shuffledp_ops.keys.pki import ACCOUNTANT

NAME = "witness-1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogWorld]:
    with LogWorld(tmp_path_factory.mktemp("log")) as there:
        yield there


@pytest.fixture
def witness(world: LogWorld) -> Witness:
    """One that has signed nothing yet."""
    world.corrupt(NAME)
    assert world.roster.log_terms is not None
    return world.roster.log_terms.witnesses[0]


def tree_of(size: int, kind: str = "entry") -> MerkleTree:
    return MerkleTree(leaf_hash(f"{kind} {number}".encode()) for number in range(size))


def request(
    world: LogWorld, old: int, tree: MerkleTree, *, key: NoteKey | None = None, origin: str = ""
) -> bytes:
    key = key or log_key_of(world.roster)
    text = Checkpoint(origin or key.name, tree.size, tree.root()).to_text()
    note = sign_note(text, key, world.deployment.identity_of(ACCOUNTANT).sign_bytes).encode()
    proof = tree.consistency_proof(old) if old <= tree.size else []
    return AddCheckpoint(old, tuple(proof), note).to_bytes()


def post(witness: Witness, body: bytes, path: str = "/add-checkpoint") -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(witness.address.removeprefix("http://"), timeout=30)
    connection.request("POST", path, body)
    answer = connection.getresponse()
    shown = answer.status, answer.headers["Content-Type"], answer.read()
    connection.close()
    return shown


def test_it_signs_a_log_that_only_grows(world: LogWorld, witness: Witness) -> None:
    for old, size in ((0, 3), (3, 3), (3, 8)):
        body = request(world, old, tree_of(size))
        status, _, line = post(witness, body)
        assert status == 200
        note = parse_note(AddCheckpoint.from_bytes(body).note + line)
        key = witness_key(NAME, bytes.fromhex(witness.public_key))
        assert check_cosignature(note, key) > 0


def test_it_refuses_as_the_specification_says(world: LogWorld, witness: Witness) -> None:
    assert post(witness, request(world, 0, tree_of(5)))[0] == 200
    log = log_key_of(world.roster)
    wrong = NoteKey(log.name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    fork = tree_of(9, "other")
    conflict = (409, "text/x.tlog.size", b"5\n")
    assert post(witness, request(world, 0, tree_of(9))) == conflict
    assert post(witness, request(world, 4, tree_of(4))) == conflict
    assert post(witness, request(world, 5, tree_of(5, "other"))) == conflict
    assert post(witness, request(world, 5, fork))[0] == 422
    assert post(witness, request(world, 9, tree_of(5)))[0] == 400
    assert post(witness, request(world, 5, tree_of(9), key=wrong))[0] == 403
    assert post(witness, request(world, 5, tree_of(9), origin="another.log/1"))[0] == 404
    assert post(witness, request(world, 5, tree_of(9)), "/other")[0] == 404
    assert post(witness, b"old five\n\n")[0] == 400
    assert post(witness, bytes(MAX_PROOF_BYTES + 1))[0] == 413
    assert post(witness, request(world, 5, tree_of(9)))[0] == 200


def test_it_remembers_over_a_restart_and_stops_at_a_damaged_memory(
    world: LogWorld, tmp_path: Path
) -> None:
    state = world.witness_state(NAME, tmp_path)
    assert state.add_checkpoint(request(world, 0, tree_of(6)))[0] == 200
    again = world.witness_state(NAME, tmp_path)
    assert again.add_checkpoint(request(world, 0, tree_of(2))) == (409, "6\n")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes().replace(b"\n6\n", b"\n4\n"))
    with pytest.raises(ConfigError, match="is damaged"):
        world.witness_state(NAME, tmp_path)


def test_the_log_finds_out_what_a_witness_knows(world: LogWorld, witness: Witness) -> None:
    key = log_key_of(world.roster)
    sign = world.deployment.identity_of(ACCOUNTANT).sign_bytes

    def ask(client: WitnessClient, tree: MerkleTree) -> str:
        text = Checkpoint(key.name, tree.size, tree.root()).to_text()
        return client.cosign(sign_note(text, key, sign), tree)

    assert NAME in ask(WitnessClient(witness), tree_of(4))
    assert NAME in ask(WitnessClient(witness), tree_of(300))  # one that was started again
    for tree in (tree_of(2), tree_of(300, "other"), tree_of(301, "other")):
        with capture_logs(), pytest.raises(DocumentError):
            ask(WitnessClient(witness), tree)


def test_a_witness_that_is_away_or_silent_ends_in_time(witness: Witness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        gone = Witness(name=NAME, operator="x", address=address, public_key=witness.public_key)
        with pytest.raises(UnreachableError):
            WitnessClient(gone, seconds=0.2).cosign("", tree_of(0))
    with pytest.raises(UnreachableError):
        WitnessClient(gone, seconds=0.2).cosign("", tree_of(0))
    with pytest.raises(ConfigError, match="not an http"):
        WitnessClient(Witness(name=NAME, operator="x", address="ftp://x", public_key="00" * 32))
