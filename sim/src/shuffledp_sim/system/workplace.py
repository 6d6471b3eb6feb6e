"""A temporary folder for a whole system and its keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shuffledp_core.errors import OutputError, ShuffleDPError

LEAST_BYTES: Final = 16 * 2**20
"""Free bytes without which nothing is started: keys, ledger and logs of a small round are a few MB.
"""

_LOCK: Final = ".workplace"
"""File in each folder that its process keeps locked: the kernel lets go of it when the process
dies, in any way.
"""

FULL_BYTES: Final = 2**20
"""Free bytes below which a failure is blamed on a full disk, whatever error it raised."""


@contextmanager
def workplace(prefix: str = "shuffledp-") -> Iterator[Path]:
    """Context with a new private temporary folder, removed with all contents whatever happens.

    A process that is killed cannot remove its own: the next one removes what killed processes of
    this user have left.

    Raises:
        OutputError: there is no such folder, or its disk is full, now or when something else had
            failed.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            try:
                with _claim(folder):
                    _sweep(folder.parent)
                    _require_room(folder)
                    yield folder
            except (OSError, ShuffleDPError) as error:
                if isinstance(error, OutputError) or _free(folder) >= FULL_BYTES:
                    raise
                raise OutputError(f"{_full(folder)} (what failed: {error})") from error
    except FileNotFoundError as error:
        if error.filename is None:  # tempfile's own: none of the usual folders can be written
            raise OutputError(
                "no folder for temporary files can be written; name one in TMPDIR"
            ) from error
        raise


@contextlib.contextmanager
def _claim(folder: Path) -> Iterator[None]:
    """Context that marks a folder as in use, by a lock that ends with this process."""
    unlocked = folder / f"{_LOCK}.new"
    lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unlocked.rename(folder / _LOCK)  # no one ever sees the mark without its lock
        yield
    finally:
        os.close(lock)


def _sweep(parent: Path) -> None:
    """Remove folders that this user's ended processes left: marked ones with a free lock."""
    for folder in parent.glob("shuffledp-*"):
        with contextlib.suppress(OSError):  # without a mark, in use, or gone meanwhile
            kind = folder.lstat()
            if not stat.S_ISDIR(kind.st_mode) or kind.st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _empty(folder)
            finally:
                os.close(lock)


def _empty(folder: Path) -> None:
    """Remove a folder and its mark last, so that a later sweep finds what cannot be removed now."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    (folder / _LOCK).unlink()
    folder.rmdir()


def _require_room(folder: Path) -> None:
    if _free(folder) < LEAST_BYTES:
        raise OutputError(_full(folder))


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _full(folder: Path) -> str:
    return (
        f"the disk of {folder.parent}, the folder for temporary files, is full: "
        f"{_free(folder) / 2**20:.1f} MiB are left and at least {LEAST_BYTES // 2**20} are needed; "
        "make room there, or name another folder in TMPDIR"
    )
