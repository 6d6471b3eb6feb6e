"""Commands of `shuffledp campaign`: plan questions that are asked again and again, run them, see how they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, NamedCommands, OutputFormat

campaign_app = typer.Typer(
    cls=NamedCommands,
    help="Questions that are asked again and again: planned, paid for and run as a whole.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="The campaign's TOML file; deploy/config/campaign.toml shows every key.")]


@campaign_app.command()
def plan(file: File, *, output: Format = OutputFormat.TEXT) -> None:
    """What the whole campaign costs, and whether the ledger carries it: table and picture; nobody is asked anything."""
    from shuffledp_ops.campaigns.commands import run_plan

    run_plan(file, as_json=output is OutputFormat.JSON)


@campaign_app.command()
def run(
    file: File,
    *,
    once: Annotated[
        bool, typer.Option("--once/--until-done", help="Ask what is due now, for cron; or wait for every date.")
    ] = False,
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Go on after a stop, or with the dates that a budget still carries.")
    ] = False,
) -> None:
    """Asks each question on its dates. Killed and started again, it goes on where it was, and asks nothing twice."""
    from shuffledp_ops.campaigns.commands import run_campaign

    run_campaign(file, once=once, go_on=go_on)


@campaign_app.command()
def status(file: File, *, output: Format = OutputFormat.TEXT) -> None:
    """Every date, and how it stands."""
    from shuffledp_ops.campaigns.commands import run_status

    run_status(file, as_json=output is OutputFormat.JSON)
