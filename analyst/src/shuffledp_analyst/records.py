"""What survives a crash: one folder per round, files written whole or not at all.

    plan.json          first: the round exists and must be brought to an end
    announcement.json  the round was announced
    batch.part         the final batch while it arrives; batch: it is complete
    board              published: every plain message in mixed order
    result.json        the signed result: the round has ended
    finished           the nodes were told, the budget was seen to: nothing is left to do

The result is the commit point: a folder without one is a round that was interrupted and has failed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import UnknownRoundError

_ROUND_ID: Final = re.compile(r"[0-9a-f]{32}")


class Records:
    """All rounds below a state folder (made when absent, mode 0700)."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "rounds"
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def _path(self, round_id: str) -> Path:
        # Identifiers come from callers and become paths: nothing but 32 hex digits gets that far.
        if not _ROUND_ID.fullmatch(round_id):
            raise UnknownRoundError(f"{round_id[:40]!r} is not a round identifier (32 hexadecimal digits)")
        return self._folder / round_id

    def create(self, round_id: str, plan: RoundPlan) -> None:
        """A new round, before anything is asked of anybody."""
        folder = self._path(round_id)
        folder.mkdir(mode=0o700)
        _write(folder / "plan.json", to_json(plan))
        _sync(self._folder)

    def plan(self, round_id: str) -> RoundPlan:
        """The plan of a known round."""
        return from_json(self._read(round_id, "plan.json"), RoundPlan)

    def keep_announcement(self, round_id: str, announcement: bytes) -> None:
        """Remembers what was announced."""
        _write(self._path(round_id) / "announcement.json", announcement)

    def announcement(self, round_id: str) -> bytes:
        """What was announced; `UnknownRoundError` when nothing was."""
        return self._read(round_id, "announcement.json")

    def batch_part(self, round_id: str) -> Path:
        """Where the final batch arrives."""
        return self._path(round_id) / "batch.part"

    def commit_batch(self, round_id: str) -> Path:
        """The batch has arrived, is verified and synced: its lasting place."""
        batch = self.batch(round_id)
        self.batch_part(round_id).replace(batch)
        _sync(batch.parent)
        return batch

    def batch(self, round_id: str) -> Path:
        """Where the complete batch lies until it is published."""
        return self._path(round_id) / "batch"

    def batch_bytes(self, round_id: str) -> int:
        """Length of the complete batch, whether it is published already or not."""
        batch = self.batch(round_id)
        try:
            return batch.stat().st_size
        except FileNotFoundError:
            return self.board(round_id).stat().st_size

    def publish(self, round_id: str, result: Signed) -> None:
        """The batch becomes the public board and the round ends; after this returns it stays published."""
        batch = self.batch(round_id)
        batch.replace(batch.with_name("board"))
        _write(batch.with_name("result.json"), result.to_bytes())

    def fail(self, round_id: str, result: Signed) -> None:
        """The round ends without a board: whatever arrived is erased first."""
        folder = self._path(round_id)
        for name in ("batch.part", "batch", "board"):
            (folder / name).unlink(missing_ok=True)
        _write(folder / "result.json", result.to_bytes())

    def result(self, round_id: str) -> bytes:
        """The signed result; `UnknownRoundError` until the round has ended."""
        return self._read(round_id, "result.json")

    def has_ended(self, round_id: str) -> bool:
        """Whether there is a result."""
        return (self._path(round_id) / "result.json").exists()

    def board(self, round_id: str) -> Path:
        """The published board; `UnknownRoundError` for a round that has none."""
        path = self._path(round_id) / "board"
        if not self.has_ended(round_id) or not path.exists():
            raise UnknownRoundError(f"round {round_id} has no published board: unknown, still running, or failed")
        return path

    def finish(self, round_id: str) -> None:
        """Nothing is left to do for this round."""
        _write(self._path(round_id) / "finished", b"")

    def unfinished(self) -> Iterator[str]:
        """Rounds for which something is left to do after a restart; folders without a plan are swept away."""
        for folder in sorted(self._folder.iterdir()):
            if not _ROUND_ID.fullmatch(folder.name) or (folder / "finished").exists():
                continue
            if (folder / "plan.json").exists():
                yield folder.name
            else:  # killed before the plan was written: nobody was asked for anything
                shutil.rmtree(folder)

    def _read(self, round_id: str, name: str) -> bytes:
        try:
            return (self._path(round_id) / name).read_bytes()
        except FileNotFoundError as error:
            what = name.removesuffix(".json")
            raise UnknownRoundError(f"there is no {what} of round {round_id} here (yet)") from error


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and on the disk when this returns."""
    part = path.with_name(path.name + ".new")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
