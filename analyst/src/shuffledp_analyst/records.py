"""Rounds of the analyst on disk: one folder per round, files written whole or not at all.

    plan.json          first: the round exists and must be brought to an end
    announcement.json  the round was announced
    closing            the entry node may have been told to close: the batch may come
    closed             the entry node has closed, and when: milliseconds since 1970, in decimal
                       digits
    header.json        the signed header of the final batch, written before `batch`
    batch.part         the final batch while it arrives; batch: it is complete
    attempts           number of processes that began to decode the complete batch, until one has
    opened, history    a verified round: what the batch holds once it is decoded; published,
                       `opened` is the board
    batch-bytes        a verified round: length of the batch, in decimal digits, once the batch
                       itself is erased
    board              published: every plain message in mixed order
    result.json        the signed result: the round has ended
    discards.json      the nodes' signed discards so far
    finished           the nodes were told, the budget was dealt with: nothing is left to do

The result is the commit point. A folder without one is a round that was interrupted: it goes on
where its files leave it, and has failed if it was never announced. One that cannot be read is
renamed to set-aside-<round>, and left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_core.documents.models import BatchHeader, RoundPlan
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json, to_json
from shuffledp_core.errors import RoundFailed, UnknownRoundError
from shuffledp_core.runtime.files import commit_part, open_part, sync, write_atomic
from shuffledp_core.vocabulary import ROUND_ID

MAX_DISCARD_BYTES: Final = 4096
"""Several times the length of a discard; an overlong one of one node must not keep those of others
from devices.
"""


class Records:
    """All rounds below a state folder (made when absent, mode 0700)."""

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

    def _aside(self, round_id: str) -> Path:
        return self._folder / f"set-aside-{round_id}"

    def create(self, round_id: str, plan: RoundPlan) -> None:
        """Records a new round, before any party is asked for anything.

        After an `OSError` nothing of it is left.

        The accountant charges the round's budget next: after a crash only this record knows whose
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
        """True if this round was ever recorded here, also if its record was set aside.

        Raises as `result`.
        """
        return self._path(round_id).exists() or self._aside(round_id).exists()

    def plan(self, round_id: str) -> RoundPlan:
        """The plan of a known round."""
        return from_json(self._read_file(round_id, "plan.json"), RoundPlan)

    def keep_announcement(self, round_id: str, announcement: bytes) -> None:
        """Records the announcement."""
        write_atomic(self._path(round_id) / "announcement.json", announcement)

    def announcement(self, round_id: str) -> bytes:
        """The recorded announcement; `UnknownRoundError` when there is none."""
        return self._read_file(round_id, "announcement.json")

    def mark_closing(self, round_id: str) -> None:
        """Records that the entry node is about to be told to close."""
        write_atomic(self._path(round_id) / "closing", b"")

    def is_closing(self, round_id: str) -> bool:
        """True if the entry node may have been told to close."""
        return (self._path(round_id) / "closing").exists()

    def closed_at(self, round_id: str, now: int) -> int:
        """Return when the entry node closed the round; record `now` if nothing is recorded.

        In milliseconds since 1970.

        A damaged record counts as none.
        """
        path = self._path(round_id) / "closed"
        recorded = _number(path)
        if recorded is not None:
            return recorded
        write_atomic(path, str(now).encode())
        return now

    def batch_part(self, round_id: str) -> Path:
        """File in which the final batch arrives."""
        return self._path(round_id) / "batch.part"

    def commit_batch(self, round_id: str, header: Signed) -> Path:
        """Commits a batch that has arrived, is verified and synced, with its header.

        Returns its lasting place.
        """
        batch = self.batch(round_id)
        # The header first: the batch counts from its rename on, and without a header nobody could
        # say what it holds.
        write_atomic(batch.with_name("header.json"), header.to_bytes())
        self.batch_part(round_id).replace(batch)
        sync(batch.parent)
        return batch

    def batch(self, round_id: str) -> Path:
        """File of the complete batch until it is published."""
        return self._path(round_id) / "batch"

    def batch_header(self, round_id: str) -> Signed | None:
        """The header of the complete batch of a round without a result.

        None when no batch is complete.

        Raises:
            MalformedDocumentError: the file is damaged.
        """
        batch = self.batch(round_id)
        board = batch.with_name("board")
        if board.exists():  # killed in the middle of `publish`
            board.replace(batch.with_name("opened") if batch.exists() else batch)
        return (
            Signed.from_bytes(self._read_file(round_id, "header.json")) if batch.exists() else None
        )

    def count_attempt(self, round_id: str) -> int:
        """Counts an attempt to decode the complete batch.

        Returns the number of attempts, this one included.
        """
        path = self._path(round_id) / "attempts"
        attempts = path.stat().st_size + 1 if path.exists() else 1
        write_atomic(path, bytes(attempts))
        return attempts

    def forget_attempts(self, round_id: str) -> None:
        """Records that the complete batch is decoded."""
        (self._path(round_id) / "attempts").unlink(missing_ok=True)

    def keep_opened(self, round_id: str, board: bytes, history: bytes) -> None:
        """Keeps what the batch of a verified round holds, until it is published."""
        write_atomic(self._path(round_id) / "history", history)
        write_atomic(self._path(round_id) / "opened", board)

    def delivered_digest(self, round_id: str) -> str | None:
        """The digest that the last node signed for the batch of a round.

        None when none is complete.
        """
        try:
            return from_json(
                Signed.from_bytes(self._read_file(round_id, "header.json")).body, BatchHeader
            ).digest
        except UnknownRoundError:
            return None

    def history(self, round_id: str) -> Path:
        """The published history of a verified round; `UnknownRoundError` where there is none."""
        path = self._path(round_id) / "history"
        if not self.has_ended(round_id) or not path.exists():
            raise UnknownRoundError(
                f"round {round_id} has no published history: plain, unknown, running, or failed"
            )
        return path

    def batch_bytes(self, round_id: str) -> int:
        """Length of the complete batch in bytes, also after it was published or erased."""
        batch = self.batch(round_id)
        try:
            return batch.stat().st_size
        except (
            FileNotFoundError
        ):  # a plain round's is the board, unless a verified round's length is written down
            length = _number(batch.with_name("batch-bytes"))
            return self.board(round_id).stat().st_size if length is None else length

    def publish(self, round_id: str, result: Signed) -> None:
        """Makes the batch the public board and ends the round.

        After this returns it stays published.

        Raises:
            RoundFailed: the result is longer than any document may be; nothing was changed.
        """
        batch = self.batch(round_id)
        data = result.to_bytes()
        if len(data) > MAX_DOCUMENT_BYTES:
            raise RoundFailed(
                f"the result would have {len(data)} bytes, more than the {MAX_DOCUMENT_BYTES} of "
                "any document; ask for fewer symbols"
            )
        path = batch.with_name("result.json")
        with open_part(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # a full disk shows here, before anything is renamed
            # The result, renamed last, is the commit point: `batch_header` takes back a board
            # without one.
            opened = batch.with_name("opened")
            # In a verified round the batch itself stays until the result is there.
            source = opened if opened.exists() else batch
            source.replace(batch.with_name("board"))
            commit_part(path, file)

    def erase_arrived(self, round_id: str) -> None:
        """Erases the batch of a round that fails, and all that was made of it."""
        folder = self._path(round_id)
        for name in ("batch.part", "batch", "opened", "history", "board"):
            (folder / name).unlink(missing_ok=True)

    def fail(self, round_id: str, result: Signed) -> None:
        """Ends the round without a board: whatever arrived is erased first."""
        # Before the result: once a round has failed for everybody, no board of it may be left on
        # this disk.
        self.erase_arrived(round_id)
        write_atomic(self._path(round_id) / "result.json", result.to_bytes())

    def result(self, round_id: str) -> bytes:
        """The signed result; `UnknownRoundError` until the round has ended."""
        return self._read_file(round_id, "result.json")

    def keep_discards(self, round_id: str, discards: Sequence[Signed]) -> None:
        """Keeps the discards signed so far.

        An overlong one is left out: all travel beside the result.
        """
        short = [discard for discard in discards if len(discard.to_bytes()) <= MAX_DISCARD_BYTES]
        write_atomic(self._path(round_id) / "discards.json", msgspec.json.encode(short))

    def discards(self, round_id: str) -> tuple[bytes, ...]:
        """The discards that `keep_discards` kept last, one signed document each."""
        try:
            data = self._read_file(round_id, "discards.json")
        except UnknownRoundError:
            return ()
        return tuple(discard.to_bytes() for discard in msgspec.json.decode(data, type=list[Signed]))

    def has_ended(self, round_id: str) -> bool:
        """True if the round has a result."""
        return (self._path(round_id) / "result.json").exists()

    def board(self, round_id: str) -> Path:
        """The published board; `UnknownRoundError` for a round that has none."""
        path = self._path(round_id) / "board"
        if not self.has_ended(round_id) or not path.exists():
            raise UnknownRoundError(
                f"round {round_id} has no published board: unknown, still running, or failed"
            )
        return path

    def finish(self, round_id: str) -> None:
        """Records that nothing is left to do for this round."""
        batch = self.batch(round_id)
        if (
            batch.with_name("history").exists() and batch.exists()
        ):  # of a verified round, whose board is another file
            # A last node that was away for long may repeat its batch, and is let through by its
            # length.
            write_atomic(batch.with_name("batch-bytes"), str(batch.stat().st_size).encode())
            batch.unlink()
        write_atomic(self._path(round_id) / "finished", b"")

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
        """Rounds for which something is left to do after a restart.

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
        """Renames the folder of an unreadable round so that no later start finds it.

        Returns its new place.
        """
        aside = self._aside(round_id)
        self._path(round_id).rename(aside)
        sync(self._folder)
        return aside

    def _read_file(self, round_id: str, name: str) -> bytes:
        try:
            return (self._path(round_id) / name).read_bytes()
        except FileNotFoundError as error:
            what = name.removesuffix(".json")
            raise UnknownRoundError(f"there is no {what} of round {round_id} here (yet)") from error


def _number(path: Path) -> int | None:
    """The decimal number in a file, 1 to 18 digits long; None where there is none."""
    try:
        with path.open("rb") as file:
            text = file.read(19)
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) <= 18 else None
