"""Whole rounds: time relative to bare public-key work, and memory of the nodes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from bench.crypto import all_cores, bare_users, rate
from bench.machine import children_of, peak_resident
from shuffledp.columns import load_column
from shuffledp.progress import Stages
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.privacy import Adjacency
from shuffledp_ops.rounds.running import StageClock
from shuffledp_sim.demo import DemoOptions, run_demo
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.sealing import sealing_pool, warm

CORES = os.cpu_count() or 1


async def demo_ratio() -> float:
    """Print and return the time of a demo round of many messages relative to its bare cryptography.

    Start-up is excluded; both run on all cores.

    The bare work is done right after the round, on the same clock: what else the machine does slows
    both.
    """
    options = DemoOptions(mechanism="geo-shuffle")
    column = load_column(None, None, users=options.users, max_value=options.max_value)
    with tempfile.TemporaryDirectory() as folder:
        report = (
            await run_demo(options, column, Stages(Console(stderr=True)), Path(folder))
        ).report
    geometry = Geometry.of(report.final.mechanism, report.suite, report.final.nodes)
    with all_cores() as bare:
        pure = report.users / rate(
            bare, partial(bare_users, geometry), max(1, report.users // (4 * CORES))
        )
    spent = report.seconds["total"] - report.seconds["start"]
    print(f"  start-up {report.seconds['start']:.1f} s (wanted at most 10 s)")
    print(f"  round {spent:.1f} s, pure crypto {pure:.1f} s ({report.messages:,} messages)")
    print(f"  round / pure crypto: {spent / pure:.2f} (wanted at most 1.5)")
    return spent / pure


async def memory() -> None:
    """Print the peak memory of each node with its workers, and its share taken by records."""
    users, bits = 1000, 250
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        async with LocalSystem(
            Path(folder), nodes=3, budget=LocalBudget(1e6, 1e-3), forked=False
        ) as system:
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
            idle = {name: _peak(system, name) for name in system.route}
            report = await run_round(
                system, plan, values, pool, Stages(Console(stderr=True)), StageClock()
            )
            geometry = Geometry.of(report.final.mechanism, report.suite, report.final.nodes)
            print(
                f"  {report.messages:,} messages; peak resident memory of each node and its "
                "workers:"
            )
            for position, name in enumerate(system.route, start=1):
                peak = _peak(system, name)
                records = report.messages * geometry.record_bytes(max(2, position))
                above = peak - idle[name]
                print(
                    f"  {name}: {peak / 1e6:,.0f} MB, of it {above / 1e6:,.0f} MB above the idle "
                    f"node; these / its {records / 1e6:,.0f} MB of records: {above / records:.1f}"
                )


def _peak(system: LocalSystem, name: str) -> int:
    pid = system.processes[name].pid
    return sum(peak_resident(process) for process in [pid, *children_of(pid)])


def run() -> None:
    """Run all measurements of this module."""
    asyncio.run(demo_ratio())
    asyncio.run(memory())
