"""Reading a public log from a folder or a web server, each entry checked before it is parsed."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from shuffledp_core.errors import ConfigError, LogProofError, UnreachableError
from shuffledp_core.runtime.keys import read_file
from shuffledp_core.transparency.entries import LedgerLogEntry
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
"""Most entries of a log that is read: its hashes take 64 bytes of memory each."""

SECONDS: Final = 30.0
"""Longest silence of a web server."""


class LogSource(Protocol):
    """Where the files of a log are."""

    def fetch(self, path: str, most: int) -> bytes:
        """A file of at most `most` bytes; `ConfigError` or `UnreachableError` if there is none."""
        ...


class FolderSource:
    """The files of a log in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fetch(self, path: str, most: int) -> bytes:
        """See `LogSource`."""
        return read_file(self._folder / path, "file of the log", most)


class WebSource:
    """The files of a log below an address of a web server."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")

    def fetch(self, path: str, most: int) -> bytes:
        """See `LogSource`."""
        url = f"{self._address}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - the scheme is checked in `log_source`
                data: bytes = answer.read(most + 1)
        except (OSError, ValueError) as error:
            raise UnreachableError(f"cannot read {url}: {error}; check the address") from error
        if len(data) > most:
            raise LogProofError(f"{url} has more than {most:,} bytes")
        return data


def log_source(address: str) -> LogSource:
    """The source at a folder or at an http(s) address."""
    if address.startswith(("https://", "http://")):
        return WebSource(address)
    return FolderSource(Path(address))


class VerifiedLog:
    """A log whose tree was computed again from the hashes of its entries."""

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
        """All entries in order, a bundle in memory at a time.

        Raises:
            LogProofError: an entry is not the one that the tree has.
            MalformedDocumentError: an entry cannot be parsed.
        """
        for path, begin, end in bundles_between(0, self.checkpoint.size):
            data = self._source.fetch(path, MAX_BUNDLE_BYTES)
            for number, entry in enumerate(unpack_bundle(data, end - begin), begin):
                if leaf_hash(entry) != self._tree.levels[0][number]:
                    raise LogProofError(f"entry {number} is not the one that the log's tree has")
                yield LedgerLogEntry.from_bytes(entry)


def read_log(source: LogSource, key: NoteKey) -> VerifiedLog:
    """Read a log's checkpoint and the hashes of its entries, and compute its tree again.

    Args:
        source: where its files are.
        key: signs its checkpoints; its name is the origin.

    Raises:
        SignatureError: the checkpoint is not signed by this key.
        LogProofError: the checkpoint is of another log, or its root is not that of the entries.
        MalformedDocumentError: a file is not what its name says.
        ConfigError, UnreachableError: a file cannot be read.
    """
    note = source.fetch(CHECKPOINT_PATH, MAX_NOTE_BYTES)
    checkpoint = parse_checkpoint(check_note(parse_note(note), key))
    if checkpoint.origin != key.name:
        raise LogProofError(f"the checkpoint is of {checkpoint.origin}, not of {key.name}")
    if checkpoint.size > MOST_ENTRIES:
        raise ConfigError(
            f"the log has {checkpoint.size:,} entries, more than the {MOST_ENTRIES:,} that fit "
            "into memory here"
        )
    tree = MerkleTree()
    for path, width in leaf_tiles(checkpoint.size):
        for leaf in unpack_tile(source.fetch(path, TILE_WIDTH * HASH_BYTES), width):
            tree.append(leaf)
    if tree.root() != checkpoint.root:
        raise LogProofError("the checkpoint's root is not that of the log's entries")
    return VerifiedLog(source, note, checkpoint, tree)


def check_grown(log: VerifiedLog, remembered: Path, key: NoteKey) -> None:
    """Check that a log has only grown since the checkpoint in a file; a missing file shows nothing.

    Raises:
        LogProofError: it has not. The file and the log's checkpoint together prove that the holder
            of the key showed two histories: keep both.
        DocumentError: the file is not a checkpoint of this log.
    """
    if not remembered.exists():
        return
    data = read_file(remembered, "remembered checkpoint", MAX_NOTE_BYTES)
    before = parse_checkpoint(check_note(parse_note(data), key))
    has_grown = before.size <= log.checkpoint.size and log.root(before.size) == before.root
    if not has_grown:
        raise LogProofError(
            f"the log of {log.checkpoint.size:,} entries does not begin with the {before.size:,} "
            f"that it showed before: keep {remembered} and the log's checkpoint, which together "
            "prove two histories"
        )
