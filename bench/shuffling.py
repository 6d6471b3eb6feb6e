"""Processor time and memory of shuffling a batch out of core, relative to in memory.

The same code runs at two settings.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import numpy as np

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.layout import MEMORY_BYTES
from shuffledp_shuffler.mixing import mix
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk
from shuffledp_shuffler.peeling import PeelPool

RECORDS = 10**6
ALL_MEMORY = 2**38
"""Bytes; more than any batch of a bench, which therefore stays in memory."""

LAYER = Layer(
    Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1), "bench", 2, b""
)
_TURNS = 3
STEP = 2**16
"""Units that are made at a time."""


class OpenOnions(PeelPool):
    """Opens onions whose layer is a plain prefix, so that only moving records is measured."""

    async def peel(
        self, layer: Layer, pieces: Iterable[bytes], store: Callable[[PeeledChunk], Awaitable[None]]
    ) -> None:
        """See `PeelPool.peel`."""
        width = layer.geometry.record_bytes(layer.position + 1)
        for piece in pieces:
            units = np.frombuffer(piece, dtype=np.uint8).reshape(-1, layer.unit_bytes)
            await store(PeeledChunk(units[:, -width:].tobytes(), ()))


def _peak() -> int:
    """Highest resident memory of this process so far, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _once(source: Path, memory: int) -> None:
    """Mix the file once.

    Prints processor seconds, and the peak memory in bytes before and after.
    """
    count = source.stat().st_size // LAYER.unit_bytes
    before = _peak()
    began = time.process_time()
    batch = Batch(LAYER, count, source, source.with_name("out"))
    asyncio.run(mix(batch, OpenOnions(1), system_random, lambda _: None, memory=memory))
    print(time.process_time() - began, before, _peak())


def measure(source: Path, memory: int) -> tuple[float, ...]:
    """Mix the file within `memory` bytes; return processor seconds, peak bytes before and after."""
    # A process of its own: the peak of memory is that of a process, and never falls.
    command = [sys.executable, "-m", "bench.shuffling", str(source), str(memory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    return tuple(map(float, done.stdout.split()))


def out_of_core(records: int = RECORDS, turns: int = _TURNS) -> float:
    """Print and return processor time of mixing out of core relative to in memory.

    Also prints both peaks of memory.
    """
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in"
        with source.open("wb") as file:
            for start in range(0, records, STEP):
                file.write(os.urandom(min(STEP, records - start) * LAYER.unit_bytes))
        for _ in range(turns):
            (inside, _, complete), (outside, idle, bounded) = (
                measure(source, memory) for memory in (ALL_MEMORY, MEMORY_BYTES)
            )
            ratios.append(outside / inside)
            print(
                f"  {records:,} records: in memory {inside:.2f} processor seconds, "
                f"{complete / 1e6:,.0f} MB; out of core "
                f"{outside:.2f}, {bounded / 1e6:,.0f} MB, of which {idle / 1e6:.0f} before it"
            )
    middle = float(np.median(ratios))
    print(
        f"  out of core / in memory: {middle:.2f} (median of {turns}; wanted at most 1.2, in at "
        "most 250 MB)"
    )
    return middle


def run() -> None:
    """Run all benchmarks of this module."""
    out_of_core()


if __name__ == "__main__":
    _once(Path(sys.argv[1]), int(sys.argv[2]))
