"""`shuffledp keys enrol`, `keys bundle`, `keys withdraw`: devices of a deployment that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FolderArgument = Annotated[Path, typer.Argument(help="The deployment's key folder, with enrolment/ and client/.")]
PopulationOption = Annotated[str | None, typer.Option(help="Where; default: the only one there is.")]


def enrol(
    folder: FolderArgument,
    names: Annotated[list[str] | None, typer.Argument(help="Names of the clients.")] = None,
    *,
    population: PopulationOption = None,
    count: Annotated[int, typer.Option(min=0, max=100_000, help="So many more, named by number.")] = 0,
    prefix: Annotated[str, typer.Option(help="Of the names of --count.")] = "device",
    csv: Annotated[Path | None, typer.Option(help="Also those in the column `name` of this file.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="The credentials end by then; default: never.")] = None,
    settings: Annotated[
        Path | None, typer.Option(help="TOML with [policy] and more of the devices' configuration, for their bundles.")
    ] = None,
    address: Annotated[
        list[str] | None, typer.Option(help="PARTY=HOST:PORT where devices outside find it; repeatable.")
    ] = None,
    broker: Annotated[str | None, typer.Option(help="HOST:PORT of the announcements, for devices.")] = None,
) -> None:
    """Enrols new clients, each with a bundle for its device (clients/NAME.bundle); all of them or nobody."""
    import datetime as dt

    from shuffledp_core.errors import UsageError
    from shuffledp_core.keys import read_file
    from shuffledp_sim.keys import enrolment
    from shuffledp_sim.keys.pki import open_deployment

    deployment = open_deployment(folder)
    wanted = [*(names or []), *(enrolment.names_in(csv) if csv else [])]
    wanted += enrolment.new_names(deployment, count, prefix)
    if not wanted:
        raise UsageError("name whom to enrol: NAME.., --count or --csv")
    text = enrolment.SETTINGS if settings is None else read_file(settings, "settings").decode(errors="replace")
    text = text.rstrip("\n") + "\n" + enrolment.outside(deployment, address or [], broker).settings()
    expires = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    done = enrolment.enrol(deployment, wanted, population=population, expires=expires, settings=text)
    for file in done if len(done) <= 10 else done[:1]:
        typer.echo(f"{file}{f' and {len(done) - 1} more' if len(done) > 10 else ''}")
    typer.echo("a bundle is all of its device, keys included: bring it there by a private way. On the device:")
    typer.echo("shuffledp-client import NAME.bundle FOLDER")


def bundle(
    folder: FolderArgument,
    names: Annotated[list[str] | None, typer.Argument(help="Of clients; default: all that are here.")] = None,
) -> None:
    """Makes bundles anew, with the present roster and TLS pair. On the device: shuffledp-client import --renew."""
    from shuffledp_sim.keys import enrolment
    from shuffledp_sim.keys.pki import open_deployment

    done = enrolment.bundle(open_deployment(folder), names or [])
    typer.echo(f"{len(done)} bundles are in {folder / 'clients'}")


def withdraw(
    folder: FolderArgument,
    who: Annotated[list[str], typer.Argument(help="Clients of the folder, or credentials (64 hex digits).")],
    *,
    population: PopulationOption = None,
) -> None:
    """Withdraws credentials: the next signed list, for every node that takes submissions."""
    from shuffledp_sim.keys import enrolment
    from shuffledp_sim.keys.pki import open_deployment

    said = enrolment.withdraw(open_deployment(folder), who, population=population)
    file = folder / "withdrawals" / f"{said.population}.json"
    typer.echo(f"{file}: list {said.serial}, {len(said.credentials)} credentials")
    typer.echo("put it into `withdrawals` of every node that takes submissions; it is read without a restart")
