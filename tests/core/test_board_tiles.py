"""A board in tiles: every message is in the one tile that its tag names, and nothing else is."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import BadBatchError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.transparency.board_tiles import (
    MAX_TILE_BYTES,
    MEAN_TILE_BYTES,
    TiledBoard,
    read_tile,
    tile_bits,
    tile_of,
)
from shuffledp_core.vocabulary import Mix

GEOMETRY = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
VERIFIED = Geometry(
    suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1, mix=Mix.VERIFIED
)


def random_board(messages: int, geometry: Geometry = GEOMETRY) -> bytes:
    return secrets.token_bytes(messages * geometry.plain_bytes)


def rows_of(packed: bytes, geometry: Geometry = GEOMETRY) -> list[bytes]:
    width = geometry.plain_bytes
    return [packed[start : start + width] for start in range(0, len(packed), width)]


def independent_root(board: bytes, geometry: Geometry = GEOMETRY) -> bytes:
    """The root from the page's words, without the code of tiles or trees."""
    rows = sorted(rows_of(board, geometry), key=lambda row: (row[geometry.tag_at], row))
    bits = 0
    while len(board) > MEAN_TILE_BYTES << bits:
        bits += 1
    level = []
    for index in range(1 << bits):
        mine = [
            row
            for row in rows
            if int.from_bytes(row[geometry.tag_at][:4], "big") >> (32 - bits) == index
        ]
        level.append(hashlib.sha256(b"\0" + b"".join(mine)).digest())
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [hashlib.sha256(b"\1" + left + right).digest() for left, right in pairs]
    return level[0]


@pytest.mark.parametrize("geometry", [GEOMETRY, VERIFIED])
@pytest.mark.parametrize("messages", [0, 1, 2, 2352, 2353, 20_000])
def test_all_tiles_together_are_the_board(messages: int, geometry: Geometry) -> None:
    board = random_board(messages, geometry)
    tiled = TiledBoard.of(board, geometry)
    assert tiled.root == independent_root(board, geometry)
    assert tiled.bits == tile_bits(messages, geometry)
    found: list[bytes] = []
    for index, tile in enumerate(tiled.tiles()):
        packed = read_tile(tile, index, tiled.bits, geometry, tiled.root)
        assert all(tile_of(row, tiled.bits, geometry) == index for row in rows_of(packed, geometry))
        found += rows_of(packed, geometry)
    assert sorted(found) == sorted(rows_of(board, geometry))


@settings(max_examples=50)
@given(st.data())
def test_the_order_of_the_board_does_not_matter_even_if_tags_repeat(
    data: st.DataObject,
) -> None:
    tags = [secrets.token_bytes(16), bytes(16), secrets.token_bytes(8) + bytes(8)]
    row = st.tuples(st.integers(0, 3), st.sampled_from(tags)).map(
        lambda pair: bytes([pair[0]]) + pair[1]
    )
    rows = data.draw(st.lists(row, max_size=40))
    mixed = data.draw(st.permutations(rows))
    one, other = (TiledBoard.of(b"".join(order), GEOMETRY) for order in (rows, mixed))
    assert (one.root, one.tile(0)) == (other.root, other.tile(0))
    assert one.root == independent_root(b"".join(rows))


def test_a_tile_on_average_has_more_than_half_of_the_bytes_that_it_may_have() -> None:
    width = GEOMETRY.plain_bytes
    for messages in (1, 2352, 2353, 4705, 4706, 10**6, 10**8):
        bits = tile_bits(messages, GEOMETRY)
        assert messages * width <= MEAN_TILE_BYTES << bits
        assert bits == 0 or messages * width > MEAN_TILE_BYTES << (bits - 1)


def test_a_tile_that_is_not_the_signed_one_is_refused() -> None:
    board = random_board(20_000)
    tiled = TiledBoard.of(board, GEOMETRY)
    proof, tile, other = 32 * tiled.bits, tiled.tile(3), tiled.tile(4)
    changed = bytearray(tile)
    changed[-20] ^= 1
    for lie in (
        b"",
        tile[:-1],
        tile[:-17],
        tile + tile[-17:],
        other,
        bytes(changed),
        bytes(32) + tile[32:],
        tile[:proof],
        tile[: proof - 1],
        other[:proof] + tile[proof:],
    ):
        with pytest.raises(BadBatchError):
            read_tile(lie, 3, tiled.bits, GEOMETRY, tiled.root)
    with pytest.raises(BadBatchError, match="not the one that the analyst signed"):
        read_tile(tile, 4, tiled.bits, GEOMETRY, tiled.root)


def test_an_analyst_cannot_sign_tiles_in_another_order_or_with_messages_of_others() -> None:
    rows = sorted(rows_of(random_board(9)), key=lambda row: row[1:])
    for order in (rows[::-1], [rows[1], rows[0], *rows[2:]]):
        packed = b"".join(order)
        root = hashlib.sha256(b"\0" + packed).digest()
        with pytest.raises(BadBatchError, match="another order"):
            read_tile(packed, 0, 0, GEOMETRY, root)
    wrong = b"\0" + b"\xff" * 16
    leaves = [hashlib.sha256(b"\0" + part).digest() for part in (wrong, b"")]
    root = hashlib.sha256(b"\1" + leaves[0] + leaves[1]).digest()
    with pytest.raises(BadBatchError, match="belong to another tile"):
        read_tile(leaves[1] + wrong, 0, 1, GEOMETRY, root)


def test_a_tile_that_someone_has_filled_up_is_not_read() -> None:
    board = b"".join(b"\0\0\0" + secrets.token_bytes(14) for _ in range(6000))
    tiled = TiledBoard.of(board, GEOMETRY)
    assert len(tiled.tile(0)) > MAX_TILE_BYTES
    with pytest.raises(BadBatchError, match='receipts = "board"'):
        read_tile(tiled.tile(0), 0, tiled.bits, GEOMETRY, tiled.root)


def test_a_board_that_is_not_whole_messages_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="whole number of"):
        TiledBoard.of(np.zeros(18, dtype=np.uint8), GEOMETRY)
