"""Rounds of a node on disk: everything that must survive kill -9, and nothing after deletion.

docs/adr/0002.

lock                       held by the running node
rounds/<round>/record.json the round's record, replaced as a whole at every step
               key         the private round key, and the secrets of a verified round; erased when
                           the part is over
               withdrawals of a verified round, entry node: the signed list that it goes by
               accusation, order          verified: the one accusation; the order of the output, as
                                          secret as the key
               attempts                   verified: times that the node's process ended while it
                                          worked on the batch
               dummies                    what this node adds, sealed for those behind it; as secret
                                          as the order of the output. Of a verified round: its claim
                                          and what is sealed for the entry node
               dummies-2, dummies-3, ..   verified, entry node: those of the other nodes
               index.sqlite, envelopes      entry node: see `spool`
               incoming, outgoing           packed batches, with headers in the record
               outgoing.*.spill             while it mixes: sealed, under keys in memory; removed at
                                            start
uploads/                   batches that are still arriving, erased at start
discards/<round>.json      the signed discard of a deleted round, kept: its id is never used again
seen                       when a node last used this folder, milliseconds since 1970
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from shuffledp_core.documents.models import Discard
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import ConfigError, NodeFault, ShuffleDPError
from shuffledp_core.runtime.files import (
    PART,
    erase,
    erase_folder,
    make_folder,
    size_of,
    sync,
    write_atomic,
)
from shuffledp_core.runtime.state import claim_state
from shuffledp_shuffler.round_state import ENDED, ENTRY, KEYLESS, Phase, RoundRecord
from shuffledp_shuffler.spill import SPILL

_NEW: Final = ".new-"
"""Prefix of a round folder that is still being made; never a round id."""


class RoundFolder:
    """The files of one round."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = path / "index.sqlite"
        self.envelopes = path / "envelopes"
        self.incoming = path / "incoming"
        self.outgoing = path / "outgoing"
        self.withdrawals = path / "withdrawals"
        self.accusation = path / "accusation"
        self.order = path / "order"
        self.dummies = path / "dummies"
        self._record = path / "record.json"
        self._key = path / "key"
        self._attempts = path / "attempts"

    def dummies_of(self, position: int) -> Path:
        """At the entry node, the file with the dummies of the node at `position`."""
        return self.dummies if position == ENTRY else self.path / f"dummies-{position}"

    @property
    def round_id(self) -> str:
        """The round whose folder this is."""
        return self.path.name

    def commit(self, record: RoundRecord) -> None:
        """Make `record` the round's state, atomically."""
        write_atomic(self._record, to_json(record))

    def give_up(self, record: RoundRecord) -> None:
        """Make a failed `record` the round's state, and erase the rest.

        If the disk is full, the rest is erased first.
        """
        self.make_room(lambda: self.commit(record))
        self.erase_consumed(record.phase)

    def make_room(self, write: Callable[[], None]) -> None:
        """Call `write`; if the disk is full, make room and call it again.

        Room is made by erasing the key and bulk data of this round, which is over.
        """
        try:
            write()
        except OSError:
            self.erase_consumed(Phase.FAILED)
            write()

    def read(self) -> RoundRecord:
        """Read the round's state; raise `NodeFault` if the folder is damaged."""
        try:
            record = from_json(self._record.read_bytes(), RoundRecord)
            if record.round_id != self.round_id:
                raise NodeFault(f"the record in {self.path.name} is of round {record.round_id}")
            record.own_key()
            record.plan()
        except (OSError, ShuffleDPError) as error:
            raise NodeFault(
                f"the state of round {self.round_id} is damaged on disk ({error}); delete it"
            ) from error
        return record

    def write_key(self, private_key: bytes) -> None:
        """Store the private round key with mode 0600."""
        write_atomic(self._key, private_key)

    @property
    def has_key(self) -> bool:
        """True until the key is erased."""
        return self._key.exists()

    def read_key(self, length: int) -> bytes:
        """Read the private round key; raise `NodeFault` if it is missing or incomplete."""
        try:
            key = self._key.read_bytes()
        except OSError as error:
            raise NodeFault(
                f"the key of round {self.round_id} cannot be read ({error.strerror})"
            ) from error
        if len(key) != length:
            raise NodeFault(
                f"the key of round {self.round_id} has {len(key)} bytes instead of {length}"
            )
        return key

    @property
    def attempts(self) -> int:
        """Number of attempts that `count_attempts` recorded last, or 0."""
        try:
            return int(self._attempts.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def count_attempts(self, attempts: int) -> None:
        """Record the number of attempts on the batch, for the process after a crash."""
        if attempts == 0:
            self._attempts.unlink(missing_ok=True)  # also possible on a full disk
            return
        write_atomic(self._attempts, str(attempts).encode())

    def take_incoming(self, upload: Path, record: RoundRecord) -> None:
        """Move a verified, flushed upload into the round, then commit its record."""
        # Killed before the commit, the round still waits: no record names this file, and the next
        # one replaces it.
        upload.rename(self.incoming)
        sync(self.path)
        self.commit(record)

    def erase_consumed(self, phase: Phase, *, answerable: bool = False) -> None:
        """Erase the files that are not needed from this phase on.

        This is idempotent, so a crash in it does no harm.

        In a verified round nothing is erased while this node may still get an inquiry about its
        step.
        """
        if answerable:
            return
        if (
            phase in KEYLESS
        ):  # key first: input that a crash leaves behind can then no longer be opened
            of_blame = (self.accusation, self.order)
            for path in (
                self._key,
                self.envelopes,
                self.incoming,
                *self.path.glob("dummies*"),
                *of_blame,
                *self.path.glob(f"*{PART}"),
            ):
                erase(path)
        if phase in ENDED:
            erase(self.outgoing)


class NodeStore:
    """State folder of one node, used by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Lock the folder, and finish interrupted operations. Raises `ConfigError`."""
        self._rounds = folder / "rounds"
        self._discards = folder / "discards"
        self._seen = folder / "seen"
        self.uploads = folder / "uploads"
        self.ledger_positions = folder / "ledger-positions.json"
        self._lock = claim_state(folder)
        try:
            for path in (self._rounds, self._discards, self.uploads):
                make_folder(path)
        except OSError as error:
            os.close(self._lock)
            raise ConfigError(f"cannot use the state folder {folder}: {error.strerror}") from error
        self._tidy()

    def close(self) -> None:
        """Release the folder."""
        os.close(self._lock)

    def last_seen(self) -> int:
        """Time at which a node last used this folder, in milliseconds since 1970.

        0 if this is unknown.
        """
        try:
            return int(self._seen.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def be_seen(self, now: int) -> None:
        """Record that the folder is in use at `now`, in milliseconds since 1970."""
        write_atomic(self._seen, str(now).encode())

    def create(
        self, record: RoundRecord, private_key: bytes, withdrawals: bytes = b""
    ) -> RoundFolder:
        """Create a new round's folder, completely or not at all."""
        path = self._rounds / record.round_id
        making = RoundFolder(self._rounds / f"{_NEW}{record.round_id}")
        erase_folder(making.path)
        try:
            make_folder(making.path)
            making.write_key(private_key)
            if withdrawals:
                write_atomic(making.withdrawals, withdrawals)
            making.commit(record)
        except OSError:
            erase_folder(making.path)
            raise
        making.path.rename(path)
        # Before anyone is told the public key: a round that a power cut takes back was promised to
        # no one.
        sync(self._rounds)
        return RoundFolder(path)

    def folders(self) -> list[RoundFolder]:
        """Every round on disk, in no particular order."""
        return [RoundFolder(path) for path in self._rounds.iterdir()]

    def spool_bytes(self) -> dict[str, int]:
        """Bytes of bulk data on disk by kind.

        Safe from any thread; files that are removed meanwhile are not counted.
        """
        kinds = {
            name: list(self._rounds.glob(f"*/{name}"))
            for name in ("envelopes", "incoming", "outgoing")
        }
        kinds["dummies"] = list(self._rounds.glob("*/dummies*"))
        kinds["spill"] = list(self._rounds.glob(f"*/*{SPILL}"))
        kinds["uploads"] = list(self.uploads.iterdir())
        return {kind: sum(map(size_of, paths)) for kind, paths in kinds.items()}

    def discard_of(self, round_id: str) -> Signed | None:
        """The signed discard of a deleted round, or None."""
        try:
            return Signed.from_bytes((self._discards / f"{round_id}.json").read_bytes())
        except FileNotFoundError:
            return None

    def discard(self, round_id: str, signed: Signed) -> None:
        """Store the discard, then erase the round; the next start completes an erasure."""
        if from_json(signed.body, Discard).round_id != round_id:
            raise ValueError("the discard to store is for another round")
        folder = RoundFolder(self._rounds / round_id)
        folder.make_room(
            lambda: write_atomic(self._discards / f"{round_id}.json", signed.to_bytes())
        )
        erase_folder(folder.path)

    def _tidy(self) -> None:
        for path in (*self._discards.glob(f"*{PART}"), *self.uploads.iterdir()):
            erase(path)
        for path in list(self._rounds.iterdir()):
            # Never named, so never promised to anyone; or discarded, and killed before all of it
            # was erased.
            if path.name.startswith(_NEW) or (self._discards / f"{path.name}.json").exists():
                erase_folder(path)
            else:
                for part in path.glob(f"*{PART}"):
                    erase(part)
                for spilled in path.glob(
                    f"*{SPILL}"
                ):  # not overwritten: no one has the key any more
                    spilled.unlink()
