"""A hundred million messages through one node, which is killed twice.

A real node program with its TLS, disk and default memory. This program plays the node before it and
the analyst. Each message carries its number, so that the analyst's end counts exactly which
messages are missing and which came twice.

`python -m bench.large_batch --records 1000000` for a shorter run. The full one needs 20 GB of disk
and, before the batch is handed over, some minutes to seal the messages.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import structlog
from numpy.typing import NDArray
from rich.console import Console

from bench.machine import children_of, machine, peak_resident
from shuffledp.progress import Stages
from shuffledp_core.documents.models import BatchHeader, Party
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import BadBatchError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.acceleration import engine
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import seal_records
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.keys import verify_from
from shuffledp_proto.v1 import batch_pb2, node_pb2
from shuffledp_shuffler.relay import Relay

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shuffler"))
from shuffler_world import Round, World

RECORDS = 10**8
MESSAGES = 100
"""Of each user."""

STEP = 2**16
"""Messages that are sealed at a time."""

PATIENCE_SECONDS = 1800.0
OPEN_MILLISECONDS = 3 * 3_600_000

_STAGES = {
    node_pb2.ROUND_PHASE_MIXING: "mixing",
    node_pb2.ROUND_PHASE_RELAYING: "sending",
    node_pb2.ROUND_PHASE_DONE: "sending",
}
"""What the progress bar calls the phases of the node."""


@dataclass
class CountingSink:
    """The analyst's end: counts how often each message arrived, in the batch that came last."""

    sender: Party
    geometry: Geometry
    records: int
    counts: NDArray[np.uint8] = field(init=False)
    calls: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def AddBatch(  # noqa: N802 - gRPC's name
        self, request_iterator: AsyncIterator[batch_pb2.AddBatchRequest], context: Any
    ) -> batch_pb2.AddBatchResponse:
        """Count the messages of one batch; its digest must be the signed one."""
        del context
        self.calls += 1
        self.counts = np.zeros(self.records, dtype=np.uint8)
        first = await anext(aiter(request_iterator))
        digest, rest = hashlib.sha256(), b""
        width = self.geometry.plain_bytes
        async for request in request_iterator:
            digest.update(request.chunk.data)
            data = rest + request.chunk.data
            cut = len(data) - len(data) % width
            rest = data[cut:]
            self._count(np.frombuffer(data[:cut], dtype=np.uint8).reshape(-1, width))
        header = verify_from(self.sender, Signed.from_bytes(first.header), BatchHeader)
        if digest.hexdigest() != header.digest or rest:
            # That of a sender that was killed, which starts again and sends the whole batch.
            raise BadBatchError("the batch is not the one that its header commits to")
        self.arrived.set()
        return batch_pb2.AddBatchResponse()

    def _count(self, messages: NDArray[np.uint8]) -> None:
        tags = messages[:, self.geometry.symbol_bytes :]
        numbers = np.ascontiguousarray(tags[:, :8]).view("<u8").ravel()
        np.add.at(self.counts, numbers.astype(np.intp), 1)


def _seal_onions(
    geometry: Geometry, round_id: str, keys: list[bytes], start: int, count: int
) -> bytes:
    tags = os.urandom(8 * count)
    messages = [
        bytes(geometry.symbol_bytes)
        + (start + index).to_bytes(8, "little")
        + tags[8 * index : 8 * index + 8]
        for index in range(count)
    ]
    return b"".join(seal_records(geometry, round_id, keys, 1, messages, [os.urandom] * count))


def _write_onions(file: BinaryIO, round_: Round, records: int, stages: Stages) -> str:
    """Seal the messages for node 2 into a file, on all cores; return the file's SHA-256 in hex."""
    digest = hashlib.sha256()
    seal = partial(_seal_onions, round_.geometry, round_.round_id, round_.public_keys())
    starts = range(0, records, STEP)
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        # A few at a time: the pool would keep all that is sealed before it is written.
        for first in range(0, len(starts), 4 * workers):
            some = starts[first : first + 4 * workers]
            counts = [min(STEP, records - start) for start in some]
            for packed in pool.map(seal, some, counts):
                digest.update(packed)
                file.write(packed)
            stages.update("sealing", some[-1] + counts[-1], records)
    return digest.hexdigest()


class KilledNode:
    """Node 2 as a process that is killed and started again, with the peak memory of all of it."""

    def __init__(self, world: World, round_id: str, stages: Stages) -> None:
        self._world = world
        self._round_id = round_id
        self._stages = stages
        self._process: asyncio.subprocess.Process | None = None
        self.peaks: dict[str, int] = {}

    async def start(self) -> None:
        """Start it, with one worker per core and the default memory."""
        self._process = await self._world.start_process("node-2", workers=os.cpu_count() or 1)

    async def kill(self) -> None:
        """Kill -9 at once."""
        self.measure()
        if self._process is not None:
            await self._world.kill(self._process)

    def measure(self) -> None:
        """Remember the largest peaks so far: of the program, and of each of its workers."""
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(OSError, StopIteration):
            pid = self._process.pid
            workers = sorted((peak_resident(child) for child in children_of(pid)), reverse=True)
            peaks = {"program": peak_resident(pid)} | {
                f"worker {number}": peak for number, peak in enumerate(workers, 1)
            }
            self.peaks = {
                name: max(self.peaks.get(name, 0), peaks.get(name, 0))
                for name in self.peaks.keys() | peaks.keys()
            }

    async def until(self, phase: int, share: float) -> None:
        """Return once this share of the phase is done, or the phase is over."""
        async for status in self._world.watch("node-2", self._round_id):
            self.measure()
            self._stages.update(_STAGES.get(status.phase, "other"), status.done, status.total)
            if status.phase == node_pb2.ROUND_PHASE_FAILED:
                raise RuntimeError(status.reason)
            if status.phase > phase or (
                status.phase == phase and status.total and status.done >= share * status.total
            ):
                return


async def _play(folder: Path, records: int, stages: Stages) -> None:
    users = records // MESSAGES
    world = World(folder)
    try:
        mechanism = RRShuffle(max_value=MESSAGES, randomise=Fraction(1, 4))
        await world.start("node-1", "node-2")
        closes = system_clock() + OPEN_MILLISECONDS
        round_ = world.round(mechanism, users=users, honest=users, expires_at=closes)
        await world.prepare_all(round_)
        round_.manifest = world.manifest(
            round_, min_reports=users, max_reports=users, closes_at=closes
        )
        for name in world.names:
            await world.set_manifest(name, round_.manifest)
        for name in world.names:
            await world.stop(name)
        await world.hang_up()
        source = folder / "sealed"
        began = time.perf_counter()
        with source.open("wb") as file:
            digest = _write_onions(file, round_, records, stages)
        print(f"  {records:,} messages sealed in {time.perf_counter() - began:.0f} s", flush=True)
        sink = CountingSink(world.roster.party("node-2"), round_.geometry, records)
        world.sink = sink  # type: ignore[assignment]
        await world.start_analyst()
        await _mix(world, round_, source, digest, sink, stages)
    finally:
        await world.close()


async def _mix(
    world: World, round_: Round, source: Path, digest: str, sink: CountingSink, stages: Stages
) -> None:
    node = KilledNode(world, round_.round_id, stages)
    await node.start()
    header = world.deployment.identity_of("node-1").sign(
        BatchHeader(
            round_id=round_.round_id,
            position=2,
            users=sink.records // MESSAGES,
            records=sink.records,
            digest=digest,
        )
    )
    relay = Relay(world.deployment.keys_of("node-1"), world.roster, PATIENCE_SECONDS)

    async def nothing() -> None:
        pass

    began = time.perf_counter()

    def report(what: str) -> None:
        print(f"  {time.perf_counter() - began:6.0f} s: {what}", flush=True)

    await relay.send(world.roster.party("node-2"), header, source, nothing, lambda _: None)
    await asyncio.to_thread(source.unlink)
    report("the node has the batch")
    await node.until(node_pb2.ROUND_PHASE_MIXING, 0.5)
    await node.kill()
    report("killed while it decrypts, half of the messages done")
    await node.start()
    await node.until(node_pb2.ROUND_PHASE_RELAYING, 0.5)
    await node.kill()
    report("killed while it sends, half of the batch sent")
    await node.start()
    await node.until(node_pb2.ROUND_PHASE_DONE, 0)
    await sink.arrived.wait()
    seconds = time.perf_counter() - began
    report(f"done, sent {sink.calls} times")
    await node.kill()
    lost, repeated = int(np.sum(sink.counts == 0)), int(np.sum(sink.counts > 1))
    print(f"  lost {lost:,}, doubled {repeated:,} of {sink.records:,}")
    print(
        "  peak MB: "
        + ", ".join(f"{name} {peak / 1e6:.0f}" for name, peak in sorted(node.peaks.items()))
    )
    print(f"  {seconds / 60:.1f} min (wanted at most 15 for 100,000,000, in at most 250 MB)")


def main() -> None:
    """Run it with the number of messages on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--records", type=int, default=RECORDS, help=f"messages, a multiple of {MESSAGES}"
    )
    parser.add_argument("--folder", type=Path, help="where there is room for 200 bytes a message")
    options = parser.parse_args()
    if options.records < MESSAGES or options.records % MESSAGES:
        parser.error(f"--records must be a multiple of {MESSAGES}, the messages of a user")
    # The nodes that are killed end calls in both directions, which gRPC would log with a traceback.
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    used = engine()
    print(f"{machine()}; accelerator: {used.path if used else 'none (make accel)'}")
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        Stages(Console(stderr=True)) as stages,
    ):
        asyncio.run(_play(Path(folder), options.records, stages))


if __name__ == "__main__":
    main()
