"""`shuffledp-gateway --config FILE` runs an HTTPS gateway for devices without gRPC."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_client.config import at_addresses
from shuffledp_client.gateway.config import GatewayConfig
from shuffledp_core.config import load_config
from shuffledp_core.errors import NotInstalledError, ShuffleDPError
from shuffledp_core.keys import load_roster
from shuffledp_core.logs import configure_logs
from shuffledp_core.terminal import prepare_terminal, say_error

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if wanted:
        typer.echo(f"shuffledp-gateway {version('shuffledp-client')}")
        raise typer.Exit


@app.command(help=__doc__)
def run(
    config: Annotated[Path, typer.Option("--config", help="The gateway's configuration (TOML).")],
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Runs until SIGTERM or SIGINT."""
    try:
        from shuffledp_client.gateway.server import GatewayServer
    except ModuleNotFoundError as error:
        raise NotInstalledError("a gateway needs more: pip install 'shuffledp-client[gateway]'") from error
    settings = load_config(config, GatewayConfig)
    configure_logs(settings.log_level)
    roster = at_addresses(load_roster(settings.roster, settings.root_key, settings.state), settings.addresses)

    async def serve() -> None:
        await GatewayServer(settings, roster).run()

    asyncio.run(serve())


def main() -> None:
    """Entry point: one line for what went wrong, and its exit code."""
    prepare_terminal()
    try:
        app()
    except ShuffleDPError as error:
        say_error(f"shuffledp-gateway: {error}")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
