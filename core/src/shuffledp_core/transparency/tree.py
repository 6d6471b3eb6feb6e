"""The Merkle tree of a transparency log: roots, inclusion proofs and consistency proofs.

Laurie, Langley, Kasper 2013 (RFC 6962), section 2: a leaf is SHA-256(0x00 || entry), a node
SHA-256(0x01 || left || right), and the left part of a tree is the largest complete one below its
size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from shuffledp_core.errors import LogProofError

HASH_BYTES: Final = 32

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
"""Root of a tree without entries."""


def leaf_hash(entry: bytes) -> bytes:
    """Hash of an entry: a leaf of the tree."""
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of the node above two subtrees."""
    return hashlib.sha256(b"\1" + left + right).digest()


class MerkleTree:
    """An append-only tree in memory, with the hashes of all complete subtrees: 64 bytes a leaf.

    `levels[k][i]` is the root of the leaves from i 2^k to (i + 1) 2^k.
    """

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self.levels[0])

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash."""
        self.levels[0].append(leaf)
        level = 0
        while len(self.levels[level]) % 2 == 0:
            if level + 1 == len(self.levels):
                self.levels.append([])
            left, right = self.levels[level][-2:]
            self.levels[level + 1].append(node_hash(left, right))
            level += 1

    def root(self, size: int | None = None) -> bytes:
        """Root of the first `size` leaves, all of them by default."""
        size = self.size if size is None else self._check_size(size)
        return self._root(0, size) if size else EMPTY_ROOT

    def inclusion_proof(self, index: int, size: int | None = None) -> list[bytes]:
        """Hashes that lead from leaf `index` to the root of the first `size` leaves."""
        size = self.size if size is None else self._check_size(size)
        if not 0 <= index < size:
            raise ValueError(f"there is no leaf {index} among the first {size}")
        return self._path(index, 0, size)

    def consistency_proof(self, old: int, size: int | None = None) -> list[bytes]:
        """Hashes that show that the first `old` leaves begin the first `size` leaves."""
        size = self.size if size is None else self._check_size(size)
        if not 0 <= old <= size:
            raise ValueError(f"a consistency proof needs an old size from 0 to {size}, not {old}")
        if old in {0, size}:
            return []
        return self._subproof(old, 0, size, is_outer=True)

    def _check_size(self, size: int) -> int:
        if not 0 <= size <= self.size:
            raise ValueError(f"the tree has {self.size} leaves, fewer than {size}")
        return size

    def _root(self, begin: int, end: int) -> bytes:
        width = end - begin
        level = width.bit_length() - 1
        # Begins of subtrees are multiples of their width, by the way trees are split.
        if width == 1 << level:
            return self.levels[level][begin >> level]
        middle = begin + _left_width(width)
        return node_hash(self._root(begin, middle), self._root(middle, end))

    def _path(self, index: int, begin: int, end: int) -> list[bytes]:
        if end - begin == 1:
            return []
        middle = begin + _left_width(end - begin)
        if index < middle:
            return [*self._path(index, begin, middle), self._root(middle, end)]
        return [*self._path(index, middle, end), self._root(begin, middle)]

    def _subproof(self, old: int, begin: int, end: int, *, is_outer: bool) -> list[bytes]:
        if old == end:
            return [] if is_outer else [self._root(begin, end)]
        middle = begin + _left_width(end - begin)
        if old <= middle:
            rest = self._root(middle, end)
            return [*self._subproof(old, begin, middle, is_outer=is_outer), rest]
        rest = self._root(begin, middle)
        return [*self._subproof(old, middle, end, is_outer=False), rest]


def _left_width(width: int) -> int:
    """The largest power of two below `width`; `width` is at least 2."""
    return 1 << ((width - 1).bit_length() - 1)


def check_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf has this index in the tree of this size and root.

    Raises:
        LogProofError: the proof does not show it.
    """
    if not 0 <= index < size:
        raise LogProofError(f"a log of {size} entries has no entry {index}")
    node, last = index, size - 1
    computed = leaf
    for sibling in proof:
        if last == 0:
            raise LogProofError("the inclusion proof has more hashes than the tree has levels")
        if node % 2 == 1 or node == last:
            computed = node_hash(sibling, computed)
            while node % 2 == 0 and node:
                node >>= 1
                last >>= 1
        else:
            computed = node_hash(computed, sibling)
        node >>= 1
        last >>= 1
    if last or computed != root:
        raise LogProofError(f"the proof does not show that entry {index} is in the log")


def check_consistency(
    old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> None:
    """Check that the first `old` leaves of a tree of `size` leaves have the root `old_root`.

    Raises:
        LogProofError: the proof does not show it; one of the two histories may be a fork.
    """
    if not 0 <= old <= size:
        raise LogProofError(f"the log shrank from {old} entries to {size}")
    if old in {0, size}:
        if proof or (old == size and old_root != root) or (old == 0 and old_root != EMPTY_ROOT):
            raise LogProofError(
                f"there are two different logs of {old} entries: the log shows two histories"
            )
        return
    before, after = _fold_consistency(old, old_root, size, list(proof))
    if before != old_root or after != root:
        raise LogProofError(
            f"the first {old} entries of the log differ from those that it showed before: it "
            "shows two histories"
        )


def _fold_consistency(
    old: int, old_root: bytes, size: int, hashes: list[bytes]
) -> tuple[bytes, bytes]:
    """The old and the new root that follow from a consistency proof."""
    node, last = old - 1, size - 1
    while node % 2 == 1:
        node >>= 1
        last >>= 1
    if node and not hashes:
        raise LogProofError("the consistency proof is empty")
    # An old tree that is one complete subtree is itself the first hash.
    before = after = hashes.pop(0) if node else old_root
    for sibling in hashes:
        if last == 0:
            raise LogProofError("the consistency proof has more hashes than the tree has levels")
        if node % 2 == 1 or node == last:
            before = node_hash(sibling, before)
            after = node_hash(sibling, after)
            while node % 2 == 0 and node:
                node >>= 1
                last >>= 1
        else:
            after = node_hash(after, sibling)
        node >>= 1
        last >>= 1
    if last:
        raise LogProofError("the consistency proof has too few hashes")
    return before, after
