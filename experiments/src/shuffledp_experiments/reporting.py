"""Progress and final report of `shuffledp reproduce`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shuffledp.progress import Stages
from shuffledp_experiments.entry import Experiment
from shuffledp_experiments.errors import DataNeededError
from shuffledp_experiments.pages import list_entries, write_index
from shuffledp_experiments.running import FinishedExperiment, reproduce


def show_list(*, as_json: bool) -> None:
    """Print all experiments."""
    if as_json:
        names = ("id", "source", "question", "verdicts", "seconds")
        print(json.dumps([dict(zip(names, entry, strict=True)) for entry in list_entries()]))  # noqa: T201 - the output
        return
    table = Table("id", "where", "question", "verdicts", "s", box=None)
    for *texts, seconds in list_entries():
        table.add_row(*texts, f"{seconds:g}")
    Console().print(table)


def report(
    entries: Sequence[Experiment], out: Path, *, as_json: bool, index: bool, **wishes: Any
) -> None:
    """Run experiments with a progress display, and print their verdicts in the registry's order.

    Raises:
        DataNeededError: some did not run; all others are printed first, and their files written.
        ConfigError: the folder cannot be written.
    """
    done: list[FinishedExperiment] = []
    with Stages(Console(stderr=True, quiet=as_json)) as stages:
        stages.update("experiments", 0, len(entries))
        for finished in reproduce(entries, out, **wishes):
            done.append(finished)
            stages.update("experiments", len(done), len(entries))
    order = [entry.id for entry in entries]
    done.sort(key=lambda finished: order.index(finished.id))
    page = write_index(done, out) if index else None
    if as_json:
        print(json.dumps([asdict(finished) for finished in done]))  # noqa: T201 - the output
    else:
        _show_all(done, out, page)
    missing = [finished.id for finished in done if finished.missing]
    if missing:
        raise DataNeededError(
            f"{len(missing)} of {len(done)} did not run, because their files are missing: "
            f"{', '.join(missing)}; name a folder that has the files with --data, or leave "
            "--data out to use synthetic ones"
        )


def _show_all(done: Sequence[FinishedExperiment], out: Path, page: Path | None) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for finished in done:
        _show(console, finished, out)
    if page is not None:
        console.print(f"all of them: {page}", markup=False)


def _show(console: Console, done: FinishedExperiment, out: Path) -> None:
    if done.missing:
        console.print(f"{done.id}: did not run: {done.missing}", markup=False)
        return
    console.print(
        f"{done.id}: {out / done.id}.csv, .png, .pdf ({done.seconds:.1f} s of CPU)", markup=False
    )
    for text in (*(claim.line() for claim in done.claims), *done.notes):
        console.print(f"  {text}", markup=False)
