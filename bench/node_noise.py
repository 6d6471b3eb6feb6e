"""Cost of rounds with noise of nodes relative to the plain histogram, and a large round.

`python -m bench.node_noise --people 1000000` plays the large round alone, at that size.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from bench.machine import children_of, peak_resident, processor_seconds
from shuffledp.progress import Stages
from shuffledp_core.documents.models import RoundPlan
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import StageClock
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.sealing import sealing_pool, warm

NODE_NOISE: Final = "node-histogram"
PLAIN: Final = "krr-histogram"
TURNS: Final = 3
"""Rounds of each mechanism, in turn; the median counts."""

PEOPLE: Final = 100_000
"""People of the large round in `make bench`; the target is for ten times as many."""


def _plan(system: LocalSystem, mechanism: str, people: int, symbols: int) -> RoundPlan:
    return RoundPlan(
        population=system.population,
        mechanism=mechanism,
        size=symbols,
        epsilon=1.0,
        delta=1e-6,
        min_reports=people,
        max_reports=people,
        route=system.route,
        open_seconds=7200.0,
    )


def _processes(system: LocalSystem) -> tuple[set[int], set[int]]:
    """Process ids of all parties with their workers, and of the simulated users with theirs."""
    parties = {process.pid for process in system.processes.values()}
    workers = {child for pid in parties for child in children_of(pid)}
    # The parties are children of this process, too.
    return parties | workers, {os.getpid(), *children_of(os.getpid())} - parties


def _processor_time(system: LocalSystem) -> tuple[float, float]:
    """Processor seconds so far: of the parties, and of the simulated users."""
    parties, users = _processes(system)
    return sum(map(processor_seconds, parties)), sum(map(processor_seconds, users))


async def price(people: int = 10_000, symbols: int = 21) -> float:
    """Print and return the ratio of processor times: a round with node noise / a plain histogram.

    It covers all parties and users without start and enrolment; both rounds run in turn on the same
    system.
    """
    seconds: dict[str, list[float]] = {PLAIN: [], NODE_NOISE: []}
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        async with LocalSystem(
            Path(folder), nodes=3, budget=LocalBudget(1e6, 1e-3), forked=False
        ) as system:
            await warm(pool)
            values = np.arange(people, dtype=np.int64) % symbols
            for _ in range(TURNS):
                for mechanism, measured in seconds.items():
                    before = sum(_processor_time(system))
                    plan = _plan(system, mechanism, people, symbols)
                    stages = Stages(Console(stderr=True))
                    await run_round(system, plan, values, pool, stages, StageClock())
                    measured.append(sum(_processor_time(system)) - before)
    medians = {mechanism: statistics.median(turns) for mechanism, turns in seconds.items()}
    ratio = medians[NODE_NOISE] / medians[PLAIN]
    print(
        f"  node noise / plain histogram, {people:,} people, {symbols} symbols: {ratio:.2f} "
        f"(wanted at most 1.2; {medians[NODE_NOISE]:.1f} s and {medians[PLAIN]:.1f} s of processor "
        f"time, medians of {TURNS})"
    )
    return ratio


async def large(people: int = PEOPLE, symbols: int = 1000) -> RoundReport:
    """Run a large round with node noise; print seconds, processor time and peak memory."""
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        async with LocalSystem(
            Path(folder), nodes=3, budget=LocalBudget(1e6, 1e-3), forked=False
        ) as system:
            await warm(pool)
            values = np.arange(people, dtype=np.int64) % symbols
            before = _processor_time(system)
            plan = _plan(system, NODE_NOISE, people, symbols)
            report = await run_round(
                system, plan, values, pool, Stages(Console(stderr=True)), StageClock()
            )
            after = _processor_time(system)
            peaks = {
                name: sum(map(peak_resident, [process.pid, *children_of(process.pid)]))
                for name, process in system.processes.items()
            }
    of_parties, of_users = (end - begin for begin, end in zip(before, after, strict=True))
    stages = ", ".join(f"{name} {seconds:.0f}" for name, seconds in report.seconds.items())
    print(
        f"  {people:,} people, {symbols:,} symbols, {report.final.mechanism.dummies_per_node:,} "
        f"dummies a node: seconds {stages}; of processor time {of_parties:.0f} s the parties and "
        f"{of_users:.0f} s the simulated users with their enrolment (wanted for 1,000,000 people: "
        "at most 360 s on two idle cores)"
    )
    print(
        "  peak memory with workers: "
        + ", ".join(f"{name} {peak / 1e6:,.0f} MB" for name, peak in peaks.items())
        + " (wanted at most 1,000 MB a party)"
    )
    return report


def measure_all() -> None:
    """Run all benchmarks of this module."""
    asyncio.run(price())
    asyncio.run(large())


def main() -> None:
    """Run only the large round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=PEOPLE)
    asyncio.run(large(parser.parse_args().people))


if __name__ == "__main__":
    main()
