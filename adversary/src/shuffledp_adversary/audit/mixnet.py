"""The audit over a real system: nodes, broker, accountant and analyst as processes.

The outcomes are the published answers.

A round takes nearly a second, so there is time for few rounds, and only gross faults are found:
missing noise, a value that is sent unchanged, an answer that identifies its user. Unlike the audit
in one process, it includes everything: the very parameters that the accountant calibrated, sampled
by clients that checked the manifest, mixed by the nodes, published by the analyst.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.guarantees import guarantee_of
from shuffledp.plans import Plan
from shuffledp.progress import Stages
from shuffledp_adversary.audit.audit import AuditReport, Effort, neighbours_of, spec_of
from shuffledp_adversary.audit.neighbours import Neighbours, rank_answers
from shuffledp_adversary.evidence import epsilon_bound
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import UsageError
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.running import StageClock
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.sealing import Progress, warm

OPEN_SECONDS: Final = 600.0
"""A round closes when everyone has submitted; this is only the latest moment."""


def audit_through_mixnet(
    question: Plan, effort: Effort, pool: ProcessPoolExecutor, progress: Progress | None = None
) -> AuditReport:
    """Run `effort.trials` rounds on each dataset in a real system, and audit their answers.

    A round is planned by its ε, so the mechanism's own parameters are calibrated by the accountant
    for the ε that the question's would have; the claim is the largest ε in the rounds' final
    certificates.

    Raises:
        UsageError: the question has no finite ε and δ, or is about a local view.
        ShuffleDPError: the error that ended a round.
    """
    began = time.perf_counter()
    guarantee, users = guarantee_of(question), question.setting.users
    if effort.local or question.delta == 0 or not guarantee.certified:
        raise UsageError(
            "an audit through the mixnet needs an epsilon and a delta above 0, and cannot "
            "measure a local view"
        )
    pair = neighbours_of(question, effort, users)
    reports = asyncio.run(
        _rounds(question, guarantee.certified, pair, effort.trials, pool, progress)
    )
    codes = rank_answers(np.array([report.estimate.values for report in reports]), pair)
    bound = epsilon_bound(codes[::2], codes[1::2], question.delta, effort.confidence)
    ran = replace(question, spec=reports[0].final.mechanism, asked=())
    certified = [report.final.epsilon.certified for report in reports]
    # The weakest claim of all: what contradicts this one contradicts that of every round.
    claimed = None if None in certified else max(bound for bound in certified if bound is not None)
    seconds = time.perf_counter() - began
    seconds_each = sum(report.seconds["total"] for report in reports) / len(reports)
    notes = (
        f"{len(reports)} rounds over real processes, {seconds_each:.2f} s each: a weak test, which "
        "shows only gross faults",
        "the mechanism's parameters are those the accountant calibrated for the given epsilon",
    )
    return AuditReport(
        guarantee_of(ran),
        pair,
        bound,
        claimed,
        "the rounds' final certificates",
        seconds,
        notes=notes,
    )


async def _rounds(
    question: Plan,
    epsilon: float,
    pair: Neighbours,
    trials: int,
    pool: ProcessPoolExecutor,
    progress: Progress | None,
) -> list[RoundReport]:
    """Run rounds on both datasets alternately, so that drift affects both equally."""
    datasets = [np.array(values, dtype=np.int64) for values in pair.datasets]
    units = (question.max_distance or 1) if question.per_unit else 1
    budget = LocalBudget(
        epsilon=2 * epsilon * units * 2 * trials, delta=min(0.999, 2 * trials * question.delta)
    )
    with tempfile.TemporaryDirectory(prefix="shuffledp-") as folder:
        system = LocalSystem(Path(folder), nodes=question.nodes, budget=budget)
        try:
            await asyncio.gather(system.start(), warm(pool))
            plan = _plan(system, question, epsilon)
            reports = []
            for number in range(2 * trials):
                reports.append(await _round(system, plan, datasets[number % 2], pool))
                if progress is not None:
                    progress(number + 1, 2 * trials)
        finally:
            system.stop()
    return reports


async def _round(
    system: LocalSystem, plan: RoundPlan, values: NDArray[np.int64], pool: ProcessPoolExecutor
) -> RoundReport:
    return await run_round(system, plan, values, pool, Stages(Console(quiet=True)), StageClock())


def _plan(system: LocalSystem, question: Plan, epsilon: float) -> RoundPlan:
    spec, setting = spec_of(question), question.setting
    return RoundPlan(
        population=system.population,
        mechanism=spec.kind,
        size=spec.size,
        epsilon=epsilon,
        delta=question.delta,
        adjacency=setting.adjacency,
        max_distance=setting.max_distance,
        min_reports=setting.users,
        max_reports=setting.users,
        route=system.route,
        open_seconds=OPEN_SECONDS,
    )
