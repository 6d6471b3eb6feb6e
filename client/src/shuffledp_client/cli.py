"""`shuffledp-client`: submit a value to a round, and verify afterwards that it arrived.

Exit codes: 2 for usage and configuration, 3 for a refusal by the user's policy, 1 otherwise.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from shuffledp_client.board import VerifiedResult
from shuffledp_client.config import ClientConfig
from shuffledp_client.device import Device
from shuffledp_core.config import load_config
from shuffledp_core.errors import ShuffleDPError, UsageError
from shuffledp_core.logs import configure_logs
from shuffledp_core.privacy import Adjacency

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

ConfigOption = Annotated[Path, typer.Option("--config", help="The device's configuration (TOML).")]
RoundOption = Annotated[str | None, typer.Option("--round", help="Round id.")]


@app.command()
def submit(
    config: ConfigOption,
    value: Annotated[str, typer.Option(help="Your value; - reads it from standard input.")],
    round_id: RoundOption = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and verify it.")] = False,
) -> None:
    """Verify the round (without --round: one that is open now), randomise, seal and submit."""
    device, number = _device(config), _whole(value)

    async def run() -> None:
        done = await device.submit(number, round_id)
        if done.repeated:
            typer.echo("An earlier submission to this round was kept and sent; this value was not used.")
        typer.echo(f"Submitted {done.messages} messages to round {done.round_id}; receipt of {done.entry} kept.")
        if wait:
            _report(await device.verify(done.round_id, wait=True))

    asyncio.run(run())


@app.command()
def verify(
    config: ConfigOption,
    round_id: RoundOption = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result if it is not there yet.")] = False,
) -> None:
    """Check that your messages are on the published board, unchanged (without --round: the one that waits)."""
    device = _device(config)
    _report(asyncio.run(device.verify(round_id or device.only_round(), wait=wait)))


def _device(config: Path) -> Device:
    loaded = load_config(config, ClientConfig)
    configure_logs(loaded.log_level)
    return Device(loaded)


def _whole(text: str) -> int:
    """A value from the command line or standard input; never repeated in an error."""
    digits = sys.stdin.readline().strip() if text == "-" else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        raise UsageError("the value must be a whole number, 0 or larger, with at most 10 digits")
    return int(digits)


def _report(verified: VerifiedResult) -> None:
    result, final = verified.result, verified.final
    epsilon = "none" if final.epsilon.certified is None else f"{final.epsilon.certified:.4g}"
    unit = " per unit" if final.adjacency is Adjacency.METRIC else ""
    typer.echo(f"All your messages are on the board of round {result.round_id}, unchanged.")
    typer.echo(f"{result.accepted} reports; certified ε = {epsilon}{unit}, δ = {final.delta:.3g}.")
    if not final.holds:
        typer.echo("The round stayed below its certified target: fewer honest reports than planned.")


def main() -> None:
    """Entry point: one line for what went wrong, and its exit code."""
    try:
        app()
    except ShuffleDPError as error:
        typer.echo(f"shuffledp-client: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
