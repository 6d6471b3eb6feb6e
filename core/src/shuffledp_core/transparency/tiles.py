"""A transparency log as static files, in the layout of C2SP tlog-tiles.

Below the log's address lie `checkpoint`, the tree in tiles of 256 hashes (`tile/L/N`: the roots of
256^L leaves each), and the entries in bundles of 256 (`tile/entries/N`). A tile that is not full
yet is named after its width (`N.p/W`), so that no file ever changes but the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from shuffledp_core.errors import MalformedDocumentError
from shuffledp_core.transparency.tree import HASH_BYTES, MerkleTree

TILE_WIDTH: Final = 256
"""Hashes of a full tile, and entries of a full bundle."""

TILE_LEVELS: Final = 8
"""Levels of the tree between the hashes of a tile and those of the tile above."""

CHECKPOINT_PATH: Final = "checkpoint"

MAX_ENTRY_BYTES: Final = 2**16 - 1
"""Longest entry: a bundle writes lengths in two bytes."""

MAX_BUNDLE_BYTES: Final = TILE_WIDTH * (MAX_ENTRY_BYTES + 2)

PARTIAL_SUFFIX: Final = ".p"
"""Suffix of the folder with the tiles that are not full yet."""

_LENGTH_BYTES: Final = 2


def tile_path(level: int, index: int, width: int) -> str:
    """Path of the tile that holds `width` hashes."""
    return f"tile/{level}/{_index_path(index)}{_partial(width)}"


def bundle_path(index: int, width: int) -> str:
    """Path of the bundle that holds `width` entries."""
    return f"tile/entries/{_index_path(index)}{_partial(width)}"


def _index_path(index: int) -> str:
    """An index in a path: groups of three digits, "x" before all but the last (x001/x234/067)."""
    groups = [f"{index % 1000:03}"]
    while index >= 1000:
        index //= 1000
        groups.append(f"x{index % 1000:03}")
    return "/".join(reversed(groups))


def _partial(width: int) -> str:
    if not 1 <= width <= TILE_WIDTH:
        raise ValueError(f"a tile must have 1 to {TILE_WIDTH} hashes, not {width}")
    return "" if width == TILE_WIDTH else f"{PARTIAL_SUFFIX}/{width}"


def tiles_since(tree: MerkleTree, old: int) -> Iterator[tuple[str, bytes]]:
    """Path and content of every tile of a tree that a log of only `old` leaves does not have."""
    level = 0
    while (tree.size >> (TILE_LEVELS * level)) > 0:
        depth = TILE_LEVELS * level
        hashes = tree.levels[depth]
        for index, begin, end in _spans(old >> depth, tree.size >> depth):
            yield tile_path(level, index, end - begin), b"".join(hashes[begin:end])
        level += 1


def bundles_between(old: int, size: int) -> Iterator[tuple[str, int, int]]:
    """Path, begin and end entry of every bundle that a log of only `old` entries does not have."""
    for index, begin, end in _spans(old, size):
        yield bundle_path(index, end - begin), begin, end


def _spans(old: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Index, begin and end of every tile of `size` items that has items from `old` on."""
    if old >= size:
        return
    for index in range(old // TILE_WIDTH, -(-size // TILE_WIDTH)):
        begin = index * TILE_WIDTH
        yield index, begin, min(begin + TILE_WIDTH, size)


def pack_bundle(entries: Sequence[bytes]) -> bytes:
    """The file of a bundle: every entry behind its length.

    Raises:
        ValueError: an entry is longer than `MAX_ENTRY_BYTES`.
    """
    for entry in entries:
        if len(entry) > MAX_ENTRY_BYTES:
            raise ValueError(
                f"an entry of {len(entry)} bytes is longer than the {MAX_ENTRY_BYTES} that a log "
                "entry may have"
            )
    return b"".join(len(entry).to_bytes(_LENGTH_BYTES, "big") + entry for entry in entries)


def unpack_bundle(data: bytes, width: int) -> list[bytes]:
    """The entries of a bundle.

    Raises:
        MalformedDocumentError: the bundle does not hold exactly `width` entries.
    """
    entries: list[bytes] = []
    position = 0
    while position < len(data) and len(entries) < width:
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        entries.append(data[start:position])
    if position != len(data) or len(entries) != width:
        raise MalformedDocumentError(
            f"a bundle of the log does not consist of {width} whole entries"
        )
    return entries


def unpack_tile(data: bytes, width: int) -> list[bytes]:
    """The hashes of a tile.

    Raises:
        MalformedDocumentError: the tile does not hold exactly `width` hashes.
    """
    if len(data) != width * HASH_BYTES:
        raise MalformedDocumentError(f"a tile of the log does not consist of {width} hashes")
    return [data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES)]


def leaf_tiles(size: int) -> Iterator[tuple[str, int]]:
    """Path and width of every leaf tile of a log of this size."""
    for index, begin, end in _spans(0, size):
        yield tile_path(0, index, end - begin), end - begin
