"""`shuffledp demo` as a user types it: what it prints, what it leaves, and what it says when something is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Shell

KEYS = {
    "mechanism", "users", "accepted", "estimate", "standard_error", "true_value", "epsilon", "delta", "adjacency",
    "max_distance", "epsilon_corrupted", "messages", "seconds",
}  # fmt: skip
COMMAND = [sys.executable, "-m", "shuffledp_sim.cli"]


def demo(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "demo", *options], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_demo_prints_one_json_object_and_leaves_signed_documents_and_a_picture(tmp_path: Path) -> None:
    done = demo(tmp_path, "--users", "60", "--mechanism", "krr-histogram", "--epsilon", "3", "--max-value", "3",
                "--format", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) >= KEYS
    assert answer["accepted"] == answer["users"] == 60
    assert len(answer["estimate"]) == len(answer["true_value"]) == 4
    assert sum(answer["true_value"]) == 60
    assert set(answer["seconds"]) >= {"start", "open", "sealing", "upload", "node-1 mixing", "decoding", "total"}
    folder = tmp_path / "out" / answer["round"]
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    for name in ("certificate", "plan-certificate", "manifest", "result"):
        assert set(json.loads((folder / f"{name}.json").read_text())) == {"label", "signer", "body", "signature"}


def test_a_demo_for_people_shows_answer_guarantee_and_time(tmp_path: Path) -> None:
    done = demo(tmp_path, "--users", "60", "--mechanism", "rr-shuffle", "--epsilon", "3", "--max-value", "2")
    assert done.returncode == 0, done.stderr
    for words in ("estimate", "true value", "ε certified", "ε_L", "Seconds by stage"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--suite", "rot13"], 2, "sealed-box"),
        (["--mechanism", "nope"], 2, "geo-shuffle"),
        (["--epsilon", "-1"], 2, "-1"),
        (["--delta", "1"], 2, "below 1"),
        (["--max-distance", "30"], 2, "20"),
        (["--users", "30000"], 2, "20190"),
        (["--data", "nowhere.csv"], 2, "nowhere.csv"),
        (["--colour", "red"], 2, "--colour"),
        (["--corrupt", "1,4"], 2, "from 1 to 3, the number of nodes, not 4"),
        (["--corrupt", "2,2"], 2, "node 2 more than once"),
        (["--corrupt", "all"], 2, "'all'"),
    ],
)
def test_bad_input_is_named_before_anything_is_started(
    shuffledp: Shell, tmp_path: Path, options: list[str], code: int, says: str
) -> None:
    ended, _, errors = shuffledp("demo", *options)
    assert ended == code
    assert says in errors.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_a_column_that_is_not_there_or_not_whole_is_named(shuffledp: Shell, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("age,height\n3,1.7\n4,1.8\n")
    for column, says in (("weight", "age, height"), ("height", "line 2")):
        ended, _, errors = shuffledp("demo", "--data", "people.csv", "--column", column, "--users", "2")
        assert ended == 2
        assert says in errors


def test_bad_input_of_the_real_command_is_no_traceback(tmp_path: Path) -> None:
    done = demo(tmp_path, "--suite", "rot13")
    assert done.returncode == 2
    assert "sealed-box" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def ctrl_c_counts() -> Iterator[None]:
    """A shell that starts the tests in the background has them ignore Ctrl-C, and with them every child: not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_counts")
def test_ctrl_c_ends_the_demo_and_leaves_no_process_behind(tmp_path: Path) -> None:
    began = subprocess.Popen(
        [*COMMAND, "demo", "--users", "2000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        group_members = _until_processes_run(began.pid)
        os.kill(began.pid, signal.SIGINT)
        _, errors = began.communicate(timeout=120)
    finally:
        began.kill()  # nothing, unless the test has failed or was interrupted
        began.wait()
    assert began.returncode == 130
    assert "Traceback" not in errors
    deadline = time.monotonic() + 30
    while alive := [pid for pid in group_members if _runs(pid)]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.05)


def _until_processes_run(parent: int) -> list[int]:
    """The system's processes, once a node's own children (its peeling processes) run as well."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = _children(parent)
        grandchildren = [pid for child in children for pid in _children(child)]
        if len(children) >= 6 and len(grandchildren) >= 3:
            return [*children, *grandchildren]
        time.sleep(0.05)
    raise AssertionError("the demo did not start its processes")


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
