"""What killed processes have left in the folder for temporary files is removed by the next one, and
nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from shuffledp_sim.system.workplace import workplace

OTHER = """
import sys
import tempfile
tempfile.tempdir = sys.argv[1]
from shuffledp_sim.system.workplace import workplace
with workplace("shuffledp-lab-system-") as folder:
    (folder / "keys" / "deep").mkdir(parents=True)
    (folder / "keys" / "deep" / "secret.key").write_text("secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


def other(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a folder of its own."""
    command = [sys.executable, "-c", OTHER, str(place)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (killed, stale), (living, used) = other(tmp_path), other(tmp_path)
    with killed, living:
        killed.kill()
        killed.wait()
        assert (stale / "keys" / "deep" / "secret.key").exists()
        with workplace() as own:
            assert set(tmp_path.iterdir()) == {own, used}
            assert (used / "keys" / "deep" / "secret.key").exists()
            with workplace() as second:  # of the same process: its own folder is in use, too
                assert set(tmp_path.iterdir()) == {own, used, second}
        assert living.stdin is not None
        living.stdin.close()
        living.wait()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_marked_and_what_a_link_leads_to_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    for folder in (place / "shuffledp-round-1", place / "other", elsewhere):
        folder.mkdir(parents=True)
        (folder / "kept").touch()
    for folder in (place / "other", elsewhere):
        (folder / ".workplace").touch()
    (place / "shuffledp-link").symlink_to(elsewhere)
    marked = place / "shuffledp-marked"
    marked.mkdir()
    (marked / ".workplace").touch()
    (marked / "out").symlink_to(elsewhere)
    with workplace():
        assert not marked.exists()
    left = {"shuffledp-round-1", "other", "shuffledp-link"}
    assert {entry.name for entry in place.iterdir()} == left
    assert (elsewhere / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of somebody else's")
def test_another_users_folder_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "shuffledp-theirs"
    folder.mkdir()
    (folder / ".workplace").touch()
    os.chown(folder, 12345, 12345)
    with workplace():
        assert folder.exists()
