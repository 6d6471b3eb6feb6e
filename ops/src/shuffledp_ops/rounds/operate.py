"""The command `shuffledp round`, on a deployment whose processes run elsewhere."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from shuffledp.open_lists import load_candidates
from shuffledp.progress import Stages
from shuffledp.published import BOARD
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import OutputError, ShuffleDPError
from shuffledp_core.runtime.files import read_file
from shuffledp_ops.keys.pki import Deployment, open_deployment
from shuffledp_ops.rounds.present import print_answer, print_folder
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_ops.rounds.reporting import look_up
from shuffledp_ops.rounds.running import (
    StageClock,
    control_of,
    fetch_board,
    follow_round,
    make_report,
    open_round,
    read_result,
    with_published,
)
from shuffledp_ops.rounds.saving import point_latest, save_round, show_then_save, writable_folder
from shuffledp_ops.rounds.telemetry import TelemetryExporter, export_trace


def run_round_command(
    keys: Path,
    plan: RoundPlan,
    out: Path,
    *,
    as_json: bool,
    otlp_endpoint: str | None = None,
    candidates: Path | None = None,
) -> None:
    """Open a round, follow it to its end, print the answer and save the documents in `out`/<round>.

    If the plan allows corrupt nodes, the board is saved, too, so that `shuffledp attack trace` and
    lab 4 can join their logs with it. After Ctrl-C the analyst continues the round to its end. The
    round's trace is sent to the collector at `otlp_endpoint`; if that fails, a warning is printed.
    The texts of the file `candidates` are looked up in the answer to an open list.

    Raises:
        OutputError: `out` cannot be written. This is checked before the round opens, and can happen
            again after the answer is printed.
        ShuffleDPError: whatever ended the round.
    """
    deployment = open_deployment(keys)
    trusted = trusted_files(keys)
    if candidates is not None:
        load_candidates(candidates)  # a file that cannot be read is refused before anyone is asked
    exporter = None if otlp_endpoint is None else TelemetryExporter(otlp_endpoint)
    with writable_folder(out):
        with Stages(Console(stderr=True)) as stages:
            report = asyncio.run(_run_round(deployment, plan, stages, exporter))
            if candidates is not None:
                report = look_up(report, candidates)
        show_then_save(
            partial(print_answer, report, as_json=as_json),
            partial(save, report, out, keys, trusted),
        )
    if plan.allow_corrupt:
        _save_board(deployment, report, out / report.round_id)
    if not as_json:
        print_folder(out / report.round_id)


def trusted_files(keys: Path) -> dict[str, bytes]:
    """Roster and root key, which verify a round's documents: contents by file name."""
    return {name: read_file(keys / name, "deployment's") for name in ("roster.json", "root.pub")}


def save(report: RoundReport, out: Path, keys: Path, trusted: dict[str, bytes]) -> None:
    """Save the documents in `out`/<round>, and point `out`/latest to it.

    Raises:
        OutputError: they cannot be written; the message says how to fetch them again.
    """
    try:
        save_round(report, out / report.round_id, trusted)
    except OSError as error:
        raise OutputError(
            f"round {report.round_id} is published, but its documents could not be written into "
            f"{out}: {error.strerror}; fetch them into another folder with `shuffledp results "
            f"show {keys} {report.round_id} --out FOLDER`"
        ) from error
    point_latest(out / report.round_id)


def _save_board(deployment: Deployment, report: RoundReport, folder: Path) -> None:
    board = asyncio.run(fetch_board(deployment, report))
    try:
        (folder / BOARD).write_bytes(board)
    except OSError as error:
        raise OutputError(
            f"the board could not be written into {folder}: {error.strerror}; free space there"
        ) from error


async def _run_round(
    deployment: Deployment, plan: RoundPlan, stages: Stages, exporter: TelemetryExporter | None
) -> RoundReport:
    clock = StageClock()
    trace = partial(export_trace, exporter, deployment.roster.deployment, plan)
    round_id = ""
    try:
        async with control_of(deployment) as control:
            with clock.stage("open"), stages.one("open"):
                opened = await open_round(control, plan)
            round_id = opened.round_id
            sys.stderr.write(f"round {round_id} is open for {plan.open_seconds:g} s\n")
            signed = await follow_round(control, round_id, stages, clock, accepting=True)
        result = read_result(deployment, signed)
    except ShuffleDPError as error:
        await asyncio.to_thread(trace, round_id, clock, error)
        raise
    clock.finish()
    stages.finish()
    await asyncio.to_thread(trace, round_id, clock, result)
    return await with_published(
        deployment, make_report(deployment, opened, signed, result, clock.seconds)
    )
