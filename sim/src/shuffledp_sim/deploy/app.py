"""Commands of `shuffledp deploy`: create, start, stop and show a deployment in one folder.

See docs/by-hand.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

deploy_app = typer.Typer(
    help="Run a deployment from one folder, with each party as a process on this machine."
)

Folder = Annotated[Path, typer.Argument(help="The deployment's folder.")]


@deploy_app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    *,
    devices: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of devices, named device-1 and so on.")
    ] = 5,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Number of mix nodes.")] = 3,
    gateway: Annotated[
        bool,
        typer.Option("--gateway", help="Add an HTTPS gateway, which also serves a web page."),
    ] = False,
) -> None:
    """Create keys, configurations on free ports of this machine, and devices for a sample round."""
    from shuffledp_sim.deploy.making import make, page_address, sample_round

    deployment = make(folder, devices=devices, nodes=nodes, gateway=gateway)
    parties = len(deployment.roster.parties)
    typer.echo(f"{parties} parties, a broker and {devices} devices are in {folder}. Next:")
    typer.echo(f"  shuffledp deploy start {folder}")
    typer.echo(f"  {sample_round(folder, devices, gateway=gateway)}")
    typer.echo(
        f"  shuffledp-client submit --config {folder}/device-1.toml --value 3        # and so on, "
        "each device"
    )
    if gateway:
        typer.echo(f"  shuffledp keys codes {folder}/keys        # a code for the page")
        typer.echo(f"  {page_address(folder)}        # in Chromium, one answer more")


@deploy_app.command("start")
def start(folder: Folder) -> None:
    """Start all parties that are not running, and return once all are healthy.

    They outlive the terminal.
    """
    from shuffledp_sim.deploy.running import start_all

    started = start_all(folder)
    typer.echo(f"started: {', '.join(started)}" if started else "all of it runs already")


@deploy_app.command("stop")
def stop(folder: Folder) -> None:
    """Stop all parties; keys, ledger and results are kept."""
    from shuffledp_sim.deploy.running import stop_all

    stopped = stop_all(folder)
    typer.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing of it runs")


@deploy_app.command("status")
def status(folder: Folder) -> None:
    """Show each party's address and state; exit code 1 unless all are healthy."""
    from shuffledp_sim.deploy.running import look

    states = look(folder)
    for state in states:
        typer.echo(f"{state.name:12} {state.address:22} {state.health}")
    if any(state.health != "healthy" for state in states):
        raise typer.Exit(1)
