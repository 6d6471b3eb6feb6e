"""The files of a round's final batch, from its arrival to the board (see `round_files`)."""

from __future__ import annotations

from pathlib import Path

from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import UnknownRoundError
from shuffledp_core.runtime.files import sync, write_atomic


class BatchFiles:
    """The files of a round's final batch, from its arrival to the published board."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def part(self) -> Path:
        """File in which the final batch arrives."""
        return self._folder / "batch.part"

    def commit(self, header: Signed) -> Path:
        """Commit a complete batch, verified and flushed, with its header.

        Returns the batch's final path.
        """
        batch = self.path
        # The header first: the batch counts from its rename on, and without a header no one could
        # say what it holds.
        write_atomic(batch.with_name("header.json"), header.to_bytes())
        self.part.replace(batch)
        sync(batch.parent)
        return batch

    @property
    def path(self) -> Path:
        """File of the complete batch until it is published."""
        return self._folder / "batch"

    def header(self) -> Signed | None:
        """The header of the complete batch; None before it is complete and once it is published.

        Raises:
            MalformedDocumentError: the file is damaged.
        """
        batch = self.path
        board = batch.with_name("board")
        if board.exists():  # killed in the middle of `publish`
            board.replace(batch.with_name("opened") if batch.exists() else batch)
        return Signed.from_bytes(read_file(self._folder, "header.json")) if batch.exists() else None

    def count_attempt(self) -> int:
        """Record an attempt to decode the complete batch.

        Returns the number of attempts, including this one.
        """
        path = self._folder / "attempts"
        attempts = path.stat().st_size + 1 if path.exists() else 1
        write_atomic(path, bytes(attempts))
        return attempts

    def forget_attempts(self) -> None:
        """Forget the attempts, because the complete batch was decoded."""
        (self._folder / "attempts").unlink(missing_ok=True)

    def keep_opened(self, board: bytes, history: bytes) -> None:
        """Store the board and history of a verified round's batch until it is published."""
        write_atomic(self._folder / "history", history)
        write_atomic(self._folder / "opened", board)

    def digest(self) -> str | None:
        """The digest in the last node's signed header; None if the batch is not complete."""
        try:
            return from_json(
                Signed.from_bytes(read_file(self._folder, "header.json")).body, BatchHeader
            ).digest
        except UnknownRoundError:
            return None

    def length(self) -> int:
        """Length of the complete batch in bytes, even after it was published or erased."""
        batch = self.path
        try:
            return batch.stat().st_size
        except FileNotFoundError:
            # A plain round's is the board, unless a verified round's length is written down.
            length = number_in(batch.with_name("batch-bytes"))
            return (
                published_file(self._folder, "board").stat().st_size if length is None else length
            )


def read_file(folder: Path, name: str) -> bytes:
    """The bytes of a round's file; raises `UnknownRoundError` if there is none."""
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError as error:
        what = name.removesuffix(".json")
        raise UnknownRoundError(f"round {folder.name} has no {what} here, or not yet") from error


def published_file(folder: Path, name: str) -> Path:
    """The path of a published round's file; raises `UnknownRoundError` if there is none."""
    path = folder / name
    if not (folder / "result.json").exists() or not path.exists():
        plain = "" if name == "board" else "plain, "
        raise UnknownRoundError(
            f"round {folder.name} has no published {name}: {plain}unknown, still running, or failed"
        )
    return path


def number_in(path: Path) -> int | None:
    """The decimal number in a file, 1 to 18 digits long; None if there is no file."""
    try:
        with path.open("rb") as file:
            text = file.read(19)
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() and len(text) <= 18 else None
