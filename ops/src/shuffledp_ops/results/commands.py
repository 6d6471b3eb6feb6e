"""Implementation of `shuffledp results`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from shuffledp.progress import Stages, working
from shuffledp_core.errors import RoundFailed
from shuffledp_ops.keys.pki import Deployment, open_deployment
from shuffledp_ops.results.exporting import check_export, rows_of, write_rows
from shuffledp_ops.results.fetching import (
    PUBLISHED,
    VerifiedResult,
    fetch,
    newest_published,
    summaries,
)
from shuffledp_ops.rounds.operate import save, trusted_files
from shuffledp_ops.rounds.present import print_folder, print_report
from shuffledp_ops.rounds.saving import show_then_save, writable_folder
from shuffledp_proto.v1 import analyst_pb2

_WIDE: Final = 160
"""Width of the list, in characters, where there is no terminal."""


def run_list(keys: Path, limit: int, *, as_json: bool) -> None:
    """Prints the newest rounds. Raises the analyst's errors."""
    summaries_ = asyncio.run(_newest(open_deployment(keys), limit))
    if as_json:
        sys.stdout.write(json.dumps([_as_dict(summary) for summary in summaries_], indent=2) + "\n")
    elif not summaries_:
        sys.stdout.write("the analyst has no rounds yet\n")
    else:
        Console(width=None if sys.stdout.isatty() else _WIDE).print(_table(summaries_))


async def _newest(deployment: Deployment, limit: int) -> list[analyst_pb2.RoundSummary]:
    newest: list[analyst_pb2.RoundSummary] = []
    async for summary in summaries(deployment):
        if len(newest) == limit:
            break
        newest.append(summary)
    return newest


def _as_dict(summary: analyst_pb2.RoundSummary) -> dict[str, str | int | None]:
    return {
        "round": summary.round_id,
        "opened_at": summary.opened_at,
        "population": summary.population,
        "mechanism": summary.mechanism,
        "outcome": summary.outcome,
        "error": summary.error or None,
        "accepted": summary.accepted if summary.outcome == PUBLISHED else None,
    }


def _table(summaries_: Sequence[analyst_pb2.RoundSummary]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("round", "opened (UTC)", "population", "mechanism", "outcome", "reports"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "round")
    for row in summaries_:
        opened = datetime.fromtimestamp(row.opened_at / 1000, UTC)
        reports = f"{row.accepted:,}" if row.outcome == PUBLISHED else ""
        outcome = f"{row.outcome}: {row.error}" if row.error else row.outcome
        table.add_row(
            row.round_id,
            f"{opened:%Y-%m-%d %H:%M}",
            row.population,
            row.mechanism,
            outcome,
            reports,
        )
    return table


def run_show(keys: Path, round_id: str | None, out: Path | None, *, as_json: bool) -> None:
    """Verify both certificates of a published round, print it, and save its files in `out`/<round>.

    Raises:
        OutputError: `out` cannot be written.
        ShuffleDPError: there is no such round, it failed, or one of its documents does not verify.
    """
    deployment = open_deployment(keys)
    trusted = trusted_files(keys)
    with nullcontext() if out is None else writable_folder(out):
        with working("verifying"):
            fetched = asyncio.run(_fetch(deployment, round_id))
        show = partial(_print, fetched, as_json=as_json)
        if out is None:
            show()
            return
        show_then_save(show, partial(save, fetched.report, out, keys, trusted))
    if not as_json:
        print_folder(out / fetched.report.round_id)


async def _fetch(deployment: Deployment, round_id: str | None) -> VerifiedResult:
    return await fetch(deployment, round_id or await newest_published(deployment))


def _print(fetched: VerifiedResult, *, as_json: bool) -> None:
    if as_json:
        checked = [check.to_dict() for check in fetched.checked]
        sys.stdout.write(json.dumps({**fetched.report.to_dict(), "checked": checked}) + "\n")
    else:
        print_report(fetched.report, Console())
        for check in fetched.checked:
            sys.stdout.write(f"{check.verdict}\n")
    sys.stdout.flush()


def run_export(keys: Path, file: Path, round_ids: Sequence[str]) -> None:
    """Writes verified answers as one table.

    Raises:
        OutputError, UsageError, ConfigError: the file cannot be written, or not in this format.
        RoundFailed: no round is published.
        ShuffleDPError: a named round failed, or a document does not verify.
    """
    check_export(file)
    deployment = open_deployment(keys)
    with writable_folder(file.parent, "--to"):
        with Stages(Console(stderr=True)) as stages:
            fetched = asyncio.run(_fetch_all(deployment, round_ids, stages))
        rows = [row for fetched in fetched for row in rows_of(fetched.report)]
        write_rows(rows, file)
    sys.stdout.write(f"{len(rows):,} rows of {len(fetched):,} rounds are in {file}\n")


async def _fetch_all(
    deployment: Deployment, round_ids: Sequence[str], stages: Stages
) -> list[VerifiedResult]:
    named = list(round_ids) or [
        summary.round_id async for summary in summaries(deployment) if summary.outcome == PUBLISHED
    ]
    if not named:
        raise RoundFailed("the analyst has no published round, so there is nothing to export")
    fetched = []
    for number, round_id in enumerate(named):
        stages.update("verifying", number, len(named))
        fetched.append(await fetch(deployment, round_id))
    stages.finish()
    return fetched
