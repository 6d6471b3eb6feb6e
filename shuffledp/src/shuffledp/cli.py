"""The `shuffledp` command: the library's own commands, and those of every installed package that names some.

A package adds commands by an entry point of the group `shuffledp.commands` that is a `typer.Typer`. Each command's
code is imported when it runs, so that all of them start fast.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from shuffledp.commands.app import advise, calibrate, certify_app, compose, simulate, verify
from shuffledp.interruption import unwinding
from shuffledp_core.errors import NotInstalledError, OutputError, ShuffleDPError
from shuffledp_core.installed import offered
from shuffledp_core.terminal import explain, prepare_terminal, say_error

EXTRAS: Final = {
    "ops": ("keys", "results", "round"),
    "sim": ("demo", "deploy", "fleet", "load"),
    "adversary": ("attack", "audit"),
}
"""The commands that other packages of ours bring, by the extra that installs them."""

PANELS: Final = {
    "Try it": ("demo", "simulate"),
    "Guarantees": ("certify", "calibrate", "advise", "compose", "verify"),
    "Operate": ("deploy", "keys", "round", "results", "fleet", "load"),
    "Attack": ("attack", "audit"),
}
"""The commands of `shuffledp --help`, in the order in which a newcomer meets them; those of others come after."""


class Panels(TyperGroup):
    """All commands, each in its panel of the help and in its order there."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        ordered = {name: panel for panel, names in PANELS.items() for name in names}
        for name, command in self.commands.items():
            command.rich_help_panel = ordered.get(name, "Other packages")  # type: ignore[attr-defined]  # of both kinds
        known = {name: self.commands[name] for name in ordered if name in self.commands}
        self.commands = {**known, **self.commands}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the interface of groups
        """The names in the order of the help."""
        return list(self.commands)


app = typer.Typer(
    name="shuffledp",
    cls=Panels,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(certify_app, name="certify")
for _command in (calibrate, advise, compose, verify, simulate):
    app.command()(_command)


def _say_version(wanted: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if wanted:
        typer.echo(f"shuffledp {version('shuffledp')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """An end-to-end system for the shuffle model of differential privacy."""


def _add_installed() -> None:
    """Adds the commands of installed packages, and in place of those that are not a word on how to get them."""
    found = {point.name: point for point in offered("shuffledp.commands")}
    for name in sorted(found):
        app.add_typer(found[name].load())
    for extra, names in EXTRAS.items():
        if extra not in found:
            for name in names:
                app.command(name, hidden=True, context_settings=_ANYTHING)(_not_installed(name, extra))


_ANYTHING: Final = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _not_installed(name: str, extra: str) -> Callable[[], None]:
    def command() -> None:
        raise NotInstalledError(f"`shuffledp {name}` is not installed here: pip install 'shuffledp[{extra}]'")

    return command


_add_installed()


def main() -> None:
    """Entry point: the only place that catches our errors; one line on standard error, and the exit code."""
    prepare_terminal()
    with unwinding() as interruption:
        try:
            app()
        except ShuffleDPError as error:
            say_error(f"error: {error}")
            sys.exit(interruption.exit_code or error.exit_code)
        except OSError as error:  # of a file that nobody has looked at more closely
            say_error(f"error: {explain(error)}")
            sys.exit(interruption.exit_code or OutputError.exit_code)
        except asyncio.CancelledError:  # by a signal
            sys.exit(interruption.exit_code)
        except SystemExit as end:
            sys.exit(interruption.exit_code or end.code)


if __name__ == "__main__":
    main()
