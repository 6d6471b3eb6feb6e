"""Public logs read by other people's code: the crates signed_note and tlog_tiles."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.transparency.notes import Checkpoint, NoteKey, sign_note
from shuffledp_core.transparency.tiles import bundles_between, pack_bundle, tiles_since
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash

VERIFIER = Path(__file__).parents[1] / "interop" / "tlog"

SIZES = (1, 2, 255, 256, 257, 700)
"""One tile and less, one and a bit, and two levels of tiles."""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=VERIFIER, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.fixture(scope="module")
def program() -> str:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("no cargo here")
    fetched = run(cargo, "fetch", "--locked", "--quiet")
    if fetched.returncode != 0:
        pytest.skip(f"the crates cannot be had here: {fetched.stderr[-200:]}")
    built = run(cargo, "build", "--locked", "--quiet")
    assert built.returncode == 0, built.stderr
    return str(VERIFIER / "target" / "debug" / "tlog-verifier")


def write_log(folder: Path, size: int, key: NoteKey, signer: Ed25519PrivateKey) -> None:
    """A log that grew one entry at a time, with all tiles that it ever had."""
    tree = MerkleTree()
    entries = [f"entry {number}".encode() * (1 + number % 7) for number in range(size)]
    for number, entry in enumerate(entries):
        tree.append(leaf_hash(entry))
        files = dict(tiles_since(tree, number))
        for path, begin, end in bundles_between(number, number + 1):
            files[path] = pack_bundle(entries[begin:end])
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    text = Checkpoint(key.name, size, tree.root()).to_text()
    (folder / "checkpoint").write_text(sign_note(text, key, signer.sign))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", SIZES)
def test_another_implementation_reads_the_log_and_makes_its_proofs(
    program: str, tmp_path: Path, size: int
) -> None:
    signer = Ed25519PrivateKey.generate()
    key = NoteKey("shuffledp-ledger/demo", signer.public_key().public_bytes_raw())
    write_log(tmp_path, size, key, signer)
    shown = run(program, str(tmp_path), key.to_text())
    assert shown.stdout == f"{size}\n", shown.stderr
    other = NoteKey(key.name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    assert run(program, str(tmp_path), other.to_text()).returncode != 0
    *_, (path, _, _) = bundles_between(0, size)
    content = (tmp_path / path).read_bytes()
    (tmp_path / path).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert run(program, str(tmp_path), key.to_text()).returncode != 0
