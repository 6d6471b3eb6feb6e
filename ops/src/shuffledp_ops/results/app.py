"""Commands of `shuffledp results`: list a deployment's rounds, show one, export many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, NamedCommands, OutputFormat

results_app = typer.Typer(
    cls=NamedCommands,
    help="Fetch finished rounds from the analyst, verify and export them.",
    no_args_is_help=True,
)

Keys = Annotated[
    Path, typer.Argument(help="The deployment's key folder (roster.json, root.pub, operator/).")
]


@results_app.command("list")
def list_(
    keys: Keys,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Number of rounds to list.")] = 20,
    output: Format = OutputFormat.TEXT,
) -> None:
    """List the analyst's rounds, newest first. Unverified."""
    from shuffledp_ops.results.commands import run_list

    run_list(keys, limit, as_json=output is OutputFormat.JSON)


@results_app.command()
def show(
    keys: Keys,
    round_id: Annotated[
        str | None,
        typer.Argument(metavar="[ROUND]", help="Round to show; default: the newest published one."),
    ] = None,
    *,
    out: Annotated[
        Path | None, typer.Option(help="Also write the report and documents into this folder.")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Show a round's answer and guarantee, after verifying and recomputing both certificates."""
    from shuffledp_ops.results.commands import run_show

    run_show(keys, round_id, out, as_json=output is OutputFormat.JSON)


@results_app.command()
def export(
    keys: Keys,
    *,
    to: Annotated[Path, typer.Option(help="File to write: .json, .csv or .parquet.")],
    round_ids: Annotated[
        list[str] | None,
        typer.Option(
            "--round", help="Export this round; repeatable; default: all published rounds."
        ),
    ] = None,
) -> None:
    """Export verified answers as one table, with one row per sum or per value of a histogram."""
    from shuffledp_ops.results.commands import run_export

    run_export(keys, to, round_ids or [])
