"""From the last node's packed batch to symbol counts.

Pure: bytes in, counts or one typed error out.

A plain message is `symbol || tag`: the symbol big endian in `geometry.symbol_bytes`, then the
receipt tag. In a verified round it is `key || symbol || proof`, and the key takes the tag's part.
docs/protocol.md, section "Board".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import BadBatchError, CountMismatchError
from shuffledp_core.onion.geometry import Geometry

_WORD: Final = 8

Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]
"""Packed records; a memory-mapped file for a large board."""


@dataclass(frozen=True)
class Board:
    """Counts of a board: how often each symbol occurs, and how many messages are invalid.

    Attributes:
        messages: number of all messages on it.
        counts: how often each symbol occurs among the messages that count, or what else the
            mechanism keeps of them.
        outside: messages with a symbol outside the alphabet; they do not count.
        repeated: messages with a symbol of the alphabet whose tag is on the board more than once;
            none of them counts, since the genuine one cannot be recognised.
    """

    messages: int
    counts: tuple[int, ...]
    outside: int = 0
    repeated: int = 0

    @property
    def invalid(self) -> int:
        """Number of messages that do not count; a client that follows the protocol sends none."""
        return self.outside + self.repeated


def decode(
    packed: Bytes,
    geometry: Geometry,
    alphabet: int,
    accepted: int,
    dropped: int = 0,
    counts_of: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
) -> Board:
    """Check a batch's length, and count its symbols; steps of docs/protocol.md, "Board".

    1. A whole number of records.
    2. As many as accepted reports times messages per report, and the dummies of every node, less
       those that the nodes dropped.
    3. Messages with a symbol outside the alphabet are left out, and their number is recorded. 4.
       Messages whose receipt tag occurs more than once are left out and recorded likewise.

    A single client can send the messages that steps 3 and 4 leave out; it must not cost the others
    their answer or their budget.

    Args:
        packed: the batch as it was delivered.
        geometry: lengths of the round.
        alphabet: number of different symbols of the mechanism.
        accepted: reports that the entry node accepted, at least 1.
        dropped: onions that the nodes of the route say they dropped.
        counts_of: the mechanism's; None for the occurrences of each symbol.

    Raises:
        BadBatchError: step 1.
        CountMismatchError: step 2.
    """
    data = np.frombuffer(packed, dtype=np.uint8) if not isinstance(packed, np.ndarray) else packed
    if len(data) % geometry.plain_bytes:  # 1
        raise BadBatchError(
            f"the batch has {len(data)} bytes, not a whole number of {geometry.plain_bytes}-byte "
            "messages: it is damaged"
        )
    records = data.reshape(-1, geometry.plain_bytes)
    expected = geometry.count_records(geometry.hops + 1, accepted, dropped)
    if len(records) != expected:  # 2
        raise CountMismatchError(
            f"the last node delivered {len(records)} messages, but {accepted} accepted reports "
            f"and {geometry.hops * geometry.dummies_per_node} dummies, less {dropped} dropped "
            f"messages, make {expected}"
        )
    symbols = _symbols(records[:, geometry.symbol_at])
    inside = symbols < alphabet  # 3
    unique = ~_shared(records[:, geometry.tag_at])  # 4
    counting = symbols[inside & unique].astype(np.int64)
    counts = np.bincount(counting, minlength=alphabet) if counts_of is None else counts_of(counting)
    return Board(
        messages=len(records),
        counts=tuple(counts.tolist()),
        outside=int(np.count_nonzero(~inside)),
        repeated=int(np.count_nonzero(inside & ~unique)),
    )


def _symbols(columns: NDArray[np.uint8]) -> NDArray[np.uint32]:
    symbols = np.zeros(len(columns), dtype=np.uint32)
    for column in columns.T:
        symbols = (symbols << np.uint32(8)) | column
    return symbols


def _shared(tags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Mask of the rows that occur more than once; exact for every input.

    First words are sorted first, and only rows whose first word repeats are compared whole.
    """
    first = np.ascontiguousarray(tags[:, :_WORD]).view(np.uint64).ravel()
    ordered = np.sort(first)
    suspects = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    shared = np.zeros(len(tags), dtype=bool)
    if not len(suspects):
        return shared
    among = np.flatnonzero(np.isin(first, suspects))
    words = np.ascontiguousarray(tags[among]).view(np.uint64).T
    order = np.lexsort(words[::-1])
    ranked = words[:, order]
    same = np.all(ranked[:, 1:] == ranked[:, :-1], axis=0)
    shared[among[order[np.concatenate(([False], same)) | np.concatenate((same, [False]))]]] = True
    return shared
