"""Operator's commands, `shuffledp round|campaign|keys|results|report|console`, imported lazily."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shuffledp.commands.options import (
    Candidates,
    EpsilonLocal,
    Format,
    Mixing,
    OptionalMechanism,
    OutputFormat,
    Suite,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import DEFAULT_SUITE, Mix
from shuffledp_ops.campaigns.app import campaign_app
from shuffledp_ops.keys.app import keys_app
from shuffledp_ops.options import OtlpEndpoint
from shuffledp_ops.results.app import results_app
from shuffledp_ops.witness_cli import witness_command

if TYPE_CHECKING:
    from shuffledp_core.documents.wording import QuestionWording

_WORDS = (
    "TOML file that describes the question, or has it in words (id, text, [[axes]]), which devices "
    "show. Mechanism and largest value then follow from it."
)

app = typer.Typer()
app.add_typer(keys_app, name="keys")
app.add_typer(results_app, name="results")
app.add_typer(campaign_app, name="campaign")
app.command("witness")(witness_command)


@app.command("round")
def round_(
    keys: Annotated[
        Path, typer.Argument(help="The deployment's key folder (roster.json, root.pub, operator/).")
    ],
    *,
    mechanism: OptionalMechanism = None,
    max_value: Annotated[
        int | None,
        typer.Option(min=1, help="Largest value; values are integers from 0. Not with --words."),
    ] = None,
    min_reports: Annotated[
        int, typer.Option(min=1, help="With fewer reports the round ends without an answer.")
    ],
    max_reports: Annotated[
        int, typer.Option(min=1, help="The round closes as soon as this many reports have arrived.")
    ],
    epsilon: Annotated[
        float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")
    ],
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
    colluding: Annotated[
        int | None,
        typer.Option(
            min=0, help="Assumed number of colluding users; default: 5% of --min-reports."
        ),
    ] = None,
    population: Annotated[str, typer.Option(help="Population to ask.")] = "demo",
    question: Annotated[
        int,
        typer.Option(
            min=0, help="Question number for mechanisms with memoised responses (RAPPOR)."
        ),
    ] = 0,
    epsilon_local: EpsilonLocal = None,
    route: Annotated[
        list[str] | None,
        typer.Option(help="Node of the route, in order; repeatable; default: all nodes."),
    ] = None,
    suite: Suite = DEFAULT_SUITE,
    mix: Mixing = Mix.PLAIN,
    open_seconds: Annotated[
        float, typer.Option(help="How long submissions stay open, in seconds.")
    ] = 600.0,
    words: Annotated[Path | None, typer.Option(help=_WORDS)] = None,
    candidates: Candidates = None,
    allow_corrupt: Annotated[
        bool,
        typer.Option(
            "--allow-corrupt", help="Laboratories only: allow nodes that record who sent what."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the round's report and documents.")] = Path(
        "out"
    ),
    otlp_endpoint: OtlpEndpoint = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Run one round on a deployment: open it, follow it, print the answer."""
    from msgspec import UNSET

    from shuffledp.question_files import choose_mechanism, load_wording
    from shuffledp_core.documents.models import RoundPlan
    from shuffledp_core.errors import UsageError
    from shuffledp_core.mechanisms import MECHANISMS, Answers
    from shuffledp_ops.keys.pki import open_deployment
    from shuffledp_ops.rounds.operate import run_round_command

    mechanism = choose_mechanism(mechanism, words, "")
    if not mechanism:
        raise UsageError(
            "a round needs a mechanism: name one with --mechanism, or a question with --words"
        )
    is_sum = MECHANISMS[mechanism].answers is Answers.SUM
    wording = None if words is None else load_wording(words, is_sum=is_sum)
    largest = _largest_value(max_value, wording)
    try:
        plan = RoundPlan(
            population=population,
            mechanism=mechanism,
            size=MECHANISMS[mechanism].size_for(largest),
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            max_distance=max_distance,
            min_reports=min_reports,
            max_reports=max_reports,
            colluding=min_reports // 20 if colluding is None else colluding,
            route=tuple(route or (node.name for node in open_deployment(keys).roster.nodes())),
            suite=suite,
            mix=mix,
            open_seconds=open_seconds,
            allow_corrupt=allow_corrupt,
            question=question,
            epsilon_local=UNSET if epsilon_local is None else epsilon_local,
            wording=UNSET if wording is None else wording,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    if candidates is not None and (wording is None or not wording.is_open):
        raise UsageError("--candidates is for open lists, and this round asks another question")
    run_round_command(
        keys,
        plan,
        out,
        candidates=candidates,
        as_json=output is OutputFormat.JSON,
        otlp_endpoint=otlp_endpoint,
    )


def _largest_value(given: int | None, wording: QuestionWording | None) -> int:
    """The largest value of a round: that of the question's wording, or else as given."""
    from shuffledp_core.errors import UsageError

    if wording is None:
        if given is None:
            raise UsageError(
                "a round needs its values: name the largest with --max-value, or a question with "
                "--words"
            )
        return given
    largest = wording.size - 1
    if given not in {None, largest}:
        raise UsageError(
            f"--max-value is {given:,}, but the question has values from 0 to {largest:,}: leave "
            "--max-value out"
        )
    return largest


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a saved round.")] = Path("out/latest"),
    *,
    candidates: Candidates = None,
) -> None:
    """Regenerate a saved round's report.html from its signed documents, after verifying them."""
    from shuffledp_ops.rounds.reporting import run_report_command

    run_report_command(folder, candidates)


@app.command()
def console(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A deployment's key folder (roster.json, root.pub, operator/ or viewer/), or a "
            "folder of saved rounds."
        ),
    ] = Path("out"),
    *,
    operate: Annotated[
        bool,
        typer.Option(
            "--operate",
            help="Also allow opening and ending rounds, through the link that is printed.",
        ),
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name under which browsers reach the console, besides localhost; repeatable."
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="TLS certificate, a PEM file.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Private key of the certificate, an unencrypted PEM file.")
    ] = None,
    plaintext: Annotated[
        bool,
        typer.Option("--plaintext", help="Serve without TLS even if other machines can connect."),
    ] = False,
) -> None:
    """Serve web pages about a deployment or saved rounds: progress, budgets, answers.

    Read-only by default.
    """
    try:
        from shuffledp_ops.console.command import Listening, run_console_command
    except ModuleNotFoundError as error:
        from shuffledp_core.errors import NotInstalledError

        raise NotInstalledError(
            "the console's packages are not installed: pip install 'shuffledp-ops[console]'"
        ) from error

    listening = Listening(host, port, tuple(allow_host or ()), tls_certificate, tls_key, plaintext)
    run_console_command(folder, listening, operate=operate)
