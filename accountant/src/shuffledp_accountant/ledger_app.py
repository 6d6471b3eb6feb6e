"""`shuffledp ledger`, also `shuffledp-ledger` where only the accountant is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.ledger.restoring import (
    RestoredLedger,
    describe_ranges,
    read_certificates,
    restore,
)
from shuffledp_accountant.log_commands import audit_log_command, registry_command
from shuffledp_accountant.service import open_ledger
from shuffledp_core.errors import LedgerError, ShuffleDPError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.keys import read_roster
from shuffledp_core.runtime.terminal import prepare_terminal

app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
ledger_app = typer.Typer(help="Maintain the accountant's ledger.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")


@ledger_app.callback()
def _group() -> None:
    """Maintain the accountant's ledger."""


app.command("audit-log")(audit_log_command)
app.command("registry")(registry_command)


@ledger_app.command("restore")
def restore_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            help="Folders with rounds' documents: the analyst's state, saved results, "
            "announcements."
        ),
    ],
    *,
    config: Annotated[Path, typer.Option(help="The accountant's TOML file.")],
) -> None:
    """After restoring a backup, charge rounds that the ledger lacks, and show what is missing."""
    settings = load_config(config, AccountantConfig)
    roster = read_roster(settings.roster, settings.root_key)
    evidence = read_certificates(folders, roster.accountant, roster.deployment)
    if not evidence:
        raise LedgerError(
            f"no plan certificate of {roster.accountant.name!r} is below "
            f"{', '.join(map(str, folders))}: name the folders that hold the documents of the "
            "rounds since the backup"
        )
    ledger = open_ledger(settings)
    try:
        outcomes = restore(ledger, evidence)
    finally:
        ledger.close()
    for outcome in outcomes:
        _show(outcome)
    incomplete = [outcome.population for outcome in outcomes if outcome.missing]
    if incomplete:
        raise LedgerError(
            f"the account of {', '.join(incomplete)} still has gaps: find the certificates of "
            "the missing entries (in the analyst's state, in saved results, or on a device that "
            "took part) and run this again; until then nodes refuse its rounds"
        )


def _show(outcome: RestoredLedger) -> None:
    typer.echo(
        f"population {outcome.population}: {outcome.highest} entries are known from certificates"
    )
    for round_id in outcome.rounds:
        typer.echo(f"  charged again: round {round_id}")
    if outcome.missing:
        typer.echo(f"  MISSING: entries {describe_ranges(outcome.missing)}")
    else:
        typer.echo("  nothing is missing: nodes accept this ledger again")


def main() -> None:
    """Entry point: an error becomes one line on standard error and an exit code."""
    prepare_terminal()
    try:
        ledger_app()
    except ShuffleDPError as error:
        typer.echo(f"shuffledp-ledger: {error}", err=True)
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
