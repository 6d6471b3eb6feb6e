"""Processes that are forked: each is as one that was started from nothing, and none outlives whom
it belongs to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shuffledp_core.errors import ConfigError, UnreachableError
from shuffledp_sim.system import nursery
from shuffledp_sim.system.nursery import Nursery

pytestmark = pytest.mark.skipif(
    not nursery.available(), reason="processes are forked on Linux only"
)

PROGRAM = """
import json, os, random, signal, sys
import numpy
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from nacl.utils import random as sodium

def main():
    drawn = [random.random(), numpy.random.random(), X25519PrivateKey.generate().private_bytes_raw().hex(),
             sodium(16).hex(), os.urandom(16).hex()]
    print(json.dumps({"drawn": drawn, "argv": sys.argv, "spec": sys.modules["__main__"].__spec__.name,
                      "group": os.getpgid(0), "pid": os.getpid(), "parent": os.getppid(), "in": os.read(0, 1).decode(),
                      "child": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
                      "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                      "open": sorted(os.listdir("/proc/self/fd"))[:3], "numbers": len(os.listdir("/proc/self/fd"))}))
    if sys.argv[1] == "fail":
        sys.exit("not this one")
    while sys.argv[1] == "stay":
        signal.pause()

if __name__ == "__main__":
    main()
"""  # noqa: E501
"""Says what it is and has drawn; then it ends, fails, or stays."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a_program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def started(place: Path) -> Iterator[Nursery]:
    started = Nursery(place / "nursery.log")
    started.begin()
    yield started
    started.close()


def said(log: Path) -> dict[str, Any]:
    until(lambda: log.exists() and log.read_text().count("\n") > 0)
    words: dict[str, Any] = json.loads(log.read_text().splitlines()[0])
    return words


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_forked_program_is_as_one_that_was_started(started: Nursery, place: Path) -> None:
    process = started.start(["a_program", "end", "--two"], place / "one.log")
    assert process.wait(120)
    assert not runs(process.pid)
    found = said(place / "one.log")
    assert found["pid"] == found["group"] == process.pid
    assert found["argv"] == [str(place / "a_program.py"), "end", "--two"]
    assert found["spec"] == "a_program"  # what a worker of its own imports again
    assert (found["in"], found["child"], found["blocked"]) == ("", True, [])
    assert (found["open"], found["numbers"]) == (["0", "1", "2"], 4)  # and the listing's own
    assert (place / "nursery.log").read_text() == ""


def test_what_one_forked_program_draws_no_other_draws(started: Nursery, place: Path) -> None:
    """All five sources, of eight processes, one after another of one parent."""
    logs = [place / f"{number}.log" for number in range(8)]
    for process in [started.start(["a_program", "end"], log) for log in logs]:
        assert process.wait(120)
    draws = [said(log)["drawn"] for log in logs]
    for source in zip(*draws, strict=True):
        assert len(set(source)) == len(logs)


def test_one_is_killed_alone_and_a_log_is_appended_to(started: Nursery, place: Path) -> None:
    first, second = (started.start(["a_program", "stay"], place / f"{name}.log") for name in "ab")
    assert said(place / "a.log")["parent"] == said(place / "b.log")["parent"]
    first.kill()
    assert first.wait(120)
    first.kill()  # nobody is hurt
    assert not second.wait(0)
    failed = started.start(["a_program", "fail"], place / "a.log")
    assert failed.wait(120)
    assert (place / "a.log").read_text().splitlines()[2:] == ["not this one"]


def test_a_nursery_has_one_thread_so_that_a_fork_copies_none(started: Nursery, place: Path) -> None:
    started.start(["a_program", "stay"], place / "one.log")
    parent = said(place / "one.log")["parent"]
    assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1


def test_what_was_forked_ends_with_its_nursery_and_the_next_start_makes_a_new_one(
    started: Nursery, place: Path
) -> None:
    process = started.start(["a_program", "stay"], place / "one.log")
    os.kill(said(place / "one.log")["parent"], signal.SIGKILL)
    assert process.wait(120)
    until(lambda: started._process is not None and started._process.poll() is not None)
    assert started.start(["a_program", "end"], place / "two.log").wait(120)


def test_all_end_with_a_parent_that_is_killed(place: Path) -> None:
    code = """
from pathlib import Path
from shuffledp_sim.system.nursery import Nursery
nursery = Nursery(Path("nursery.log"))
process = nursery.start(["a_program", "stay"], Path("one.log"))
process.wait(None)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        found = said(place / "one.log")
        parent.kill()
    until(lambda: not runs(found["pid"]) and not runs(found["parent"]))


def test_a_nursery_that_cannot_start_or_has_died_is_a_typed_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "amqtt.py").write_text("raise ImportError('of the wrong kind')")
    broken = Nursery(place / "nursery.log")
    with pytest.raises(ConfigError, match="of the wrong kind"):
        broken.start(["a_program", "end"], place / "one.log")
    broken.close()
    (place / "amqtt.py").unlink()
    died = Nursery(place / "second.log")
    died.begin()
    died.until_ready()
    monkeypatch.setattr(died, "begin", lambda: None)
    assert died._process is not None
    died._process.kill()
    died._process.wait()
    with pytest.raises(UnreachableError, match="has died"):
        died.start(["a_program", "end"], place / "one.log")
    died.close()
