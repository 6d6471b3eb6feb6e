"""The options of the command `shuffledp-shuffler`; a module of its own for the reason in `cli`."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.terminal import say_error
from shuffledp_shuffler.app import run
from shuffledp_shuffler.config import NodeConfig

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if requested:
        typer.echo(f"shuffledp-shuffler {version('shuffledp-shuffler')}")
        raise typer.Exit


@app.command()
def serve(
    config: Annotated[
        Path, typer.Option(help="TOML file; deploy/config has a sample of every key.")
    ],
    *,
    corrupt: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG",
            help="Laboratories only: record who sent what in this folder, and declare it in every "
            "round.",
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Run one mix node of a deployment."""
    loaded = load_config(config, NodeConfig)
    if corrupt is not None:  # said aloud whatever the log level is
        say_error(
            f"shuffledp-shuffler: CORRUPT NODE: {loaded.name} writes who sent what to {corrupt}"
        )
    asyncio.run(run(loaded, corrupt=corrupt))
