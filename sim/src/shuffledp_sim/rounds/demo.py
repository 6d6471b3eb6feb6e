"""`shuffledp demo`: a whole round, from values in a file to a signed answer, on this machine."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from shuffledp_client.transport import AnalystReader
from shuffledp_core.documents.models import Manifest, Result, RoundPlan
from shuffledp_core.documents.signed import from_json
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.privacy import Adjacency
from shuffledp_core.transport.tls import CLIENT
from shuffledp_sim.progress import Stages
from shuffledp_sim.rounds.present import print_report, write_documents, write_report
from shuffledp_sim.rounds.report import RoundReport
from shuffledp_sim.rounds.running import StageClock, run_round
from shuffledp_sim.system.processes import Budget, LocalSystem
from shuffledp_sim.users.columns import load_column
from shuffledp_sim.users.sealing import sealing_pool, warm

COLLUDING_SHARE: Final = 0.05
"""Users that the guarantee does not count on: the plan assumes them to help the adversary."""

ABSENT_SHARE: Final = 0.05
"""Users that may stay away before the round is given up."""

OPEN_SECONDS: Final = 7200.0
"""The round closes when everybody has submitted; this is only the latest moment."""


@dataclass(frozen=True)
class DemoOptions:
    """The options of `shuffledp demo`; `corrupt` holds numbers from 1 to `nodes`."""

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
    corrupt: frozenset[int] = frozenset()

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
        report, folder = play_round(options, stages)
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(report, Console(), folder)


def play_round(options: DemoOptions, stages: Stages) -> tuple[RoundReport, Path]:
    """One round with all its files, and what its corrupt nodes, if any, could do with their logs; the files' folder.

    Raises:
        ShuffleDPError: whatever ended the round.
    """
    report, keys = asyncio.run(run_demo(options, stages))
    folder = options.out / report.round_id
    write_documents(report, folder, keys)
    if options.corrupt:
        from shuffledp_sim.tracing.trace import load_captured, trace_round

        report = replace(report, trace=trace_round(load_captured(folder)))
    write_report(report, folder)
    return report, folder


async def run_demo(options: DemoOptions, stages: Stages) -> tuple[RoundReport, dict[str, bytes]]:
    """One round over processes of its own; with the roster and root key, to verify the documents by later.

    Of a round with corrupt nodes, what these wrote is left in `options.out`/<round>.

    Raises:
        ShuffleDPError: whatever ended the round.
    """
    column = load_column(options.data, options.column, users=options.users, max_value=options.max_value)
    clock = StageClock()
    with tempfile.TemporaryDirectory(prefix="shuffledp-") as folder, sealing_pool() as pool:
        system = LocalSystem(Path(folder), nodes=options.nodes, budget=_budget(options), corrupt=options.corrupt)
        try:
            with clock.stage("start"):
                stages.update("start", 0, len(system.processes))
                started = partial(stages.update, "start")
                await asyncio.gather(system.start(started), warm(pool))
            plan = plan_of(system, options)
            who: list[bytes] = []
            report = await run_round(
                system, plan, column.values, pool, stages, clock, capped=column.capped, credentials=who
            )
            if options.corrupt:
                await keep_evidence(system, report, who, column.values, options.out / report.round_id)
            keys = {name: (system.deployment.folder / name).read_bytes() for name in ("roster.json", "root.pub")}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            system.stop()
    return report, keys


async def keep_evidence(
    system: LocalSystem, report: RoundReport, credentials: list[bytes], values: NDArray[np.int64], folder: Path
) -> None:
    """The board, the corrupt nodes' logs, and the truth to measure by, into a round's folder; see `tracing.trace`."""
    from shuffledp_sim.tracing.trace import BOARD, LOGS, keep_truth

    deployment, result = system.deployment, from_json(report.documents["result"].body, Result)
    geometry = from_json(report.documents["manifest"].body, Manifest).geometry
    async with AnalystReader.of(deployment.keys_of(CLIENT), deployment.roster) as analyst:
        board = await analyst.board(report.round_id, result.messages * geometry.plain_bytes)
    keep_truth(folder, credentials, values)
    (folder / BOARD).write_bytes(board)
    for name in system.corrupt:
        shutil.copytree(system.logs_of(name), folder / LOGS / name)


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
        allow_corrupt=bool(options.corrupt),
    )


def _budget(options: DemoOptions) -> Budget:
    """Enough for this one round: the budget counts total ε, a metric target is per unit."""
    units = options.max_distance or options.max_value if options.adjacency is Adjacency.METRIC else 1
    return Budget(epsilon=2 * options.epsilon * units, delta=options.delta)
