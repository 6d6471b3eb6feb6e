"""Arithmetic of buckets: the number of buckets for a batch, so that each fits into memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from shuffledp_core.errors import NodeFault

MEMORY_BYTES: Final = 128 * 2**20
"""Default of `[mixing] memory`; up to half a million records of 65 bytes never touch the disk."""

LEAST_MEMORY_BYTES: Final = 2**20
MOST_MEMORY_BYTES: Final = 2**40

SEGMENT_BYTES: Final = 2**18
"""Most bytes that are sealed and written at once."""

MOST_BUCKETS: Final = 2**16
"""Labels have two bytes."""

_OVERFLOW: Final = 64 * math.log(2)
"""-ln of the probability, 2^-64, with which any of the buckets may overflow.
"""


@dataclass(frozen=True)
class Layout:
    """Layout of rows in buckets: bucket count (a power of two), rows per bucket, rows per write.

    With one bucket, a segment is as long as the bucket, so that nothing is written.
    """

    buckets: int
    capacity: int
    segment: int


def layout(rows: int, width: int, working: int, memory: int) -> Layout:
    """Choose the number of buckets: one if all rows, and the work on them, fit into `memory`.

    Otherwise it is the smallest number for which a bucket fits into half of the memory. The other
    half is for the segments that are being filled.

    Args:
        rows: number of rows in all.
        width: length of a row in bytes.
        working: working memory per row of a bucket in bytes, in addition to the row.
        memory: bytes available.

    Raises:
        NodeFault: no number of buckets is enough; the message names the setting to raise.
    """
    if rows * (width + working) <= memory:
        return Layout(1, max(rows, 1), max(rows, 1))
    half, buckets = memory // 2, 2
    room = half // (width + working)
    while buckets <= MOST_BUCKETS:
        segment = min(SEGMENT_BYTES, half // buckets) // width
        if segment and fullest(rows, buckets) <= room:
            return Layout(buckets, room, segment)
        buckets *= 2
    raise NodeFault(
        f"mixing {rows} records of {width} bytes needs more memory than this node may use: raise "
        "`[mixing] memory`"
    )


def fullest(rows: int, buckets: int) -> int:
    """Largest number of rows in any of the buckets, exceeded with probability at most 2^-64.

    Bernstein's inequality: P(X - mu >= t) <= exp(-t^2 / (2 (mu + t / 3))) for a binomial X of mean
    mu, whose variance is at most mu; then a union bound over the buckets. The result is never too
    small.
    """
    mean = rows / buckets
    exponent = _OVERFLOW + math.log(buckets)
    excess = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * exponent * mean)
    return min(rows, math.ceil(mean + excess))
