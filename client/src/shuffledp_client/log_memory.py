"""The state of the public log that a device saw last, in its state folder. docs/log.md."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from shuffledp_client.state import lock_folder
from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ConfigError, DocumentError, LogProofError, SignatureError
from shuffledp_core.runtime.files import read_file, sync, write_new
from shuffledp_core.transparency.logged import (
    CosignedCheckpoint,
    is_signed_by_former_key,
    read_remembered,
)
from shuffledp_core.transparency.proofs import MAX_PROOF_BYTES

SEEN: Final = "log-seen.tlog-proof"
"""The newest proof that this device verified."""

CONFLICT: Final = "log-conflict.tlog-proof"
"""A proof that was refused; with the one in `SEEN` it may show two histories."""


class LogMemory:
    """Newest checkpoint of the public log that a device has seen, with its proof.

    Safe to use from several processes.
    """

    def __init__(self, folder: Path, roster: Roster) -> None:
        self._folder = folder
        self._roster = roster

    def load(self) -> CosignedCheckpoint | None:
        """The last proof; None without one, or if its log has ended according to the roster.

        Raises:
            ConfigError: the file is damaged, or the accountant has another identity key since.
            LogProofError: the roster says that the log ended before what this device saw of it.
        """
        file = self._folder / SEEN
        if not file.exists():
            return None
        data = read_file(file, "public log seen last", MAX_PROOF_BYTES)
        try:
            return read_remembered(data, self._roster)
        except LogProofError:
            raise
        except DocumentError as error:
            if isinstance(error, SignatureError) and is_signed_by_former_key(data, self._roster):
                raise ConfigError(
                    f"{file} is signed by another key than the roster now gives the accountant "
                    f"{self._roster.accountant.name}, so this device cannot compare it with the "
                    "public log: ask the deployment whether it has announced a new identity key; "
                    "if so, move the file elsewhere and keep it as evidence of the former log; if "
                    "not, do not take part"
                ) from error
            raise ConfigError(
                f"{file} is damaged ({error}); if no one else can write to it, remove it: this "
                "device then forgets what it has seen of the public log"
            ) from error

    def remember(self, log: CosignedCheckpoint, proof: str) -> None:
        """Store a verified proof, unless a newer one is stored."""
        with lock_folder(self._folder):
            before = self.load()
            if before is None or before.checkpoint.size < log.checkpoint.size:
                self._write(SEEN, proof)

    def keep_conflict(self, proof: str) -> Path:
        """Store a proof that was refused, as evidence; return its file."""
        with lock_folder(self._folder):
            self._write(CONFLICT, proof)
        return self._folder / CONFLICT

    def _write(self, name: str, proof: str) -> None:
        part = self._folder / f"{name}-{secrets.token_hex(8)}"
        write_new(part, proof.encode())
        part.replace(self._folder / name)
        sync(self._folder)
