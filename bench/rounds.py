"""Whole rounds: against the pure public-key work, and the memory of the nodes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console

from bench.crypto import user_seconds
from bench.machine import children_of, peak_resident
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_sim.demo import DemoOptions, run_demo
from shuffledp_sim.processes import Budget, LocalSystem
from shuffledp_sim.progress import Stages
from shuffledp_sim.rounds import StageClock, run_round
from shuffledp_sim.sealing import sealing_pool, warm

CORES = os.cpu_count() or 1


async def demo_ratio() -> float:
    """Prints and gives: the default demo round, start-up apart / all its seals and opens / cores."""
    report, _ = await run_demo(DemoOptions(), Stages(Console(stderr=True)))
    geometry = Geometry.of(report.final.mechanism, report.suite, report.final.nodes)
    pure = report.users * user_seconds(geometry) / CORES
    spent = report.seconds["total"] - report.seconds["start"]
    print(f"  start-up {report.seconds['start']:.1f} s (wanted at most 10 s)")
    print(f"  round {spent:.1f} s, pure crypto {pure:.1f} s ({report.messages:,} messages)")
    print(f"  round / pure crypto: {spent / pure:.2f} (wanted at most 1.5)")
    return spent / pure


async def memory() -> None:
    """Prints the peak memory of each node, workers included, for 1,000 users x 1,000 messages."""
    users, bits = 1000, 1000
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        async with LocalSystem(Path(folder), nodes=3, budget=Budget(1e6, 1e-3)) as system:
            await warm(pool)
            plan = RoundPlan(
                population=system.population,
                mechanism="rr-shuffle",
                size=bits,
                epsilon=0.5,
                delta=1e-6,
                adjacency=Adjacency.METRIC,
                max_distance=1,
                min_reports=users,
                max_reports=users,
                route=system.route,
                open_seconds=3600.0,
            )
            values = np.arange(users, dtype=np.int64) % (bits + 1)
            report = await run_round(system, plan, values, pool, Stages(Console(stderr=True)), StageClock())
            print(f"  {report.messages:,} messages through {len(system.route)} nodes; peak resident memory:")
            for name in system.route:
                pid = system.processes[name].pid
                total = sum(peak_resident(one) for one in [pid, *children_of(pid)])
                print(f"  {name}: {total / 1e6:,.0f} MB with its workers (wanted below 1,000 MB)")


def run() -> None:
    """All of the above."""
    asyncio.run(demo_ratio())
    asyncio.run(memory())
