"""One node's work on one round: packed units in a file, peeled, permuted records in another.

docs/protocol.md, section "Mixing". Only the permuted records are written: the peeled ones in their old order would
tie output to input for whoever reads the disk later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_core.randomness import RandomBytes
from shuffledp_core.tasks import in_thread
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_shuffler.duplicates import refuse_repeated
from shuffledp_shuffler.files import commit_part, open_part
from shuffledp_shuffler.metrics import CHECK, PEEL, PERMUTE, WRITE
from shuffledp_shuffler.peel_worker import Layer
from shuffledp_shuffler.peeling import CHUNK_BYTES as PEEL_BYTES
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.permutation import Records, permuted_pieces, uniform_permutation

Recorder: TypeAlias = Callable[[Records, NDArray[np.intp], str], None]
"""What a corrupt node does with the peeled records in their old order, their permutation, and the digest of the batch.

Only `corruption` makes one; every honest node passes None, and then nothing of this leaves `_write_permuted`.
"""

Timed: TypeAlias = Callable[[str, int], AbstractContextManager[None]]
"""Surrounds a stage of the mixing, given its name (`metrics.STAGES`) and the number of records."""


def untimed(_stage: str, _records: int) -> AbstractContextManager[None]:
    """Times nothing."""
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
) -> str:
    """Peels and permutes `units` packed units of `source` into `target`, which is whole or absent.

    1. No onion stands twice in the incoming batch (positions 2..L; envelopes are unique in the spool).
    2. Every unit opens; the records are pooled in memory, records x bytes of one.
    3. No onion stands twice in the pool of the entry node.
    4. The pool is permuted uniformly and written.

    Args:
        layer: what to take off.
        units: envelopes (position 1) or records.
        source: packed units, at least `units` of them.
        target: file for the packed records.
        pool: worker processes.
        random: the operating system's randomness.
        progress: called with the number of records peeled so far.
        timed: surrounds every stage.
        recorder: None but on a node that was corrupted on purpose; called once the target is whole.

    Returns:
        SHA-256 of the target, hex.

    Raises:
        BadBatchError: step 1, 2 or 3. NodeFault: lost data or a lost worker.
    """
    if await in_thread(_size, source) < units * layer.unit_bytes:
        raise NodeFault(f"{source.name} of round {layer.round_id} lost data on this node's disk")
    if layer.position > 1:  # 1
        incoming = np.memmap(source, dtype=np.uint8, mode="r", shape=(units, layer.unit_bytes))
        with timed(CHECK, units):
            await in_thread(refuse_repeated, incoming, random)
        del incoming
    with timed(PEEL, units * layer.records_per_unit):
        records = await _peel_all(layer, units, source, pool, progress)  # 2
    if layer.position == 1:  # 3
        with timed(CHECK, len(records)):
            await in_thread(refuse_repeated, records, random)
    return await in_thread(_write_permuted, records, target, random, timed, recorder)  # 4


async def _peel_all(layer: Layer, units: int, source: Path, pool: PeelPool, progress: Callable[[int], None]) -> Records:
    width = layer.geometry.record_bytes(layer.position + 1)
    total = units * layer.records_per_unit
    flat = np.empty(total * width, dtype=np.uint8)
    filled = 0

    def place(peeled: bytes) -> None:
        nonlocal filled
        flat[filled : filled + len(peeled)] = np.frombuffer(peeled, dtype=np.uint8)
        filled += len(peeled)
        progress(filled // width)

    await pool.peel(layer, _pieces(source, units * layer.unit_bytes, layer.unit_bytes), place)
    if filled != flat.size:
        raise NodeFault(f"peeling gave {filled} bytes where {flat.size} were due")
    return flat.reshape(total, width)


def _pieces(source: Path, total: int, unit: int) -> Iterator[bytes]:
    step = max(1, PEEL_BYTES // unit) * unit
    with source.open("rb") as file:
        for offset in range(0, total, step):
            yield os.pread(file.fileno(), min(step, total - offset), offset)


def _size(path: Path) -> int:
    return path.stat().st_size


def _write_permuted(
    records: Records, target: Path, random: RandomBytes, timed: Timed, recorder: Recorder | None
) -> str:
    with timed(PERMUTE, len(records)):
        order = uniform_permutation(len(records), random)
    digest = hashlib.sha256()
    with timed(WRITE, len(records)), open_part(target) as file:
        for piece in permuted_pieces(records, order, CHUNK_BYTES):
            digest.update(piece)
            file.write(piece)
        commit_part(target, file)
    if recorder is not None:
        recorder(records, order, digest.hexdigest())
    return digest.hexdigest()
