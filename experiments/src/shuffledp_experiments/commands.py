"""The command `shuffledp reproduce`. Its code is imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


class Form(StrEnum):
    """Output format."""

    TEXT = "text"
    JSON = "json"


@app.command()
def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID...", help="Ids of tables and figures, such as 000-t1."),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Reproduce all of them, and write an index page.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List all ids and run nothing.")] = False,
    quick: Annotated[bool, typer.Option(help="Use fewer points and runs.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with the papers' data files; default: synthetic data."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the CSV files and figures.")] = Path(
        "out/experiments"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all simulations.")] = 1,
    runs: Annotated[
        int | None,
        typer.Option(min=2, help="Number of simulated runs, instead of each experiment's own."),
    ] = None,
    exact_sampler: Annotated[
        bool, typer.Option(help="Also repeat a part with the clients' integer sampler.")
    ] = False,
    form: Annotated[Form, typer.Option("--format", help="Output format.")] = Form.TEXT,
) -> None:
    """Reproduce the papers' tables and figures, and check every published number."""
    from shuffledp_core.errors import UsageError
    from shuffledp_experiments.registry import experiment, experiments
    from shuffledp_experiments.reporting import report, show_list

    if listing:
        show_list(as_json=form is Form.JSON)
        return
    if everything == bool(ids):
        raise UsageError(
            "name tables and figures, or give --all; `shuffledp reproduce --list` lists them"
        )
    chosen = (
        list(experiments().values())
        if everything
        else [experiment(name) for name in dict.fromkeys(ids or ())]
    )
    report(
        chosen, out, as_json=form is Form.JSON, index=everything,
        quick=quick, data=data, seed=seed, runs=runs, exact_sampler=exact_sampler,
    )  # fmt: skip
