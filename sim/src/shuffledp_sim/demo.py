"""Demo of a round on this machine, from values in a file to a signed answer: `shuffledp demo`."""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray
from rich.console import Console

from shuffledp.columns import Column
from shuffledp.open_lists import find_in_simulation
from shuffledp.progress import Stages
from shuffledp.published import BOARD
from shuffledp.question_files import ask
from shuffledp.records import load_answers
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import OutputError, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.onion.suites import check_suite
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import DEFAULT_SUITE, Mix
from shuffledp_ops.rounds.operate import trusted_files
from shuffledp_ops.rounds.present import print_answer, print_folder, write_documents
from shuffledp_ops.rounds.report import RoundReport, TraceOutcome
from shuffledp_ops.rounds.running import StageClock, fetch_board
from shuffledp_ops.rounds.saving import point_latest, save_round, show_then_save, writable_folder
from shuffledp_sim.captured import LOGS, keep_truth
from shuffledp_sim.playing import run_round
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.system.workplace import workplace
from shuffledp_sim.users.sealing import sealing_pool, warm

COLLUDING_SHARE: Final = 0.05
"""Share of users that the guarantee does not count on: the plan assumes that they collude."""

ABSENT_SHARE: Final = 0.05
"""Share of users that may stay away before the round is given up."""

OPEN_SECONDS: Final = 7200.0
"""Open time of the round: it closes when everyone has submitted; this is only the latest moment.
"""

WITNESSES: Final = 2
"""Witnesses of the public log, all of which the devices require."""

NO_LIMIT: Final = 1e9
"""Budget ε of the population, nats: more than any round costs."""


@dataclass(frozen=True)
class DemoOptions:
    """The options of `shuffledp demo`; `corrupt` holds numbers from 1 to `nodes`."""

    users: int = 2000
    mechanism: str = "node-histogram"
    epsilon: float = 1.0
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None
    epsilon_local: float | None = None
    nodes: int = 3
    suite: str = DEFAULT_SUITE
    data: Path | None = None
    column: str | None = None
    max_value: int = 20
    words: Path | None = None
    table: str | None = None
    candidates: Path | None = None
    wording: QuestionWording | None = None
    out: Path = Path("out")
    corrupt: frozenset[int] = frozenset()
    mix: Mix = Mix.PLAIN

    def __post_init__(self) -> None:
        check_suite(self.suite, self.mix)
        if self.corrupt and self.mix == Mix.VERIFIED:
            raise UsageError("corrupt nodes log only plain rounds: use --mix plain with --corrupt")
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"--epsilon must be above 0 and finite, not {self.epsilon}")
        if not 0 < self.delta < 1:
            raise UsageError(f"--delta must be above 0 and below 1, not {self.delta}")
        most = MECHANISMS[self.mechanism].most_size
        if self.max_value > most:
            raise UsageError(f"--max-value must be at most {most:,}, not {self.max_value:,}")
        if self.max_distance is not None and self.max_distance > self.max_value:
            raise UsageError(
                f"--max-distance must be at most --max-value, {self.max_value}, not "
                f"{self.max_distance}"
            )


@dataclass(frozen=True)
class FinishedRound:
    """A finished demo round: its report, and the evidence of corrupt nodes.

    Attributes:
        report: outcome of the round.
        keys: roster and root key by file name, to verify the documents by later.
        evidence: folder with the documents, the board and the corrupt nodes' logs; None without
            corrupt nodes.
        lost: the error that prevented the evidence, if any; the answer is still valid.
    """

    report: RoundReport
    keys: dict[str, bytes]
    evidence: Path | None = None
    lost: OSError | None = None


def run_demo_command(options: DemoOptions, *, as_json: bool) -> None:
    """Runs the round, prints the answer and saves the documents in `options.out`/<round>.

    Leaves no process behind.

    Raises:
        OutputError: `options.out` cannot be written, before anything is started or after the answer
            is printed.
        ShuffleDPError: whatever ended the round.
    """
    options, column = load_people(options)
    with writable_folder(options.out), workplace() as folder:
        with Stages(Console(stderr=True)) as stages:
            played = play_round(options, column, stages, folder)
        show_then_save(
            partial(print_answer, played.report, as_json=as_json),
            partial(_save, played, options.out),
        )
    if not as_json:
        print_folder(options.out / played.report.round_id)


def load_people(options: DemoOptions) -> tuple[DemoOptions, Column]:
    """Load the users' values; return them with options whose question and range fit them.

    Raises:
        UsageError: the question or the data cannot be used.
    """
    wording = ask(options.words, options.table, options.data, options.mechanism)
    if wording is not None:
        options = replace(options, wording=wording, max_value=wording.size - 1)
    column = load_answers(
        options.data,
        options.column,
        options.wording,
        users=options.users,
        max_value=options.max_value,
        names=MECHANISMS[options.mechanism].answers is Answers.HISTOGRAM,
    )
    if column.labels:
        options = replace(options, max_value=len(column.labels) - 1)
    return options, column


def _save(played: FinishedRound, out: Path) -> None:
    """Save the round's documents in `out`; if that fails, in a new temporary folder.

    By then the analyst has ended, so these are the only copies.
    """
    try:
        save_round(played.report, out / played.report.round_id, played.keys, played.evidence)
    except OSError as error:
        words = f"the documents of the round could not be written into {out}: {error.strerror}"
        try:
            rescue = Path(tempfile.mkdtemp(prefix="shuffledp-round-")) / played.report.round_id
            save_round(played.report, rescue, played.keys, played.evidence)
        except OSError:
            raise OutputError(f"{words}; only the printed output is left") from error
        raise OutputError(f"{words}; they are in {rescue} instead") from error
    point_latest(out / played.report.round_id)
    if played.lost is not None:
        raise OutputError(
            "nothing can be traced, because the corrupt nodes' logs could not be saved: "
            f"{played.lost}"
        )


def play_round(options: DemoOptions, column: Column, stages: Stages, folder: Path) -> FinishedRound:
    """Play one round, and attack it with the logs of its corrupt nodes, if there are any.

    Args:
        options: options of the round.
        column: the users' values.
        stages: display of the progress.
        folder: new and empty, for the system; it holds the evidence afterwards.

    Raises:
        ShuffleDPError: whatever ended the round.
    """
    played = asyncio.run(run_demo(options, column, stages, folder))
    if played.evidence is None:
        return played
    try:
        write_documents(played.report, played.evidence, played.keys)
    except OSError as error:
        return replace(played, evidence=None, lost=error)
    return replace(played, report=replace(played.report, trace=_tracer()(played.evidence)))


def _tracer() -> Callable[[Path], TraceOutcome]:
    """The attack on a round's evidence, from an installed package that depends on this one.

    It is the adversary's package, so it cannot be imported here directly.
    """
    for entry_point in entry_points(group="shuffledp.tracers"):
        tracer: Callable[[Path], TraceOutcome] = entry_point.load()
        return tracer
    raise UsageError(
        "the attack that evaluates corrupt nodes' logs is not installed: pip install "
        "'shuffledp[adversary]'"
    )


async def run_demo(
    options: DemoOptions, column: Column, stages: Stages, folder: Path
) -> FinishedRound:
    """Run one round in real processes, and keep its corrupt nodes' evidence without attacking it.

    Raises:
        ShuffleDPError: whatever ended the round.
    """
    clock = StageClock()
    with sealing_pool() as pool:
        system = LocalSystem(
            folder / "system",
            nodes=options.nodes,
            budget=_budget(options),
            corrupt=options.corrupt,
            witnesses=WITNESSES,
        )
        try:
            with clock.stage("start"):
                stages.update("start", 0, len(system.processes))
                started = partial(stages.update, "start")
                await asyncio.gather(system.start(started), warm(pool))
            plan = plan_of(system, options)
            senders: list[bytes] = []
            report = await run_round(
                system,
                plan,
                column.values,
                pool,
                stages,
                clock,
                capped=column.capped,
                credentials=senders,
            )
            report = replace(report, drawn_from=column.drawn_from)
            if options.wording is None:
                report = replace(report, column=column.name, labels=column.labels)
            report = _with_texts(report, options, column)
            played = FinishedRound(report, trusted_files(system.deployment.folder))
            if options.corrupt:
                played = await _with_evidence(
                    played, system, senders, column.values, folder / "round"
                )
        finally:
            system.stop()
    return played


def _with_texts(report: RoundReport, options: DemoOptions, column: Column) -> RoundReport:
    """Add to a report the frequent texts of an open list; other reports are unchanged."""
    if options.wording is None or not options.wording.is_open or options.data is None:
        return report
    open_list = find_in_simulation(
        options.wording, report.estimate.values, column.values, options.candidates, options.data
    )
    return replace(report, open_list=open_list)


async def _with_evidence(
    played: FinishedRound,
    system: LocalSystem,
    senders: list[bytes],
    values: NDArray[np.int64],
    folder: Path,
) -> FinishedRound:
    try:
        await keep_evidence(system, played.report, senders, values, folder)
    except OSError as error:
        return replace(played, lost=error)
    return replace(played, evidence=folder)


async def keep_evidence(
    system: LocalSystem,
    report: RoundReport,
    credentials: list[bytes],
    values: NDArray[np.int64],
    folder: Path,
) -> None:
    """Save the board, the corrupt nodes' logs and the true values in a round's folder.

    See `tracing.trace`.
    """
    board = await fetch_board(system.deployment, report)
    keep_truth(folder, credentials, values)
    (folder / BOARD).write_bytes(board)
    for name in system.corrupt:
        shutil.copytree(system.logs_of(name), folder / LOGS / name)


def plan_of(system: LocalSystem, options: DemoOptions) -> RoundPlan:
    """The plan of a demo round over all nodes of the system."""
    least = max(1, options.users - int(ABSENT_SHARE * options.users))
    return RoundPlan(
        population=system.population,
        mechanism=options.mechanism,
        size=MECHANISMS[options.mechanism].size_for(options.max_value),
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        max_distance=options.max_distance,
        min_reports=least,
        max_reports=options.users,
        # One honest user at least: without any there is nothing to certify.
        colluding=min(int(COLLUDING_SHARE * options.users), least - 1),
        route=system.route,
        suite=options.suite,
        open_seconds=OPEN_SECONDS,
        allow_corrupt=bool(options.corrupt),
        mix=options.mix,
        epsilon_local=UNSET if options.epsilon_local is None else options.epsilon_local,
        wording=UNSET if options.wording is None else options.wording,
    )


def _budget(options: DemoOptions) -> LocalBudget:
    """A budget that the round does not exceed, for a system that runs only this round.

    The cost that the ledger charges may be far above the round's target: under metric adjacency
    with a smaller `max_distance` it is the cost of a change across the whole domain.
    """
    return LocalBudget(epsilon=NO_LIMIT, delta=options.delta)
