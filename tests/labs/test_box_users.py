"""Every folder has a user of its own, also where several graders work side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shuffledp_labs.errors import LabError
from shuffledp_labs.student import sandbox

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="users are reserved by names that only Linux has"
)

OTHER = """
import sys
from pathlib import Path
from shuffledp_labs.student import sandbox
sandbox._USERS = range(int(sys.argv[2]), int(sys.argv[2]) + 1)
print(sandbox._reserve_user(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_no_two_folders_have_one_user_and_a_folder_that_is_gone_gives_its_own_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = 10**6 + 4 * os.getpid()  # numbers of this test alone, whatever else runs on the machine
    users = set(range(first, first + 3))
    monkeypatch.setattr(sandbox, "_USERS", range(first, first + 3))
    monkeypatch.setattr(sandbox, "_user_locks", {})
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    command = [sys.executable, "-c", OTHER, str(folders[0]), str(first)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert int(other.stdout.readline()) == first
        assert {sandbox._reserve_user(folder) for folder in folders[:2]} == users - {first}
        with pytest.raises(LabError, match="in use"):
            sandbox._reserve_user(folders[2])
        folders[0].rmdir()
        assert sandbox._reserve_user(folders[2]) in users - {first}
        other.stdin.close()
    folders[1].rmdir()
    assert sandbox._reserve_user(tmp_path) in users
    for holder in sandbox._user_locks.values():
        os.close(holder)


def test_users_that_are_held_to_the_end_of_a_process_are_no_unclosed_sockets(
    tmp_path: Path,
) -> None:
    program = (
        "from pathlib import Path; import sys; from shuffledp_labs.student import sandbox; "
        "sandbox._reserve_user(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-W", "default::ResourceWarning", "-c", program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
