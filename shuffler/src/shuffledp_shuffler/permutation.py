"""Uniform labels and permutations from the OS's CSPRNG, and packed records (invariant 3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.sampling.randomness import RandomBytes

Records = NDArray[np.uint8]
"""Packed records, shape (number of records, bytes of a record)."""


def uniform_permutation(count: int, random: RandomBytes) -> NDArray[np.intp]:
    """Draw an exactly uniform permutation of {0..count-1}.

    Records are sorted by independent uniform 64-bit keys. If all keys differ, every order is
    equally likely; if two are equal (probability below count^2 / 2^65), all are drawn again, so
    that the sorting algorithm never decides the order of a tie.

    Args:
        count: number of records, at least 0.
        random: source of uniform bytes; services pass the operating system's.

    Returns:
        Shape (count,); output record i is input record `result[i]`.
    """
    while True:
        keys = np.frombuffer(random(8 * count), dtype=np.uint64)
        order = np.argsort(keys)
        ranked = keys[order]
        if not bool(np.any(ranked[1:] == ranked[:-1])):
            return order


def uniform_labels(count: int, buckets: int, random: RandomBytes) -> NDArray[np.uint16]:
    """Draw `count` independent labels, each exactly uniform on {0..buckets-1}.

    With one bucket nothing is drawn.

    Args:
        count: number of records, at least 0.
        buckets: a power of two, at most 2^16, so that two uniform bytes give a uniform label.
        random: source of uniform bytes; services pass the operating system's.

    Returns:
        Shape (count,).
    """
    if buckets & (buckets - 1) or not 1 <= buckets <= 2**16:
        raise ValueError(f"buckets must be a power of two up to 65536, not {buckets}")
    if buckets == 1:
        return np.zeros(count, dtype=np.uint16)
    return np.frombuffer(random(2 * count), dtype=np.uint16) & np.uint16(buckets - 1)


def permuted_pieces(records: Records, order: NDArray[np.intp], piece_bytes: int) -> Iterator[bytes]:
    """The records in the given order, packed, in pieces of about `piece_bytes`.

    Needs memory for one piece.
    """
    rows = max(1, piece_bytes // records.shape[1])
    for start in range(0, len(order), rows):
        yield records[order[start : start + rows]].tobytes()
