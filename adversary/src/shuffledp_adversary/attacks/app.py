"""`shuffledp attack`: one command per attack; each imports its module when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from shuffledp.commands.options import Format, NamedCommands, OutputFormat, real, whole
from shuffledp.commands.respond import print_json

attack_app = typer.Typer(
    cls=NamedCommands, help="Attacks that really try, each measured against a claim.", no_args_is_help=True
)

SUMMARIES: Final[dict[str, str]] = {
    "average": "Ask the same question every day and average the answers away.",
    "dropout": "Users leave after the plan: the noise that is missing was privacy.",
    "exchange": "An entry node that repeats, loses, exchanges or marks onions.",
    "flood": "Surround one user with colluding ones.",
    "length": "Read the value off the length of what is sent.",
    "outlier": "Shuffle numbers instead of bits: far values stay visible.",
    "printed": "The published parameters, against the guarantee printed beside them.",
    "trace": "Join the logs of corrupt nodes and guess every user's value.",
}
"""Every attack with what it does, in a line."""

DEFAULT_CONFIDENCE: Final = 0.95
"""That of `shuffledp_adversary.evidence`, which takes seconds to import; a test holds the two together."""

AttackUsers = Annotated[int, typer.Option("--users", parser=whole, metavar="INTEGER", help="Simulated users.")]
Trials = Annotated[
    int, typer.Option(parser=whole, metavar="INTEGER", help="Trials with each of two neighbouring datasets.")
]
Confidence = Annotated[
    float, typer.Option(parser=real, metavar="NUMBER", help="Of the intervals, above 0 and below 1.")
]
AttackPlot = Annotated[
    Path | None, typer.Option("--plot", help="Also draw the curve into this file (.png, .svg or .pdf).")
]


@attack_app.command("list")
def list_attacks(output: Format = OutputFormat.TEXT) -> None:
    """Every attack with what it does."""
    if output is OutputFormat.JSON:
        print_json(SUMMARIES)
        return
    for name, summary in SUMMARIES.items():
        typer.echo(f"{name:<10} {summary}")


@attack_app.command()
def average(
    *,
    days: Annotated[int, typer.Option(parser=whole, metavar="INTEGER", help="How often the question is put.")] = 100,
    users: AttackUsers = 20,
    trials: Trials = 400,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
    plot: AttackPlot = None,
) -> None:
    """Ask the same question every day and average the answers away."""
    from shuffledp_adversary.attacks.average import average_chart, run_average
    from shuffledp_adversary.attacks.present import present_with_plot

    present_with_plot(
        lambda: run_average(days=days, users=users, trials=trials, confidence=confidence), average_chart, output, plot
    )


@attack_app.command()
def dropout(
    *,
    users: AttackUsers = 40,
    trials: Trials = 3000,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
    plot: AttackPlot = None,
) -> None:
    """Users leave after the plan: the noise that is missing was privacy."""
    from shuffledp_adversary.attacks.dropout import dropout_chart, run_dropout
    from shuffledp_adversary.attacks.present import present_with_plot

    present_with_plot(
        lambda: run_dropout(users=users, trials=trials, confidence=confidence), dropout_chart, output, plot
    )


@attack_app.command()
def exchange(
    *,
    trials: Annotated[
        int,
        typer.Option(
            parser=whole, metavar="INTEGER", help="Rounds in process of each attack, with and without its defence."
        ),
    ] = 100,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
) -> None:
    """An entry node that repeats, loses, exchanges or marks onions: who notices, where, by what."""
    from shuffledp_adversary.attacks.exchange.attack import run_exchange
    from shuffledp_adversary.attacks.present import present

    present(run_exchange(trials=trials, confidence=confidence), output)


@attack_app.command()
def flood(
    *,
    users: AttackUsers = 1000,
    trials: Trials = 20_000,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
    plot: AttackPlot = None,
) -> None:
    """Surround one user with colluding ones."""
    from shuffledp_adversary.attacks.flood import flood_chart, run_flood
    from shuffledp_adversary.attacks.present import present_with_plot

    present_with_plot(lambda: run_flood(users=users, trials=trials, confidence=confidence), flood_chart, output, plot)


@attack_app.command()
def length(
    *,
    trials: Trials = 200,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Read the value off the length of what is sent."""
    from shuffledp_adversary.attacks.length import run_length
    from shuffledp_adversary.attacks.present import present

    present(run_length(trials=trials, confidence=confidence), output)


@attack_app.command()
def outlier(
    *,
    users: AttackUsers = 2000,
    max_value: Annotated[int, typer.Option(parser=whole, metavar="INTEGER", help="k, the far value.")] = 20,
    trials: Trials = 400,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Shuffle numbers instead of bits: far values stay visible."""
    from shuffledp_adversary.attacks.outlier import run_outlier
    from shuffledp_adversary.attacks.present import present

    present(run_outlier(users=users, max_value=max_value, trials=trials, confidence=confidence), output)


@attack_app.command()
def printed(
    *,
    trials: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            metavar="INTEGER",
            help="Rounds on each dataset of the largest scenarios, ten times that on the small ones; default: 5,000.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the trials: 500.")] = False,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
) -> None:
    """The published parameters, against the guarantee printed beside them."""
    from shuffledp_adversary.attacks.present import present
    from shuffledp_adversary.attacks.printed import TRIALS, run_printed
    from shuffledp_core.errors import UsageError

    if quick and trials is not None:
        raise UsageError("--quick chooses the trials itself; leave out --trials")
    default = TRIALS // 10 if quick else TRIALS
    present(run_printed(trials=default if trials is None else trials, confidence=confidence), output)


@attack_app.command()
def trace(
    *,
    users: Annotated[int, typer.Option(min=2, help="Simulated users.")] = 300,
    mechanism: Annotated[str, typer.Option(help="How users randomise.")] = "geo-shuffle",
    epsilon: Annotated[float, typer.Option(help="Target ε of the round, in nats.")] = 4.0,
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    max_value: Annotated[int, typer.Option(min=1, help="Values above are capped.")] = 8,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Mix nodes.")] = 3,
    corrupt: Annotated[
        str | None, typer.Option(help="Corrupt nodes, whose logs are used; default: all.", metavar="I,J")
    ] = None,
    round_folder: Annotated[Path | None, typer.Option(help="Attack this earlier round, out/<round>.")] = None,
    logs: Annotated[Path | None, typer.Option(help="Its logs, if they lie elsewhere.")] = None,
    local_trials: Annotated[int, typer.Option(help="Answers per value for the ε of one user alone; 0: none.")] = 50_000,
    confidence: Confidence = DEFAULT_CONFIDENCE,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Join the logs of corrupt nodes and guess every user's value."""
    from rich.console import Console

    from shuffledp.node_numbers import node_numbers
    from shuffledp.progress import Stages
    from shuffledp_adversary.attacks.present import present
    from shuffledp_adversary.attacks.trace import TraceOptions, run_trace
    from shuffledp_core.errors import UsageError
    from shuffledp_core.mechanisms import MECHANISMS
    from shuffledp_sim.demo import DemoOptions

    if mechanism not in MECHANISMS:
        raise UsageError(f"--mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism!r}")
    everyone = ",".join(str(number) for number in range(1, nodes + 1))
    chosen = node_numbers(everyone if corrupt is None else corrupt, nodes, "--corrupt")
    demo = DemoOptions(
        users=users, mechanism=mechanism, epsilon=epsilon, delta=delta, max_value=max_value, nodes=nodes, corrupt=chosen
    )
    subset = None if corrupt is None else chosen
    options = TraceOptions(demo, round_folder, logs, subset, local_trials, confidence)
    with Stages(Console(stderr=True)) as stages:
        report = run_trace(options, stages)
    present(report, output)
