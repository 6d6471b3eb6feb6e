"""Bytes that a device fetches to find its message, and the cost of making tiles (docs/tiles.md).

One row for each board of 10^4 to 10^7 messages, and one for 10^8 from the law of the tiles' sizes.
"""

from __future__ import annotations

import secrets
import statistics
import time
from typing import Final

from scipy.stats import poisson

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.transparency.board_tiles import TiledBoard, read_tile, tile_bits

GEOMETRY: Final = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
MEASURED: Final = range(4, 8)
EXTRAPOLATED: Final = 10**8
READS: Final = 20


def measure(messages: int) -> list[str]:
    """A table row: messages, board, tiles, sizes with proofs, seconds to make, ms to check."""
    board = secrets.token_bytes(messages * GEOMETRY.plain_bytes)
    began = time.process_time()
    tiled = TiledBoard.of(board, GEOMETRY)
    seconds = time.process_time() - began
    sizes = [len(tile) for tile in tiled.tiles()]
    checks = []
    for _ in range(READS):
        index = secrets.randbelow(1 << tiled.bits)
        tile = tiled.tile(index)
        began = time.process_time()
        read_tile(tile, index, tiled.bits, GEOMETRY, tiled.root)
        checks.append(time.process_time() - began)
    return [
        f"{messages:,}",
        f"{len(board) / 1e6:,.1f}",
        f"{1 << tiled.bits:,}",
        f"{statistics.mean(sizes):,.0f}",
        f"{max(sizes):,}",
        f"{seconds:.2f}",
        f"{1000 * statistics.median(checks):.2f}",
    ]


def extrapolate(messages: int) -> list[str]:
    """A table row by the Poisson law of messages per tile, exceeded with probability 10^-9."""
    width, bits = GEOMETRY.plain_bytes, tile_bits(messages, GEOMETRY)
    mean, proof = messages / 2**bits, 32 * bits
    largest = proof + width * int(poisson.isf(1e-9 / 2**bits, mean))
    sizes = [f"{proof + width * mean:,.0f}", f"{largest:,}"]
    return [f"{messages:,}", f"{messages * width / 1e6:,.1f}", f"{1 << bits:,}", *sizes, "", ""]


def run() -> None:
    """Print the table of measured and extrapolated boards."""
    print("| messages | board, MB | tiles | mean tile, bytes | largest | s to make | ms to check |")
    print("|---|---|---|---|---|---|---|")
    rows = [measure(10**power) for power in MEASURED]
    for row in [*rows, extrapolate(EXTRAPOLATED)]:
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    run()
