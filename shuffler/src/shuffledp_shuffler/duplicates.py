"""Detection of repeated onions in a batch: an adversary's copy could trace an onion.

Every record gets a tag under a fresh key, and the pairs (tag, address) go to buckets by their tags.
So equal records are in one bucket, and every bucket fits into memory. Only records whose tags are
equal are then fetched by their addresses, and compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_shuffler.layout import layout
from shuffledp_shuffler.permutation import Records
from shuffledp_shuffler.spill import Buckets

Tagger: TypeAlias = Callable[[Records], NDArray[np.uint64]]
"""Function from records to tags of one or two words each; equal records get equal tags."""

Fetch: TypeAlias = Callable[[NDArray[np.uint64]], Records]
"""Function from addresses to the records stored there."""

WIDE_BYTES: Final = 16
"""Length in bytes of the key of `wide_tagger`."""

_BLOCK_BYTES: Final = 16

_ROWS: Final = 2**14
"""Number of records that are tagged or compared at a time, so that the working copy takes a few
megabytes.
"""

_ENTRY: Final = np.dtype([("tag", np.uint64), ("address", np.uint64)])

_WORKING: Final = 64
"""Working memory per entry while equal tags are looked for, in bytes, besides the entry: order,
sorted tags, and joined entries.
"""


def tagger(random: RandomBytes) -> Tagger:
    """A pseudo-random function from records of one length to 64 bits, with a fresh key.

    Its tag is the first half of a `wide_tagger` tag.
    """
    wide = wide_tagger(random(WIDE_BYTES))
    return lambda records: wide(records)[:, 0]


def wide_tagger(key: bytes) -> Tagger:
    """A pseudo-random function from records of one length to 128 bits, with a 16-byte key.

    The 128 bits are two words.

    It is the CBC-MAC of AES (Bellare, Kilian, Rogaway 2000), a pseudo-random function as long as
    all messages have one length. Without the key no one can make different records with equal tags,
    or records that gather in one bucket.
    """
    # ECB over a column of blocks is one step of the CBC chains of all records together; no block
    # leaves this function.
    cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305

    def tags(records: Records) -> NDArray[np.uint64]:
        count, width = records.shape
        blocks = -(-width // _BLOCK_BYTES)
        all_tags = np.empty((count, 2), dtype=np.uint64)
        padded = np.zeros((min(count, _ROWS), blocks * _BLOCK_BYTES), dtype=np.uint8)
        encryptor = cipher.encryptor()
        for start in range(0, count, _ROWS):
            rows = records[start : start + _ROWS]
            padded[: len(rows), :width] = rows
            words = padded[: len(rows)].view(np.uint64)
            # As long as the library wants it for the general case, a block less one byte more than
            # is written.
            sealed = np.zeros(len(rows) * _BLOCK_BYTES + _BLOCK_BYTES - 1, dtype=np.uint8)
            state = sealed[: len(rows) * _BLOCK_BYTES].view(np.uint64).reshape(-1, 2)
            mixed = np.empty_like(state)
            for block in range(blocks):
                for half in (0, 1):  # by halves: long columns, where numpy is fast
                    np.bitwise_xor(state[:, half], words[:, 2 * block + half], out=mixed[:, half])
                encryptor.update_into(mixed.view(np.uint8).reshape(-1).data, sealed.data)
            all_tags[start : start + len(rows)] = state
        return all_tags

    return tags


def find_repeated(records: Records, random: RandomBytes) -> NDArray[np.intp]:
    """Positions of the records that equal an earlier record, ascending.

    The result is exact, and takes memory for all tags and O(N log N) time.
    """
    entries = _entries(tagger(random)(records), np.arange(len(records), dtype=np.uint64))
    return np.flatnonzero(_again(entries, lambda places: records[places.astype(np.intp)]))


class DuplicateIndex:
    """Finds the records of a batch that equal an earlier one, exactly and in bounded memory.

    A context manager.
    """

    def __init__(self, stem: Path, records: int, memory: int, tags: Tagger) -> None:
        """Create an index of at most `records` records, in about `memory` bytes.

        Args:
            stem: prefix of the index's file names, if it needs files.
            records: number of records.
            memory: bytes.
            tags: see `tagger`.
        """
        self._buckets = Buckets(
            stem, layout(records, _ENTRY.itemsize, _WORKING, memory), _ENTRY.itemsize
        )
        self._tags = tags

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget all records, and remove the files. Idempotent."""
        self._buckets.close()

    def add(self, records: Records, addresses: NDArray[np.uint64]) -> None:
        """Add records in order; of equal records, the first counts as the original."""
        tags = self._tags(records)
        # The high bits: the low ones decide the order inside a bucket, and may as well be others.
        labels = (tags >> np.uint64(48)).astype(np.uint16) & np.uint16(
            self._buckets.layout.buckets - 1
        )
        self._buckets.add(labels, _entries(tags, addresses).view(np.uint8).reshape(len(tags), -1))

    def find_repeated(self, fetch: Fetch) -> Iterator[NDArray[np.uint64]]:
        """Yield arrays of the addresses of records that equal an earlier record.

        Which records these are depends only on the input.

        A sender of many equal records makes one bucket large. So a bucket is read in parts, and of
        equal records only the first is carried over to the next part.

        Raises:
            NodeFault: a file is damaged, or a bucket has too many different records (probability
                below 2^-64).
        """
        capacity = self._buckets.layout.capacity
        for bucket in range(self._buckets.layout.buckets):
            distinct = np.empty(0, dtype=_ENTRY)
            for part in self._buckets.parts(bucket, capacity):
                entries = np.concatenate(
                    [distinct, np.ascontiguousarray(part).view(_ENTRY).ravel()]
                )
                again = _again(entries, fetch)
                yield entries["address"][again]
                distinct = entries[~again]
                if len(distinct) > capacity:
                    raise NodeFault(
                        "the tags of a batch fill its buckets unevenly: mix again, or raise "
                        "`[mixing] memory`"
                    )


def _entries(tags: NDArray[np.uint64], addresses: NDArray[np.uint64]) -> NDArray[np.void]:
    entries = np.empty(len(tags), dtype=_ENTRY)
    entries["tag"] = tags
    entries["address"] = addresses
    return entries


def _again(entries: NDArray[np.void], fetch: Fetch) -> NDArray[np.bool_]:
    """True for every entry whose record equals an earlier entry's."""
    again = np.zeros(len(entries), dtype=bool)
    tags = np.ascontiguousarray(entries["tag"])
    order = np.argsort(tags)
    ranked = tags[order]
    meets = ranked[1:] == ranked[:-1]
    if not bool(meets.any()):
        return again
    suspects = order[np.concatenate(([False], meets)) | np.concatenate((meets, [False]))]
    suspects = suspects[
        np.lexsort((suspects, tags[suspects]))
    ]  # of equal tags the earliest entry first
    while len(suspects):
        leads = np.concatenate(([True], tags[suspects[1:]] != tags[suspects[:-1]]))
        leader = suspects[np.maximum.accumulate(np.where(leads, np.arange(len(suspects)), 0))]
        followers, leader = suspects[~leads], leader[~leads]
        same = _equal(entries["address"][leader], entries["address"][followers], fetch)
        again[followers[same]] = True
        # Whole records, not tags: one that meets another's tag by chance is no copy, and has copies
        # of its own.
        suspects = followers[~same]
    return again


def _equal(
    first: NDArray[np.uint64], second: NDArray[np.uint64], fetch: Fetch
) -> NDArray[np.bool_]:
    same = np.empty(len(first), dtype=bool)
    for start in range(0, len(first), _ROWS):
        part = slice(start, start + _ROWS)
        same[part] = (fetch(first[part]) == fetch(second[part])).all(axis=1)
    return same
