"""Boards and tiles as files that any web server can serve to devices. docs/tiles.md."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from shuffledp_analyst.round_files import RoundFiles

_FOLDER_MODE = 0o755
_FILE_MODE = 0o644


def export_board(files: RoundFiles, round_id: str, public: Path) -> None:
    """Put the board of a published round and its tiles below `public`, at the gateway's paths.

    The folder of a round appears complete, and never changes; if it exists already, nothing is
    done. Files are hard-linked, or copied if `public` is on another file system.

    Raises:
        OSError: the folder cannot be written.
        UnknownRoundError: the round has no board.
    """
    folder = public / "v1" / "rounds" / round_id
    if folder.exists():
        return
    part = folder.with_name(f".{round_id}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "tiles").mkdir(mode=_FOLDER_MODE, parents=True)
    _link(files.board(), part / "board")
    for tile in files.tiles.paths():
        _link(tile, part / "tiles" / tile.name)
    for new_folder in (part, part / "tiles"):
        new_folder.chmod(_FOLDER_MODE)  # whatever the umask is
    part.rename(folder)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
    target.chmod(_FILE_MODE)
