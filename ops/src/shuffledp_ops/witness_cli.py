"""Command line of a witness's process.

It is `shuffledp witness`, or `python -m shuffledp_ops.witness_cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp_core.errors import ConfigError, ShuffleDPError
from shuffledp_core.runtime.addresses import ADDRESS_FORM, is_address
from shuffledp_core.runtime.clock import system_clock
from shuffledp_core.runtime.core_dumps import forbid_core_dumps
from shuffledp_core.runtime.keys import load_identity, load_roster
from shuffledp_core.runtime.logs import configure_logs
from shuffledp_core.runtime.terminal import prepare_terminal
from shuffledp_core.transparency.entries import log_key_of

witness_app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


@witness_app.command("witness")
def witness_command(
    *,
    name: Annotated[str, typer.Option(help="The witness's name in the roster.")],
    keys: Annotated[Path, typer.Option(help="Its key folder, with identity.pem.")],
    roster: Annotated[Path, typer.Option(help="The deployment's roster.json.")],
    root_key: Annotated[str, typer.Option(help="The deployment's root key, in hex.")],
    state: Annotated[
        Path, typer.Option(help="Folder for the newest checkpoint; never restore it from a backup.")
    ],
    listen: Annotated[str, typer.Option(help="HOST:PORT to listen on.")] = "127.0.0.1:7450",
    log_level: Annotated[str, typer.Option(help="Lowest level of log lines to write.")] = "info",
) -> None:
    """Run a witness, which signs checkpoints of a deployment's public log that only grow."""
    from shuffledp_ops.witness import WitnessServer, WitnessState, serve

    configure_logs(log_level)
    if not is_address(listen, least=0):
        raise ConfigError(f"{listen[:80]!r} is not {ADDRESS_FORM}")
    parties = load_roster(roster, root_key, state)
    identity = load_identity(keys, name)
    witnesses = parties.log_terms.witnesses if parties.log_terms else ()
    if (name, identity.public_key.hex()) not in {
        (witness.name, witness.public_key) for witness in witnesses
    }:
        raise ConfigError(
            f"the roster of {parties.deployment!r} names no witness {name!r} with the key in {keys}"
        )
    serve(WitnessServer(listen, WitnessState(identity, [log_key_of(parties)], state, system_clock)))


def main() -> None:
    """Entry point: errors of this project become one line and an exit code."""
    forbid_core_dumps()
    prepare_terminal()
    try:
        witness_app()
    except ShuffleDPError as error:
        typer.echo(f"shuffledp-witness: {error}", err=True)
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main()
