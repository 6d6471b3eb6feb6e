"""A node's own work: peel rate against bare X25519, and growth with the number of messages."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.crypto import ROUND, all_cores, bare_x25519, rate
from shuffledp_core.answering.decoding import decode
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.batch import Batch
from shuffledp_shuffler.duplicates import find_repeated
from shuffledp_shuffler.mixing import mix
from shuffledp_shuffler.peel_worker import Layer
from shuffledp_shuffler.peeling import PeelPool
from shuffledp_shuffler.permutation import permuted_pieces, uniform_permutation

MESSAGES = 40_000


def _seal_batch(geometry: Geometry, position: int, count: int) -> tuple[bytes, bytes]:
    suite = suite_named(geometry.suite)
    private, public = suite.generate()
    seal = suite.sealer(public, binding(ROUND, position))
    width = geometry.record_bytes(position + 1)
    return private, b"".join(seal(os.urandom(width)) for _ in range(count))


async def peel_ratio() -> float:
    """Print and return the decryption rate of one mixing node relative to bare X25519.

    Both rates are measured on all cores.
    """
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
    private, packed = _seal_batch(geometry, 2, MESSAGES)
    layer = Layer(geometry, ROUND, 2, private)
    pool = PeelPool(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder, all_cores() as bare:
        source = Path(folder) / "in"
        source.write_bytes(packed)
        ratios = []
        warm = Batch(layer, 4000, source, Path(folder) / "warm")
        await mix(warm, pool, system_random, lambda _: None)
        for trial in range(5):
            began = time.perf_counter()
            batch = Batch(layer, MESSAGES, source, Path(folder) / f"out{trial}")
            await mix(batch, pool, system_random, lambda _: None)
            peeled = MESSAGES / (time.perf_counter() - began)
            limit = rate(bare, bare_x25519, MESSAGES // (2 * (os.cpu_count() or 1)))
            ratios.append(peeled / limit)
        print(f"  peel and permute {peeled:,.0f}/s, bare X25519 {limit:,.0f}/s (last of 5 pairs)")
    pool.close()
    middle = float(np.median(ratios))
    print(f"  peel rate / bare X25519 rate: {middle:.2f} (median of 5; wanted at least 0.75)")
    return middle


def growth() -> None:
    """Print the cost of everything besides public-key work, for 1e4, 1e5 and 1e6 messages.

    For a node and the analyst.
    """
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=1, symbol_bytes=1)
    print("  microseconds a message     find repeats   permute    decode")
    for count in (10**4, 10**5, 10**6):
        width = geometry.record_bytes(2)
        records = np.frombuffer(os.urandom(count * width), dtype=np.uint8).reshape(count, width)
        times = [time.perf_counter()]
        find_repeated(records, system_random)
        times.append(time.perf_counter())
        for _ in permuted_pieces(records, uniform_permutation(count, system_random), 2**20):
            pass
        times.append(time.perf_counter())
        plain = (
            np.frombuffer(os.urandom(count * geometry.plain_bytes), dtype=np.uint8)
            .reshape(count, -1)
            .copy()
        )
        plain[:, 0] &= 1
        board = plain.tobytes()
        times.append(time.perf_counter())
        decode(board, geometry, 2, count)
        times.append(time.perf_counter())
        repeats, permute, _, read = (1e6 * (b - a) / count for a, b in pairwise(times))
        print(f"  {count:>12,}           {repeats:>12.3f} {permute:>12.3f} {read:>9.3f}")


def run() -> None:
    """Run all benchmarks of this module."""
    asyncio.run(peel_ratio())
    growth()
