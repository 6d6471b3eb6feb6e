"""Reads files from students: only regular files of bounded length."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_bounded(file: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes.

    A pipe or a device is refused without reading from it or waiting for it.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is larger; `strerror` says
            which.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as handle:
        status = os.fstat(handle.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(file))
        data = handle.read(most + 1) if status.st_size <= most else b""
    if len(data) > most or status.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(file))
    return data
