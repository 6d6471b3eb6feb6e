"""Mixing of one round at one node: packed units of one file are peeled and permuted into another.

docs/protocol.md, section "Mixing". Only the permuted records are written: the peeled ones in their old order would
tie output to input for whoever reads the disk later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_core.files import commit_part, open_part
from shuffledp_core.randomness import RandomBytes
from shuffledp_core.tasks import in_thread
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_shuffler.duplicates import repeated
from shuffledp_shuffler.metrics import CHECK, PEEL, PERMUTE, WRITE
from shuffledp_shuffler.peel_worker import Layer, Peeled
from shuffledp_shuffler.peeling import CHUNK_BYTES as PEEL_BYTES
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.permutation import Records, permuted_pieces, uniform_permutation

Recorder: TypeAlias = Callable[[Records, NDArray[np.intp], NDArray[np.intp], str], None]
"""A corrupt node's callback: kept records in their old order, their places in the pool before any was dropped, their
permutation, and the digest of the batch.

Only `corruption` makes one; every honest node passes None, and then nothing of this leaves `_write_permuted`.
"""

Timed: TypeAlias = Callable[[str, int], AbstractContextManager[None]]
"""A context manager around a stage of the mixing, given its name (`metrics.STAGES`) and the number of records."""


Dropped: TypeAlias = Callable[[int], None]
"""A callback with the number of records about to be dropped; raises where those are too many."""


@dataclass(frozen=True)
class Mixed:
    """Result of a mix: SHA-256 of the target in hex, number of records in it, and number of records dropped."""

    digest: str
    records: int
    dropped: int


@dataclass(frozen=True)
class _Pool:
    """Peeled records in their old order, and the place of each in the pool before any was dropped."""

    records: Records
    places: NDArray[np.intp]

    def without(self, unwanted: NDArray[np.intp]) -> _Pool:
        """The pool less the records at these places."""
        if not len(unwanted):
            return self
        kept = ~np.isin(self.places, unwanted)
        return _Pool(self.records[kept], self.places[kept])


def untimed(_stage: str, _records: int) -> AbstractContextManager[None]:
    """A `Timed` that measures nothing."""
    return nullcontext()


async def mix(
    layer: Layer,
    units: int,
    source: Path,
    target: Path,
    pool: PeelPool,
    random: RandomBytes,
    progress: Callable[[int], None],
    timed: Timed = untimed,
    recorder: Recorder | None = None,
    allowed: Dropped = lambda _: None,
) -> Mixed:
    """Peels and permutes `units` packed units of `source` into `target`, which ends up whole or absent.

    1. Of an onion that stands several times in the incoming batch one is kept (positions 2..L; envelopes are unique in
       the spool).
    2. Every unit is opened, and those that do not open are dropped; the records are pooled in memory, records x bytes
       of one.
    3. Of an onion that stands several times in the pool of the entry node one is kept.
    4. What was dropped is not too much. How many are dropped depends on the input alone: mixing again drops as many.
    5. The pool is permuted uniformly and written.

    Args:
        layer: the layer to remove.
        units: envelopes (position 1) or records.
        source: packed units, at least `units` of them.
        target: file for the packed records.
        pool: worker processes.
        random: the operating system's randomness.
        progress: called with the number of records peeled so far.
        timed: surrounds every stage.
        recorder: None but on a node that was corrupted on purpose; called once the target is whole.
        allowed: step 4; called before anything is written.

    Raises:
        NodeFault: lost data or a lost worker. Whatever `allowed` raises.
    """
    # More bytes are no fault: a crash of the spool leaves some behind the envelopes that count.
    if await in_thread(_size, source) < units * layer.unit_bytes:
        raise NodeFault(f"{source.name} of round {layer.round_id} lost data on this node's disk")
    again = np.empty(0, dtype=np.intp)
    if layer.position > 1:  # 1: before peeling, since equal onions peel to equal records and cost a decryption each
        incoming = np.memmap(source, dtype=np.uint8, mode="r", shape=(units, layer.unit_bytes))
        with timed(CHECK, units):
            again = await in_thread(repeated, incoming, random)
        del incoming
    total = units * layer.records_per_unit
    with timed(PEEL, total):
        peeled = await _peel_all(layer, units, source, pool, progress)  # 2
    # After peeling here: equal onions come inside different envelopes, which only this node opens.
    if layer.position == 1:  # 3
        with timed(CHECK, len(peeled.records)):
            again = await in_thread(repeated, peeled.records, random)
    kept = peeled.without(again)
    dropped = total - len(kept.records)
    allowed(dropped)  # 4
    digest = await in_thread(_write_permuted, kept, target, random, timed, recorder)  # 5
    return Mixed(digest, len(kept.records), dropped)


async def _peel_all(layer: Layer, units: int, source: Path, pool: PeelPool, progress: Callable[[int], None]) -> _Pool:
    width = layer.geometry.record_bytes(layer.position + 1)
    total = units * layer.records_per_unit
    flat = np.empty(total * width, dtype=np.uint8)
    opens = np.ones(total, dtype=bool)
    filled = peeled_so_far = 0

    def place(peeled: Peeled) -> None:
        nonlocal filled, peeled_so_far
        flat[filled : filled + len(peeled.data)] = np.frombuffer(peeled.data, dtype=np.uint8)
        filled += len(peeled.data)
        opens[[peeled_so_far + closed for closed in peeled.closed]] = False
        peeled_so_far += len(peeled.data) // width + len(peeled.closed)
        progress(peeled_so_far)

    await pool.peel(layer, _pieces(source, units * layer.unit_bytes, layer.unit_bytes), place)
    if peeled_so_far != total or filled % width:
        raise NodeFault(f"peeling gave {filled} bytes of {peeled_so_far} records where {total} were due")
    return _Pool(flat[:filled].reshape(-1, width), np.flatnonzero(opens))


def _pieces(source: Path, total: int, unit: int) -> Iterator[bytes]:
    step = max(1, PEEL_BYTES // unit) * unit
    with source.open("rb") as file:
        for offset in range(0, total, step):
            yield os.pread(file.fileno(), min(step, total - offset), offset)


def _size(path: Path) -> int:
    return path.stat().st_size


def _write_permuted(pool: _Pool, target: Path, random: RandomBytes, timed: Timed, recorder: Recorder | None) -> str:
    records = pool.records
    with timed(PERMUTE, len(records)):
        order = uniform_permutation(len(records), random)
    digest = hashlib.sha256()
    with timed(WRITE, len(records)), open_part(target) as file:
        for piece in permuted_pieces(records, order, CHUNK_BYTES):
            digest.update(piece)
            file.write(piece)
        commit_part(target, file)
    if recorder is not None:
        recorder(records, pool.places, order, digest.hexdigest())
    return digest.hexdigest()
