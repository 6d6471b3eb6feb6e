"""Command line of the analyst's process: `shuffledp-analyst --config FILE`."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_analyst.app import assemble
from shuffledp_analyst.config import AnalystConfig
from shuffledp_core.errors import ShuffleDPError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.core_dumps import forbid_core_dumps
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.runtime.state import claim_state
from shuffledp_core.runtime.terminal import prepare_terminal
from shuffledp_core.transport.service import run_until_signal

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if requested:
        typer.echo(f"shuffledp-analyst {version('shuffledp-analyst')}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]


async def serve(config: AnalystConfig) -> None:
    """Run the analyst until SIGTERM or SIGINT.

    Raises `ConfigError` for a configuration that cannot work.
    """
    analyst = assemble(config)
    await run_until_signal(analyst.service, background=analyst.background)


@app.command()
def _run(
    config: Annotated[Path, typer.Option(help="TOML file; see deploy/config for a sample")],
    *,
    _: VersionOption = False,
) -> None:
    """Run the analyst, which opens rounds, reads the shuffled messages and publishes results."""
    settings = load_config(config, AnalystConfig)
    configure_logs(settings.log_level)
    lock = claim_state(
        settings.state
    )  # a second analyst would declare this one's open rounds failed
    try:
        asyncio.run(serve(settings))
    finally:
        os.close(lock)


def main() -> None:
    """Entry point: on errors, one line on standard error and the error's exit code."""
    forbid_core_dumps()
    prepare_terminal()
    try:
        app()
    except ShuffleDPError as error:
        sys.stderr.write(f"shuffledp-analyst: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
