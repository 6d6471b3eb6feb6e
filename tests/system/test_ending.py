"""How a command ends when it is told to: no process, no key and no traceback is left, whenever it
happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

COMMAND = [
    sys.executable,
    "-m",
    "shuffledp.cli",
    "demo",
    "--users",
    "20000",
    "--mechanism",
    "rr-shuffle",
]


def offspring(scratch: Path) -> set[int]:
    """Every process that was started with this folder for its temporary files, whoever its parent
    is now."""
    marker = f"TMPDIR={scratch}\0".encode()
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                stat, environment = (
                    (process / "stat").read_text(),
                    (process / "environ").read_bytes(),
                )
            except OSError:  # it has ended meanwhile
                continue
            if marker in environment and stat.rpartition(")")[2].split()[0] != "Z":
                found.add(int(process.name))
    return found


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, f"not within four minutes: {what}"
        time.sleep(0.01)


def has(scratch: Path, pattern: str) -> Callable[[], bool]:
    return lambda: any(path.stat().st_size for path in scratch.glob(pattern))


@pytest.fixture
def signals_count() -> Iterator[None]:
    """A shell may start the tests with signals ignored, and with them every child: not here."""
    before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGHUP, signal.SIGTERM)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("signals_count")
@pytest.mark.parametrize(
    ("number", "pattern"),
    [
        (signal.SIGTERM, "*/system/keys/root/identity.pem"),  # the first key is made
        (signal.SIGHUP, "*/system/node-3.log"),  # processes start
        pytest.param(
            signal.SIGTERM, "*/system/state/node-1/**/envelopes*", marks=pytest.mark.slow
        ),  # users submit
    ],
)
def test_a_demo_that_is_told_to_end_takes_keys_and_processes_with_it(
    tmp_path: Path, number: signal.Signals, pattern: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    demo = subprocess.Popen(
        COMMAND, cwd=tmp_path, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        until(has(scratch, pattern), pattern)
        assert list(scratch.rglob("identity.pem"))
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=240)
    finally:
        demo.kill()  # nothing, unless the test has failed
        demo.wait()
    assert demo.returncode == 128 + number
    assert "Traceback" not in errors
    assert list(scratch.rglob("*")) == []
    until(lambda: not offspring(scratch), "all processes have ended")


@pytest.mark.usefixtures("signals_count")
def test_ctrl_c_at_the_start_reaches_every_process_of_the_terminal_and_is_no_traceback(
    tmp_path: Path,
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    demo = subprocess.Popen(
        COMMAND, cwd=tmp_path, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip

    def workers() -> list[int]:  # in the terminal's foreground group, as the demo itself
        return [
            pid
            for pid in offspring(scratch) - {demo.pid}
            if group(pid) == demo.pid and "spawn_main" in words(pid)
        ]

    try:
        until(lambda: bool(workers()), "a sealing process has begun")
        os.killpg(demo.pid, signal.SIGINT)
        _, errors = demo.communicate(timeout=240)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert list(scratch.rglob("*")) == []
    until(lambda: not offspring(scratch), "all processes have ended")


def group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
