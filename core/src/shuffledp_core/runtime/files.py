"""Bounded reads of files, atomic writes of private files, and their erasure.

Overwriting is best effort: journals, snapshots and flash translation layers may keep old blocks.
docs/adr/0002.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO, Final

from shuffledp_core.errors import ConfigError

_BLOCK: Final = 2**18
"""Zeros that erasing writes at a time."""

MOST_BYTES: Final = 2**26
"""Of a file that someone names: what has no end, such as a device, would take all memory."""

PART: Final = ".part"
"""Suffix of a file that is still being written; one found at start is erased."""


def is_disk_full(error: OSError) -> bool:
    """True if a write failed for lack of disk space: it may succeed later."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def read_file(path: Path, what: str, most: int = MOST_BYTES) -> bytes:
    """Reads a file of at most `most` bytes; `ConfigError` says which cannot be read, and why.

    It uses no more memory than the file's actual size.
    """
    try:
        with path.open("rb") as stream:
            # Not `most` alone: a read sets aside as many bytes as it asks for, at once.
            size = os.fstat(stream.fileno()).st_size
            most = min(most, max(size, MOST_BYTES))
            data = b"" if size > most else stream.read(most + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the {what} {path}: {error.strerror}; check the path and its permissions"
        ) from error
    if max(size, len(data)) > most:
        raise ConfigError(f"the {what} {path} has more than {most:,} bytes; check the path")
    return data


def make_folder(folder: Path) -> None:
    """Makes the folder and its parents, for the owner only; harmless when it exists."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def sync(path: Path) -> None:
    """Flush a file, or a folder's creations, renames and removals, to survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Writes a file that must not exist yet, mode 0600, flushed to the disk.

    Raises `FileExistsError` where it does.
    """
    # The mode is given at creation: with a later chmod there would be a moment in which others may
    # open the file.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_part(path: Path) -> BinaryIO:
    """Opens an empty file next to `path`, mode 0600, that `commit_part` turns into `path`."""
    return _create(path.with_name(path.name + PART))


def commit_part(path: Path, file: BinaryIO) -> None:
    """Flushes a file of `open_part` to the disk and renames it to `path`, atomically."""
    file.flush()
    os.fsync(
        file.fileno()
    )  # before the rename, which a file system may make durable before the contents
    file.close()
    path.with_name(path.name + PART).replace(path)
    sync(path.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a whole file so that after a crash either the old or the new content is there."""
    with open_part(path) as file:
        file.write(data)
        commit_part(path, file)


def size_of(path: Path) -> int:
    """Size of the file in bytes; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def erase(path: Path) -> None:
    """Overwrites the file with zeros, flushes, truncates, unlinks; harmless when it is gone."""
    try:
        size = path.stat().st_size
        # Not "wb", which would free the blocks first: the zeros must land on the old contents.
        with path.open("r+b", buffering=0) as file:
            for start in range(0, size, _BLOCK):
                file.write(bytes(min(_BLOCK, size - start)))
            # Before the truncation: zeros for blocks that are no longer the file's need never reach
            # the disk.
            os.fsync(file.fileno())
            file.truncate(0)  # gives the blocks back even while someone still holds the file open
        path.unlink()
    except FileNotFoundError:
        return
    sync(path.parent)


def erase_folder(folder: Path) -> None:
    """Erases every file in the folder and the folder; harmless when it is gone."""
    if not folder.exists():
        return
    for path in sorted(folder.iterdir()):
        erase(path)
    folder.rmdir()
    sync(folder.parent)


def _create(path: Path) -> BinaryIO:
    # Emptied, not refused as in `write_new`: no one counts on a part, and a crash may have left one
    # of this name.
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b")
