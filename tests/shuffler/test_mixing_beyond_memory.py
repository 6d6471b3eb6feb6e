"""Mixing in far less memory than the batch has: the same result, nothing readable on disk, nothing
left behind."""

from __future__ import annotations

import hashlib
import os
import resource
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp_core.errors import BadBatchError, NodeFault
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.mixing import MixResult, mix
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.store import NodeStore

MEMORY = 2**18
"""Bytes; a batch of 6,000 records of 65 bytes is several times as large with what work on it takes.
"""

RECORDS = 6000
EACH = 20
"""Messages a user, at the entry node."""


class OpenOnions(PeelPool):
    """Peels onions whose layer is 48 bytes in front: what moves the records is real, and hardly
    anything else costs."""

    async def peel(
        self, layer: Layer, pieces: Iterable[bytes], place: Callable[[PeeledChunk], Awaitable[None]]
    ) -> None:
        for piece in pieces:
            units = np.frombuffer(piece, dtype=np.uint8).reshape(-1, layer.unit_bytes)
            await place(PeeledChunk(units[:, 48:].tobytes(), ()))


def layer_of(position: int, private: bytes = b"") -> Layer:
    each = EACH if position == 1 else 1
    return Layer(
        Geometry(suite="sealed-box", hops=3, messages_per_user=each, symbol_bytes=1),
        "r",
        position,
        private,
    )


def width(layer: Layer) -> int:
    return layer.geometry.record_bytes(layer.position + 1)


def wrapped(layer: Layer, records: list[bytes]) -> bytes:
    """The packed units that `OpenOnions` opens to these records.

    Equal records are in equal onions.
    """
    each = layer.records_per_unit
    inner = [b"".join(records[start : start + each]) for start in range(0, len(records), each)]
    return b"".join(hashlib.sha384(unit).digest() + unit for unit in inner)


def fresh(layer: Layer, count: int = RECORDS) -> list[bytes]:
    data = os.urandom(count * width(layer))
    return [data[start : start + width(layer)] for start in range(0, len(data), width(layer))]


@dataclass
class Run:
    """One mix in a folder, with looks at its spill files while it runs."""

    layer: Layer
    folder: Path
    memory: int = MEMORY
    pool: PeelPool = field(default_factory=lambda: OpenOnions(1))
    during: Callable[[int], None] = lambda _: None
    before_writing: Callable[[int], None] = lambda _: None
    permutation: NDArray[np.int64] | None = None

    async def mix(self, packed: bytes) -> MixResult:
        (self.folder / "in").write_bytes(packed)

        def recorder(permutation: NDArray[np.int64], _: str) -> None:
            self.permutation = permutation

        return await mix(
            Batch(
                self.layer,
                len(packed) // self.layer.unit_bytes,
                self.folder / "in",
                self.folder / "out",
            ),
            self.pool,
            os.urandom,
            self.during,
            recorder=recorder,
            allowed=self.before_writing,
            memory=self.memory,
        )

    def files(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    def spilled(self) -> list[Path]:
        return sorted(self.folder.glob("*.spill"))

    def sent(self) -> list[bytes]:
        data = (self.folder / "out").read_bytes()
        return [
            data[start : start + width(self.layer)]
            for start in range(0, len(data), width(self.layer))
        ]


@pytest.mark.parametrize("position", [1, 2])
async def test_every_record_goes_out_once_through_many_buckets(
    tmp_path: Path, position: int
) -> None:
    layer = layer_of(position)
    records = fresh(layer)
    seen: list[int] = []
    run = Run(layer, tmp_path, before_writing=lambda _: seen.append(len(run.spilled())))
    mixed = await run.mix(wrapped(layer, records))
    assert seen[0] >= 4
    assert (mixed.records, mixed.dropped) == (RECORDS, 0)
    assert sorted(run.sent()) == sorted(records)
    assert mixed.digest == hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest()
    assert run.files() == {"in", "out"}
    assert run.permutation is not None
    assert [records[place] for place in run.permutation] == run.sent()


@pytest.mark.parametrize("position", [1, 2])
async def test_what_lies_on_disk_meanwhile_holds_no_record(tmp_path: Path, position: int) -> None:
    """Looked at after every piece that was peeled, and before the batch is written."""
    layer = layer_of(position)
    records = fresh(layer)
    kinds: set[str] = set()

    def look(_: int) -> None:
        kinds.update(path.name.split("-")[0] for path in run.spilled())
        written = b"".join(path.read_bytes() for path in run.spilled())
        # 16 bytes of 6,000 random records occur by chance in a megabyte with probability below
        # 2^-95.
        assert not any(
            record[start : start + 16] in written for record in records[::50] for start in (0, 40)
        )

    run = Run(layer, tmp_path, during=look, before_writing=look)
    await run.mix(wrapped(layer, records))
    assert kinds == ({"out.order", "out.tags"} if position == 1 else {"out.order"})


async def test_a_batch_that_fits_touches_the_disk_only_to_write_what_goes_out(
    tmp_path: Path,
) -> None:
    layer = layer_of(2)
    run = Run(
        layer, tmp_path, memory=2**22, during=lambda _: none(), before_writing=lambda _: none()
    )

    def none() -> None:
        assert not run.spilled()

    records = fresh(layer)
    assert (await run.mix(wrapped(layer, records))).records == RECORDS
    assert sorted(run.sent()) == sorted(records)


@pytest.mark.parametrize("position", [1, 2])
@pytest.mark.parametrize("memory", [MEMORY, 2**24])
async def test_copies_are_dropped_wherever_they_lie_and_as_many_each_time(
    tmp_path: Path, position: int, memory: int
) -> None:
    layer = layer_of(position)
    records = fresh(layer)
    for place, copied in [(1, 0), (RECORDS - 1, 2), *((place, 50) for place in range(60, 5000, 3))]:
        records[place] = records[copied]
    first = {record: place for place, record in reversed(list(enumerate(records)))}
    run = Run(layer, tmp_path, memory)
    for _ in range(2):
        mixed = await run.mix(wrapped(layer, records))
        assert mixed.dropped == RECORDS - len(first)
        assert Counter(run.sent()) == Counter(first.keys())
        assert run.permutation is not None
        assert [first[record] for record in run.sent()] == run.permutation.tolist()


@pytest.mark.parametrize("position", [1, 2])
async def test_a_batch_of_one_onion_only_becomes_one_record(tmp_path: Path, position: int) -> None:
    layer = layer_of(position)
    run = Run(layer, tmp_path)
    mixed = await run.mix(wrapped(layer, fresh(layer, 1) * RECORDS))
    assert (mixed.records, mixed.dropped) == (1, RECORDS - 1)
    assert run.permutation is not None
    assert run.permutation.tolist() == [0]


async def test_real_onions_are_opened_and_those_that_do_not_open_are_dropped_once(
    tmp_path: Path,
) -> None:
    layer = layer_of(2)
    suite = suite_named("sealed-box")
    private, public = suite.generate()
    seal, records = suite.sealer(public, binding("r", 2)), fresh(layer, 3000)
    onions = [seal(record) for record in records]
    closed, doubled = os.urandom(layer.unit_bytes), 700
    onions[5] = onions[2999] = closed
    onions[1500] = onions[doubled]
    run = Run(layer_of(2, private), tmp_path, memory=2**17, pool=PeelPool(1))
    try:
        mixed = await run.mix(b"".join(onions))
    finally:
        run.pool.close()
    assert (mixed.records, mixed.dropped) == (2997, 3)
    left = [place for place in range(3000) if place not in (5, 2999, 1500)]
    assert run.permutation is not None
    assert sorted(run.permutation) == left
    assert [records[place] for place in run.permutation] == run.sent()


async def test_too_many_dropped_ends_it_before_anything_is_written(tmp_path: Path) -> None:
    def refuse(dropped: int) -> None:
        raise BadBatchError(f"{dropped} are too many")

    layer = layer_of(2)
    run, records = Run(layer, tmp_path, before_writing=refuse), fresh(layer)
    with pytest.raises(BadBatchError, match="1 are too many"):
        await run.mix(wrapped(layer, [*records, records[7]]))
    assert run.files() == {"in"}


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The system refuses every byte of this process beyond `size` in any file, as a full disk
    would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("position", [1, 2])
async def test_a_disk_that_takes_no_spill_fails_it_with_advice_and_leaves_nothing(
    tmp_path: Path, position: int
) -> None:
    layer = layer_of(position)
    packed = wrapped(layer, fresh(layer))
    run = Run(layer, tmp_path)
    (tmp_path / "in").write_bytes(packed)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    run.during = lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, most))
    with (
        files_no_larger_than(len(packed)),
        pytest.raises(NodeFault, match=r"make room .* `\[mixing\] memory`"),
    ):
        await run.mix(packed)
    assert run.files() == {"in"}
    run.during = lambda _: None
    assert (await run.mix(packed)).records == RECORDS, "with room again, from the same input"


async def test_a_spill_that_was_changed_fails_it_and_nothing_goes_out(tmp_path: Path) -> None:
    def damage(_: int) -> None:
        with run.spilled()[1].open("r+b") as file:
            file.seek(100)
            file.write(b"\0" * 16)

    layer = layer_of(2)
    run = Run(layer, tmp_path, before_writing=damage)
    with pytest.raises(NodeFault, match="damaged"):
        await run.mix(wrapped(layer, fresh(layer)))
    assert not (tmp_path / "out").exists()
    assert not run.spilled()


async def test_memory_does_not_grow_with_the_batch(tmp_path: Path) -> None:
    """Peak of everything that Python and numpy allocate.

    Input of 6 and 24 MB, output of 3 and 14 MB.
    """
    layer, memory, peaks = layer_of(2), 2**21, []
    for count in (50_000, 200_000):
        units = np.frombuffer(os.urandom(count * layer.unit_bytes), dtype=np.uint8)
        source = tmp_path / "in"
        units.tofile(source)
        del units
        tracemalloc.start()
        await mix(
            Batch(layer, count, source, tmp_path / "out"),
            OpenOnions(1),
            os.urandom,
            lambda _: None,
            memory=memory,
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Beside `memory`: pieces of half a megabyte on their way, as many as the threads happen to
    # hold, and tags of 16,384 records at a time. The larger batch alone, as a whole, would be above
    # it.
    assert max(peaks) < memory + 6 * 2**20, peaks


def test_what_a_killed_node_left_in_a_round_is_removed_at_start(tmp_path: Path) -> None:
    round_ = tmp_path / "state" / "rounds" / ("a" * 32)
    NodeStore(tmp_path / "state").close()
    round_.mkdir()
    for name in ("outgoing.order-3.spill", "outgoing.part", "incoming"):
        (round_ / name).write_bytes(b"x")
    store = NodeStore(tmp_path / "state")
    assert store.spool_bytes()["spill"] == 0
    store.close()
    assert [path.name for path in round_.iterdir()] == ["incoming"]
