"""Mixing of one round at one node: peels and permutes packed units from one file into another.

docs/protocol.md, section "Mixing". Batches of all sizes take the same path: records that do not fit
into memory go to buckets on disk, encrypted under keys that exist in memory only. Only the permuted
records are written in the clear, because peeled records in their old order would link output to
input for anyone who reads the disk later.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_core.runtime.files import commit_part, open_part
from shuffledp_core.runtime.tasks import in_thread
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_core.transport.chunks import CHUNK_BYTES
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.bucket_shuffle import WORKING, BucketShuffle
from shuffledp_shuffler.duplicates import DuplicateIndex, tagger
from shuffledp_shuffler.layout import MEMORY_BYTES, layout
from shuffledp_shuffler.metrics import CHECK, PEEL, PERMUTE, WRITE
from shuffledp_shuffler.peel_worker import PeeledChunk
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.permutation import Records, permuted_pieces
from shuffledp_shuffler.trace import PoolTrace

Recorder: TypeAlias = Callable[[NDArray[np.int64], str], None]
"""A corrupt node's callback. It gets, for each record of the outgoing batch in order, its position
in the pool before any was dropped; and the digest of the batch.

Only `corruption` makes one; every honest node passes None, and then no position of a record is
stored anywhere.
"""

Measured: TypeAlias = Callable[[str, int, float], None]
"""Callback with a finished stage (`metrics.STAGES`), its number of records, and its seconds."""

DropCheck: TypeAlias = Callable[[int], None]
"""Callback with the number of records about to be dropped; raises if these are too many."""


@dataclass(frozen=True)
class MixResult:
    """Result of a mix: SHA-256 of the target in hex, records sent and records dropped."""

    digest: str
    records: int
    dropped: int


async def mix(
    batch: Batch,
    pool: PeelPool,
    random: RandomBytes,
    progress: Callable[[int], None],
    measured: Measured = lambda _stage, _records, _seconds: None,
    recorder: Recorder | None = None,
    allowed: DropCheck = lambda _: None,
    memory: int = MEMORY_BYTES,
) -> MixResult:
    """Peel and permute a batch into its target file, which ends up complete or absent.

    1. If an onion occurs several times in the incoming batch, one copy is kept (positions 2..L;
       envelopes are unique in the spool).
    2. Every unit is opened; those that do not open are dropped. Each record goes to a random
       bucket.
    3. At the entry node, if an onion occurs several times in the pool, one copy is kept. Then the
       node's own dummies are added, each to a random bucket.
    4. The number of dropped records must be within the limit. It depends only on the input, so
       mixing again drops as many.
    5. One bucket after the other is permuted uniformly and written.

    Args:
        batch: the files of the batch. Bucket files are next to its target while this runs.
        pool: worker processes.
        random: the operating system's randomness.
        progress: called with the number of records peeled so far.
        measured: called at the end of every stage.
        recorder: only on a deliberately corrupt node, else None; called once the target is
            complete.
        allowed: checks the limit of step 4; called before anything is written to the target.
        memory: most bytes that mixing uses in this process, apart from a few megabytes; a recorder
            uses 24 more per record.

    Raises:
        NodeFault: lost data, a lost worker, a disk that refuses bucket files, or too little
            `memory` for so large a batch.
        ShuffleDPError: what `allowed` raises.
    """
    # More bytes are no fault: a crash of the spool leaves some behind the envelopes that count.
    if await in_thread(_size, batch.source) < batch.units * batch.layer.unit_bytes:
        raise NodeFault(
            f"{batch.source.name} of round {batch.layer.round_id} lost data on this node's disk"
        )
    trace = None if recorder is None else PoolTrace()
    stack = ExitStack()
    try:
        work = _Mixing(batch, random, memory, trace, stack)
        # Before peeling: equal onions peel to equal records and cost a decryption each.
        if batch.layer.position > 1:
            await in_thread(work.drop_repeated_units)  # 1
        await work.peel(pool, progress)  # 2
        # After peeling here: equal onions come inside different envelopes, which only this node
        # opens.
        if batch.layer.position == 1:
            await in_thread(work.drop_repeated_records)  # 3
        await in_thread(work.add_dummies)
        mixed = await in_thread(work.write, allowed)  # 4, 5
    finally:
        await in_thread(stack.close)
    for stage, seconds in work.seconds.items():
        measured(stage, mixed.records + mixed.dropped, seconds)
    if recorder is not None and trace is not None:
        await in_thread(recorder, trace.of_output(), mixed.digest)
    return mixed


class _Mixing:
    """One run of `mix`, with one method for each step, in order.

    `stack` closes all files that it opens.
    """

    def __init__(
        self,
        batch: Batch,
        random: RandomBytes,
        memory: int,
        trace: PoolTrace | None,
        stack: ExitStack,
    ) -> None:
        # Shares, not turns: at the entry node duplicates are looked for while the records' buckets
        # are in memory.
        share = 7 * memory // 16
        rest = memory // 16
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._trace = trace
        self._batch = batch
        where = layout(batch.records + batch.dummies, batch.record_bytes, WORKING, share)
        self._shuffle = stack.enter_context(
            BucketShuffle(batch.stem("order"), where, batch.record_bytes, random)
        )
        self._units_out = stack.enter_context(batch.left_out(rest))
        self._records_out = stack.enter_context(self._shuffle.left_out(batch.stem("records"), rest))
        self._index = stack.enter_context(
            DuplicateIndex(batch.stem("tags"), batch.records, share, tagger(random))
        )

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - began

    def drop_repeated_units(self) -> None:
        """Step 1 of `mix`: keep one of each onion that is repeated in the incoming batch."""
        with self._stage(CHECK):
            for places, units in self._batch.pieces(0, self._batch.units):
                self._index.add(units, places.astype(np.uint64))
            self._units_out.add(self._index.find_repeated(self._batch.units_at))
            self._index.close()

    async def peel(self, pool: PeelPool, progress: Callable[[int], None]) -> None:
        """Step 2 of `mix`: decrypt every unit, and put each record into a random bucket."""
        batch = self._batch
        at_work: deque[NDArray[np.intp]] = deque()

        def pieces() -> Iterator[bytes]:
            for places, units in self._remaining_units():
                at_work.append(places)
                yield units.tobytes()

        async def store(peeled: PeeledChunk) -> None:
            places = at_work.popleft()
            await in_thread(self._keep, places, peeled)
            progress(int(places[-1] + 1) * batch.layer.records_per_unit)

        with self._stage(PEEL):
            await pool.peel(batch.layer, pieces(), store)
        progress(batch.records)  # what was left out at the end counts, too

    def _remaining_units(self) -> Iterator[tuple[NDArray[np.intp], Records]]:
        batch, stretch = self._batch, 2**self._batch.stretch_bits
        for number, start in enumerate(range(0, batch.units, stretch)):
            out = start + self._units_out.take(number)
            for places, units in batch.pieces(start, min(start + stretch, batch.units)):
                remaining = ~np.isin(places, out) if len(out) else slice(None)
                if len(places[remaining]):
                    yield places[remaining], units[remaining]

    def _keep(self, places: NDArray[np.intp], peeled: PeeledChunk) -> None:
        batch = self._batch
        per_unit = batch.layer.records_per_unit
        due = len(places) * per_unit - len(peeled.closed)
        if len(peeled.data) != due * batch.record_bytes:
            raise NodeFault(
                f"decrypting {due} records of {batch.record_bytes} bytes gave {len(peeled.data)} "
                "bytes"
            )
        records = np.frombuffer(peeled.data, dtype=np.uint8).reshape(-1, batch.record_bytes)
        addresses = self._shuffle.add(records)
        if self._trace is not None:
            pool = (places[:, np.newaxis] * per_unit + np.arange(per_unit)).ravel()
            self._trace.came(np.delete(pool, list(peeled.closed)), addresses)
        if batch.layer.position == 1:
            with self._stage(CHECK):
                self._index.add(records, addresses)

    def drop_repeated_records(self) -> None:
        """Step 3 of `mix`: keep one of each onion that is repeated in the entry node's pool."""
        with self._stage(CHECK):
            self._records_out.add(self._index.find_repeated(self._shuffle.records_at))
            self._index.close()

    def add_dummies(self) -> None:
        """Step 3 of `mix`: add the node's own dummies after the records of the pool."""
        # After the duplicates were dropped: these are the node's own, and all of them must go out.
        for places, records in self._batch.pieces_of_dummies():
            addresses = self._shuffle.add(records)
            if self._trace is not None:
                self._trace.came(places, addresses)

    def write(self, allowed: DropCheck) -> MixResult:
        """Steps 4 and 5 of `mix`: check the number dropped, then write each bucket permuted."""
        batch, digest = self._batch, hashlib.sha256()
        records = self._shuffle.count - self._records_out.count
        dropped = batch.records + batch.dummies - records
        allowed(dropped)  # 4
        with open_part(batch.target) as file:  # 5
            for piece in self._permute():
                with self._stage(WRITE):
                    digest.update(piece)
                    file.write(piece)
            with self._stage(WRITE):
                commit_part(batch.target, file)
        return MixResult(digest.hexdigest(), records, dropped)

    def _permute(self) -> Iterator[bytes]:
        began = time.perf_counter()
        for bucket in self._shuffle.permute(self._records_out):
            if self._trace is not None:
                self._trace.went(bucket.addresses)
            for piece in permuted_pieces(bucket.records, bucket.order, CHUNK_BYTES):
                self.seconds[PERMUTE] += time.perf_counter() - began
                yield piece
                began = time.perf_counter()
        self.seconds[PERMUTE] += time.perf_counter() - began


def _size(path: Path) -> int:
    return path.stat().st_size
