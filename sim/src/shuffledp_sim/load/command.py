"""The command `shuffledp load`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_core.errors import ReceiptMissingError, RoundFailed
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.load.present import check_report_file, print_report, write_report
from shuffledp_sim.load.run import run_load


def run_load_command(options: LoadOptions, report_file: Path | None, *, as_json: bool) -> None:
    """Run the test, print its figures, and write the report file.

    Raises, after the figures are out:
        ReceiptMissingError: a submission was acknowledged and lost.
        RoundFailed: the round ended without a board, so that losses cannot be seen.
    """
    configure_logs("warning")  # to standard error: standard output is for the figures
    if report_file is not None:
        check_report_file(report_file)
    with Stages(Console(stderr=True)) as stages:
        outcome = asyncio.run(run_load(options, stages))
    report = outcome.report
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
    else:
        print_report(report, Console())
    if report_file is not None:
        write_report(report, outcome.timeline, report_file)
    if report.failure is not None:
        raise RoundFailed(report.failure)
    if report.lost:
        raise ReceiptMissingError(
            f"{report.lost} of {report.accepted} acknowledged submissions are missing from the "
            "board"
        )
