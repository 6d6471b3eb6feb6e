"""`shuffledp audit-log` and `shuffledp registry`, which anyone can run on a ledger's public log."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_accountant.ledger.restoring import describe_ranges
from shuffledp_accountant.log_audit import AccountReplay, LogAudit
from shuffledp_accountant.log_reading import (
    LogLimits,
    VerifiedLog,
    bounded_source,
    check_complete,
    check_grown,
    find_log_key,
    read_log,
)
from shuffledp_accountant.registry import RegistryReplay, RegistryWords, registry_entry
from shuffledp_core.documents.models import Roster
from shuffledp_core.runtime.files import write_atomic
from shuffledp_core.runtime.keys import read_roster
from shuffledp_core.transparency.notes import NoteKey

AddressArgument = Annotated[
    str, typer.Argument(help="The log's folder, or its http(s) address.", metavar="ADDRESS")
]
RosterOption = Annotated[Path, typer.Option(help="The deployment's roster.json.")]
RootKeyOption = Annotated[str, typer.Option(help="The deployment's root key, in hex.")]
MegabytesOption = Annotated[int, typer.Option(min=1, help="Largest log to read, in megabytes.")]
EntriesOption = Annotated[
    int, typer.Option(min=1, help="Most entries to read; each takes 64 bytes of memory.")
]
MinutesOption = Annotated[
    float, typer.Option(min=0.01, help="Minutes that reading and checking may take at most.")
]


@dataclass(frozen=True)
class _OpenedLog:
    roster: Roster
    key: NoteKey
    log: VerifiedLog


def _open_log(address: str, roster: Path, root_key: str, limits: LogLimits) -> _OpenedLog:
    parties = read_roster(roster, root_key)
    source = bounded_source(address, limits)
    key = find_log_key(source, parties)
    with progress("reading hashes") as report:
        log = read_log(source, key, limits.entries, report)
    return _OpenedLog(parties, key, log)


def audit_log_command(
    address: AddressArgument,
    *,
    roster: RosterOption,
    root_key: RootKeyOption,
    remember: Annotated[
        Path | None,
        typer.Option(
            help="File for the newest checkpoint: the next audit checks that the log has only "
            "grown since."
        ),
    ] = None,
    most_megabytes: MegabytesOption = 8192,
    most_entries: EntriesOption = 10_000_000,
    most_minutes: MinutesOption = 240.0,
) -> None:
    """Audit a ledger's public log: every charge, the totals, and that no round is charged twice."""
    limits = LogLimits(most_entries, most_megabytes * 10**6, 60 * most_minutes)
    opened = _open_log(address, roster, root_key, limits)
    log = opened.log
    if remember is not None:
        check_grown(log, remember, opened.key)
    has_ended = check_complete(log, opened.roster)
    audit = LogAudit(opened.roster)
    with progress("replaying") as report:
        audit.replay(log.entries(), lambda done: report(done, log.checkpoint.size))
    if remember is not None:
        write_atomic(remember, log.note)
    typer.echo(f"{log.checkpoint.origin}: {log.checkpoint.size:,} entries, no contradiction")
    if has_ended:
        typer.echo("  the roster says that this log has ended: see the next one, too")
    for population, account in sorted(audit.accounts.items()):
        _show_account(population, account)


def registry_command(
    address: AddressArgument,
    *,
    roster: RosterOption,
    root_key: RootKeyOption,
    curator: Annotated[
        str | None,
        typer.Option(help="Organisation that collects the data and is responsible for it."),
    ] = None,
    intended_use: Annotated[
        str | None, typer.Option(help="What the published numbers are for.")
    ] = None,
    data_product: Annotated[str | None, typer.Option(help="What is published, and where.")] = None,
    justification: Annotated[
        str | None, typer.Option(help="Why these parameters were chosen.")
    ] = None,
    most_megabytes: MegabytesOption = 8192,
    most_entries: EntriesOption = 10_000_000,
    most_minutes: MinutesOption = 240.0,
) -> None:
    """Write an entry for a public registry of deployments, from an audited public log."""
    limits = LogLimits(most_entries, most_megabytes * 10**6, 60 * most_minutes)
    opened = _open_log(address, roster, root_key, limits)
    check_complete(opened.log, opened.roster)
    replay = RegistryReplay(LogAudit(opened.roster))
    with progress("replaying") as report:
        size = opened.log.checkpoint.size
        for done, entry in enumerate(opened.log.entries(), 1):
            replay.replay([entry])
            report(done, size)
    words = RegistryWords(curator, intended_use, data_product, justification)
    stated = registry_entry(replay, opened.roster, opened.log.checkpoint, words)
    typer.echo(json.dumps(stated, ensure_ascii=False, indent=2))


def _show_account(population: str, account: AccountReplay) -> None:
    charged = account.entry - len(account.missing)
    typer.echo(
        f"population {population}: rounds charged: {charged:,} (settled {account.settled:,}, "
        f"released {account.released:,}, open {len(account.open):,})"
    )
    typer.echo(
        f"  epsilon {account.spent:.6g} of {account.limit:g} is spent at delta {account.delta:g}"
    )
    typer.echo(f"  results of settled rounds in the log: {len(account.results):,}")
    if account.restored:
        typer.echo(f"  {account.restored:,} charged or settled again after a restore from a backup")
    if account.missing:
        numbers = describe_ranges(tuple(sorted(account.missing)))
        typer.echo(f"  MISSING since a restore from a backup: entries {numbers}")
    if account.unexplained:
        rounds = ", ".join(account.unexplained)
        typer.echo(f"  released before the log began, without the nodes' discards: {rounds}")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Context that shows a log's progress on a terminal; yields a function of (done, total)."""
    with typer.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def report(done: int, total: int) -> None:
            bar.length = max(1, total)
            bar.update(done - bar.pos)

        yield report
