"""Rows in numbered buckets: in memory while they fit, and encrypted on disk beyond that.

Every bucket has one segment in memory, to which rows are added. A full segment is sealed
(AES-256-GCM) and appended to the bucket's file. Each `Buckets` object draws its own key, holds it
in memory only, and forgets it when it is closed, so bytes that a crash leaves on disk cannot be
decrypted. A nonce is the pair (bucket, segment), and each segment is sealed once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from shuffledp_core.errors import DiskError, NodeFault
from shuffledp_core.runtime.files import is_disk_full
from shuffledp_shuffler.layout import Layout
from shuffledp_shuffler.permutation import Records

SPILL: Final = ".spill"
"""Suffix of the files; any that are found at a node's start are removed."""

ROW_BITS: Final = 40
"""Low bits of an address: the row's number in its bucket. The bucket's own number is above them."""

_KEY_BITS: Final = 256
_TAG_BYTES: Final = 16


class Buckets:
    """Rows of one width in buckets.

    Not thread-safe; a context manager that leaves no file behind.
    """

    def __init__(self, stem: Path, layout: Layout, width: int) -> None:
        """Create empty buckets; files are named `stem`, the bucket's number and `SPILL`."""
        self.layout = layout
        self.sizes = np.zeros(layout.buckets, dtype=np.int64)
        """Number of rows of every bucket."""
        self._stem = stem
        self._width = width
        self._sealed = np.zeros(layout.buckets, dtype=np.int64)
        # From the operating system whatever the caller's source is: a key that comes twice would
        # repeat nonces.
        self._cipher: AESGCM | None = AESGCM(AESGCM.generate_key(_KEY_BITS))
        # The system gives these pages when they are first written: buckets that stay empty cost
        # nothing.
        self._open = np.empty((layout.buckets * layout.segment, width), dtype=np.uint8)

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
        """Forget the key and the rows in memory, and remove all files. Idempotent."""
        self._cipher = None
        self._open = np.empty((0, self._width), dtype=np.uint8)
        for bucket in np.flatnonzero(self._sealed).tolist():
            self._path(bucket).unlink(missing_ok=True)
        self._sealed[:] = 0

    def add(self, labels: NDArray[np.uint16], rows: Records) -> NDArray[np.uint64]:
        """Append every row to the bucket that its label names, in order.

        Returns the rows' addresses, for `rows_at`. Raises `NodeFault` if the disk refuses the
        write.
        """
        if self.layout.buckets == 1 and self.sizes[0] + len(rows) <= self.layout.segment:
            return self._append(rows)
        length = self.layout.segment
        bucket_of = labels.astype(np.int64)
        numbers = self.sizes[bucket_of] + _ranks(labels, self.layout.buckets)
        self.sizes += np.bincount(labels, minlength=self.layout.buckets)
        waiting, slots = rows, numbers - self._sealed[bucket_of] * length
        while not (fits := slots < length).all():
            self._open[(bucket_of * length + slots)[fits]] = waiting[fits]
            # A segment that is just full stays in memory: rows that exactly fit are never written.
            for bucket in np.unique(bucket_of[~fits]).tolist():
                self._seal(bucket)
            waiting = waiting[~fits]
            bucket_of = bucket_of[~fits]
            slots = slots[~fits] - length
        self._open[bucket_of * length + slots] = waiting
        return (labels.astype(np.uint64) << np.uint64(ROW_BITS)) | numbers.astype(np.uint64)

    def _append(self, rows: Records) -> NDArray[np.uint64]:
        """`add` for rows that fit into the only bucket: copies them regardless of labels."""
        first = int(self.sizes[0])
        end = first + len(rows)
        self._open[first:end] = rows
        self.sizes[0] = end
        return np.arange(first, end, dtype=np.uint64)

    def parts(self, bucket: int, rows: int) -> Iterator[Records]:
        """The rows of a bucket in their order, about `rows` at a time.

        Raises `NodeFault` if a file is damaged.
        """
        step = max(1, rows // self.layout.segment)
        last = int(self._sealed[bucket])
        for first in range(0, last + 1, step):
            yield self._read_segments(bucket, first, min(first + step, last + 1))

    def take(self, bucket: int) -> Records:
        """Remove and return all rows of a bucket.

        Raises `NodeFault` if a file is damaged.
        """
        rows = self._read_segments(bucket, 0, int(self._sealed[bucket]) + 1)
        if self._sealed[bucket]:
            self._path(
                bucket
            ).unlink()  # before the rows are written elsewhere: room on the disk is needed once
        self.sizes[bucket] = self._sealed[bucket] = 0
        return rows

    def rows_at(self, addresses: NDArray[np.uint64]) -> Records:
        """The rows at these addresses; opens each segment once per call.

        Raises `NodeFault` if a file is damaged.
        """
        buckets = (addresses >> np.uint64(ROW_BITS)).astype(np.int64)
        numbers = (addresses & np.uint64(2**ROW_BITS - 1)).astype(np.int64)
        segments, slots = np.divmod(numbers, self.layout.segment)
        rows = np.empty((len(addresses), self._width), dtype=np.uint8)
        for bucket, segment in np.unique(np.stack([buckets, segments], axis=1), axis=0).tolist():
            here = (buckets == bucket) & (segments == segment)
            rows[here] = self._read_segments(bucket, segment, segment + 1)[slots[here]]
        return rows

    def _read_segments(self, bucket: int, first: int, end: int) -> Records:
        """Rows of the segments first..end-1.

        The last may be the segment in memory, which is not copied if it is the only one.
        """
        sealed, length = int(self._sealed[bucket]), self.layout.segment
        start = bucket * length
        tail = self._open[start : start + int(self.sizes[bucket]) - sealed * length]
        if first == sealed:
            return tail
        sealed_end = min(end, sealed)
        rows = np.empty(
            ((sealed_end - first) * length + (len(tail) if end > sealed else 0), self._width),
            dtype=np.uint8,
        )
        self._unseal(bucket, first, sealed_end, rows)
        rows[(sealed_end - first) * length :] = tail[: len(rows) - (sealed_end - first) * length]
        return rows

    def _seal(self, bucket: int) -> None:
        segment, length = int(self._sealed[bucket]), self.layout.segment
        rows = self._open[bucket * length : (bucket + 1) * length]
        sealed = self._key().encrypt(_nonce(bucket, segment), rows.reshape(-1).data, None)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if segment else os.O_TRUNC)
        # Counted before it is written: a file that was begun is removed.
        self._sealed[bucket] += 1
        # Opened anew each time: thousands of buckets would take as many descriptors, which callers
        # need, too.
        try:
            with os.fdopen(os.open(self._path(bucket), flags, 0o600), "wb") as file:
                file.write(sealed)
        except OSError as error:
            kind = DiskError if is_disk_full(error) else NodeFault
            raise kind(
                "the disk of this node does not take what the mixing of a round spills "
                f"({error.strerror}): make room in its state folder, or raise `[mixing] memory`"
            ) from error

    def _unseal(self, bucket: int, first: int, end: int, target: Records) -> None:
        path = self._path(bucket)
        cipher = self._key()
        length = self.layout.segment
        stride = length * self._width + _TAG_BYTES
        try:
            with path.open("rb", buffering=0) as file:
                for number in range(first, end):
                    sealed = os.pread(file.fileno(), stride, number * stride)
                    begin = (number - first) * length
                    into = target[begin : begin + length].reshape(-1)
                    cipher.decrypt_into(_nonce(bucket, number), sealed, None, into.data)
        except (OSError, InvalidTag, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it was changed or cut off"
            raise NodeFault(
                f"{path.name} on this node's disk is damaged ({reason}): replace the disk"
            ) from error

    def _key(self) -> AESGCM:
        if self._cipher is None:
            raise ValueError("the buckets of this batch are already closed")
        return self._cipher

    def _path(self, bucket: int) -> Path:
        return self._stem.with_name(f"{self._stem.name}-{bucket}{SPILL}")


def _nonce(bucket: int, segment: int) -> bytes:
    return bucket.to_bytes(4, "big") + segment.to_bytes(8, "big")


def _ranks(labels: NDArray[np.uint16], buckets: int) -> NDArray[np.int64]:
    """For every label, the number of equal labels that precede it."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=buckets)
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks
