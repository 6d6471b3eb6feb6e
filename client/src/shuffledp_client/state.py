"""What a device keeps of a round, so that one value is randomised once: the sealed submission, then its receipt.

A submission is on disk before it is first sent, and the first one written wins: a second process, or the same one
after a crash, sends that one again instead of randomising anew. After verification the file (it holds the user's
messages) is erased, and an empty marker stays so that the round is never entered again.

The folder belongs to one user; mode 0700, files 0600.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from shuffledp_client.submission import PreparedSubmission
from shuffledp_client.verification import ROUND_ID
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import ConfigError, MalformedDocumentError, RoundStateError, UnknownRoundError


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One round's submission, and the entry node's receipt once there is one."""

    submission: PreparedSubmission
    receipt: Signed | None = None


class SubmissionStore:
    """The state folder. Every write is atomic and on disk when the call returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make the state folder {folder}: {error.strerror}") from error
        for marker in folder.glob("*.done"):  # a crash between marking and erasing ends here
            if ROUND_ID.fullmatch(marker.stem):
                self._erase(marker.stem)

    def keep(self, submission: PreparedSubmission) -> Kept:
        """Keeps this submission, unless one is kept already: the one that is to be sent.

        Raises:
            RoundStateError: the round was verified and erased here before.
        """
        self._check_not_finished(submission.round_id)
        fresh = self._write(submission.round_id, to_json(Kept(submission=submission)))
        try:
            with suppress(FileExistsError):
                os.link(fresh, self._file(submission.round_id))  # unlike a rename, never replaces an earlier one
        finally:
            fresh.unlink()
        self._sync_folder()
        return self.load(submission.round_id)

    def find(self, round_id: str) -> Kept | None:
        """What is kept of this round, if anything.

        Raises:
            RoundStateError: the round was verified and erased here before, or its file is damaged.
        """
        self._check_not_finished(round_id)
        try:
            data = self._file(round_id).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {self._file(round_id)}: {error.strerror}") from error
        try:
            return from_json(data, Kept)
        except MalformedDocumentError as error:
            raise RoundStateError(
                f"{self._file(round_id)} is damaged; if the round is over, remove it: {error}"
            ) from error

    def load(self, round_id: str) -> Kept:
        """As `find`; `UnknownRoundError` when nothing is kept."""
        kept = self.find(round_id)
        if kept is None:
            raise UnknownRoundError(f"nothing was submitted to round {round_id} from here; check the round id")
        return kept

    def add_receipt(self, round_id: str, receipt: Signed) -> None:
        """Keeps the receipt beside its submission."""
        kept = msgspec.structs.replace(self.load(round_id), receipt=receipt)
        self._write(round_id, to_json(kept)).replace(self._file(round_id))
        self._sync_folder()

    def finish(self, round_id: str) -> None:
        """Erases what is kept (overwritten as far as the file system allows) and marks the round as done."""
        self._write(round_id, b"").replace(self._marker(round_id))
        self._sync_folder()
        self._erase(round_id)

    def rounds(self) -> tuple[str, ...]:
        """The rounds of which a submission is kept."""
        return tuple(sorted(path.stem for path in self._folder.glob("*.json") if ROUND_ID.fullmatch(path.stem)))

    def _check_not_finished(self, round_id: str) -> None:
        if self._marker(round_id).exists():
            raise RoundStateError(f"round {round_id} is over for this device; a value goes into a round only once")

    def _file(self, round_id: str) -> Path:
        if not ROUND_ID.fullmatch(round_id):
            raise UnknownRoundError(f"a round id is 32 digits of lower-case hex, not {round_id!r}")
        return self._folder / f"{round_id}.json"

    def _marker(self, round_id: str) -> Path:
        return self._file(round_id).with_suffix(".done")

    def _erase(self, round_id: str) -> None:
        for path in (self._file(round_id), *self._folder.glob(f"new-{round_id}-*")):
            with suppress(FileNotFoundError):
                with path.open("r+b") as file:
                    file.write(bytes(path.stat().st_size))
                    file.flush()
                    os.fsync(file.fileno())
                path.unlink()
        self._sync_folder()

    def _write(self, round_id: str, data: bytes) -> Path:
        path = self._folder / f"new-{round_id}-{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return path

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
