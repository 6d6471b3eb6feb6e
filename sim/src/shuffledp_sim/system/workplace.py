"""Temporary folder for a whole system and its keys."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shuffledp_core.errors import OutputError, ShuffleDPError

LEAST_BYTES: Final = 16 * 2**20
"""Free bytes without which nothing is started: keys, ledger and logs of a small round are a few MB."""

FULL_BYTES: Final = 2**20
"""Free bytes below which a failure is blamed on a full disk, whatever error it raised."""


@contextmanager
def workplace(prefix: str = "shuffledp-") -> Iterator[Path]:
    """A new temporary folder, for the owner only, removed with all its contents whatever happens.

    Raises:
        OutputError: there is no such folder, or its disk is full, now or when something else had failed.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
            folder = Path(name)
            _require_room(folder)
            try:
                yield folder
            except (OSError, ShuffleDPError) as error:
                if isinstance(error, OutputError) or _free(folder) >= FULL_BYTES:
                    raise
                raise OutputError(f"{_full(folder)} (what failed: {error})") from error
    except FileNotFoundError as error:
        if error.filename is None:  # tempfile's own: none of the usual folders can be written
            raise OutputError("no folder for temporary files can be written; name one in TMPDIR") from error
        raise


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
