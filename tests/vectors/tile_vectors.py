"""Vectors of tiles: the messages of a board whose receipt tags begin with the same bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vector_cases import Case, Fields, make_case, plain
from vector_world import derive

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.transparency.board_tiles import TiledBoard, tile_bits
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash

GEOMETRY = Geometry(suite="hpke", hops=3, messages_per_user=2, symbol_bytes=1)
MESSAGES = 10_000
"""Stated by the result. Nothing says how many of them a tile has, so that these hold a few."""

BITS = tile_bits(MESSAGES, GEOMETRY)
INDEX = 5


def message_in(index: int, number: int) -> bytes:
    """A message of a tile."""
    drawn = int.from_bytes(derive("tile", index, number, size=17), "big")
    below = 128 - BITS
    tag: int = drawn % (1 << below) + (index << below)
    return bytes([number % 4]) + tag.to_bytes(16, "big")


MINE = (message_in(INDEX, 0), message_in(2, 0))


def tiles() -> Iterator[Case]:
    """Tiles of a board, and a user's messages in them."""
    full = sorted([MINE[0], *(message_in(INDEX, number) for number in range(1, 6))], key=order_of)
    place = full.index(MINE[0])
    missing, bad = "ReceiptMissingError", "BadBatchError"
    yield tile_case("a tile with a message of the user", full)
    others = sorted((message_in(3, number) for number in range(1, 4)), key=order_of)
    yield tile_case("a tile without one", others, index=3)
    yield tile_case("an empty tile", [], index=3)
    yield tile_case("the last tile", [message_in(7, 1)], index=7)
    yield tile_case("the user's message is missing", full[:place] + full[place + 1 :], missing)
    symbol = bytes([MINE[0][0] ^ 1]) + MINE[0][1:]
    yield tile_case(
        "the user's message has another symbol",
        [*full[:place], symbol, *full[place + 1 :]],
        missing,
    )
    for name, other in (("is there twice", MINE[0]), ("shares its tag", symbol)):
        doubled = sorted([*full, other], key=order_of)
        yield tile_case(f"the user's message {name}", doubled, missing)
    yield tile_case("a message of another tile", [*full, message_in(6, 1)], bad)
    yield tile_case("another order", full[::-1], bad)
    swapped = sorted([*full, symbol], key=order_of)
    first = swapped.index(min(symbol, MINE[0]))
    swapped[first : first + 2] = swapped[first : first + 2][::-1]
    yield tile_case("another order within a tag", swapped, bad)
    genuine = tile_fields(full)
    tile = genuine["tile"]
    lies: dict[str, Fields] = {
        "another root": {"tiles_root": "ab" * 32},
        "another index": {"index": INDEX - 1},
        "another number of tiles": {"count": 4 * MESSAGES},
        "an altered message": {"tile": tile[:-1] + ("0" if tile[-1] != "0" else "1")},
        "a byte less": {"tile": tile[:-2]},
        "a byte more": {"tile": f"{tile}00"},
        "half a proof": {"tile": tile[: 32 * BITS]},
        "nothing": {"tile": ""},
    }
    for name, changes in lies.items():
        yield make_case(f"a tile with {name}", "tile", genuine | changes, bad)
    none = genuine | {"tiles_root": None}
    yield make_case("a result without tiles", "tile", none, "MalformedDocumentError")
    board = sorted(full + [message_in(index, number) for index in range(8) for number in (7, 8)])
    tiled = TiledBoard.of(b"".join(board), GEOMETRY)
    small = {"count": len(board), "index": 0, "tiles_root": tiled.root.hex()}
    fields = genuine | small | {"tile": tiled.tile(0).hex(), "messages": [MINE[0].hex()]}
    yield make_case("a board of a single tile", "tile", fields)


def order_of(message: bytes) -> tuple[bytes, bytes]:
    """Messages of a tile are in the order of their tags, then of all their bytes."""
    return message[GEOMETRY.tag_at], message


def tile_fields(rows: Sequence[bytes], index: int = INDEX) -> Fields:
    """The input of a case: a tile with these messages, in a tree with other ones."""
    contents = [message_in(other, 1) for other in range(1 << BITS)]
    contents[index] = b"".join(rows)
    tree = MerkleTree(leaf_hash(content) for content in contents)
    return {
        "geometry": plain(GEOMETRY),
        "count": MESSAGES,
        "tiles_root": tree.root().hex(),
        "index": index,
        "tile": b"".join([*tree.inclusion_proof(index), contents[index]]).hex(),
        "messages": [message.hex() for message in MINE],
    }


def tile_case(
    name: str, rows: Sequence[bytes], error: str | None = None, index: int = INDEX
) -> Case:
    """A case with a tile of these messages, which the root covers."""
    return make_case(name, "tile", tile_fields(rows, index), error)
