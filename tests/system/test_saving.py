"""A demo whose answer cannot be saved: refused before anything starts, and printed where it fails
afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from commands import Shell

from shuffledp_core.errors import OutputError, RoundFailed
from shuffledp_sim.system import workplace as module
from shuffledp_sim.system.workplace import workplace

DEMO = ["demo", "--users", "60", "--mechanism", "krr-histogram", "--epsilon", "3", "--max-value",
"3", "--format",
        "json"]  # fmt: skip


@pytest.mark.parametrize("out", ["/proc/x", "/sys/x", "/dev/full", "a" * 300, "file/below"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(
    shuffledp: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nobody-gets-here"))
    code, printed, errors = shuffledp("demo", "--out", out)
    assert (code, printed) == (2, "")
    assert f"cannot write into the folder {out}" in errors
    assert "--out" in errors


def limited(tmp_path: Path, bytes_a_file: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where no file may be longer."""
    start = (
        f"import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes_a_file},) * "
        "2); "
    )
    start += "runpy.run_module('shuffledp.cli', run_name='__main__')"
    command = [sys.executable, "-c", start, *words]
    return subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_disk_without_room_for_the_documents_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    done = limited(tmp_path, 100_000, *DEMO)
    assert done.returncode == 2
    assert "cannot write into the folder out: File too large" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_demo_whose_folder_goes_away_is_printed_and_kept_elsewhere(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    demo = subprocess.Popen(
        [sys.executable, "-m", "shuffledp.cli", *DEMO], cwd=tmp_path, env={**os.environ,
        "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while not list(scratch.glob("*/system/keys")):  # the folder was looked at before
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (tmp_path / "out").rmdir()
        (tmp_path / "out").write_text("in the way")
        printed, errors = demo.communicate(timeout=240)
    finally:
        demo.kill()
    assert demo.returncode == 2
    answer = json.loads(printed)
    assert answer["accepted"] == 60
    assert "could not be written into out" in errors
    assert "Traceback" not in errors
    (kept,) = scratch.glob("shuffledp-round-*/*/result.json")
    assert str(kept.parent) in errors
    assert [path.name for path in scratch.iterdir()] == [kept.parent.parent.name]


def test_a_full_disk_for_temporary_files_is_named_at_once_and_when_it_fills_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    free = [module.LEAST_BYTES]
    monkeypatch.setattr(module, "_free", lambda _: free[0])

    def work(left: int, words: str) -> None:
        with workplace():
            free[0] = left
            raise RoundFailed(words)

    with pytest.raises(
        OutputError, match=f"the disk of {tmp_path}, .* is full: .* TMPDIR .*the index is odd"
    ):
        work(0, "the index is odd")
    with pytest.raises(OutputError, match=r"is full: 0\.0 MiB are left") as refused:
        work(0, "not begun")
    assert "not begun" not in str(refused.value)
    free[0] = module.LEAST_BYTES
    with pytest.raises(RoundFailed, match=r"^something else$"):
        work(module.LEAST_BYTES, "something else")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_small_disk_is_named_by_the_real_command(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(small)],  # noqa: S607
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("this machine mounts nothing")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "shuffledp.cli", *DEMO], cwd=tmp_path, env={**os.environ,
            "TMPDIR": str(small)},
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"the disk of {small}, the folder for temporary files, is full" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)  # noqa: S607
