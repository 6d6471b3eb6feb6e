"""Command line of the accountant's process: `shuffledp-accountant --config FILE`."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.metrics import AccountantMetrics
from shuffledp_accountant.service import Accountant, create_service, open_accountant
from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.core_dumps import forbid_core_dumps
from shuffledp_core.runtime.keys import load_roster
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.runtime.terminal import prepare_terminal
from shuffledp_core.transport.service import run_until_signal

app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def _show_version(is_asked_for: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if is_asked_for:
        typer.echo(f"shuffledp-accountant {version('shuffledp-accountant')}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]


@app.command()
def serve(
    config: Annotated[
        Path, typer.Option(help="TOML file; deploy/config has a sample of every key.")
    ],
    *,
    _: VersionOption = False,
) -> None:
    """Run the accountant, which certifies rounds and keeps the privacy budget."""
    settings = load_config(config, AccountantConfig)
    configure_logs(settings.log_level)
    roster = load_roster(settings.roster, settings.root_key, settings.state)
    terms = roster.log_terms
    witnesses = () if terms is None else terms.witnesses
    metrics = AccountantMetrics(settings, [witness.name for witness in witnesses])
    accountant, ledger = open_accountant(settings, roster, metrics.count_answer)
    try:
        asyncio.run(_serve(settings, roster, accountant, metrics))
    finally:
        ledger.close()


async def _serve(
    settings: AccountantConfig, roster: Roster, accountant: Accountant, metrics: AccountantMetrics
) -> None:
    follow = (
        ()
        if settings.metrics is None
        else (lambda: metrics.follow(settings.populations, accountant.budget),)
    )
    await run_until_signal(create_service(settings, roster, accountant, metrics), background=follow)


def main() -> None:
    """Entry point: errors of this project become one line and an exit code."""
    forbid_core_dumps()
    prepare_terminal()
    try:
        app()
    except ShuffleDPError as error:
        typer.echo(f"shuffledp-accountant: {error}", err=True)
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
