"""From the last node's packed batch to symbol counts. Pure: bytes in, counts or one typed error out.

A plain message is `symbol || tag`: the symbol big endian in `geometry.symbol_bytes`, then the receipt tag.
docs/protocol.md, section "Board".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import BadBatchError, CountMismatchError
from shuffledp_core.onion.geometry import TAG_BYTES, Geometry

Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]
"""Packed records; a memory-mapped file for a large board."""


@dataclass(frozen=True)
class Board:
    """A checked board: how many messages, and how often each symbol occurs."""

    messages: int
    counts: tuple[int, ...]


def decode(packed: Bytes, geometry: Geometry, alphabet: int, accepted: int) -> Board:
    """Checks a whole batch and counts its symbols; steps of docs/protocol.md, "Board".

    1. A whole number of records.
    2. As many as accepted reports times messages per report.
    3. Every symbol is inside the alphabet.
    4. No receipt tag occurs twice.

    Args:
        packed: the batch as it was delivered.
        geometry: lengths of the round.
        alphabet: number of different symbols of the mechanism.
        accepted: reports that the entry node accepted, at least 1.

    Raises:
        BadBatchError: step 1, 3 or 4.
        CountMismatchError: step 2.
    """
    data = np.frombuffer(packed, dtype=np.uint8) if not isinstance(packed, np.ndarray) else packed
    if len(data) % geometry.plain_bytes:  # 1
        raise BadBatchError(
            f"{len(data)} bytes are not a whole number of {geometry.plain_bytes}-byte messages: the batch is torn"
        )
    records = data.reshape(-1, geometry.plain_bytes)
    expected = accepted * geometry.messages_per_user
    if len(records) != expected:  # 2
        raise CountMismatchError(
            f"the last node delivered {len(records)} messages where {accepted} accepted reports make {expected}"
        )
    counts = _count(records[:, : geometry.symbol_bytes], alphabet)  # 3
    _check_unique(records[:, geometry.symbol_bytes :])  # 4
    return Board(messages=len(records), counts=tuple(counts.tolist()))


def _count(columns: NDArray[np.uint8], alphabet: int) -> NDArray[np.int64]:
    symbols = np.zeros(len(columns), dtype=np.uint32)
    for column in columns.T:
        symbols = (symbols << np.uint32(8)) | column
    if len(symbols) and int(symbols.max()) >= alphabet:
        wrong = int(np.count_nonzero(symbols >= alphabet))
        raise BadBatchError(f"{wrong} of {len(symbols)} messages carry a symbol outside 0..{alphabet - 1}")
    return np.bincount(symbols, minlength=alphabet)


def _check_unique(tags: NDArray[np.uint8]) -> None:
    """Exact for every input: halves are sorted first, and only rows whose first half repeats are compared whole."""
    half = TAG_BYTES // 2
    first = np.ascontiguousarray(tags[:, :half]).view(np.uint64).ravel()
    ordered = np.sort(first)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(repeated):
        return
    among = np.isin(first, repeated)
    second = np.ascontiguousarray(tags[among, half:]).view(np.uint64).ravel()
    duplicates = _repeats((first[among], second))
    if duplicates:
        raise BadBatchError(f"{duplicates} of {len(tags)} receipt tags occur again: messages were copied on the way")


def _repeats(columns: Sequence[NDArray[np.uint64]]) -> int:
    order = np.lexsort(columns)
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for column in columns:
        ordered = column[order]
        same &= ordered[1:] == ordered[:-1]
    return int(np.count_nonzero(same))
