"""A batch to mix: its packed units on disk, which are read in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_shuffler.bucket_shuffle import LeftOut
from shuffledp_shuffler.peel_worker import Layer
from shuffledp_shuffler.peeling import CHUNK_BYTES
from shuffledp_shuffler.permutation import Records

_STRETCH_BITS: Final = 18
"""Log2 of the units in a stretch; the positions that are left out of one take at most 2 MiB."""


@dataclass(frozen=True)
class Batch:
    """The files of one mix, and the layer of encryption that is removed.

    Attributes:
        layer: the layer.
        units: envelopes (position 1) or records.
        source: packed units, at least `units` of them.
        target: file for the packed records.
        added: file of the packed records that this node adds, in outgoing form; None if it adds
            none.
    """

    layer: Layer
    units: int
    source: Path
    target: Path
    added: Path | None = None

    @property
    def records(self) -> int:
        """Number of records before any of them is dropped or a dummy is added."""
        return self.units * self.layer.records_per_unit

    @property
    def dummies(self) -> int:
        """Number of records that this node adds."""
        return 0 if self.added is None else self.layer.geometry.dummies_per_node

    @property
    def record_bytes(self) -> int:
        """Length in bytes of an outgoing record."""
        return self.layer.geometry.record_bytes(self.layer.position + 1)

    def stem(self, name: str) -> Path:
        """Path prefix of one kind of bucket file."""
        return self.target.with_name(f"{self.target.name}.{name}")

    @property
    def stretch_bits(self) -> int:
        """Log2 of the length of a stretch of units, short enough for two-byte labels."""
        return max(_STRETCH_BITS, (self.units >> 16).bit_length())

    def left_out(self, memory: int) -> LeftOut:
        """A set of units to leave out, by position and stretch, in about `memory` bytes."""
        return LeftOut(
            self.stem("units"),
            max(1, -(-self.units >> self.stretch_bits)),
            self.stretch_bits,
            memory,
        )

    def units_at(self, places: NDArray[np.uint64]) -> Records:
        """The units at these positions of the source."""
        width = self.layer.unit_bytes
        with self.source.open("rb") as file:
            packed = b"".join(
                os.pread(file.fileno(), width, index * width) for index in places.tolist()
            )
        return np.frombuffer(packed, dtype=np.uint8).reshape(-1, width)

    def pieces(self, start: int, end: int) -> Iterator[tuple[NDArray[np.intp], Records]]:
        """The units start..end-1 with their positions, a few thousand at a time."""
        return _pieces(self.source, self.layer.unit_bytes, start, end)

    def pieces_of_dummies(self) -> Iterator[tuple[NDArray[np.intp], Records]]:
        """This node's dummies, and their positions in the pool, after all other records."""
        if self.added is not None:
            for places, records in _pieces(self.added, self.record_bytes, 0, self.dummies):
                yield places + self.records, records


def _pieces(
    path: Path, width: int, start: int, end: int
) -> Iterator[tuple[NDArray[np.intp], Records]]:
    """Rows start..end-1 of a packed file with their numbers, a few thousand at a time."""
    step = max(1, CHUNK_BYTES // width)
    with path.open("rb") as file:
        for first in range(start, end, step):
            places: NDArray[np.intp] = np.arange(first, min(first + step, end))
            packed = os.pread(file.fileno(), len(places) * width, first * width)
            yield places, np.frombuffer(packed, dtype=np.uint8).reshape(-1, width)
