"""Operator's commands, `shuffledp round|campaign|keys|results|report|console`, each imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, Mechanism, Mixing, OutputFormat, Suite
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import DEFAULT_SUITE, Mix
from shuffledp_ops.campaigns.app import campaign_app
from shuffledp_ops.keys.app import keys_app
from shuffledp_ops.results.app import results_app

app = typer.Typer()
app.add_typer(keys_app, name="keys")
app.add_typer(results_app, name="results")
app.add_typer(campaign_app, name="campaign")


@app.command("round")
def round_(
    keys: Annotated[Path, typer.Argument(help="The deployment's key folder (roster.json, root.pub, operator/).")],
    *,
    mechanism: Mechanism,
    max_value: Annotated[int, typer.Option(min=1, help="Values are whole numbers from 0 to this.")],
    min_reports: Annotated[int, typer.Option(min=1, help="Fewer: the round ends without an answer.")],
    max_reports: Annotated[int, typer.Option(min=1, help="The round closes when this many have arrived.")],
    epsilon: Annotated[float, typer.Option(help="Target ε in nats (per unit under metric adjacency).")],
    delta: Annotated[float, typer.Option(help="Target δ.")] = 1e-6,
    adjacency: Annotated[Adjacency, typer.Option(help="What neighbours are.")] = Adjacency.STANDARD,
    max_distance: Annotated[int | None, typer.Option(min=1, help="Largest change covered; default: any.")] = None,
    colluding: Annotated[
        int | None, typer.Option(min=0, help="Users the guarantee does not count on; default: 5 % of --min-reports.")
    ] = None,
    population: Annotated[str, typer.Option(help="Whom to ask.")] = "demo",
    question: Annotated[int, typer.Option(min=0, help="Number of a question whose response devices keep.")] = 0,
    route: Annotated[list[str] | None, typer.Option(help="Nodes in order; repeatable; default: all.")] = None,
    suite: Suite = DEFAULT_SUITE,
    mix: Mixing = Mix.PLAIN,
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
    from shuffledp_core.mechanisms import MECHANISMS
    from shuffledp_ops.keys.pki import open_deployment
    from shuffledp_ops.rounds.operate import run_round_command

    try:
        plan = RoundPlan(
            population=population,
            mechanism=mechanism,
            size=MECHANISMS[mechanism].size_for(max_value),
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
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    run_round_command(keys, plan, out, as_json=output is OutputFormat.JSON)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a saved round.")] = Path("out/latest"),
) -> None:
    """Makes a saved round's page, report.html, again: from its signed documents, each of them verified."""
    from shuffledp_ops.rounds.reporting import run_report_command

    run_report_command(folder)


@app.command()
def console(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A deployment's key folder (roster.json, root.pub, operator/ or viewer/), or saved rounds."
        ),
    ] = Path("out"),
    *,
    operate: Annotated[
        bool, typer.Option("--operate", help="Also open and end rounds, from the link that is printed.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8765,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Name that browsers know it by, besides localhost; repeatable.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file; for https.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file, unencrypted.")] = None,
    plaintext: Annotated[bool, typer.Option("--plaintext", help="Without TLS also where others can reach it.")] = False,
) -> None:
    """Serves a live page of a deployment, or of saved rounds: progress, budgets, answers. Read-only by default."""
    try:
        from shuffledp_ops.console.command import Listening, run_console_command
    except ModuleNotFoundError as error:
        from shuffledp_core.errors import NotInstalledError

        raise NotInstalledError("the console's web server is missing: pip install 'shuffledp-ops[console]'") from error

    listening = Listening(host, port, tuple(allow_host or ()), tls_certificate, tls_key, plaintext)
    run_console_command(folder, listening, operate=operate)
