"""A board split into tiles, so that a device can find its message in a small part of the board.

A tile holds all messages whose receipt tags begin with the same bits, and what leads from them to
the root that the analyst signs. docs/tiles.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import BadBatchError, LogProofError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.transparency.tree import (
    HASH_BYTES,
    MerkleTree,
    check_inclusion,
    leaf_hash,
)

MEAN_TILE_BYTES: Final = 40_000
"""Most bytes of messages that a tile has on average; it has more than half of them on boards that
are longer.
"""

MAX_TILE_BYTES: Final = 50_000
"""Longest tile with its proof that a device reads."""

MAX_TILE_BITS: Final = 24

_PREFIX_BYTES: Final = 4
_WORD_BYTES: Final = 8


def tile_bits(messages: int, geometry: Geometry) -> int:
    """Number of leading bits of a tag that select its tile; there are 2^bits tiles.

    It follows from the signed number of messages: an analyst could otherwise make tiles so small
    that a request gives away the message.
    """
    size = messages * geometry.plain_bytes
    bits = max(0, (-(-size // MEAN_TILE_BYTES) - 1).bit_length()) if size else 0
    return min(bits, MAX_TILE_BITS)


def tile_of(message: bytes, bits: int, geometry: Geometry) -> int:
    """Index of the tile that a plain message belongs to."""
    prefix = message[geometry.tag_at][:_PREFIX_BYTES]
    return int.from_bytes(prefix, "big") >> (8 * _PREFIX_BYTES - bits)


@dataclass(frozen=True)
class TiledBoard:
    """All messages of a board in the order of their tags, and the tree over its tiles."""

    bits: int
    rows: NDArray[np.uint8]
    begins: NDArray[np.int64]
    tree: MerkleTree

    @classmethod
    def of(cls, board: bytes | NDArray[np.uint8], geometry: Geometry) -> TiledBoard:
        """Sort a board's messages into tiles; takes about three times its memory.

        Args:
            board: all plain messages, packed, of any order.
            geometry: geometry of the round.

        Raises:
            ValueError: the length is not a whole number of messages.
        """
        width = geometry.plain_bytes
        packed = np.frombuffer(board, dtype=np.uint8) if isinstance(board, bytes) else board
        if packed.size % width:
            raise ValueError(
                f"the board has {packed.size} bytes, which is not a whole number of {width}-byte "
                "messages"
            )
        rows = _sorted_rows(packed.reshape(-1, width), geometry)
        bits = tile_bits(len(rows), geometry)
        begins = _begins_of(rows, bits, geometry)
        tree = MerkleTree(leaf_hash(rows[begin:end].tobytes()) for begin, end in pairwise(begins))
        return cls(bits, rows, begins, tree)

    @property
    def root(self) -> bytes:
        """Root of the Merkle tree over the messages of each tile."""
        return self.tree.root()

    def tile(self, index: int) -> bytes:
        """A tile as it is sent: the Merkle proof from the bottom up, then the tile's messages."""
        proof = b"".join(self.tree.inclusion_proof(index))
        return proof + self.rows[self.begins[index] : self.begins[index + 1]].tobytes()

    def tiles(self) -> Iterator[bytes]:
        """All tiles in order."""
        return (self.tile(index) for index in range(1 << self.bits))


def read_tile(tile: bytes, index: int, bits: int, geometry: Geometry, root: bytes) -> bytes:
    """Verify a tile; return its messages, all of the board whose tags begin with the tile's bits.

    1. It is no longer than a device reads, and holds a proof and whole messages.
    2. Its messages lead to the root.
    3. Each begins with its bits, and they are in the order of tags: one content, one encoding.

    Raises:
        BadBatchError: a step fails.
    """
    proof_bytes = HASH_BYTES * bits
    messages = tile[proof_bytes:]
    if len(tile) > MAX_TILE_BYTES:  # 1
        raise BadBatchError(
            f"tile {index} has {len(tile):,} bytes, more than the {MAX_TILE_BYTES:,} that a device "
            'reads; check with the whole board (receipts = "board")'
        )
    if len(tile) < proof_bytes or len(messages) % geometry.plain_bytes:
        raise BadBatchError(f"tile {index} does not consist of a proof and whole messages")
    hashes = [tile[at : at + HASH_BYTES] for at in range(0, proof_bytes, HASH_BYTES)]
    try:
        check_inclusion(leaf_hash(messages), index, 1 << bits, hashes, root)  # 2
    except LogProofError as error:
        raise BadBatchError(
            f"tile {index} is not the one that the analyst signed; fetch it again"
        ) from error
    rows = np.frombuffer(messages, dtype=np.uint8).reshape(-1, geometry.plain_bytes)
    is_sorted = np.array_equal(rows, _sorted_rows(rows, geometry))  # 3
    ends = (messages[: geometry.plain_bytes], messages[len(messages) - geometry.plain_bytes :])
    if not is_sorted or any(end and tile_of(end, bits, geometry) != index for end in ends):
        raise BadBatchError(
            f"tile {index} has messages that belong to another tile, or has them in another order"
        )
    return messages


def _sorted_rows(rows: NDArray[np.uint8], geometry: Geometry) -> NDArray[np.uint8]:
    """Messages sorted by their tags; messages with equal tags by all their bytes."""
    tags = np.ascontiguousarray(rows[:, geometry.tag_at])
    first = tags[:, :_WORD_BYTES].copy().view(">u8").ravel().astype(np.uint64)
    order = np.argsort(first, kind="stable")
    ordered = rows[order]
    keys = first[order]
    del first, order, tags
    # Nearly always all first words differ; runs of equal ones are made by people who repeat tags.
    ties = np.flatnonzero(keys[1:] == keys[:-1])
    for begin, end in _runs_of(ties):
        run = [bytes(row) for row in ordered[begin:end]]
        run.sort(key=lambda row: (row[geometry.tag_at], row))
        ordered[begin:end] = np.frombuffer(b"".join(run), dtype=np.uint8).reshape(end - begin, -1)
    return ordered


def _runs_of(ties: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal keys, from the positions that equal their successors."""
    if not len(ties):
        return
    breaks = np.flatnonzero(np.diff(ties) > 1)
    begins = ties[np.concatenate(([0], breaks + 1))]
    ends = ties[np.concatenate((breaks, [len(ties) - 1]))] + 2
    yield from zip(begins.tolist(), ends.tolist(), strict=True)


def _begins_of(rows: NDArray[np.uint8], bits: int, geometry: Geometry) -> NDArray[np.int64]:
    """Index of each tile's first message among the sorted messages, then the number of messages."""
    tags = np.ascontiguousarray(rows[:, geometry.tag_at][:, :_PREFIX_BYTES])
    prefixes = tags.view(">u4").ravel().astype(np.uint64) >> np.uint64(8 * _PREFIX_BYTES - bits)
    indices = np.arange((1 << bits) + 1, dtype=np.uint64)
    return np.searchsorted(prefixes, indices).astype(np.int64)
