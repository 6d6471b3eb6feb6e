"""`shuffledp ledger`, also `shuffledp-ledger` where only the accountant is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_accountant.config import AccountantConfig
from shuffledp_accountant.ledger.restoring import RestoredLedger, read_certificates, restore
from shuffledp_accountant.log_audit import AccountReplay, LogAudit
from shuffledp_accountant.log_reading import check_grown, log_source, read_log
from shuffledp_accountant.service import open_ledger
from shuffledp_core.errors import LedgerError, ShuffleDPError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import read_roster
from shuffledp_core.runtime.terminal import prepare_terminal
from shuffledp_core.transparency.entries import log_key_of

app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
ledger_app = typer.Typer(help="Maintain the accountant's ledger.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")


@ledger_app.callback()
def _group() -> None:
    """Maintain the accountant's ledger."""


@app.command("audit-log")
def audit_log_command(
    address: Annotated[str, typer.Argument(help="The log's folder, or its http(s) address.")],
    *,
    roster: Annotated[Path, typer.Option(help="The deployment's roster.json.")],
    root_key: Annotated[str, typer.Option(help="The deployment's root key, in hex.")],
    remember: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps the newest checkpoint: the next audit shows that the log has "
            "only grown since."
        ),
    ] = None,
) -> None:
    """Audit a ledger's public log: every charge, the totals, and that no round is charged twice."""
    parties = read_roster(roster, root_key)
    key = log_key_of(parties)
    log = read_log(log_source(address), key)
    if remember is not None:
        check_grown(log, remember, key)
    audit = LogAudit(parties)
    with progress(log.checkpoint.size) as report:
        audit.replay(log.entries(), report)
    if remember is not None:
        write_atomic(remember, log.note)
    typer.echo(f"{log.checkpoint.origin}: {log.checkpoint.size:,} entries, no contradiction")
    for population, account in sorted(audit.accounts.items()):
        _show_account(population, account)


def _show_account(population: str, account: AccountReplay) -> None:
    typer.echo(
        f"population {population}: rounds charged: {account.entry:,} (settled {account.settled:,}, "
        f"released {account.released:,}, open {len(account.open):,})"
    )
    typer.echo(
        f"  epsilon {account.spent:.6g} of {account.limit:g} is spent at delta {account.delta:g}"
    )
    if account.restored:
        typer.echo(f"  {account.restored:,} charged or settled again after a restore from a backup")
    if account.missing:
        numbers = _ranges(tuple(sorted(account.missing)))
        typer.echo(f"  MISSING since a restore from a backup: entries {numbers}")
    if account.unexplained:
        rounds = ", ".join(account.unexplained)
        typer.echo(f"  released before the log began, without the nodes' discards: {rounds}")


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
            f"no plan certificate of {roster.accountant.name!r} below "
            f"{', '.join(map(str, folders))}: give the folders "
            "with the documents of the rounds since the backup"
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
            f"the account of {', '.join(incomplete)} is incomplete: find the certificates of the "
            "missing entries (the analyst's state, saved results, a device that took part) and "
            "run this again; until then nodes refuse its rounds"
        )


def _show(outcome: RestoredLedger) -> None:
    typer.echo(
        f"population {outcome.population}: {outcome.highest} entries are known from certificates"
    )
    for round_id in outcome.rounds:
        typer.echo(f"  charged again: round {round_id}")
    if outcome.missing:
        typer.echo(f"  MISSING: entries {_ranges(outcome.missing)}")
    else:
        typer.echo("  nothing is missing: nodes accept this ledger again")


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show how many entries of a log are done, where a person watches."""
    with typer.progressbar(length=total, label="replaying", file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)


def _ranges(entries: tuple[int, ...]) -> str:
    """Consecutive numbers written together: "3-5, 8"."""
    breaks = [i + 1 for i, (low, high) in enumerate(pairwise(entries)) if high != low + 1]
    bounds = pairwise([0, *breaks, len(entries)])
    parts = (entries[first:last] for first, last in bounds)
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def main() -> None:
    """Entry point: our own errors become one line and an exit code."""
    prepare_terminal()
    try:
        ledger_app()
    except ShuffleDPError as error:
        typer.echo(f"shuffledp-ledger: {error}", err=True)
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
