"""Commands of `shuffledp campaign`: plan repeated questions, run them, and show their state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, NamedCommands, OutputFormat
from shuffledp_ops.options import OtlpEndpoint

campaign_app = typer.Typer(
    cls=NamedCommands,
    help="Plan, budget and run a series of rounds.",
    no_args_is_help=True,
)

File = Annotated[
    Path,
    typer.Argument(help="The campaign's TOML file; deploy/config/campaign.toml shows every key."),
]


@campaign_app.command()
def plan(file: File, *, output: Format = OutputFormat.TEXT) -> None:
    """Compute what the whole campaign costs and whether the budget covers it. Opens no round."""
    from shuffledp_ops.campaigns.commands import run_plan

    run_plan(file, as_json=output is OutputFormat.JSON)


@campaign_app.command()
def run(
    file: File,
    *,
    once: Annotated[
        bool,
        typer.Option(
            "--once/--until-done",
            help="Run the rounds that are due now and exit (for cron), or wait for every date.",
        ),
    ] = False,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="Resume after a stop, or run the dates that the remaining budget covers.",
        ),
    ] = False,
    otlp_endpoint: OtlpEndpoint = None,
) -> None:
    """Run each question's rounds on their dates.

    After a crash, a new run resumes and opens no round twice.
    """
    from shuffledp_ops.campaigns.commands import run_campaign

    run_campaign(file, once=once, go_on=go_on, otlp_endpoint=otlp_endpoint)


@campaign_app.command()
def status(file: File, *, output: Format = OutputFormat.TEXT) -> None:
    """List every date of the campaign and its state."""
    from shuffledp_ops.campaigns.commands import run_status

    run_status(file, as_json=output is OutputFormat.JSON)
