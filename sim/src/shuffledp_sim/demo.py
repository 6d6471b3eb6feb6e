"""`shuffledp demo`: a whole round, from values in a file to a signed answer, on this machine."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.privacy import Adjacency
from shuffledp_sim.columns import load_column
from shuffledp_sim.processes import Budget, LocalSystem
from shuffledp_sim.progress import Stages
from shuffledp_sim.report import RoundReport, print_report, write_files
from shuffledp_sim.rounds import StageClock, run_round
from shuffledp_sim.sealing import sealing_pool, warm

COLLUDING_SHARE: Final = 0.05
"""Users that the guarantee does not count on: the plan assumes them to help the adversary."""

ABSENT_SHARE: Final = 0.05
"""Users that may stay away before the round is given up."""

OPEN_SECONDS: Final = 7200.0
"""The round closes when everybody has submitted; this is only the latest moment."""


@dataclass(frozen=True)
class DemoOptions:
    """The options of `shuffledp demo`."""

    users: int = 2000
    mechanism: str = "geo-shuffle"
    epsilon: float = 1.0
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None
    nodes: int = 3
    suite: str = "sealed-box"
    data: Path | None = None
    column: str | None = None
    max_value: int = 20
    out: Path = Path("out")

    def __post_init__(self) -> None:
        suite_named(self.suite)
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"--epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta must be above 0 and below 1, not {self.delta}")
        if self.max_distance is not None and self.max_distance > self.max_value:
            raise UsageError(f"--max-distance must be at most --max-value, {self.max_value}, not {self.max_distance}")


def run_demo_command(options: DemoOptions, *, as_json: bool) -> None:
    """Runs the round, prints the answer, leaves the documents in `options.out`/<round> and no process behind."""
    with Stages(Console(stderr=True)) as stages:
        report, keys = asyncio.run(run_demo(options, stages))
    folder = options.out / report.round_id
    write_files(report, folder, keys)
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(report, Console(), folder)


async def run_demo(options: DemoOptions, stages: Stages) -> tuple[RoundReport, dict[str, bytes]]:
    """One round over processes of its own; with the roster and root key, to verify the documents by later.

    Raises:
        ShuffleDPError: whatever ended the round.
    """
    column = load_column(options.data, options.column, users=options.users, max_value=options.max_value)
    clock = StageClock()
    with tempfile.TemporaryDirectory(prefix="shuffledp-") as folder, sealing_pool() as pool:
        system = LocalSystem(Path(folder), nodes=options.nodes, budget=_budget(options))
        try:
            with clock.stage("start"):
                stages.update("start", 0, len(system.processes))
                started = partial(stages.update, "start")
                await asyncio.gather(system.start(started), warm(pool))
            plan = plan_of(system, options)
            report = await run_round(system, plan, column.values, pool, stages, clock, capped=column.capped)
            keys = {name: (system.deployment.folder / name).read_bytes() for name in ("roster.json", "root.pub")}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            system.stop()
    return report, keys


def plan_of(system: LocalSystem, options: DemoOptions) -> RoundPlan:
    """The plan of a demo round over all nodes of the system."""
    histogram = options.mechanism == KRRHistogram.kind
    least = max(1, options.users - int(ABSENT_SHARE * options.users))
    return RoundPlan(
        population=system.population,
        mechanism=options.mechanism,
        size=options.max_value + 1 if histogram else options.max_value,
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        max_distance=options.max_distance,
        min_reports=least,
        max_reports=options.users,
        colluding=min(int(COLLUDING_SHARE * options.users), least - 1),
        route=system.route,
        suite=options.suite,
        open_seconds=OPEN_SECONDS,
    )


def _budget(options: DemoOptions) -> Budget:
    """Enough for this one round: the budget counts total ε, a metric target is per unit."""
    units = options.max_distance or options.max_value if options.adjacency is Adjacency.METRIC else 1
    return Budget(epsilon=2 * options.epsilon * units, delta=options.delta)
