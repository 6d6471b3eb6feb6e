"""Names of clients and populations: no path, no surprise, and nothing half made. About 2 s."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from commands import Shell

from shuffledp_ops.keys import pki

PROJECT = Path(__file__).parents[2]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(done: tuple[int, str, str], says: str) -> bool:
    """Whether a command ended with exit code 2 and this sentence, and without a traceback."""
    code, _, errors = done
    return code == 2 and says in errors and "Traceback" not in errors


@pytest.mark.parametrize(
    "name",
    [
        "../../../escaped",
        "",
        ".",
        "..",
        ".hidden",
        "a/b",
        "/proc/x",
        "Alice",
        "a b",
        "é",
        "a\n",
        "a" * 65,
        "-x",
    ],
)
@pytest.mark.parametrize("option", ["--client", "--population"])
def test_a_name_that_is_no_name_is_refused_before_anything_is_made(
    shuffledp: Shell, tmp_path: Path, option: str, name: str
) -> None:
    assert refused(
        shuffledp("keys", "init", "deep/er/keys", f"{option}={name}"), "1 to 64 of a-z, 0-9"
    )
    assert everything(tmp_path) == set()


def test_a_name_that_is_given_twice_is_refused_before_anything_is_made(
    shuffledp: Shell, tmp_path: Path
) -> None:
    done = shuffledp(
        "keys", "init", "keys", "--client", "alice", "--client", "bob", "--client", "alice"
    )
    assert refused(done, "'alice' is given twice")
    assert everything(tmp_path) == set()


def test_what_fails_on_the_way_leaves_nothing(
    shuffledp: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pki, "write_secret", full)
    assert refused(
        shuffledp("keys", "init", "keys", "--client", "alice"), "No space left on device"
    )
    assert everything(tmp_path) == set()


def test_good_names_are_taken_and_an_empty_folder_that_is_there_is_used(
    shuffledp: Shell, tmp_path: Path
) -> None:
    (tmp_path / "keys").mkdir()
    shuffledp(
        "keys", "init", "keys", "--client", "alice", "--client", "0-b.c_d", "--population", "town.1"
    )
    assert {path.name for path in (tmp_path / "keys" / "clients").iterdir()} >= {"alice", "0-b.c_d"}
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


@pytest.mark.parametrize(
    ("path", "ignored"),
    [("keys/root/identity.pem", True), ("state/node-1/lock", True), ("alice.bundle", True),
    ("renewal/keys/x", True),
     ("ops/src/shuffledp_ops/keys/pki.py", False),
     ("core/src/shuffledp_core/runtime/state.py", False)],
)  # fmt: skip
def test_git_ignores_what_must_not_be_published_and_no_source(path: str, *, ignored: bool) -> None:
    if not (PROJECT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-C", str(PROJECT), "check-ignore", "--no-index", "--quiet", path]
    assert (subprocess.run(command, check=False).returncode == 0) is ignored
