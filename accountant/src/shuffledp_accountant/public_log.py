"""The public log of the ledger: every change of a charge, in static files.

The ledger commits the log's entries together with the charges they are about; this module writes
what is committed as tiles, and signs checkpoints. docs/log.md.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import structlog

from shuffledp_accountant.ledger.ledger import Ledger
from shuffledp_accountant.witnesses import (
    CountAnswer,
    WitnessClient,
    collect_cosignatures,
    ignore_answer,
)
from shuffledp_core.documents.models import LogTerms, Roster, Witness
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import DocumentError, LedgerAwayError
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import Identity
from shuffledp_core.transparency.entries import (
    LedgerLogEntry,
    log_key_of,
    reservation_entry,
    result_entry,
)
from shuffledp_core.transparency.logged import known_cosigners
from shuffledp_core.transparency.notes import (
    Checkpoint,
    check_note,
    parse_checkpoint,
    parse_note,
    sign_note,
)
from shuffledp_core.transparency.proofs import InclusionProof
from shuffledp_core.transparency.tiles import (
    CHECKPOINT_PATH,
    PARTIAL_SUFFIX,
    bundles_between,
    pack_bundle,
    tiles_since,
)
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash
from shuffledp_core.transparency.windows import LogWindow


class PublicLog:
    """Writes the ledger's log into a folder. Safe to use from several threads.

    If the folder shows more entries than the ledger holds, or other ones, the ledger was restored
    from a backup. Nothing is written then, because the log would show two histories; a new folder
    begins a new log.
    """

    def __init__(
        self,
        folder: Path,
        ledger: Ledger,
        identity: Identity,
        roster: Roster,
        count_answer: CountAnswer = ignore_answer,
    ) -> None:
        """Read the ledger's log; `publish` then writes what the folder lacks.

        `count_answer` counts the answers of witnesses.

        Raises `ConfigError` if the roster gives a witness an address that is no URL.
        """
        self._folder = folder
        self._ledger = ledger
        self._identity = identity
        self._key = log_key_of(roster)
        self._terms = roster.log_terms
        self._witnesses = [WitnessClient(witness) for witness in _witnesses_of(self._terms)]
        self._note = b""
        self._tree = MerkleTree(ledger.log_leaves())
        self._count_answer = count_answer
        self._lock = threading.Lock()
        self._published = 0
        self._is_forked = False
        self._adopt()

    def _adopt(self) -> None:
        """Continue from the folder's checkpoint, if it is a prefix of the ledger's log."""
        file = self._folder / CHECKPOINT_PATH
        if not file.exists():
            return
        try:
            shown = parse_checkpoint(check_note(parse_note(file.read_bytes()), self._key))
        except DocumentError as error:
            structlog.get_logger().warning(
                "checkpoint in the public log's folder ignored: it does not verify",
                reason=str(error),
            )
            return
        if shown.size > self._tree.size or self._tree.root(shown.size) != shown.root:
            self._is_forked = True
            structlog.get_logger().error(
                "public log stopped: it shows charges that the ledger has lost; after `shuffledp "
                "ledger restore`, name a new folder for it (docs/log.md)",
                shown=shown.size,
                size=self._tree.size,
            )
            return
        self._published = shown.size
        self._note = file.read_bytes()

    @property
    def has_witnesses(self) -> bool:
        """True if devices require proofs from this log."""
        return self._terms is not None

    def reservation_proof(self, population: str, round_id: str, certificate: bytes) -> bytes:
        """Proof that a published reservation is in the log, for the round's announcement.

        Raises:
            LedgerAwayError: too few witnesses have signed, or the log has stopped; the call may be
                repeated.
        """
        entry = reservation_entry(population, round_id, Signed.from_bytes(certificate))
        return self._proof(
            entry,
            f"round {round_id} was charged again after a restore, and has no reservation in the "
            "public log: open another round",
        )

    def result_proof(self, population: str, round_id: str, digest: str) -> bytes:
        """Proof that a logged result is in the log, for devices and readers.

        Raises as `reservation_proof`.
        """
        entry = result_entry(population, round_id, digest)
        return self._proof(entry, f"the result of round {round_id} is not in the public log")

    def _proof(self, entry: LedgerLogEntry, missing: str) -> bytes:
        leaf = leaf_hash(entry.to_bytes())
        with self._lock:
            if self._is_forked:
                raise LedgerAwayError(
                    "the public log has stopped, so devices would refuse the round: follow "
                    "`After a restore` in docs/log.md"
                )
            if not self._is_cosigned():
                raise LedgerAwayError(
                    "too few witnesses have cosigned the public log, so devices would refuse "
                    "the round: see the accountant's log lines, start the witnesses, then retry"
                )
            leaves = self._tree.levels[0][: self._published]
            # The newest first: nearly every question is about the last entry.
            index = next((i for i in reversed(range(len(leaves))) if leaves[i] == leaf), None)
            if index is None:
                raise LedgerAwayError(missing)
            hashes = tuple(self._tree.inclusion_proof(index, self._published))
            window = LogWindow.of(self._tree, self._published)
            return InclusionProof(index, hashes, self._note, window.to_bytes()).to_bytes()

    def _is_cosigned(self) -> bool:
        """True if enough witnesses cosigned the last published checkpoint."""
        if not self._note:
            return False
        if self._terms is None:
            return True
        return len(known_cosigners(parse_note(self._note), self._terms)) >= self._terms.threshold

    def publish(self) -> None:
        """Write the entries committed since the last call, then a checkpoint over the whole log.

        Raises:
            LedgerError: the ledger cannot be read.
            LedgerAwayError: the folder cannot be written; the next call tries again.
        """
        with self._lock:
            if self._is_forked:
                return
            for leaf in self._ledger.log_leaves(self._tree.size):
                self._tree.append(leaf)
            if self._published == self._tree.size and self._is_cosigned():
                return
            try:
                self._write()
            except OSError as error:
                raise LedgerAwayError(
                    f"the public log cannot be written ({error.strerror or error}): free space "
                    f"in {self._folder} or repair the disk, then retry"
                ) from error

    def _write(self) -> None:
        size = self._tree.size
        for path, begin, end in bundles_between(self._published, size):
            self._write_file(path, pack_bundle(self._ledger.log_entries(begin, end)))
        for path, content in tiles_since(self._tree, self._published):
            self._write_file(path, content)
        checkpoint = Checkpoint(self._key.name, size, self._tree.root())
        note = sign_note(checkpoint.to_text(), self._key, self._identity.key.sign)
        lines = collect_cosignatures(self._witnesses, note, self._tree, self._count_answer)
        self._note = "".join([note, *lines.values()]).encode()
        # Last, so that a reader of the checkpoint finds everything below it.
        self._write_file(CHECKPOINT_PATH, self._note)
        self._published = size

    def _write_file(self, path: str, content: bytes) -> None:
        """Write a file that every user of this machine may read, for example a web server."""
        file = self._folder / path
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(file, content)
        file.chmod(0o644)
        # A full tile replaces the narrower ones.
        shutil.rmtree(file.with_name(file.name + PARTIAL_SUFFIX), ignore_errors=True)


def _witnesses_of(terms: LogTerms | None) -> tuple[Witness, ...]:
    return () if terms is None else terms.witnesses
