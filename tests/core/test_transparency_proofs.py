"""Cosignatures, proofs as text, and windows of a log."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import LogProofError, MalformedDocumentError, SignatureError
from shuffledp_core.transparency.cosignatures import (
    check_cosignature,
    cosign,
    cosigners,
    witness_key,
)
from shuffledp_core.transparency.notes import Checkpoint, NoteKey, parse_note, sign_note
from shuffledp_core.transparency.proofs import MAX_HASHES, AddCheckpoint, InclusionProof
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash
from shuffledp_core.transparency.windows import WINDOW, LogWindow

SIGNER = Ed25519PrivateKey.generate()
WITNESS = Ed25519PrivateKey.generate()
KEY = NoteKey("shuffledp-ledger/demo", SIGNER.public_key().public_bytes_raw())
WITNESS_KEY = witness_key("witness-1", WITNESS.public_key().public_bytes_raw())
TEXT = Checkpoint(KEY.name, 7, bytes(range(32))).to_text()
LINE = cosign(TEXT, WITNESS_KEY, WITNESS.sign, 1_800_000_000)
NOTE = sign_note(TEXT, KEY, SIGNER.sign) + LINE

hashes = st.lists(st.binary(min_size=32, max_size=32), max_size=MAX_HASHES).map(tuple)


def test_a_cosignature_states_its_time_and_holds_for_its_checkpoint_only() -> None:
    assert check_cosignature(parse_note(NOTE.encode()), WITNESS_KEY) == 1_800_000_000
    other = Checkpoint(KEY.name, 8, bytes(range(32))).to_text()
    moved = sign_note(other, KEY, SIGNER.sign) + LINE
    with pytest.raises(SignatureError, match="does not verify"):
        check_cosignature(parse_note(moved.encode()), WITNESS_KEY)
    assert cosigners(parse_note(moved.encode()), [WITNESS_KEY]) == ()


def test_a_log_cannot_sign_in_place_of_its_witness() -> None:
    """A signature of another algorithm under the same name and key is another key's."""
    impostor = NoteKey(WITNESS_KEY.name, WITNESS_KEY.public_key)
    note = sign_note(TEXT, impostor, WITNESS.sign)
    assert cosigners(parse_note(note.encode()), [WITNESS_KEY]) == ()


@given(st.integers(0, 2**62), hashes, st.binary(max_size=64))
def test_proofs_and_requests_have_one_spelling(
    number: int, path: tuple[bytes, ...], extra: bytes
) -> None:
    for proof in (
        InclusionProof(number, path, NOTE.encode(), extra),
        AddCheckpoint(number, path, NOTE.encode()),
    ):
        data = proof.to_bytes()
        assert type(proof).from_bytes(data) == proof
        assert type(proof).from_bytes(data).to_bytes() == data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tlog-proof@v1", "tlog-proof@v2"),
        ("index 3", "index 03"),
        ("index 3", "index -3"),
        ("index 3\n", ""),
        ("extra AAAA", "extra AAA"),
        ("extra AAAA", "extra "),
        ("\n\n", "\n"),
        ("index 3\n", "index 3\nAAAA\n"),
        ("index 3\n", "index 3\n" + 64 * ("A" * 43 + "=\n")),
        ("extra AAAA", "extra " + 2**18 * "A"),
    ],
)
def test_other_spellings_of_a_proof_are_refused(old: str, new: str) -> None:
    data = InclusionProof(3, (), NOTE.encode(), b"\0\0\0").to_bytes().decode()
    assert old in data
    with pytest.raises(MalformedDocumentError):
        InclusionProof.from_bytes(data.replace(old, new, 1).encode())


@pytest.mark.parametrize("size", [0, 1, 2, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 7, 1000])
def test_a_window_finds_every_root_that_it_reaches(size: int) -> None:
    tree = MerkleTree(leaf_hash(bytes([number % 256])) for number in range(size))
    window = LogWindow.of(tree, size)
    assert LogWindow.from_bytes(window.to_bytes(), size) == window
    assert window.base == max(0, size - WINDOW)
    for earlier in range(window.base, size + 1):
        assert window.root(earlier) == tree.root(earlier)
    window.check(Checkpoint("log", size, tree.root()))
    with pytest.raises(LogProofError):
        window.check(Checkpoint("log", size, bytes(32)))


def test_windows_of_other_lengths_are_refused() -> None:
    tree = MerkleTree(leaf_hash(bytes([number])) for number in range(100))
    data = LogWindow.of(tree, 100).to_bytes()
    for changed in (data[:-1], data + bytes(32), b"", data[:8]):
        with pytest.raises(MalformedDocumentError):
            LogWindow.from_bytes(changed, 100)
    for size in (0, 99, 101, 10_000):
        with pytest.raises(MalformedDocumentError):
            LogWindow.from_bytes(data, size)
