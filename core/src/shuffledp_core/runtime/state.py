"""Exclusive lock on a process's state folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shuffledp_core.errors import ConfigError


def claim_state(folder: Path) -> int:
    """Makes the folder (mode 0700) if need be and locks it.

    The lock lasts until the descriptor is closed.

    The kernel releases it when the process dies, however it dies. Raises `ConfigError` if the
    folder cannot be used or another process holds it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot use the state folder {folder}: {error.strerror}; check `state`"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise ConfigError(
            f"another process is using the state folder {folder}; stop it or choose another"
        ) from error
    return lock
