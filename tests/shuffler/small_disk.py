"""A small disk that a test can fill."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class SmallDisk:
    """A file system of a few MiB of its own, which a test fills and empties."""

    PAGE = 4096

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, free_pages: int = 0) -> None:
        """Leaves exactly this number of pages free.

        A file takes whole pages; a folder takes none.
        """
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(self.PAGE))
        os.truncate(self._ballast, self._ballast.stat().st_size - free_pages * self.PAGE)

    def make_room(self) -> None:
        """Frees all that `fill` took."""
        self._ballast.unlink(missing_ok=True)
