"""Files of one round on disk; each is written whole or not at all.

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
    tiles/             the board in tiles, a file each
    result.json        the signed result: the round has ended
    log.tlog-proof     the proof that the result is in the public log, if devices need one
    discards.json      the nodes' signed discards so far
    finished           the nodes were told, the budget was dealt with: nothing is left to do

The result is the commit point. A folder without one is a round that was interrupted: it continues
where its files leave it, and has failed if it was never announced. One that cannot be read is
renamed to set-aside-<round>, and left unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from shuffledp_analyst.batch_files import BatchFiles, number_in, published_file, read_file
from shuffledp_analyst.tile_files import TileFiles
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import MAX_DOCUMENT_BYTES, Signed, from_json
from shuffledp_core.errors import RoundFailed, UnknownRoundError
from shuffledp_core.runtime.files import commit_part, open_part, write_atomic

MAX_DISCARD_BYTES: Final = 4096
"""Several times the length of a discard. A longer one is left out, so that one node cannot prevent
devices from getting those of the other nodes.
"""

_LOG_PROOF: Final = "log.tlog-proof"


class RoundFiles:
    """The files of one round, from its plan to its result; `Records.files` returns them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.batch = BatchFiles(folder)
        self.tiles = TileFiles(folder)

    def plan(self) -> RoundPlan:
        """The plan of a recorded round."""
        return from_json(read_file(self._folder, "plan.json"), RoundPlan)

    def keep_announcement(self, announcement: bytes) -> None:
        """Store the announcement."""
        write_atomic(self._folder / "announcement.json", announcement)

    def announcement(self) -> bytes:
        """The stored announcement; raises `UnknownRoundError` if there is none."""
        return read_file(self._folder, "announcement.json")

    def mark_closing(self) -> None:
        """Record that the entry node is about to be told to close."""
        write_atomic(self._folder / "closing", b"")

    def is_closing(self) -> bool:
        """True if the entry node may have been told to close."""
        return (self._folder / "closing").exists()

    def closed_at(self, now: int) -> int:
        """Return when the entry node closed the round; record `now` if nothing is recorded.

        In milliseconds since 1970. A damaged record is treated as missing.
        """
        path = self._folder / "closed"
        recorded = number_in(path)
        if recorded is not None:
            return recorded
        write_atomic(path, str(now).encode())
        return now

    def history(self) -> Path:
        """The published history of a verified round; `UnknownRoundError` if there is none."""
        return published_file(self._folder, "history")

    def publish(self, result: Signed) -> None:
        """Turn the batch into the public board, and end the round.

        Once this returns, the round stays published.

        Raises:
            RoundFailed: the result is longer than any document may be; nothing was changed.
        """
        batch = self.batch.path
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

    def erase_arrived(self) -> None:
        """Erase the batch of a failed round, and all files derived from it."""
        folder = self._folder
        for name in ("batch.part", "batch", "opened", "history", "board"):
            (folder / name).unlink(missing_ok=True)
        self.tiles.erase()

    def fail(self, result: Signed) -> None:
        """End the round without a board, after erasing all files that arrived."""
        # Before the result: once a round has failed for everyone, no board of it may be left on
        # this disk.
        self.erase_arrived()
        write_atomic(self._folder / "result.json", result.to_bytes())

    def result(self) -> bytes:
        """The signed result; raises `UnknownRoundError` until the round has ended."""
        return read_file(self._folder, "result.json")

    def keep_log_proof(self, proof: bytes) -> None:
        """Store the proof that the result is in the public log."""
        write_atomic(self._folder / _LOG_PROOF, proof)

    def log_proof(self) -> bytes:
        """The proof that `keep_log_proof` stored; empty if there is none."""
        try:
            return read_file(self._folder, _LOG_PROOF)
        except UnknownRoundError:
            return b""

    def keep_discards(self, discards: Sequence[Signed]) -> None:
        """Store the discards that are signed so far.

        Overlong ones are left out, because all are sent along with the result.
        """
        short = [discard for discard in discards if len(discard.to_bytes()) <= MAX_DISCARD_BYTES]
        write_atomic(self._folder / "discards.json", msgspec.json.encode(short))

    def discards(self) -> tuple[bytes, ...]:
        """The discards that `keep_discards` stored last, one signed document each."""
        try:
            data = read_file(self._folder, "discards.json")
        except UnknownRoundError:
            return ()
        return tuple(discard.to_bytes() for discard in msgspec.json.decode(data, type=list[Signed]))

    def has_ended(self) -> bool:
        """True if the round has a result."""
        return (self._folder / "result.json").exists()

    def board(self) -> Path:
        """The published board; raises `UnknownRoundError` if there is none."""
        return published_file(self._folder, "board")

    def finish(self) -> None:
        """Record that this round needs no more work."""
        batch = self.batch.path
        if (
            batch.with_name("history").exists() and batch.exists()
        ):  # of a verified round, whose board is another file
            # A last node that was away for long may repeat its batch, and is let through by its
            # length.
            write_atomic(batch.with_name("batch-bytes"), str(batch.stat().st_size).encode())
            batch.unlink()
        write_atomic(self._folder / "finished", b"")
