"""The tiles of a round's board on disk, one file each; docs/tiles.md."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shuffledp_analyst.batch_files import published_file, read_file
from shuffledp_core.transparency.board_tiles import TiledBoard

_TILES: Final = "tiles"


class TileFiles:
    """The tiles in a round's folder; see `RoundFiles.tiles`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, tiled: TiledBoard) -> None:
        """Write all tiles, which become visible together and are readable only by this account."""
        self.erase()
        part = self._folder / f"{_TILES}.part"
        part.mkdir(0o700)
        for index, tile in enumerate(tiled.tiles()):
            file = part / str(index)
            file.touch(0o600)
            file.write_bytes(tile)
        os.sync()  # once, instead of each of up to 10^5 files
        part.rename(self._folder / _TILES)

    def read(self, index: int) -> bytes:
        """A tile of the published board; raises `UnknownRoundError` if there is none."""
        published_file(self._folder, "board")
        return read_file(self._folder, f"{_TILES}/{index}")

    def paths(self) -> Iterator[Path]:
        """The files of all tiles; empty for a round without tiles."""
        return (self._folder / _TILES).glob("[0-9]*")

    def erase(self) -> None:
        """Remove all tiles, complete or not."""
        for name in (_TILES, f"{_TILES}.part"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
