"""Submissions of one device on disk, so that a value is randomised only once.

A submission is on disk before it is first sent, and the first one written wins: a second process,
or the same one after a crash, sends that one again instead of randomising afresh. When the round is
settled for this user, the file (it holds the user's messages) is erased, and an empty marker stays
so that the round is never entered again. No earlier copy is left behind: a file that is replaced is
overwritten, as well as the file system allows.

The folder belongs to one user; mode 0700, files 0600. Its lock is held while something in it is
read or changed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from shuffledp_client.submission import PreparedSubmission
from shuffledp_core.documents.models import Announcement
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    ConfigError,
    MalformedDocumentError,
    RoundStateError,
    UnknownRoundError,
)
from shuffledp_core.runtime.files import erase, sync, write_new
from shuffledp_core.vocabulary import ROUND_ID

KEPT_BYTES: Final = 64 * 2**20
"""Limit for all rounds together: some hundred rounds of 10,000 messages each, before their
receipts.
"""


class StoredSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One round's submission, with the documents received for it.

    Attributes:
        submission: the submission, without its envelope once there is a receipt. In a plain round
            with a reproducible suite, the envelope can be sealed again from seed and symbols, as
            evidence does; in other rounds it is no longer needed.
        announcement: manifest and countersignatures for which it was prepared.
        receipt: the entry node's receipt.
        result: the analyst's result, if it did not settle the round for this user.
    """

    submission: PreparedSubmission
    announcement: Announcement
    receipt: Signed | None = None
    result: Signed | None = None


class SubmissionStore:
    """The state folder of a device. Every write is atomic, and on disk before it returns.

    Args:
        folder: the state folder; created if it does not exist.
        limit: most bytes to keep; beyond it no new round is entered, and nothing is erased to make
            room.
    """

    def __init__(self, folder: Path, limit: int = KEPT_BYTES) -> None:
        self._folder = folder
        self._limit = limit
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot create the state folder {folder}: {error.strerror}"
            ) from error
        with self._lock():
            self._sweep()

    def keep(self, submission: PreparedSubmission, announcement: Announcement) -> StoredSubmission:
        """Store a submission unless there is one already; return the one to send.

        Raises:
            RoundStateError: the round is over for this device.
            ClientPolicyRefusal: other rounds have used up the limit.
        """
        with self._lock():
            stored = self._find(submission.round_id)
            if stored is not None:
                return stored
            stored = StoredSubmission(submission=submission, announcement=announcement)
            data = to_json(stored)
            self._check_space(len(data))
            # On disk before it is returned, and so before it is sent: after a crash the same report
            # is sent again. A value randomised twice for one round would cost its user twice the ε.
            self._write(submission.round_id, data).replace(self._file(submission.round_id))
            sync(self._folder)
            return stored

    def find(self, round_id: str) -> StoredSubmission | None:
        """The stored submission of this round, or None.

        Raises:
            RoundStateError: the round is over for this device, or its file is damaged.
        """
        with self._lock():
            return self._find(round_id)

    def load(self, round_id: str) -> StoredSubmission:
        """The stored submission of this round.

        Errors as `find`, and `UnknownRoundError` when there is none.
        """
        with self._lock():
            return self._load(round_id)

    def add_receipt(self, round_id: str, receipt: Signed) -> None:
        """Store the receipt with its submission, whose envelope is no longer needed."""
        with self._lock():
            submission = msgspec.structs.replace(self._load(round_id).submission, envelope=b"")
            self._change(round_id, submission=submission, receipt=receipt)

    def add_result(self, round_id: str, result: Signed) -> None:
        """Store the result of a round that is not settled for this user."""
        with self._lock():
            self._change(round_id, result=result)

    def finish(self, round_id: str) -> None:
        """Erase a stored submission, and mark the round as done.

        It is overwritten as far as the file system allows.
        """
        with self._lock():
            # The marker first: a crash in between leaves a file that `_sweep` erases, never a round
            # open to a second randomisation.
            self._write(round_id, b"").replace(self._marker(round_id))
            sync(self._folder)
            erase(self._file(round_id))

    def expire(self, now: int, seconds: float) -> None:
        """Finish every round whose submissions closed more than `seconds` before `now`.

        `now` is in milliseconds since 1970.
        """
        for round_id in self.rounds():
            with suppress(
                RoundStateError
            ):  # damaged: the owner is told when the round is asked for
                if self.load(round_id).submission.closes_at + 1000 * seconds < now:
                    self.finish(round_id)

    def rounds(self) -> tuple[str, ...]:
        """The rounds with a stored submission."""
        return tuple(
            sorted(
                path.stem for path in self._folder.glob("*.json") if ROUND_ID.fullmatch(path.stem)
            )
        )

    # With the lock held

    def _find(self, round_id: str) -> StoredSubmission | None:
        path = self._file(round_id)
        if self._marker(round_id).exists():
            raise RoundStateError(
                f"this device has finished with round {round_id}; it submits a value to a round "
                "only once"
            )
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        try:
            return from_json(data, StoredSubmission)
        except MalformedDocumentError as error:
            raise RoundStateError(
                f"{path} is damaged: {error}; if the round is over, remove it"
            ) from error

    def _load(self, round_id: str) -> StoredSubmission:
        stored = self._find(round_id)
        if stored is None:
            raise UnknownRoundError(
                f"this device has submitted nothing to round {round_id}; check the round id"
            )
        return stored

    def _change(self, round_id: str, **fields: Any) -> None:
        """Replace a file, and overwrite its old contents, which a rename would leave on disk."""
        data = to_json(msgspec.structs.replace(self._load(round_id), **fields))
        path = self._file(round_id)
        old = self._new_path(round_id)
        fresh = self._write(round_id, data)
        os.link(path, old)  # a name for the old file, found by the next start if we are killed
        fresh.replace(path)
        sync(self._folder)
        erase(old)

    def _check_space(self, size: int) -> None:
        used = sum(path.stat().st_size for path in self._folder.glob("*.json"))
        if used + size > self._limit:
            raise ClientPolicyRefusal(
                f"{self._folder} keeps {used} bytes of unsettled rounds, and your limit is "
                f"{self._limit} (kept_bytes): verify those rounds, or export their evidence, "
                "before you take part in another"
            )

    def _sweep(self) -> None:
        """Complete what a crash interrupted: partial writes, replaced files, finished rounds."""
        for path in self._folder.glob("new-*-*"):
            round_id = path.name.split("-")[1]
            if not ROUND_ID.fullmatch(round_id):
                continue
            current = self._file(round_id)
            # Only the extra name goes: overwriting it would wipe the submission itself, since both
            # are one file.
            if current.exists() and current.samefile(path):  # killed before it was replaced
                path.unlink()
            else:
                erase(path)
        for marker in self._folder.glob("*.done"):
            if ROUND_ID.fullmatch(marker.stem):
                erase(self._file(marker.stem))

    def _file(self, round_id: str) -> Path:
        if not ROUND_ID.fullmatch(round_id):
            raise UnknownRoundError(
                f"a round id must be 32 lower-case hex digits, not {round_id!r}"
            )
        return self._folder / f"{round_id}.json"

    def _marker(self, round_id: str) -> Path:
        return self._file(round_id).with_suffix(".done")

    def _new_path(self, round_id: str) -> Path:
        return self._folder / f"new-{round_id}-{secrets.token_hex(8)}"

    def _write(self, round_id: str, data: bytes) -> Path:
        path = self._new_path(round_id)
        write_new(path, data)
        return path

    def _lock(self) -> AbstractContextManager[None]:
        return lock_folder(self._folder)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Context that holds the lock of a state folder, for which others wait.

    Raises `ConfigError` if the folder cannot be opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot use the state folder {folder}: {error.strerror}") from error
    try:
        # The system releases it with the process, however that ends: a lock file would outlive a
        # kill.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
