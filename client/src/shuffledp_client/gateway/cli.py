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
from shuffledp_core.documents.models import Roster
from shuffledp_core.errors import ConfigError, NotInstalledError, ShuffleDPError
from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.core_dumps import forbid_core_dumps
from shuffledp_core.runtime.keys import load_roster
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.runtime.terminal import prepare_terminal, say_error
from shuffledp_core.transport.tls import GATEWAY
from shuffledp_core.transport.tls_files import TLSFiles

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_set: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if is_set:
        typer.echo(f"shuffledp-gateway {version('shuffledp-client')}")
        raise typer.Exit


@app.command(help=__doc__)
def run(
    config: Annotated[Path, typer.Option("--config", help="The gateway's configuration (TOML).")],
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Run until SIGTERM or SIGINT."""
    try:
        from shuffledp_client.gateway.server import GatewayServer
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            "the gateway's packages are not installed: pip install 'shuffledp-client[gateway]'"
        ) from error
    settings = load_config(config, GatewayConfig)
    configure_logs(settings.log_level)
    roster = roster_of(settings)

    async def serve() -> None:
        await GatewayServer(settings, roster).run()

    asyncio.run(serve())


def roster_of(settings: GatewayConfig) -> Roster:
    """Load the current roster, with the configuration's addresses.

    Raises:
        ConfigError: as `load_roster` and `at_addresses`; or the TLS pair is another party's: no
            device would speak to it, and nodes and analyst would take it for that party.
    """
    roster = at_addresses(
        load_roster(settings.roster, settings.root_key, settings.state), settings.addresses
    )
    name = TLSFiles.load(settings.keys, roster.tls_authority).name
    if name != GATEWAY:
        raise ConfigError(
            f"the TLS certificate in {settings.keys} names {name!r}, but devices expect "
            f"{GATEWAY!r}: check `keys`"
        )
    return roster


def main() -> None:
    """Entry point: one line that describes the error, and its exit code."""
    forbid_core_dumps()
    prepare_terminal()
    try:
        app()
    except ShuffleDPError as error:
        say_error(f"shuffledp-gateway: {error}")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
