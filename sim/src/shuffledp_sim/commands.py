"""Commands for whole systems on one machine, `shuffledp demo|fleet|load|deploy`.

Code is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import (
    Candidates,
    EpsilonLocal,
    Format,
    Mechanism,
    Mixing,
    OptionalMechanism,
    OutputFormat,
    QuestionFile,
    Suite,
    TableOfColumns,
)
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
    users: Annotated[int, typer.Option(min=2, help="Number of simulated users.")] = 2000,
    mechanism: OptionalMechanism = None,
    epsilon: Annotated[
        float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    adjacency: Annotated[
        Adjacency,
        typer.Option(
            help="Neighbouring inputs: standard (any change of a value) or metric (ε per unit)."
        ),
    ] = Adjacency.STANDARD,
    max_distance: Annotated[
        int | None,
        typer.Option(
            min=1, help="Largest change of a value that the guarantee covers; default: any change."
        ),
    ] = None,
    epsilon_local: EpsilonLocal = None,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Number of mix nodes.")] = 3,
    suite: Suite = DEFAULT_SUITE,
    mix: Mixing = Mix.PLAIN,
    data: Annotated[
        Path | None,
        typer.Option(help="CSV file (or .csv.gz) with a header; default: doctor visits."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="Column to use: non-negative integers, or category names for a histogram."
        ),
    ] = None,
    max_value: Annotated[
        int, typer.Option(min=1, help="Largest value; larger ones are capped.")
    ] = 20,
    words: QuestionFile = None,
    table: TableOfColumns = None,
    candidates: Candidates = None,
    out: Annotated[Path, typer.Option(help="Folder for the round's report and documents.")] = Path(
        "out"
    ),
    corrupt: Annotated[
        str | None,
        typer.Option(
            help="Corrupt these nodes, such as 1,2,3, and run the tracing attack with their logs.",
            metavar="I,J",
        ),
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Run a whole round on this machine with simulated users.

    Every party is a process of its own.
    """
    from shuffledp.question_files import choose_mechanism
    from shuffledp_core.questions import MECHANISM
    from shuffledp_sim.demo import DemoOptions, run_demo_command

    options = DemoOptions(
        users=users,
        mechanism=choose_mechanism(mechanism, words, MECHANISM),
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        max_distance=max_distance,
        epsilon_local=epsilon_local,
        nodes=nodes,
        suite=suite,
        mix=mix,
        data=data,
        column=column,
        max_value=max_value,
        words=words,
        table=table,
        candidates=candidates,
        out=out,
        corrupt=node_numbers(corrupt, nodes, "--corrupt"),
    )
    run_demo_command(options, as_json=output is OutputFormat.JSON)


@app.command()
def fleet(
    keys: Annotated[
        Path, typer.Argument(help="The deployment's key folder, with client/ and enrolment/.")
    ],
    *,
    broker: Annotated[
        str | None,
        typer.Option(
            help="Broker with the announcements, as host:port; default: poll the analyst."
        ),
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Number of simulated users.")] = 1000,
    population: Annotated[str, typer.Option(help="Population that they belong to.")] = "demo",
    data: Annotated[
        Path | None,
        typer.Option(help="CSV file (or .csv.gz) with a header; default: doctor visits."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column to use: non-negative integers.")
    ] = None,
    max_value: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest value; larger ones are capped, as are values outside a round's domain.",
        ),
    ] = None,
    question: QuestionFile = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Answer each question in words from the columns of the data that are its fields.",
        ),
    ] = False,
    offset: Annotated[
        int, typer.Option(min=0, help="Rows of the data to skip, because other fleets use them.")
    ] = 0,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Exit after the first round, with an exit code for its outcome."
        ),
    ] = False,
) -> None:
    """Simulate users of a deployment, who take part in every new round until SIGTERM.

    Fleets can share a round.
    """
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
        question=question,
        records=records,
    )
    run_fleet_command(options)


@app.command()
def load(
    keys: Annotated[
        Path | None,
        typer.Argument(
            help="The deployment's key folder. Without it, a system is started on this machine."
        ),
    ] = None,
    *,
    users: Annotated[int, typer.Option(min=1, help="Simulated users; each submits once.")] = 5000,
    connections: Annotated[
        int, typer.Option(min=1, help="TLS connections to the entry node.")
    ] = 500,
    rate: Annotated[
        float, typer.Option(help="Arrivals per second, independent of the responses (open loop).")
    ] = 200.0,
    arrivals: Annotated[
        ArrivalProcess, typer.Option(help="Distribution of the arrivals over time.")
    ] = ArrivalProcess.POISSON,
    attempts: Annotated[
        int,
        typer.Option(
            min=1,
            help="Attempts of a user whose calls fail, as a real client makes them; 1 disables "
            "retries.",
        ),
    ] = ATTEMPTS,
    round_id: Annotated[
        str | None,
        typer.Option(
            "--round", help="An open round; default: open a new one with the options below."
        ),
    ] = None,
    mechanism: Mechanism = "krr-histogram",
    max_value: Annotated[
        int, typer.Option(min=1, help="Largest value; values are integers from 0.")
    ] = 20,
    epsilon: Annotated[float, typer.Option(help="Target ε in nats.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    suite: Suite = DEFAULT_SUITE,
    nodes: Annotated[
        int, typer.Option(min=2, max=16, help="Number of mix nodes, if a system is started.")
    ] = 3,
    population: Annotated[str, typer.Option(help="Population that the users belong to.")] = "demo",
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which encrypted submissions are kept; those of the same round are "
            "reused."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="The entry node's metrics, http://host:port/metrics, to report its memory and "
            "CPU time."
        ),
    ] = None,
    leave_open: Annotated[
        bool,
        typer.Option(
            "--leave-open", help="Do not close the round, because another load generator will."
        ),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write a chart (.png) or a page (.html).")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Load-test an entry node with an open loop of users, and verify every receipt at the end."""
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
