"""Commands for whole systems on one machine, `shuffledp demo|fleet|load|deploy`; code is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, Mechanism, Mixing, OutputFormat, Suite
from shuffledp.node_numbers import node_numbers
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import DEFAULT_SUITE, Mix
from shuffledp_sim.deploy.app import deploy_app
from shuffledp_sim.load.process import ATTEMPTS, ArrivalProcess

app = typer.Typer()
app.add_typer(deploy_app, name="deploy")


@app.command()
def demo(
    *,
    users: Annotated[int, typer.Option(min=2, help="Simulated users.")] = 2000,
    mechanism: Mechanism = "geo-shuffle",
    epsilon: Annotated[float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    adjacency: Annotated[Adjacency, typer.Option(help="What neighbours are.")] = Adjacency.STANDARD,
    max_distance: Annotated[int | None, typer.Option(min=1, help="Largest change covered; default: any.")] = None,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Mix nodes.")] = 3,
    suite: Suite = DEFAULT_SUITE,
    mix: Mixing = Mix.PLAIN,
    data: Annotated[
        Path | None, typer.Option(help="CSV file (or .csv.gz) with a header; default: doctor visits.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Its column: whole numbers; of a histogram also names.")] = None,
    max_value: Annotated[int, typer.Option(min=1, help="Values above are capped.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for the round's documents and picture.")] = Path("out"),
    corrupt: Annotated[
        str | None, typer.Option(help="Nodes that write down all they know, and an attack with it.", metavar="I,J")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Runs a whole round on this machine: real processes, real onions, simulated users."""
    from shuffledp_sim.demo import DemoOptions, run_demo_command

    options = DemoOptions(
        users=users,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        max_distance=max_distance,
        nodes=nodes,
        suite=suite,
        mix=mix,
        data=data,
        column=column,
        max_value=max_value,
        out=out,
        corrupt=node_numbers(corrupt, nodes, "--corrupt"),
    )
    run_demo_command(options, as_json=output is OutputFormat.JSON)


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
    mechanism: Mechanism = "krr-histogram",
    max_value: Annotated[int, typer.Option(min=1, help="Values are whole numbers from 0 to this.")] = 20,
    epsilon: Annotated[float, typer.Option(help="Target ε in nats.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    suite: Suite = DEFAULT_SUITE,
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
        mechanism=mechanism,
        max_value=max_value,
        epsilon=epsilon,
        delta=delta,
        nodes=nodes,
        suite=suite,
    )
    run_load_command(options, report, as_json=output is OutputFormat.JSON)
