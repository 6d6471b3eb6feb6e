"""Finds a user's own messages on a published board: in all of it, in a tile, or in a sample.

What a request tells the server, and how many messages are checked: docs/tiles.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from enum import StrEnum
from typing import Final, Protocol

from shuffledp_client.board import CheckedResult, changed_messages, check_board
from shuffledp_client.submission import PreparedSubmission
from shuffledp_core.documents.models import Result
from shuffledp_core.errors import (
    ClientPolicyRefusal,
    MalformedDocumentError,
    ReceiptMissingError,
)
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.transparency.board_tiles import read_tile, tile_bits, tile_of

TILE_CROWD: Final = 1000
"""Fewest honest people who share a tile on average, by default."""

_DRAW_BYTES: Final = 16


class ReceiptCheck(StrEnum):
    """Method by which a device finds its messages on the board.

    BOARD: it fetches the whole board, and its request reveals nothing. TILE: it fetches the tile of
    one of its messages. SAMPLE: it fetches a tile drawn at random, and checks its messages there,
    if it has any; its request reveals nothing.
    """

    BOARD = "board"
    TILE = "tile"
    SAMPLE = "sample"


class BoardSource(Protocol):
    """Source of a board and its tiles, all unverified."""

    async def board(self, round_id: str, length: int) -> bytes:
        """The whole board; raises `BadBatchError` if another length arrives."""
        ...

    async def tile(self, round_id: str, index: int) -> bytes:
        """One tile of the board."""
        ...


async def find_messages(
    source: BoardSource,
    verified: CheckedResult,
    submission: PreparedSubmission,
    check: ReceiptCheck = ReceiptCheck.BOARD,
    crowd: int = TILE_CROWD,
) -> CheckedResult:
    """Check that a submission's messages are on the board, and return how many were found.

    Args:
        source: source of board and tiles.
        verified: the result, checked.
        submission: submission of this round.
        check: what is fetched: the board, the message's tile, or a random tile.
        crowd: for `ReceiptCheck.TILE`, the fewest honest people who must share a tile on average.

    Raises:
        BadBatchError: the received board or tile is not the one that the analyst signed.
        ReceiptMissingError: a message is not there.
        FalseResultError: the whole board does not give the signed answer or tiles.
        ClientPolicyRefusal: the request of a tile would reveal more than `crowd` allows.
        MalformedDocumentError: a tile is wanted, but the result has no tiles.
    """
    geometry, result = submission.geometry, verified.result
    packed = submission.messages
    if check is ReceiptCheck.BOARD:
        length = result.messages * geometry.plain_bytes
        board = await source.board(submission.round_id, length)
        check_board(verified, geometry, board, [packed])
        return replace(verified, found=geometry.messages_per_user)
    bits = tile_bits(result.messages, geometry)
    index = _draw(submission.seed, "sample", 1 << bits)
    mine = _messages_of(packed, geometry)
    if check is ReceiptCheck.TILE:
        _require_crowd(verified, bits, crowd)
        # Drawn from the submission's secret seed: asked again, it names the same tile.
        index = tile_of(mine[_draw(submission.seed, "tile", len(mine))], bits, geometry)
    tile = await source.tile(submission.round_id, index)
    return replace(verified, found=check_tile(result, geometry, index, tile, mine))


def check_tile(
    result: Result, geometry: Geometry, index: int, tile: bytes, mine: list[bytes]
) -> int:
    """Check that a user's messages in a tile are there once and unchanged; return their number.

    Raises:
        BadBatchError: the tile is not the one that the analyst signed.
        ReceiptMissingError: a message that belongs to it is not there.
        MalformedDocumentError: the result has no tiles.
    """
    root = result.tiles_root
    if not isinstance(root, str):
        raise MalformedDocumentError(
            "the result lists no tiles, because the analyst runs an earlier version; check with "
            'the whole board (receipts = "board")'
        )
    bits = tile_bits(result.messages, geometry)
    packed = read_tile(tile, index, bits, geometry, bytes.fromhex(root))
    expected = [message for message in mine if tile_of(message, bits, geometry) == index]
    changed = int(changed_messages(geometry, packed, b"".join(expected)).sum())
    if changed:
        raise ReceiptMissingError(
            f"{changed} of {len(expected)} messages are not on the board unchanged, in tile "
            f"{index}; keep the receipt: it is evidence"
        )
    return len(expected)


def _require_crowd(verified: CheckedResult, bits: int, crowd: int) -> None:
    """Check that enough other people's messages are in the tile (docs/accounting.md, C22)."""
    if bits == 0:  # the tile is the board
        return
    final, mechanism = verified.final, verified.final.mechanism
    remedy = 'check with a random tile (receipts = "sample") or the whole board ("board")'
    if mechanism.messages_per_user > 1 or mechanism.dummies_per_node or not mechanism.needs_crowd:
        raise ClientPolicyRefusal(
            f"nothing is certified about what a request for the tile of a {mechanism.kind} "
            f"message reveals; {remedy}"
        )
    honest = final.honest >> bits
    if honest < crowd:
        raise ClientPolicyRefusal(
            f"about {honest:,} honest people share a tile of this board, fewer than the required "
            f"tile_crowd = {crowd:,}; {remedy}"
        )


def _messages_of(packed: bytes, geometry: Geometry) -> list[bytes]:
    width = geometry.plain_bytes
    return [packed[start : start + width] for start in range(0, len(packed), width)]


def _draw(seed: bytes, label: str, below: int) -> int:
    """A number below a bound, uniform up to 2^-96, from a seed that stays on the device."""
    hashed = hashlib.sha256(f"shuffledp/v1/receipts/{label}\0".encode() + seed).digest()
    return int.from_bytes(hashed[:_DRAW_BYTES], "big") % below
