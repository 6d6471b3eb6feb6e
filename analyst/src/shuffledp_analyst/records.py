"""All rounds of the analyst on disk: one folder per round, whose files are `round_files`."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from shuffledp_analyst.round_files import RoundFiles
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import to_json
from shuffledp_core.errors import UnknownRoundError
from shuffledp_core.runtime.files import sync, write_atomic
from shuffledp_core.vocabulary import ROUND_ID


class Records:
    """All rounds below a state folder, which is created if missing (mode 0700)."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "rounds"
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def _path(self, round_id: str) -> Path:
        # Identifiers come from callers and become paths: nothing but 32 hex digits gets that far.
        if not ROUND_ID.fullmatch(round_id):
            raise UnknownRoundError(
                f"{round_id[:40]!r} is not a round identifier (32 hexadecimal digits)"
            )
        return self._folder / round_id

    def files(self, round_id: str) -> RoundFiles:
        """The files of one round, which need not exist.

        Raises:
            UnknownRoundError: no round can have this identifier.
        """
        return RoundFiles(self._path(round_id))

    def _aside(self, round_id: str) -> Path:
        return self._folder / f"set-aside-{round_id}"

    def create(self, round_id: str, plan: RoundPlan) -> None:
        """Record a new round before any party is called.

        After an `OSError` nothing of the round is left.

        The accountant charges the round's budget next; after a crash, only this record shows which
        charge to release.
        """
        folder = self._path(round_id)
        folder.mkdir(mode=0o700)
        try:
            write_atomic(folder / "plan.json", to_json(plan))
            sync(self._folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)  # or the name could not be asked for again
            raise

    def is_known(self, round_id: str) -> bool:
        """True if this round was ever recorded here, even if its folder was set aside.

        Raises `UnknownRoundError` as `files` does.
        """
        return self._path(round_id).exists() or self._aside(round_id).exists()

    def newest_first(self) -> list[tuple[int, str]]:
        """All rounds, newest first: opening time (nanoseconds since 1970) and identifier."""
        rounds = []
        for folder in self._folder.iterdir():
            # Killed before the plan was written: not a round.
            with contextlib.suppress(FileNotFoundError):
                # Folders of rounds that were set aside are here, too, under other names.
                if ROUND_ID.fullmatch(folder.name):
                    # The plan is written once, at the opening, so that its time is the round's.
                    rounds.append(((folder / "plan.json").stat().st_mtime_ns, folder.name))
        return sorted(rounds, reverse=True)

    def find_unfinished(self) -> Iterator[str]:
        """Yield the rounds that need work after a restart.

        Folders without a plan are removed.
        """
        for folder in sorted(self._folder.iterdir()):
            if (
                not (ROUND_ID.fullmatch(folder.name) and folder.is_dir())
                or (folder / "finished").exists()
            ):
                continue
            if (folder / "plan.json").exists():
                yield folder.name
            else:  # killed before the plan was written: no other party knows it
                shutil.rmtree(folder)

    def set_aside(self, round_id: str) -> Path:
        """Rename the folder of an unreadable round, so that no later start finds it.

        Returns the folder's new path.
        """
        aside = self._aside(round_id)
        self._path(round_id).rename(aside)
        sync(self._folder)
        return aside
