"""Commands of `shuffledp results`: list the rounds of a deployment, show one, export many as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, NamedCommands, OutputFormat

results_app = typer.Typer(
    cls=NamedCommands, help="Rounds that are over, asked of the analyst and verified.", no_args_is_help=True
)

Keys = Annotated[Path, typer.Argument(help="The deployment's key folder (roster.json, root.pub, operator/).")]


@results_app.command("list")
def list_(
    keys: Keys,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Number of rounds, from the newest.")] = 20,
    output: Format = OutputFormat.TEXT,
) -> None:
    """The analyst's rounds, newest first: by its word, nothing is verified here."""
    from shuffledp_ops.results.commands import run_list

    run_list(keys, limit, as_json=output is OutputFormat.JSON)


@results_app.command()
def show(
    keys: Keys,
    round_id: Annotated[str | None, typer.Argument(metavar="[ROUND]", help="Default: the newest published.")] = None,
    *,
    out: Annotated[Path | None, typer.Option(help="Also leave documents and picture in this folder.")] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """A round's answer and guarantee, with both certificates verified and computed again."""
    from shuffledp_ops.results.commands import run_show

    run_show(keys, round_id, out, as_json=output is OutputFormat.JSON)


@results_app.command()
def export(
    keys: Keys,
    *,
    to: Annotated[Path, typer.Option(help="The file: .json, .csv or .parquet.")],
    round_ids: Annotated[
        list[str] | None, typer.Option("--round", help="This round; repeatable; default: all that are published.")
    ] = None,
) -> None:
    """Verified answers as one table: a row for each sum, or each value of a histogram."""
    from shuffledp_ops.results.commands import run_export

    run_export(keys, to, round_ids or [])
