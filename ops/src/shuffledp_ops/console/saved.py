"""Saved rounds in the console: the folders of `demo`, `round` and `results show --out`.

It needs no running party. Each folder is verified by its own roster and root key, as `shuffledp
report` does.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from shuffledp.log_proofs import LOG_PROOF, RESULT_PROOF
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES
from shuffledp_core.errors import ConfigError, ShuffleDPError, UnknownRoundError
from shuffledp_core.vocabulary import ROUND_ID
from shuffledp_ops.console.changes import Changes
from shuffledp_ops.console.model import (
    MOST_ROUNDS,
    PUBLISHED,
    UNREADABLE,
    ConsoleSnapshot,
    PublishedRound,
    RoundEnding,
    RoundInfo,
    Trouble,
)
from shuffledp_ops.rounds.reading import read_round

REFRESH: Final = 3.0
"""Seconds between two looks into the folder."""

_FILES: Final = (
    "certificate.json", "plan-certificate.json", "manifest.json", "result.json", "roster.json",
    "root.pub", LOG_PROOF, RESULT_PROOF,
    "report.json", "plot.png",
)  # fmt: skip
"""What a page of a round links to."""

_MOST_BYTES: Final = 4 * MAX_DOCUMENT_BYTES
"""Longest file that is served."""

_RESULT: Final = "result.json"

_State: TypeAlias = tuple[int, ...]
"""Times of a folder's files, in nanoseconds: as long as they stay, so does what was verified."""


class SavedRounds(Changes):
    """The console's source for a folder of saved rounds; see `model.ConsoleSource`.

    Raises `ConfigError` for any other folder.
    """

    live = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        check_saved(folder)
        self._folder = folder
        self._cache: dict[Path, tuple[_State, RoundInfo, PublishedRound | None]] = {}

    @property
    def title(self) -> str:
        """The folder's name."""
        return self._folder.resolve().name

    async def check(self) -> None:
        """Do nothing: the folder was checked when this object was created."""

    async def keep_current(self) -> None:
        """Look for new folders until cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(REFRESH)

    def look(self) -> None:
        """Find, read and verify new folders.

        For a folder that cannot be read, its last data stays on the pages.
        """
        try:
            self._look()
        except OSError as error:
            words = (
                f"cannot look into {self._folder}: {error.strerror}; put it back, or end the "
                "console"
            )
            trouble = Trouble(self.title, ConfigError.__name__, words)
            self.publish(replace(self.snapshot, troubles=(trouble,)))

    def _look(self) -> None:
        folders = sorted(_folders(self._folder), key=lambda entry: entry[1], reverse=True)
        newest = dict(folders[:MOST_ROUNDS])
        self._cache = {folder: cached for folder, cached in self._cache.items() if folder in newest}
        for folder, state in newest.items():
            if (cached := self._cache.get(folder)) is None or cached[0] != state:
                self._cache[folder] = (state, *_read_saved(folder))
        rounds = sorted(
            (cached[1] for cached in self._cache.values()),
            key=lambda entry: entry.opened_at,
            reverse=True,
        )
        published = {
            entry.round_id: opened
            for _, entry, opened in self._cache.values()
            if opened is not None
        }
        last = next(
            (published[entry.round_id] for entry in rounds if entry.round_id in published), None
        )
        more = len(folders) > MOST_ROUNDS
        self.publish(ConsoleSnapshot(round(time.time() * 1000), tuple(rounds), more, newest=last))

    async def open(self, round_id: str) -> PublishedRound:
        """Verify and return a published round. Raises `UnknownRoundError` or the fault's error."""
        folder = self._folder / round_id
        cached = self._cache.get(folder)
        if cached is None:
            raise UnknownRoundError(
                f"{self._folder} has no round {round_id}; see the list of rounds"
            )
        report = (
            await asyncio.to_thread(read_round, folder) if cached[2] is None else cached[2].report
        )
        return PublishedRound(report, await asyncio.to_thread(_files, folder))


def check_saved(folder: Path) -> None:
    """Raise `ConfigError` unless this is a folder of saved rounds.

    The message says what to name instead.
    """
    try:
        if not folder.is_dir():
            raise ConfigError(
                f"{folder} is not a folder; name a deployment's key folder (with roster.json, "
                "root.pub and operator/), or a folder of saved rounds such as out"
            )
        if (folder / _RESULT).exists():
            raise ConfigError(
                f"{folder} is the folder of a single round; name the folder that contains it: "
                f"{folder.resolve().parent}"
            )
        if not _folders(folder):
            raise ConfigError(
                f"{folder} has neither a deployment's roster.json, root.pub and operator/ nor "
                "saved rounds; `shuffledp demo` saves a round in out"
            )
    except OSError as error:
        raise ConfigError(
            f"cannot read the folder {folder}: {error.strerror}; check its name and permissions"
        ) from error


def _folders(folder: Path) -> list[tuple[Path, _State]]:
    folders = []
    for child in folder.iterdir():
        if ROUND_ID.fullmatch(child.name) and (child / _RESULT).is_file():
            times = [
                (child / name).stat().st_mtime_ns for name in _FILES if (child / name).is_file()
            ]
            folders.append((child, (max(times), *times)))
    return folders


def _read_saved(folder: Path) -> tuple[RoundInfo, PublishedRound | None]:
    try:
        _require_no_links(folder)
        report = read_round(folder)
        if report.round_id != folder.name:
            raise ConfigError(
                f"{folder} contains round {report.round_id}; rename the folder to the round's id"
            )
    except ShuffleDPError as error:
        at = (folder / _RESULT).stat().st_mtime_ns // 10**6
        ending = RoundEnding(UNREADABLE, type(error).__name__, str(error))
        return RoundInfo(folder.name, at, "", "", UNREADABLE, ending.error, ending=ending), None
    final = report.final
    ending = RoundEnding(PUBLISHED, final=final)
    row = RoundInfo(folder.name, final.issued_at, final.population, final.mechanism.kind, PUBLISHED)
    row = replace(
        row,
        accepted=report.accepted,
        ending=ending,
        all_corrupt=report.all_corrupt,
        logged=report.logged,
    )
    return row, PublishedRound(report, {})


def _files(folder: Path) -> dict[str, bytes]:
    """The files that a page of the round links to, by name.

    Raises `ConfigError` for a symbolic link among them.
    """
    _require_no_links(folder)
    contents = {name: _read_plain(folder / name) for name in _FILES if (folder / name).is_file()}
    return {name: data for name, data in contents.items() if len(data) <= _MOST_BYTES}


def _require_no_links(folder: Path) -> None:
    """Raise `ConfigError` if the folder, or a file in it, is a link."""
    for path in (folder, *(folder / name for name in _FILES)):
        if path.is_symlink():
            raise ConfigError(
                f"{path} is a symbolic link, which the console does not follow; put a copy there"
            )


def _read_plain(file: Path) -> bytes:
    """Read a regular file, up to one byte more than `_MOST_BYTES`.

    A link that has replaced it is not followed.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            return (
                stream.read(_MOST_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
            )
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; fetch the round again") from error
