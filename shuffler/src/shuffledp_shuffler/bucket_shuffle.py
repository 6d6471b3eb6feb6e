"""Shuffles records uniformly in bounded memory: random buckets, then a random order in each.

Every record goes to the bucket of an independent, uniform label; each bucket is then read back,
permuted uniformly in memory and appended to the output (Sandelius 1962). docs/protocol.md, section
"Mixing", under "Order", proves that all orders of all records are equally likely, whatever the
sizes of the buckets. A batch that fits into memory has one bucket, and no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_shuffler.layout import SEGMENT_BYTES, Layout
from shuffledp_shuffler.permutation import Records, uniform_labels, uniform_permutation
from shuffledp_shuffler.spill import ROW_BITS, Buckets

WORKING: Final = 48
"""Working memory per record while a bucket is permuted, in bytes, in addition to the record: keys,
orders, and addresses that are left out.
"""

_NUMBER_BYTES: Final = 8


@dataclass(frozen=True)
class PermutedBucket:
    """One bucket's records, the `order` of the outgoing ones, and the `addresses` from `add`."""

    records: Records
    order: NDArray[np.intp]
    addresses: NDArray[np.uint64]


class LeftOut:
    """A set of addresses to leave out, by stretches of 2^`bits` addresses, in bounded memory.

    A context manager.
    """

    def __init__(self, stem: Path, stretches: int, bits: int, memory: int) -> None:
        """Create an empty set of addresses to leave out.

        `stem`: prefix of file names, if any are needed; `memory`: bytes.
        """
        self.count = 0
        self._bits = bits
        segment = max(1, min(SEGMENT_BYTES, memory // stretches) // _NUMBER_BYTES)
        self._buckets = Buckets(stem, Layout(stretches, 2**bits, segment), _NUMBER_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._buckets.close()

    def add(self, pieces: Iterable[NDArray[np.uint64]]) -> None:
        """Leave out these addresses as well; each may be added once."""
        for addresses in pieces:
            stretches = (addresses >> np.uint64(self._bits)).astype(np.uint16)
            numbers = addresses & np.uint64(2**self._bits - 1)
            self._buckets.add(stretches, numbers.view(np.uint8).reshape(-1, _NUMBER_BYTES))
            self.count += len(addresses)

    def take(self, stretch: int) -> NDArray[np.intp]:
        """Remove and return the addresses of a stretch, relative to its start, unordered.

        Call it once for each stretch.
        """
        return (
            np.ascontiguousarray(self._buckets.take(stretch))
            .view(np.uint64)
            .ravel()
            .astype(np.intp)
        )


class BucketShuffle:
    """Takes the records of a batch, and returns them once in a uniformly random order.

    A context manager.
    """

    def __init__(self, stem: Path, layout: Layout, width: int, random: RandomBytes) -> None:
        """Create an empty shuffle. `stem`: prefix of file names; `width`: bytes of a record."""
        self.layout = layout
        self._buckets = Buckets(stem, layout, width)
        self._random = random

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._buckets.close()

    @property
    def count(self) -> int:
        """Number of records so far."""
        return int(self._buckets.sizes.sum())

    def left_out(self, stem: Path, memory: int) -> LeftOut:
        """An empty set of addresses of this shuffle, for `permute` to leave out."""
        return LeftOut(stem, self.layout.buckets, ROW_BITS, memory)

    def add(self, records: Records) -> NDArray[np.uint64]:
        """Put every record into a random bucket; return the records' addresses.

        Raises `NodeFault` if the disk refuses.
        """
        return self._buckets.add(
            uniform_labels(len(records), self.layout.buckets, self._random), records
        )

    def records_at(self, addresses: NDArray[np.uint64]) -> Records:
        """The records at these addresses."""
        return self._buckets.rows_at(addresses)

    def permute(self, left_out: LeftOut) -> Iterator[PermutedBucket]:
        """Yield all records except those left out, bucket by bucket, in a uniformly random order.

        Which records are left out must not depend on the labels, so that the labels of the others
        stay independent and uniform.

        Raises:
            NodeFault: a damaged file, or a bucket that does not fit into memory (probability below
                2^-64).
        """
        if int(self._buckets.sizes.max()) > self.layout.capacity:
            raise NodeFault(
                "the random labels of a batch fill its buckets unevenly: mix again, or raise "
                "`[mixing] memory`"
            )
        for bucket in range(self.layout.buckets):
            records = self._buckets.take(bucket)
            remaining = np.delete(np.arange(len(records)), left_out.take(bucket))
            order = remaining[uniform_permutation(len(remaining), self._random)]
            yield PermutedBucket(
                records, order, order.astype(np.uint64) | np.uint64(bucket << ROW_BITS)
            )
