"""Processor time of shuffling on a Ray cluster that loses a machine, and in memory."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from bench.shuffling import ALL_MEMORY, LAYER, STEP, measure
from shuffledp_shuffler.cluster.config import EngineConfig
from shuffledp_shuffler.cluster.driver import ClusterJob, Mixing, drive
from shuffledp_shuffler.cluster.engine import RayEngine
from shuffledp_shuffler.cluster.work import Job, Sealed, Sum, split_block
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk
from shuffledp_shuffler.permutation import Records
from shuffledp_sim.system.ray_cluster import RayCluster

RECORDS = 10**7
TASK_BYTES = 2**26


def bare(layer: Layer, packed: bytes) -> PeeledChunk:
    """Open onions whose layer is a plain prefix, as `bench.shuffling.OpenOnions` does."""
    units = np.frombuffer(packed, dtype=np.uint8).reshape(-1, layer.unit_bytes)
    return PeeledChunk(units[:, -layer.geometry.record_bytes(layer.position + 1) :].tobytes(), ())


def opened_bare(_: str, job: Job, block: int, packed: Records) -> tuple[Sum | Sealed, ...]:
    """`tasks.open_block` without public-key work, so that only moving records is measured."""
    summed, groups, buckets = split_block(job, block, packed.tobytes(), bare)
    return (summed, *groups, *buckets)


def drive_bare(pipe: Connection, config: EngineConfig, work: ClusterJob | None) -> None:
    """`driver.drive` with `opened_bare` instead of the real task."""
    Mixing.opens = staticmethod(
        opened_bare
    )  # in the process that directs the cluster, and ends with it
    drive(pipe, config, work)


async def _mix_once(cluster: RayCluster, source: Path, count: int, kill: Callable[[], None]) -> int:
    killed = False

    def progress(done: int) -> None:
        nonlocal killed
        if not killed and done >= count // 2:
            killed = True
            kill()

    config = cluster.engine(task_memory=TASK_BYTES)
    target = source.with_name("out")
    mixed = await RayEngine(config, drive_bare).mix(
        LAYER, count, source, target, os.urandom, progress
    )
    return count - mixed.records


def killed(records: int = RECORDS) -> float | None:
    """Print and return the ratio of processor times: on a cluster that loses a machine / in memory.

    None without Ray.
    """
    if importlib.util.find_spec("ray") is None:
        print("  Ray is not installed: make test-ray does that")
        return None
    import ray.util

    with tempfile.TemporaryDirectory(prefix="sdp") as folder:
        source = Path(folder) / "in"
        with source.open("wb") as file:
            for start in range(0, records, STEP):
                file.write(os.urandom(min(STEP, records - start) * LAYER.unit_bytes))
        inside, *_ = measure(source, ALL_MEMORY)
        cluster = RayCluster(
            Path(folder), ray.util.get_node_ip_address(), store=2**30, direct=100 * 2**10
        )
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # where workers find this module
        try:
            cluster.start_missing()
            idle = sum(machine.processor_seconds() for machine in cluster.machines())
            began = time.perf_counter()
            before = sum(os.times()[:4])
            lost: list[float] = []

            def kill() -> None:
                victim = cluster.workers.pop()
                lost.append(victim.processor_seconds())
                victim.kill()

            missing = asyncio.run(_mix_once(cluster, source, records, kill))
            if not lost:
                raise RuntimeError(
                    "the batch was mixed before a worker was killed: take more records"
                )
            left = sum(machine.processor_seconds() for machine in cluster.machines())
            spent = left + sum(lost) - idle + sum(os.times()[:4]) - before
            seconds = time.perf_counter() - began
        finally:
            cluster.close()
        print(
            f"  {records:,} records: in memory {inside:.2f} processor seconds; on a cluster, one "
            f"of two workers killed, {spent:.2f} in {seconds:.0f} s, {missing} missing, and the "
            "same multiset (or it had failed)"
        )
        print(f"  on a cluster / in memory: {spent / inside:.2f} (wanted at most 4.5)")
        return spent / inside


def run() -> None:
    """Run all benchmarks of this module."""
    killed()
