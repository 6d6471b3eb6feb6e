"""The sandbox of machines without namespaces: another user, in a root folder that holds nothing of
the grader's.

Only root can make it. A grading service's containers are such machines.
"""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.errors import StudentCrash, StudentException, StudentTimeout
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import Draws
from shuffledp_labs.student import jail, pipes, sandbox, syscalls
from shuffledp_labs.student.process import StudentProgram

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only root becomes another user, and only Linux shows /proc",
)

SOURCE = """
import os
import time


def who():
    return os.getresuid(), os.getresgid(), os.getgroups(), os.getcwd()


def become(user):
    os.setuid(user)


def read(path):
    with open(path) as file:
        return file.read()


def entries(path):
    return os.listdir(path)


def write(path):
    with open(path, "w") as file:
        file.write("mine")


def end(process):
    os.kill(process, 9)


def crash():
    os._exit(0)


def parent():
    return os.getppid()


def guests():
    import nacl.public
    import numpy

    key = nacl.public.PrivateKey.generate()
    sealed = nacl.public.SealedBox(key.public_key).encrypt(b"welcome")
    return nacl.public.SealedBox(key).decrypt(sealed), int(numpy.arange(4).sum())


def standard_library():
    import asyncio
    import ctypes
    import hashlib
    import sqlite3
    import ssl

    connection = sqlite3.connect("kept.db")
    connection.execute("create table if not exists t (x)")
    return hashlib.sha256(b"").hexdigest()[:8], asyncio.run(asyncio.sleep(0, "done"))


def answers_of(module):
    import importlib

    return importlib.import_module(module).__file__


def connect(family, kind):
    import socket

    return socket.socket(getattr(socket, family), getattr(socket, kind)).fileno()


def kernel_objects(call, add_key):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    made = {
        "shmget": lambda: libc.shmget(77, 4096, 0o1666),
        "semget": lambda: libc.semget(77, 1, 0o1666),
        "msgget": lambda: libc.msgget(77, 0o1666),
        "add_key": lambda: libc.syscall(add_key, b"user", b"note", b"42", 2, -4),
    }[call]()
    return made, ctypes.get_errno()


def temporary_folder():
    import tempfile

    return tempfile.mkdtemp()


def environment():
    return sorted(os.environ)


def forks():
    made = 0
    try:
        while made < 1000:
            if os.fork() == 0:
                os.setsid()
                time.sleep(1000)
            made += 1
    except OSError:
        pass
    return made


def endless():
    forks()
    while True:
        pass
"""


@pytest.fixture(scope="module")
def jails() -> Iterator[Path]:
    """Where root folders of this module are made: filled once."""
    with tempfile.TemporaryDirectory(prefix="jails-") as place:
        yield Path(place)


@pytest.fixture(autouse=True)
def user_box(jails: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUFFLEDP_LAB_BOX", "user")
    monkeypatch.setattr(pipes, "_working", [])
    monkeypatch.setattr(jail, "JAILS", jails)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[StudentProgram]:
    (tmp_path / "work.py").write_text(SOURCE)
    with pipes.scratch_folder() as scratch, StudentProgram(tmp_path / "work.py", scratch) as own:
        assert own.box == "user"
        yield own


def processes_of(user: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.stat().st_uid == user and "State:\tZ" not in (entry / "status").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_it_is_another_user_for_good_with_nothing_but_its_own_folder(
    program: StudentProgram,
) -> None:
    users, groups, more, cwd = program.call("who")
    (user,) = set(users)
    assert set(groups) == {user}
    assert user in sandbox._USERS
    assert more == ()
    assert cwd == f"/scratch/{program.scratch.name}"
    assert program.scratch.stat().st_uid == user
    assert program.scratch.stat().st_mode & 0o777 == 0o700
    assert program.call("environment") == tuple(sorted({*sandbox._VARIABLES, "HOME", "TMPDIR"}))
    program.call("write", "mine.txt")
    assert (program.scratch / "mine.txt").read_text() == "mine"
    for other in (0, user + 1):
        with pytest.raises(StudentException, match="PermissionError"):
            program.call("become", other)


def test_it_writes_nothing_but_its_own_folder(program: StudentProgram) -> None:
    for place in ("/new", "/packages/new.py", "/dev/new", "/scratch/new", "/etc/ld.so.cache"):
        with pytest.raises(StudentException, match="PermissionError"):
            program.call("write", place)
    with pytest.raises(StudentException, match="PermissionError"):
        program.call("entries", "/scratch")
    for process in (os.getpid(), program.call("parent")):
        with pytest.raises(StudentException, match="PermissionError"):
            program.call("end", process)


def test_two_students_are_two_users(program: StudentProgram, tmp_path: Path) -> None:
    program.call("write", "answer.txt")
    folder = program.call("who")[3]
    with pipes.scratch_folder() as place, StudentProgram(tmp_path / "work.py", place) as other:
        assert other.call("who")[0] != program.call("who")[0]
        for path in (f"{folder}/answer.txt", folder):
            with pytest.raises(StudentException, match="PermissionError"):
                other.call("read", path)
        with pytest.raises(StudentException, match="PermissionError"):
            other.call("write", f"{folder}/answer.txt")
    assert not place.exists()


@pytest.mark.parametrize(
    "module",
    [
        "shuffledp_labs.lab08_theorem.exact",
        "shuffledp_adversary.evidence",
        "shuffledp_accountant",
        "shuffledp_core",
        "scipy",
        "worker",
    ],
)
def test_answers_and_graders_cannot_be_imported(program: StudentProgram, module: str) -> None:
    with pytest.raises(StudentException, match="ModuleNotFoundError"):
        program.call("answers_of", module)


CHEAT = """
from shuffledp_labs.lab08_theorem.exact import delta_of as delta
from shuffledp_labs.lab08_theorem.exact import worst_case as worst
"""


def test_a_submission_that_imports_the_answers_gets_no_points(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(CHEAT)
    result = run_checks(LabRun(lab_of(8), tmp_path / "work.py", Draws(b"cheat")), Watcher())
    assert result.box == "user"
    assert result.points == 0
    assert "No module named 'shuffledp_labs'" in result.checks[0].message


def test_what_the_handouts_allow_can_be_imported(program: StudentProgram) -> None:
    assert program.call("guests") == (b"welcome", 6)
    assert program.call("standard_library") == ("e3b0c442", "done")


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])
def test_it_has_no_network(program: StudentProgram, family: str) -> None:
    with pytest.raises(StudentException, match="PermissionError"):
        program.call("connect", family, "SOCK_DGRAM")


@pytest.mark.parametrize("call", ["shmget", "semget", "msgget", "add_key"])
def test_it_cannot_leave_a_note_in_the_kernel_for_its_next_check(
    program: StudentProgram, call: str
) -> None:
    number = syscalls._MACHINES[platform.machine()][1]["add_key"]
    assert program.call("kernel_objects", call, number) == (-1, errno.EPERM)


def test_temporary_files_go_with_its_folder(program: StudentProgram) -> None:
    made = program.call("temporary_folder")
    assert Path(made).parent == Path(program.call("who")[3])
    assert (program.scratch / Path(made).name).is_dir()


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/proc/self/status", "/tmp/note", sys.executable, __file__],  # noqa: S108
)
def test_no_file_of_the_machine_is_there(program: StudentProgram, path: str) -> None:
    with pytest.raises(StudentException, match="FileNotFoundError"):
        program.call("read", path)


def test_a_crash_costs_one_call(program: StudentProgram) -> None:
    with pytest.raises(StudentCrash):
        program.call("crash")
    assert program.call("guests") == (b"welcome", 6)


@pytest.mark.parametrize("name", ["forks", "endless"])
def test_its_processes_are_few_and_all_end_with_it(program: StudentProgram, name: str) -> None:
    user = program.call("who")[0][0]
    if name == "forks":
        assert program.call(name, seconds=60) < sandbox.LIMITS["NPROC"]
        assert len(processes_of(user)) > 1
        program.close()
    else:
        with pytest.raises(StudentTimeout):
            program.call(name, seconds=2.0)
    assert processes_of(user) == []


GRADER = """
import sys
from pathlib import Path
from shuffledp_labs.student import jail, pipes
from shuffledp_labs.student.process import StudentProgram
jail.JAILS = Path(sys.argv[2])
with pipes.scratch_folder() as scratch:
    program = StudentProgram(Path(sys.argv[1]), scratch)
    print(program.call("who")[0][0], program.scratch, flush=True)
    program.call("endless", seconds=600)
"""


def test_nothing_is_left_of_it_when_the_grader_is_killed(jails: Path, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(SOURCE)
    command = [sys.executable, "-c", GRADER, str(tmp_path / "work.py"), str(jails)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as grader:
        assert grader.stdout is not None
        user, scratch = grader.stdout.readline().split()
        assert processes_of(int(user))
        grader.send_signal(signal.SIGKILL)
        grader.wait()
    deadline = time.monotonic() + 240
    while (processes_of(int(user)) or Path(scratch).exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(int(user)) == []
    assert not Path(scratch).exists()
