"""The sandbox of machines without namespaces: another user, who reads neither the grader's files nor the results.

Only root can become one. What that user needs is copied to where everybody can read it, as on a grading service: the
interpreter of these tests may lie in root's own folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shuffledp_labs.errors import StudentRaised, StudentTimeout
from shuffledp_labs.student import pipes, sandbox
from shuffledp_labs.student.process import StudentProgram

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root becomes another user, and only Linux shows /proc"
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


def parent():
    return os.getppid()


def guest():
    import guest_of_the_box

    return guest_of_the_box.WORD


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

NEEDLESS = ("site-packages", "dist-packages", "test", "idlelib", "tkinter", "ensurepip", "lib2to3", "config-*")
"""Of the standard library: large, and asked for by no worker."""


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    """An interpreter, the worker and a package, readable by everybody."""
    place = Path(tempfile.mkdtemp(prefix="another-user-"))
    try:
        place.chmod(0o755)
        library = Path(sysconfig.get_path("stdlib"))
        shutil.copytree(library, place / "lib" / library.name, ignore=shutil.ignore_patterns(*NEEDLESS))
        (place / "bin").mkdir()
        shutil.copy(Path(sys.executable).resolve(), place / "bin")
        (place / "student").mkdir()
        for module in ("worker.py", "wire.py"):
            shutil.copy(Path(sandbox.__file__).with_name(module), place / "student")
        (place / "packages").mkdir()
        (place / "packages" / "guest_of_the_box.py").write_text("WORD = 'welcome'\n")
        for entry in (place, *place.rglob("*")):
            entry.chmod(entry.stat().st_mode | (0o055 if entry.is_dir() else 0o044))
        yield place
    finally:
        shutil.rmtree(place)


def use(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUFFLEDP_LAB_BOX", "user")
    monkeypatch.setattr(pipes, "_working", [])
    monkeypatch.setattr(sandbox, "__file__", str(public / "student" / "sandbox.py"))
    monkeypatch.setattr(sandbox, "_interpreter", lambda: str(next((public / "bin").iterdir())))
    monkeypatch.setattr(sandbox, "guests", lambda: (public / "packages" / "guest_of_the_box.py",))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where a check makes it: in the folder for temporary files, which everybody may enter. Pytest's own is closed."""
    place = Path(tempfile.mkdtemp(prefix=pipes.SCRATCH))
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def program(public: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudentProgram]:
    use(public, monkeypatch)
    (tmp_path / "work.py").write_text(SOURCE)
    with StudentProgram(tmp_path / "work.py", scratch) as own:
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


def test_it_is_another_user_for_good_with_nothing_but_its_own_folder(program: StudentProgram) -> None:
    users, groups, more, cwd = program.call("who")
    (user,) = set(users)
    assert set(groups) == {user}
    assert user in sandbox._USERS
    assert more == ()
    assert cwd == str(program.scratch)
    assert program.scratch.stat().st_uid == user
    assert program.scratch.stat().st_mode & 0o777 == 0o700
    assert program.call("environment") == tuple(sorted({*sandbox._VARIABLES, "HOME"}))
    assert program.call("guest") == "welcome"
    program.call("write", "mine.txt")
    assert (program.scratch / "mine.txt").read_text() == "mine"
    for other in (0, user + 1):
        with pytest.raises(StudentRaised, match="PermissionError"):
            program.call("become", other)


def test_it_reads_and_writes_nothing_of_the_graders(program: StudentProgram, public: Path, tmp_path: Path) -> None:
    secret = Path(tempfile.mkdtemp(prefix="shuffledp-"))  # as a folder of results and keys is made
    try:
        (secret / "result.json").write_text("75")
        for place in (secret / "result.json", tmp_path / "work.py", "/etc/shadow", "/proc/self/../1/environ"):
            with pytest.raises(StudentRaised, match="PermissionError"):
                program.call("read", str(place))
        for place in (secret / "result.json", public / "student" / "worker.py", public / "new", "/etc/new"):
            with pytest.raises(StudentRaised, match="PermissionError"):
                program.call("write", str(place))
        with pytest.raises(StudentRaised, match="PermissionError"):
            program.call("entries", str(secret))
        for process in (os.getpid(), program.call("parent")):
            with pytest.raises(StudentRaised, match="PermissionError"):
                program.call("end", process)
    finally:
        shutil.rmtree(secret)


def test_two_students_are_two_users(program: StudentProgram, tmp_path: Path) -> None:
    program.call("write", "answer.txt")
    place = Path(tempfile.mkdtemp(prefix=pipes.SCRATCH))
    try:
        with StudentProgram(tmp_path / "work.py", place) as other:
            assert other.call("who")[0] != program.call("who")[0]
            for path in (program.scratch / "answer.txt", program.scratch):
                with pytest.raises(StudentRaised, match="PermissionError"):
                    other.call("read", str(path))
            with pytest.raises(StudentRaised, match="PermissionError"):
                other.call("write", str(program.scratch / "answer.txt"))
    finally:
        shutil.rmtree(place)


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
import tempfile
from pathlib import Path
from shuffledp_labs.student import sandbox
from shuffledp_labs.student.process import StudentProgram
public = Path(sys.argv[2])
sandbox.__file__ = str(public / "student" / "sandbox.py")
sandbox._interpreter = lambda: str(next((public / "bin").iterdir()))
sandbox.guests = lambda: (public / "packages" / "guest_of_the_box.py",)
program = StudentProgram(Path(sys.argv[1]), Path(tempfile.mkdtemp(prefix="shuffledp-lab-")))
print(program.call("who")[0][0], program.scratch, flush=True)
program.call("endless", seconds=600)
"""


def test_nothing_is_left_of_it_when_the_grader_is_killed(public: Path, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(SOURCE)
    command = [sys.executable, "-c", GRADER, str(tmp_path / "work.py"), str(public)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "SHUFFLEDP_LAB_BOX": "user"}
    ) as grader:
        assert grader.stdout is not None
        user, scratch = grader.stdout.readline().split()
        assert processes_of(int(user))
        grader.send_signal(signal.SIGKILL)
        grader.wait()
    deadline = time.monotonic() + 120
    while (processes_of(int(user)) or Path(scratch).exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(int(user)) == []
    assert not Path(scratch).exists()
