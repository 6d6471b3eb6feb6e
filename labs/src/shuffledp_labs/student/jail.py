"""The root folder for students' programs on a machine without namespaces.

It holds copies of the Python interpreter, its standard library, the shared libraries these load,
and the packages that a handout allows. A process that has changed its root to it, and is not root,
finds nothing else: no grader, no answer, no other file of the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from shuffledp_labs.errors import LabError

JAILS: Final = Path("/var/cache/shuffledp-labs")
"""Only root writes here: a predictable folder below /tmp could be prepared by anyone."""

PACKAGES: Final = "packages"
SCRATCH: Final = "scratch"
READY: Final = ".ready"

_LEFT_OUT: Final = (
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "tkinter",
    "ensurepip",
    "config-*",
)
"""What is below the standard library and not part of it, or large and of no use here."""

_DEVICES: Final = {"null": (1, 3), "urandom": (1, 9)}
_LIBRARY: Final = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def jail(interpreter: Path, guests: Sequence[Path], versions: Sequence[str]) -> Path:
    """Create and return the root folder for an interpreter and packages.

    The first caller on a machine fills it.

    Args:
        interpreter: the real file, not a virtual environment's link.
        guests: files and folders in site-packages that programs may import.
        versions: versions of the packages; other ones get another folder.

    Raises:
        LabError: the folder cannot be created, for instance because this user is not root or the
            disk is full.
    """
    identity = "\n".join([sys.version, str(interpreter), *map(str, guests), *versions])
    root = JAILS / hashlib.sha256(identity.encode()).hexdigest()[:16]
    if (root / READY).exists():
        return root
    try:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (root / READY).exists():
                _fill(root, interpreter, guests)
    except (OSError, shutil.Error) as error:
        raise LabError(
            f"{root}, the root folder of students' programs, cannot be filled ({error}): "
            "make room for 200 MB, delete it, and try again as root"
        ) from error
    return root


def _fill(root: Path, interpreter: Path, guests: Sequence[Path]) -> None:
    _copy(interpreter, _inside(root, interpreter))
    bases = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    for library in {
        Path(sysconfig.get_path(name, vars=bases)) for name in ("stdlib", "platstdlib")
    }:
        _copy(library, _inside(root, library))
    for guest in guests:
        _copy(guest, root / PACKAGES / guest.name)
    for library in _loaded_by([*_shared_objects(root), interpreter]):
        _copy(library, _inside(root, library))
    if Path("/etc/ld.so.cache").exists():
        _copy(Path("/etc/ld.so.cache"), root / "etc" / "ld.so.cache")
    (root / "dev").mkdir(exist_ok=True)
    for name, numbers in _DEVICES.items():
        with suppress(OSError):  # some containers forbid it; few programs need them
            os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(*numbers))
            (root / "dev" / name).chmod(0o666)
    _open_to_all(root)
    (root / SCRATCH).mkdir(exist_ok=True)
    (root / SCRATCH).chmod(
        0o711
    )  # each program enters its own folder there, and cannot list the others
    (root / READY).touch()


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        left_out = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(
            source, target, ignore=left_out, ignore_dangling_symlinks=True, dirs_exist_ok=True
        )
    else:
        shutil.copy2(source, target)


def _shared_objects(root: Path) -> Iterator[Path]:
    return (file for file in root.rglob("*.so*") if file.is_file() and file.parent.name != "etc")


def _loaded_by(objects: Sequence[Path]) -> set[Path]:
    """The shared libraries that these files load, resolved as the dynamic linker does."""
    done = subprocess.run(  # noqa: S603 - the C library's program, on files of the installation
        ["ldd", *map(str, objects)],  # noqa: S607 - from the PATH below
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    libraries = {Path(name) for name in _LIBRARY.findall(done.stdout)}
    return {library for library in libraries if not library.is_relative_to(JAILS)}


def _open_to_all(root: Path) -> None:
    """Make everything below the folder readable for all users, regardless of umask.

    Only root may write.
    """
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for name in names:
            file = Path(folder, name)
            if not file.is_symlink() and stat.S_ISREG(file.stat().st_mode):
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
