"""The newest leaf hashes of a log beside a checkpoint, from which readers compute recent roots.

With them a device that remembers a recent checkpoint sees, without any request, that the log has
only grown. It travels as the extra data of a proof (C2SP tlog-proof).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shuffledp_core.errors import LogProofError, MalformedDocumentError
from shuffledp_core.transparency.notes import Checkpoint
from shuffledp_core.transparency.tree import EMPTY_ROOT, HASH_BYTES, MerkleTree, node_hash

WINDOW: Final = 64
"""Entries of a window: some 25 rounds, in 2 KB."""

MOST_WINDOW: Final = 1024
"""Most entries of a window that is read."""

_BASE_BYTES: Final = 8


@dataclass(frozen=True)
class LogWindow:
    """The leaf hashes of a log from entry `base` on, and subtree roots of all entries before.

    Attributes:
        base: number of entries before the window.
        peaks: roots of the complete subtrees that they form, the largest first.
        leaves: hashes of the entries after them.
    """

    base: int
    peaks: tuple[bytes, ...]
    leaves: tuple[bytes, ...]

    @classmethod
    def of(cls, tree: MerkleTree, size: int) -> LogWindow:
        """The window over the last entries among a tree's first `size` leaves."""
        base = max(0, size - WINDOW)
        peaks: list[bytes] = []
        begin = 0
        for level in _levels(base):
            peaks.append(tree.levels[level][begin >> level])
            begin += 1 << level
        return cls(base, tuple(peaks), tuple(tree.levels[0][base:size]))

    def to_bytes(self) -> bytes:
        """Encode the window: `base` in 8 bytes, big endian, then all hashes."""
        return b"".join((self.base.to_bytes(_BASE_BYTES, "big"), *self.peaks, *self.leaves))

    @classmethod
    def from_bytes(cls, data: bytes, size: int) -> LogWindow:
        """Parse the window of a log of `size` entries; nothing in it is trusted yet.

        Raises:
            MalformedDocumentError: the window has a wrong length, or too many entries.
        """
        base = int.from_bytes(data[:_BASE_BYTES], "big")
        hashes = data[_BASE_BYTES:]
        count = base.bit_count()
        if not 0 <= size - base <= MOST_WINDOW:
            raise MalformedDocumentError(
                f"the window of a log of {size:,} entries cannot begin at entry {base:,}"
            )
        if len(hashes) != HASH_BYTES * (count + size - base):
            raise MalformedDocumentError("the window of a log has the wrong length")
        parts = tuple(hashes[i : i + HASH_BYTES] for i in range(0, len(hashes), HASH_BYTES))
        return cls(base, parts[:count], parts[count:])

    @property
    def size(self) -> int:
        """Number of entries of the log."""
        return self.base + len(self.leaves)

    def root(self, size: int) -> bytes:
        """Root of the log's first `size` entries, for a size of at least `base`."""
        if not self.base <= size <= self.size:
            raise ValueError(
                f"a window from {self.base} to {self.size} cannot give the root of {size} entries"
            )
        # The complete subtrees so far, with the levels of their roots.
        peaks = list(zip(_levels(self.base), self.peaks, strict=True))
        for leaf in self.leaves[: size - self.base]:
            level, above = 0, leaf
            while peaks and peaks[-1][0] == level:
                above = node_hash(peaks.pop()[1], above)
                level += 1
            peaks.append((level, above))
        if not peaks:
            return EMPTY_ROOT
        root = peaks[-1][1]
        for _, peak in reversed(peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def check(self, checkpoint: Checkpoint) -> None:
        """Check that the window leads to this checkpoint's root; `LogProofError` if it does not."""
        if self.size != checkpoint.size or self.root(self.size) != checkpoint.root:
            raise LogProofError(
                "the window of the log does not match the checkpoint that came with it"
            )


def _levels(size: int) -> list[int]:
    """Levels of the complete subtrees of a tree of `size` leaves, the largest first."""
    return [level for level in reversed(range(size.bit_length())) if size >> level & 1]
