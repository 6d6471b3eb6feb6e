"""Refuses a batch in which an onion stands twice: a copied onion would be traced through the mix by its copy."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import BadBatchError
from shuffledp_core.randomness import RandomBytes
from shuffledp_shuffler.permutation import Records

_ROWS: Final = 2**16
"""Records hashed at a time: bounds the working copy to some megabytes."""


def count_repeated(records: Records, random: RandomBytes) -> int:
    """How many records are equal to an earlier one; exact, in O(N log N) time and 16 N bytes.

    Records are hashed to 64 bits with fresh random multipliers, so that nobody can prepare collisions that would
    make this slow; only records whose hashes meet are then compared byte by byte.
    """
    hashes = _hashes(records, random)
    order = np.argsort(hashes)
    ranked = hashes[order]
    meets = ranked[1:] == ranked[:-1]
    if not bool(meets.any()):
        return 0
    suspects = order[np.concatenate(([False], meets)) | np.concatenate((meets, [False]))]
    return len(suspects) - len({records[index].tobytes() for index in suspects})


def refuse_repeated(records: Records, random: RandomBytes) -> None:
    """Raises `BadBatchError` when any record stands in the batch more than once."""
    repeated = count_repeated(records, random)
    if repeated:
        raise BadBatchError(
            f"{repeated} of {len(records)} onions repeat another one of the batch; the round must be given up: "
            "somebody copies onions to trace them"
        )


def _hashes(records: Records, random: RandomBytes) -> NDArray[np.uint64]:
    count, width = records.shape
    words = -(-width // 8)
    factors = np.frombuffer(random(8 * words), dtype=np.uint64) | np.uint64(1)
    hashes = np.empty(count, dtype=np.uint64)
    padded = np.zeros((min(count, _ROWS), 8 * words), dtype=np.uint8)
    for start in range(0, count, _ROWS):
        rows = records[start : start + _ROWS]
        padded[: len(rows), :width] = rows
        hashes[start : start + len(rows)] = padded[: len(rows)].view(np.uint64) @ factors
    return hashes
