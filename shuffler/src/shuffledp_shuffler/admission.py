"""Refusal of genuine credentials that were withdrawn or have expired.

The enrolment authority of a population signs complete lists of withdrawn credentials, each with the
next serial. The entry node checks before every submission whether the file has changed, and if so
reads it. It keeps the newest list that it ever accepted in its state folder: an older, damaged or
missing file does not restore a credential. docs/protocol.md, "Submit".
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Credential, Population, Roster, Withdrawals
from shuffledp_core.documents.signed import Signed, verify
from shuffledp_core.documents.submission import credential_id
from shuffledp_core.errors import (
    ConfigError,
    DocumentError,
    ForeignDocumentError,
    WithdrawnCredentialError,
)
from shuffledp_core.runtime.files import make_folder, read_file, write_atomic

_FOLDER: Final = "withdrawals"
"""Folder in the state folder that holds the newest list of every population."""

Stamp = tuple[int, int, int] | None
"""Modification time, size and inode, which show whether a file has changed; None if there is no
file.
"""


@dataclass(frozen=True)
class _List:
    """A verified list of withdrawn credentials, and the stamp of the file that was last read."""

    serial: int
    digest: str
    credentials: frozenset[str]
    stamp: Stamp = None

    @property
    def version(self) -> tuple[int, str]:
        """Serial and digest of the list, as verified rounds' keys name it; 0 and "" if none."""
        return (self.serial, self.digest)


_EMPTY: Final = _List(0, "", frozenset())


class Admission:
    """Withdrawal lists of a node's populations.

    `folder` holds the files `<population>.json`; with None, no credential is ever withdrawn.

    `refusals` may be called from any thread.
    """

    def __init__(self, folder: Path | None, state: Path, roster: Roster) -> None:
        """Read the withdrawal lists of all populations.

        Raises `ConfigError` for an invalid list if there is no earlier one in the state folder.
        """
        self._folder = folder
        self._state = state / _FOLDER
        self._populations = {population.name: population for population in roster.populations}
        self._lists: dict[str, _List] = {}
        self._lock = threading.Lock()
        if folder is not None:
            for population in roster.populations:
                self._lists[population.name] = self._load_list(population)
                self._look(population, first=not self._lists[population.name].serial)

    def refusals(
        self, credentials: Sequence[Credential], now: int
    ) -> list[WithdrawnCredentialError | None]:
        """The refusal of each withdrawn or expired credential at `now` (milliseconds since 1970).

        None for a valid one.
        """
        if self._folder is not None:
            with self._lock:
                # Before any of them is compared: a list that was put there before these credentials
                # came applies to all.
                for name in {credential.population for credential in credentials}:
                    if name in self._populations:
                        self._look(self._populations[name])
        return [self._refusal(credential, now) for credential in credentials]

    def _refusal(self, credential: Credential, now: int) -> WithdrawnCredentialError | None:
        if credential.expires_at is not None and now >= credential.expires_at:
            return WithdrawnCredentialError(
                f"the credential expired at {credential.expires_at}, and this node's clock says "
                f"{now}; enrol again"
            )
        current = self._lists.get(credential.population)
        if current is not None and credential_id(credential) in current.credentials:
            return WithdrawnCredentialError(
                "the credential was withdrawn by the enrolment authority of "
                f"{credential.population!r}; ask it for a new one"
            )
        return None

    def newest(self, population: str) -> tuple[int, str, bytes]:
        """Serial, digest and document of the newest list of a population.

        0 and empty values if there is none.
        """
        if self._folder is None or population not in self._populations:
            return (0, "", b"")
        with self._lock:
            self._look(self._populations[population])
            current = self._lists[population]
            if not current.serial:
                return (0, "", b"")
            return (*current.version, read_file(self._state / f"{population}.json", "withdrawals"))

    def _load_list(self, population: Population) -> _List:
        file = self._state / f"{population.name}.json"
        if not file.exists():
            return _EMPTY
        try:
            return _verify_list(read_file(file, "withdrawals"), population)
        # Such as after a change of the enrolment key, which ends all old credentials.
        except DocumentError as error:
            structlog.get_logger().warning(
                "stored withdrawals ignored: they do not verify", file=str(file), reason=str(error)
            )
            return _EMPTY

    def _look(self, population: Population, *, first: bool = False) -> None:
        """Adopt the list in a population's file if the file has changed and the list is newer."""
        if self._folder is None:
            return
        file = self._folder / f"{population.name}.json"
        current = self._lists[population.name]
        # Before the file is read: one that changes in between is looked at again.
        stamp = _stamp(file)
        if stamp == current.stamp and not first:
            return
        newer = current
        if stamp is not None:
            try:
                newer = self._newer(read_file(file, "withdrawals"), population, current)
            except (DocumentError, ConfigError) as error:
                if first:
                    raise ConfigError(f"cannot use the withdrawals file {file}: {error}") from error
                structlog.get_logger().error(
                    "withdrawals refused: the earlier list stays in force",
                    file=str(file),
                    reason=str(error),
                )
        elif current.serial:
            structlog.get_logger().warning(
                "withdrawals file missing: the earlier list stays in force", file=str(file)
            )
        # The stamp of a refused file as well: it is read, and logged, once and not at every
        # submission.
        self._lists[population.name] = _List(newer.serial, newer.digest, newer.credentials, stamp)

    def _newer(self, data: bytes, population: Population, current: _List) -> _List:
        newest = _verify_list(data, population)
        if newest.serial < current.serial or (
            newest.serial == current.serial and newest.digest != current.digest
        ):
            raise ForeignDocumentError(
                f"a withdrawal list of serial {newest.serial} does not replace the current one "
                f"of serial {current.serial}"
            )
        if newest.serial > current.serial:
            make_folder(self._state)
            # Kept before it is used: a node that refused a credential once must refuse it after a
            # crash, too.
            write_atomic(self._state / f"{population.name}.json", data)
            structlog.get_logger().info(
                "list of withdrawn credentials updated",
                population=population.name,
                serial=newest.serial,
                credentials=len(newest.credentials),
            )
        return newest


def _verify_list(data: bytes, population: Population) -> _List:
    signed = Signed.from_bytes(data)
    withdrawals = verify(
        signed, Withdrawals, population.name, bytes.fromhex(population.enrolment_key)
    )
    if withdrawals.population != population.name or withdrawals.serial < 1:
        raise ForeignDocumentError(
            f"the withdrawal list (serial {withdrawals.serial}) must be of population "
            f"{population.name!r}, with a serial of 1 or more, not of "
            f"{withdrawals.population[:80]!r}"
        )
    return _List(withdrawals.serial, document_digest(signed), frozenset(withdrawals.credentials))


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
