"""Reads a public log from a folder or web server, and checks each entry before parsing it."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ConfigError, LogProofError, UnreachableError
from shuffledp_core.runtime.files import read_file
from shuffledp_core.transparency.entries import LedgerLogEntry, log_keys_of
from shuffledp_core.transparency.logged import check_ended
from shuffledp_core.transparency.notes import (
    MAX_NOTE_BYTES,
    Checkpoint,
    NoteKey,
    check_note,
    parse_checkpoint,
    parse_note,
)
from shuffledp_core.transparency.tiles import (
    CHECKPOINT_PATH,
    MAX_BUNDLE_BYTES,
    TILE_WIDTH,
    bundles_between,
    leaf_tiles,
    unpack_bundle,
    unpack_tile,
)
from shuffledp_core.transparency.tree import HASH_BYTES, MerkleTree, leaf_hash

MOST_ENTRIES: Final = 10_000_000
"""Most entries of a log that is read by default: its hashes take 64 bytes of memory each."""

SECONDS: Final = 30.0
"""Longest silence of a web server."""

_CHUNK_BYTES: Final = 2**16


@dataclass(frozen=True)
class LogLimits:
    """Limits on reading a log: entries, bytes of all files, and seconds, with checks."""

    entries: int = MOST_ENTRIES
    size: int = 2**33
    seconds: float = 4 * 3600.0


class Allowance:
    """Bytes and time that remain of the limits."""

    def __init__(self, limits: LogLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._left = limits.size
        self._until = clock() + limits.seconds

    def spend(self, size: int = 0) -> None:
        """Subtract bytes that were read; raise `ConfigError` if a limit is reached."""
        self._left -= size
        if self._left < 0:
            raise ConfigError(
                f"the log is larger than {self._limits.size / 10**6:,.0f} MB: raise "
                "--most-megabytes"
            )
        if self._clock() >= self._until:
            raise ConfigError(
                f"reading the log took longer than {self._limits.seconds / 60:g} minutes: raise "
                "--most-minutes"
            )


class LogSource(Protocol):
    """Source of a log's files, which are read within limits."""

    @property
    def allowance(self) -> Allowance:
        """Bytes and time that may still be used."""
        ...

    def fetch(self, path: str, most: int) -> bytes:
        """A file of at most `most` bytes; `ConfigError` or `UnreachableError` if there is none."""
        ...


class FolderSource:
    """The files of a log in a folder."""

    def __init__(self, folder: Path, limits: LogLimits | None = None) -> None:
        self._folder = folder
        self.allowance = Allowance(limits or LogLimits())

    def fetch(self, path: str, most: int) -> bytes:
        """See `LogSource`."""
        data = read_file(self._folder / path, "file of the log", most)
        self.allowance.spend(len(data))
        return data


class WebSource:
    """The files of a log below an address of a web server."""

    def __init__(self, address: str, limits: LogLimits | None = None) -> None:
        self._address = address.rstrip("/")
        self.allowance = Allowance(limits or LogLimits())

    def fetch(self, path: str, most: int) -> bytes:
        """See `LogSource`."""
        url = f"{self._address}/{path}"
        data = bytearray()
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - the scheme is checked in `bounded_source`
                # In pieces: a server that never falls silent must not hold the reader.
                while chunk := answer.read1(_CHUNK_BYTES):
                    data += chunk
                    self.allowance.spend(len(chunk))
                    if len(data) > most:
                        raise LogProofError(
                            f"{url} is longer than the {most:,} bytes that such a file may have; "
                            "check that the address is that of a public log"
                        )
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnreachableError(f"cannot read {url}: {error}; check the address") from error
        return bytes(data)


def bounded_source(address: str, limits: LogLimits) -> LogSource:
    """The source at a folder or at an http(s) address."""
    if address.startswith(("https://", "http://")):
        return WebSource(address, limits)
    return FolderSource(Path(address), limits)


class VerifiedLog:
    """A log whose tree was recomputed from the hashes of its entries."""

    def __init__(
        self, source: LogSource, note: bytes, checkpoint: Checkpoint, tree: MerkleTree
    ) -> None:
        self._source = source
        self._tree = tree
        self.note = note
        self.checkpoint = checkpoint

    def root(self, size: int) -> bytes:
        """Root of the first `size` entries."""
        return self._tree.root(size)

    def entries(self) -> Iterator[LedgerLogEntry]:
        """All entries in order, with one bundle in memory at a time.

        Raises:
            LogProofError: an entry is not the one that the tree has.
            MalformedDocumentError: an entry cannot be parsed.
        """
        for path, begin, end in bundles_between(0, self.checkpoint.size):
            data = self._source.fetch(path, MAX_BUNDLE_BYTES)
            for number, entry in enumerate(unpack_bundle(data, end - begin), begin):
                self._source.allowance.spend()
                if leaf_hash(entry) != self._tree.levels[0][number]:
                    raise LogProofError(
                        f"log entry {number} does not have the hash that the log's tree states "
                        "for it: the log's files were altered"
                    )
                yield LedgerLogEntry.from_bytes(entry)


def find_log_key(source: LogSource, roster: Roster) -> NoteKey:
    """The key of the log in a source: the deployment's current log, or an ended one.

    The checkpoint is not checked here.
    """
    text = parse_note(source.fetch(CHECKPOINT_PATH, MAX_NOTE_BYTES)).text
    keys = log_keys_of(roster)
    return next((key for key in keys if key.name == text.partition("\n")[0]), keys[-1])


def check_complete(log: VerifiedLog, roster: Roster) -> bool:
    """Check an ended log against the roster; return False for the current log.

    Raises:
        LogProofError: the log differs from the one whose end the roster states, or is incomplete.
    """
    terms, keys = roster.log_terms, log_keys_of(roster)
    if terms is None or log.checkpoint.origin == keys[-1].name:
        return False
    ended = terms.ended[[key.name for key in keys].index(log.checkpoint.origin)]
    check_ended(log.checkpoint, ended)
    if log.checkpoint.size < ended.size:
        raise LogProofError(
            f"the roster states that the log {log.checkpoint.origin} ended at {ended.size:,} "
            f"entries, but this copy has only {log.checkpoint.size:,}: get the whole folder"
        )
    return True


def read_log(
    source: LogSource,
    key: NoteKey,
    most_entries: int = MOST_ENTRIES,
    report: Callable[[int, int], None] = lambda *_: None,
) -> VerifiedLog:
    """Read a log's checkpoint and leaf hashes, and recompute its tree.

    Args:
        source: folder or address of the log's files.
        key: signs its checkpoints; its name is the origin.
        most_entries: most entries of a log that is read.
        report: called with the number of hashes read, and of all.

    Raises:
        SignatureError: the checkpoint is not signed by this key.
        LogProofError: the checkpoint is of another log, or its root is not that of the entries.
        MalformedDocumentError: a file is not what its name says.
        ConfigError, UnreachableError: a file cannot be read.
    """
    note = source.fetch(CHECKPOINT_PATH, MAX_NOTE_BYTES)
    checkpoint = parse_checkpoint(check_note(parse_note(note), key))
    if checkpoint.origin != key.name:
        raise LogProofError(
            f"the checkpoint is of the log {checkpoint.origin}, expected {key.name}"
        )
    if checkpoint.size > most_entries:
        raise ConfigError(
            f"the log has {checkpoint.size:,} entries, more than {most_entries:,}: raise "
            "--most-entries if there is enough memory (64 bytes per entry)"
        )
    tree = MerkleTree()
    for path, width in leaf_tiles(checkpoint.size):
        for leaf in unpack_tile(source.fetch(path, TILE_WIDTH * HASH_BYTES), width):
            tree.append(leaf)
        report(tree.size, checkpoint.size)
    if tree.root() != checkpoint.root:
        raise LogProofError(
            "the checkpoint's root hash is not that of the log's entries: entries were altered, "
            "or the checkpoint is of another log"
        )
    return VerifiedLog(source, note, checkpoint, tree)


def check_grown(log: VerifiedLog, remembered: Path, key: NoteKey) -> None:
    """Check that a log has only grown since a remembered checkpoint; no file, no check.

    Raises:
        LogProofError: the log has not grown from it. The file and the log's checkpoint together
            prove that the holder of the key showed two histories: keep both.
        DocumentError: the file is not a checkpoint of this log.
    """
    if not remembered.exists():
        return
    data = read_file(remembered, "remembered checkpoint", MAX_NOTE_BYTES)
    before = parse_checkpoint(check_note(parse_note(data), key))
    has_grown = before.size <= log.checkpoint.size and log.root(before.size) == before.root
    if not has_grown:
        raise LogProofError(
            f"the log of {log.checkpoint.size:,} entries does not extend the log of "
            f"{before.size:,} entries that it showed before: keep {remembered} and the log's "
            "checkpoint, which together prove two histories"
        )
