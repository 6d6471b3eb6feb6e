"""Detection of duplicate onions in a batch: a copied onion could be traced through the mix by its copy."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.randomness import RandomBytes
from shuffledp_shuffler.permutation import Records

_ROWS: Final = 2**16
"""Number of records hashed at a time, which bounds the working copy to some megabytes."""


def repeated(records: Records, random: RandomBytes) -> NDArray[np.intp]:
    """Places of the records that are equal to an earlier one, ascending; exact, in O(N log N) time and 16 N bytes.

    Records are hashed to 64 bits with fresh random multipliers; only records whose hashes meet are then compared byte
    by byte. Whoever prepares records that meet makes this slower, by a constant factor, and never wrong.
    """
    hashes = _hashes(records, random)
    order = np.argsort(hashes)
    ranked = hashes[order]
    meets = ranked[1:] == ranked[:-1]
    if not bool(meets.any()):
        return np.empty(0, dtype=np.intp)
    suspects = np.sort(order[np.concatenate(([False], meets)) | np.concatenate((meets, [False]))])
    seen: set[bytes] = set()
    again: list[int] = []
    for place in suspects.tolist():
        record = records[place].tobytes()
        # Whole records, not hashes: one that meets another's hash by chance is no copy and must go on.
        if record in seen:
            again.append(place)
        seen.add(record)
    return np.array(again, dtype=np.intp)


def _hashes(records: Records, random: RandomBytes) -> NDArray[np.uint64]:
    count, width = records.shape
    words = -(-width // 8)
    # Odd, so that each multiplier is invertible modulo 2^64: records that differ in one word never meet.
    factors = np.frombuffer(random(8 * words), dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(count, dtype=np.uint64)
    padded = np.zeros((min(count, _ROWS), 8 * words), dtype=np.uint8)
    for start in range(0, count, _ROWS):
        rows = records[start : start + _ROWS]
        # The bytes behind `width` stay zero, so that padding never tells two equal records apart.
        padded[: len(rows), :width] = rows
        hashes[start : start + len(rows)] = padded[: len(rows)].view(np.uint64) @ factors
    return hashes
