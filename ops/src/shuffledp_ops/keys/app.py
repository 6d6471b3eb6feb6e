"""Commands of `shuffledp keys`: keys and devices of a deployment.

Each command's code is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FolderArgument = Annotated[
    Path, typer.Argument(help="The deployment's key folder, with enrolment/ and client/.")
]
keys_app = typer.Typer(
    help="Create, show and renew a deployment's keys, and enrol its clients.", no_args_is_help=True
)

PopulationOption = Annotated[
    str | None, typer.Option(help="Population; default: the only one in the folder.")
]


@keys_app.command()
def enrol(
    folder: FolderArgument,
    names: Annotated[list[str] | None, typer.Argument(help="Names of the clients.")] = None,
    *,
    population: PopulationOption = None,
    count: Annotated[
        int,
        typer.Option(min=0, max=100_000, help="Also enrol this many clients with numbered names."),
    ] = 0,
    prefix: Annotated[str, typer.Option(help="Prefix of the numbered names.")] = "device",
    csv: Annotated[
        Path | None, typer.Option(help="Also enrol the names in the column `name` of this file.")
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=36_500, help="Days until the credentials expire; default: never."),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with device settings for the bundles, such as a policy table."
        ),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=HOST:PORT at which outside devices reach a party; repeatable."),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of the broker with the announcements, for devices."),
    ] = None,
    gateway: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of an HTTPS gateway, for devices that cannot use gRPC."),
    ] = None,
) -> None:
    """Enrol clients and write a bundle for each device (clients/NAME.bundle).

    On an error, none is enrolled.
    """
    import datetime as dt

    from shuffledp_core.errors import UsageError
    from shuffledp_core.runtime.files import read_file
    from shuffledp_ops.keys import enrolment
    from shuffledp_ops.keys.pki import open_deployment

    deployment = open_deployment(folder)
    names_to_enrol = [*(names or []), *(enrolment.names_in(csv) if csv else [])]
    names_to_enrol += enrolment.new_names(deployment, count, prefix)
    if not names_to_enrol:
        raise UsageError("name the clients to enrol: NAME.., --count or --csv")
    text = (
        enrolment.SETTINGS
        if settings is None
        else read_file(settings, "settings").decode(errors="replace")
    )
    text = (
        text.rstrip("\n")
        + "\n"
        + enrolment.parse_addresses(deployment, address or [], broker, gateway).settings()
    )
    expires = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    done = enrolment.enrol(
        deployment, names_to_enrol, population=population, expires=expires, settings=text
    )
    for file in done if len(done) <= 10 else done[:1]:
        typer.echo(f"{file}{f' and {len(done) - 1} more' if len(done) > 10 else ''}")
    typer.echo(
        "a bundle is all of its device, keys included: bring it there by a private way. On the "
        "device:"
    )
    typer.echo("shuffledp-client import NAME.bundle FOLDER")


@keys_app.command()
def bundle(
    folder: FolderArgument,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of clients; default: all in the folder.")
    ] = None,
) -> None:
    """Write new bundles with the current roster and TLS pair.

    Import them with shuffledp-client import --renew.
    """
    from shuffledp_ops.keys import enrolment
    from shuffledp_ops.keys.pki import open_deployment

    done = enrolment.bundle(open_deployment(folder), names or [])
    typer.echo(
        f"{'1 bundle is' if len(done) == 1 else f'{len(done)} bundles are'} in {folder / 'clients'}"
    )


@keys_app.command()
def codes(
    folder: FolderArgument,
    *,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Number of codes.")] = 1,
    population: PopulationOption = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the codes expire.")] = 30,
) -> None:
    """Make one-time codes with which people enrol a browser, and print them.

    Give the gateway the list of their digests, enrolment/POPULATION/codes.
    """
    import datetime as dt

    from shuffledp_ops.keys.codes import add_codes
    from shuffledp_ops.keys.pki import open_deployment

    expires = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    for code in add_codes(open_deployment(folder), count, expires, population):
        typer.echo(code)


@keys_app.command()
def withdraw(
    folder: FolderArgument,
    who: Annotated[
        list[str],
        typer.Argument(help="Names of clients in the folder, or credentials (64 hex digits)."),
    ],
    *,
    population: PopulationOption = None,
) -> None:
    """Withdraw credentials: write the next signed list, for every node that accepts submissions."""
    from shuffledp_ops.keys import enrolment
    from shuffledp_ops.keys.pki import open_deployment

    withdrawals = enrolment.withdraw(open_deployment(folder), who, population=population)
    file = folder / "withdrawals" / f"{withdrawals.population}.json"
    number = len(withdrawals.credentials)
    typer.echo(
        f"{file}: list {withdrawals.serial}, {number} credential{'' if number == 1 else 's'}"
    )
    typer.echo(
        "It holds at every entry node whose configuration names this folder as `withdrawals`, "
        "from the next"
    )
    typer.echo(
        "submission on. Any other node needs a copy in its own, and no restart: "
        "docs/how-to/people.md"
    )


@keys_app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    *,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Number of mix nodes.")] = 3,
    host: Annotated[str, typer.Option(help="Host of all addresses.")] = "127.0.0.1",
    first_port: Annotated[
        int,
        typer.Option(
            min=1, max=65000, help="Port of node-1; the other parties use the next ports."
        ),
    ] = 7001,
    address: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=HOST:PORT instead of --host and --first-port; repeatable."),
    ] = None,
    population: Annotated[str, typer.Option(help="Name of the population.")] = "demo",
    client: Annotated[
        list[str] | None, typer.Option(help="Also enrol a client of this name; repeatable.")
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(help="NAME=URL of a witness of the public log, required by devices."),
    ] = None,
    log_threshold: Annotated[
        int | None,
        typer.Option(min=1, help="Number of witnesses that must sign; default: all of them."),
    ] = None,
) -> None:
    """Create a deployment's keys: roster, identities, TLS, enrolment key and clients."""
    from shuffledp_core.errors import UsageError
    from shuffledp_core.runtime.addresses import is_address
    from shuffledp_ops.keys.pki import (
        ACCOUNTANT,
        ANALYST,
        create_deployment,
        parse_witnesses,
        replace_addresses,
    )

    if not is_address(f"{host}:{first_port}"):
        raise UsageError(
            f"--host {host[:80]!r} is not a host name or address; write an IPv6 address in "
            f"brackets: [::1]"
        )
    names = [*(f"node-{number}" for number in range(1, nodes + 1)), ANALYST, ACCOUNTANT]
    regular = {name: f"{host}:{first_port + offset}" for offset, name in enumerate(names)}
    deployment = create_deployment(
        folder,
        replace_addresses(regular, address or []),
        population=population,
        clients=client or [],
        witnesses=parse_witnesses(witness or []),
        log_threshold=log_threshold,
    )
    typer.echo(f"keys of {len(names)} parties are in {folder}; pin this root key in every config:")
    typer.echo(deployment.root_key)


@keys_app.command()
def show(folder: Annotated[Path, typer.Argument(help="The deployment's key folder.")]) -> None:
    """Show a deployment's parties, fingerprints and the expiry of each TLS certificate.

    Shows no secret.
    """
    import datetime as dt

    from rich.console import Console

    from shuffledp_ops.keys import overview
    from shuffledp_ops.keys.pki import open_deployment

    overview.show(open_deployment(folder), Console(), dt.datetime.now(dt.UTC))


@keys_app.command()
def renew(
    folder: Annotated[Path, typer.Argument(help="The deployment's key folder, with root/.")],
    *,
    party: Annotated[
        list[str] | None,
        typer.Option(
            help="Renew only this party, client, operator, viewer or gateway; repeatable."
        ),
    ] = None,
    authority: Annotated[
        bool, typer.Option("--authority", help="Also create a new TLS authority and roster.")
    ] = False,
    roster: Annotated[
        bool, typer.Option("--roster", help="Only issue the next roster, valid for another year.")
    ] = False,
    end_log: Annotated[
        Path | None,
        typer.Option(
            help="With --roster: last checkpoint of the public log that was given up after a loss "
            "of the ledger."
        ),
    ] = None,
) -> None:
    """Renew TLS keys and certificates, or the roster. On an error, nothing changes."""
    from shuffledp_ops.keys import renewal

    done = renewal.renew(
        folder, party or [], new_authority=authority, new_roster=roster, end_log=end_log
    )
    if roster:
        typer.echo(
            f"roster {done.serial} is in {folder / 'roster.json'}: put it in place of the old one "
            "everywhere, and"
        )
        typer.echo("restart one by one: docs/operations.md, keys and their rotation")
        return
    typer.echo(f"new TLS keys and certificates: {', '.join(done.names)}")
    if done.new_authority:
        typer.echo(
            f"a new TLS authority, until {done.authority_ends:%Y-%m-%d}, is in roster.json: "
            "distribute it to all parties and devices"
        )
    if not done.bridged:
        typer.echo(
            "a party with the old roster refuses the new certificates: stop all parties, and start "
            "them with both"
        )
    next_step = "restart one by one" if done.new_authority else "running parties reload them"
    typer.echo(f"put them in place; {next_step}: docs/operations.md, keys and their rotation")
    typer.echo("devices get them in new bundles: `shuffledp keys bundle`")
