"""The `shuffledp` command. Each command's code is imported when it runs, so that all of them start fast."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_core.errors import OutputError, ShuffleDPError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_core.terminal import explain, prepare_terminal, say_error
from shuffledp_sim.accounting.app import advise, calibrate, certify_app, verify
from shuffledp_sim.accounting.options import Format, OutputFormat
from shuffledp_sim.attacks.app import attack_app
from shuffledp_sim.audit.app import audit_app
from shuffledp_sim.deploy.app import deploy_app
from shuffledp_sim.interruption import unwinding
from shuffledp_sim.keys.app import bundle, enrol, withdraw
from shuffledp_sim.load.process import ATTEMPTS, ArrivalProcess
from shuffledp_sim.node_numbers import node_numbers
from shuffledp_sim.results.app import results_app

app = typer.Typer(
    name="shuffledp",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
keys_app = typer.Typer(help="Keys of a deployment.", no_args_is_help=True)
keys_app.command()(enrol)
keys_app.command()(bundle)
keys_app.command()(withdraw)
app.add_typer(keys_app, name="keys")
app.add_typer(deploy_app, name="deploy")
app.add_typer(certify_app, name="certify")
app.add_typer(attack_app, name="attack")
app.add_typer(audit_app, name="audit")
app.add_typer(results_app, name="results")
app.command()(calibrate)
app.command()(advise)
app.command()(verify)


def _say_version(wanted: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if wanted:
        typer.echo(f"shuffledp {version('shuffledp-sim')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """An end-to-end system for the shuffle model of differential privacy."""


class MechanismName(StrEnum):
    """The mechanisms of `shuffledp_core.mechanisms.MECHANISMS`; a test holds the two together."""

    KRR_HISTOGRAM = KRRHistogram.kind
    RR_SHUFFLE = RRShuffle.kind
    GEO_SHUFFLE = GeoShuffle.kind
    SGDL_SHUFFLE = SGDLShuffle.kind


@app.command()
def demo(
    *,
    users: Annotated[int, typer.Option(min=2, help="Simulated users.")] = 2000,
    mechanism: Annotated[MechanismName, typer.Option(help="How users randomise.")] = MechanismName.GEO_SHUFFLE,
    epsilon: Annotated[float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    adjacency: Annotated[Adjacency, typer.Option(help="What neighbours are.")] = Adjacency.STANDARD,
    max_distance: Annotated[int | None, typer.Option(min=1, help="Largest change covered; default: any.")] = None,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Mix nodes.")] = 3,
    suite: Annotated[str, typer.Option(help="sealed-box, hpke or hpke-mlkem768-x25519.")] = "sealed-box",
    data: Annotated[
        Path | None, typer.Option(help="CSV file (or .csv.gz) with a header; default: doctor visits.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Its integer column.")] = None,
    max_value: Annotated[int, typer.Option(min=1, help="Values above are capped.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for the round's documents and picture.")] = Path("out"),
    corrupt: Annotated[
        str | None, typer.Option(help="Nodes that write down all they know, and an attack with it.", metavar="I,J")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Runs a whole round on this machine: real processes, real onions, simulated users."""
    from shuffledp_sim.rounds.demo import DemoOptions, run_demo_command

    options = DemoOptions(
        users=users,
        mechanism=mechanism.value,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        max_distance=max_distance,
        nodes=nodes,
        suite=suite,
        data=data,
        column=column,
        max_value=max_value,
        out=out,
        corrupt=node_numbers(corrupt, nodes, "--corrupt"),
    )
    run_demo_command(options, as_json=output is OutputFormat.JSON)


@app.command("round")
def round_(
    keys: Annotated[Path, typer.Argument(help="The deployment's key folder (roster.json, root.pub, operator/).")],
    *,
    mechanism: Annotated[MechanismName, typer.Option(help="How users randomise.")],
    max_value: Annotated[int, typer.Option(min=1, help="Values are whole numbers from 0 to this.")],
    min_reports: Annotated[int, typer.Option(min=1, help="Fewer: the round ends without an answer.")],
    max_reports: Annotated[int, typer.Option(min=1, help="The round closes when so many have arrived.")],
    epsilon: Annotated[float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")],
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    adjacency: Annotated[Adjacency, typer.Option(help="What neighbours are.")] = Adjacency.STANDARD,
    max_distance: Annotated[int | None, typer.Option(min=1, help="Largest change covered; default: any.")] = None,
    colluding: Annotated[
        int | None, typer.Option(min=0, help="Users the guarantee does not count on; default: 5 % of --min-reports.")
    ] = None,
    population: Annotated[str, typer.Option(help="Whom to ask.")] = "demo",
    route: Annotated[list[str] | None, typer.Option(help="Nodes in order; repeatable; default: all.")] = None,
    suite: Annotated[str, typer.Option(help="sealed-box, hpke or hpke-mlkem768-x25519.")] = "sealed-box",
    open_seconds: Annotated[float, typer.Option(help="Submissions are taken for so long.")] = 600.0,
    allow_corrupt: Annotated[
        bool, typer.Option("--allow-corrupt", help="Laboratories only: nodes may write down who sent what.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the round's documents and picture.")] = Path("out"),
    output: Format = OutputFormat.TEXT,
) -> None:
    """Runs one round on a deployment: opens it, follows it, prints the answer."""
    from shuffledp_core.documents.models import RoundPlan
    from shuffledp_core.errors import UsageError
    from shuffledp_sim.keys.pki import open_deployment
    from shuffledp_sim.rounds.operate import run_round_command

    try:
        plan = RoundPlan(
            population=population,
            mechanism=mechanism.value,
            size=max_value + 1 if mechanism is MechanismName.KRR_HISTOGRAM else max_value,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            max_distance=max_distance,
            min_reports=min_reports,
            max_reports=max_reports,
            colluding=min_reports // 20 if colluding is None else colluding,
            route=tuple(route or (node.name for node in open_deployment(keys).roster.nodes())),
            suite=suite,
            open_seconds=open_seconds,
            allow_corrupt=allow_corrupt,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    run_round_command(keys, plan, out, as_json=output is OutputFormat.JSON)


@app.command()
def fleet(
    keys: Annotated[Path, typer.Argument(help="The deployment's key folder, with client/ and enrolment/.")],
    *,
    broker: Annotated[
        str | None, typer.Option(help="host:port of the announcements; default: ask the analyst.")
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Simulated users.")] = 1000,
    population: Annotated[str, typer.Option(help="Where they are enrolled.")] = "demo",
    data: Annotated[
        Path | None, typer.Option(help="CSV file (or .csv.gz) with a header; default: doctor visits.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Its integer column.")] = None,
    max_value: Annotated[
        int | None, typer.Option(min=1, help="Values above are capped; a round caps to its domain anyway.")
    ] = None,
    offset: Annotated[int, typer.Option(min=0, help="Rows of the data to leave to other fleets.")] = 0,
    once: Annotated[bool, typer.Option("--once", help="End with the first round, by its outcome.")] = False,
) -> None:
    """Plays users of a deployment: takes part in every new round until SIGTERM. Several fleets share a round."""
    from shuffledp_sim.users.play import FleetOptions, parse_broker, run_fleet_command

    options = FleetOptions(
        keys=keys,
        broker=None if broker is None else parse_broker(broker),
        population=population,
        users=users,
        offset=offset,
        data=data,
        column=column,
        max_value=max_value,
        once=once,
    )
    run_fleet_command(options)


@app.command()
def load(
    keys: Annotated[
        Path | None, typer.Argument(help="The deployment's key folder; without it a system is started here.")
    ] = None,
    *,
    users: Annotated[int, typer.Option(min=1, help="Simulated users; each submits once.")] = 5000,
    connections: Annotated[int, typer.Option(min=1, help="TLS connections to the entry node.")] = 500,
    rate: Annotated[float, typer.Option(help="Arrivals a second, whatever the answers do.")] = 200.0,
    arrivals: Annotated[ArrivalProcess, typer.Option(help="How they are spread.")] = ArrivalProcess.POISSON,
    attempts: Annotated[
        int, typer.Option(min=1, help="Calls of a user while nobody answers, as a real client; 1: never again.")
    ] = ATTEMPTS,
    round_id: Annotated[
        str | None, typer.Option("--round", help="An open round; default: a round of its own, by the options below.")
    ] = None,
    mechanism: Annotated[MechanismName, typer.Option(help="How users randomise.")] = MechanismName.KRR_HISTOGRAM,
    max_value: Annotated[int, typer.Option(min=1, help="Values are whole numbers from 0 to this.")] = 20,
    epsilon: Annotated[float, typer.Option(help="Target ε in nats.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    suite: Annotated[str, typer.Option(help="sealed-box, hpke or hpke-mlkem768-x25519.")] = "sealed-box",
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Mix nodes of a system started here.")] = 3,
    population: Annotated[str, typer.Option(help="Where the users are enrolled.")] = "demo",
    corpus: Annotated[
        Path | None, typer.Option(help="Folder for the sealed submissions, kept; one of this round is used again.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="http://host:port/metrics of the entry node, for its memory and processor time.")
    ] = None,
    leave_open: Annotated[
        bool, typer.Option("--leave-open", help="Somebody else closes the round: for several drivers.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Also write a picture (.png) or a page (.html).")] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Tests an entry node under load: users arrive in an open loop, the round ends, and every receipt is checked."""
    from shuffledp_sim.load.command import run_load_command
    from shuffledp_sim.load.options import LoadOptions

    options = LoadOptions(
        keys=keys,
        round_id=round_id,
        population=population,
        users=users,
        connections=connections,
        rate=rate,
        arrivals=arrivals,
        attempts=attempts,
        corpus=corpus,
        metrics=metrics,
        leave_open=leave_open,
        mechanism=mechanism.value,
        max_value=max_value,
        epsilon=epsilon,
        delta=delta,
        nodes=nodes,
        suite=suite,
    )
    run_load_command(options, report, as_json=output is OutputFormat.JSON)


@keys_app.command("init")
def keys_init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    *,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Mix nodes.")] = 3,
    host: Annotated[str, typer.Option(help="Host of every address.")] = "127.0.0.1",
    first_port: Annotated[int, typer.Option(min=1, max=65000, help="node-1's port; the others follow.")] = 7001,
    address: Annotated[
        list[str] | None, typer.Option(help="PARTY=HOST:PORT instead of --host and --first-port; repeatable.")
    ] = None,
    population: Annotated[str, typer.Option(help="Name of the population.")] = "demo",
    client: Annotated[list[str] | None, typer.Option(help="Also enrol a client with this name; repeatable.")] = None,
) -> None:
    """Makes a development PKI: roster, identities, TLS, enrolment key, and clients."""
    from shuffledp_sim.keys.pki import ACCOUNTANT, ANALYST, create_deployment, replace_addresses

    names = [*(f"node-{number}" for number in range(1, nodes + 1)), ANALYST, ACCOUNTANT]
    regular = {name: f"{host}:{first_port + offset}" for offset, name in enumerate(names)}
    deployment = create_deployment(
        folder, replace_addresses(regular, address or []), population=population, clients=client or []
    )
    typer.echo(f"keys of {len(names)} parties are in {folder}; pin this root key in every config:")
    typer.echo(deployment.root_key)


@keys_app.command("show")
def keys_show(folder: Annotated[Path, typer.Argument(help="The deployment's key folder.")]) -> None:
    """Who is in a deployment, fingerprints, and when each TLS certificate ends. Shows no secret."""
    import datetime as dt

    from rich.console import Console

    from shuffledp_sim.keys.overview import show
    from shuffledp_sim.keys.pki import open_deployment

    show(open_deployment(folder), Console(), dt.datetime.now(dt.UTC))


@keys_app.command("renew")
def keys_renew(
    folder: Annotated[Path, typer.Argument(help="The deployment's key folder, with root/.")],
    *,
    party: Annotated[
        list[str] | None, typer.Option(help="Only this one; a party, client or operator; repeatable.")
    ] = None,
    authority: Annotated[bool, typer.Option("--authority", help="Also a new TLS authority and roster.")] = False,
    roster: Annotated[bool, typer.Option("--roster", help="The next roster, for another year, and no TLS.")] = False,
) -> None:
    """New TLS keys and certificates, for everybody or some, or a new roster; all of it or, after an error, nothing."""
    from shuffledp_sim.keys.renewal import renew

    done = renew(folder, party or [], new_authority=authority, new_roster=roster)
    if roster:
        typer.echo(
            f"roster {done.serial} is in {folder / 'roster.json'}: put it in place of the old one everywhere, and"
        )
        typer.echo("restart one by one: docs/operations.md, keys and their rotation")
        return
    typer.echo(f"new TLS keys and certificates: {', '.join(done.names)}")
    if done.new_authority:
        typer.echo(f"a new TLS authority, until {done.authority_ends:%Y-%m-%d}, is in roster.json: everybody needs it")
    if not done.bridged:
        typer.echo("whoever has the old roster refuses the new certificates: stop everything, and start it with both")
    typer.echo("put them in place and restart one by one: docs/operations.md, keys and their rotation")
    typer.echo("devices get them in new bundles: `shuffledp keys bundle`")


def main() -> None:
    """Entry point: the only place that catches our errors; one line on standard error, and the exit code."""
    prepare_terminal()
    with unwinding() as interruption:
        try:
            app()
        except ShuffleDPError as error:
            say_error(f"error: {error}")
            sys.exit(interruption.exit_code or error.exit_code)
        except OSError as error:  # of a file that nobody has looked at more closely
            say_error(f"error: {explain(error)}")
            sys.exit(interruption.exit_code or OutputError.exit_code)
        except asyncio.CancelledError:  # by a signal
            sys.exit(interruption.exit_code)
        except SystemExit as end:
            sys.exit(interruption.exit_code or end.code)


if __name__ == "__main__":
    main()
