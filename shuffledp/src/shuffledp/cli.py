"""The `shuffledp` command: the library's own commands, and those of installed packages.

A package adds commands by an entry point of the group `shuffledp.commands` that is a `typer.Typer`.
Packages and each command's code are imported when they are asked for, so that all commands start
fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from shuffledp.commands.app import (
    advise,
    calibrate,
    certify_app,
    compose,
    location,
    simulate,
    verify,
)
from shuffledp_core.errors import NotInstalledError, OutputError, ShuffleDPError
from shuffledp_core.runtime.core_dumps import forbid_core_dumps
from shuffledp_core.runtime.installed import entry_points_of
from shuffledp_core.runtime.interruption import is_cancellation, unwinding
from shuffledp_core.runtime.terminal import explain, prepare_terminal, say_error

EXTRAS: Final = {
    "accountant": ("audit-log", "ledger", "registry"),
    "ops": ("campaign", "console", "keys", "report", "results", "round", "witness"),
    "sim": ("demo", "deploy", "fleet", "load"),
    "adversary": ("attack", "audit"),
    "labs": ("lab",),
    "experiments": ("reproduce",),
}
"""The commands that other packages of ours bring, by the extra that installs them."""

PANELS: Final = {
    "Try it": ("demo", "simulate", "location"),
    "Guarantees": ("certify", "calibrate", "advise", "compose", "verify", "audit-log", "registry"),
    "Operate": (
        "deploy",
        "keys",
        "round",
        "campaign",
        "results",
        "report",
        "console",
        "ledger",
        "witness",
        "fleet",
        "load",
    ),
    "Attack": ("attack", "audit"),
    "Learn": ("lab", "reproduce"),
}
"""The commands of `shuffledp --help`, in the order in which a newcomer meets them; those of others
come after.
"""


class Panels(TyperGroup):
    """All commands, each in its panel of the help text.

    Those of other packages are loaded when one of them is asked for.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._waiting = {point.name: point for point in entry_points_of("shuffledp.commands")}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See `click.Group.get_command`; an unknown name may belong to any installed package."""
        if cmd_name not in self.commands:
            likely = [extra for extra, names in EXTRAS.items() if cmd_name in names]
            self._load(likely or list(self._waiting))
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the interface of groups
        """The names in the order of the help, and assigns each command its panel."""
        self._load(list(self._waiting))
        panels = {name: panel for panel, names in PANELS.items() for name in names}
        for name, command in self.commands.items():
            command.rich_help_panel = panels.get(name, "Other packages")  # type: ignore[attr-defined]  # of both kinds
        return sorted(self.commands, key=[*panels, *self.commands].index)

    def _load(self, packages: Iterable[str]) -> None:
        for name in packages:
            if name in self._waiting:
                self.commands.update(typer.main.get_group(self._waiting.pop(name).load()).commands)


app = typer.Typer(
    name="shuffledp",
    cls=Panels,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(certify_app, name="certify")
for _command in (calibrate, advise, compose, verify, simulate, location):
    app.command()(_command)


def _say_version(is_asked_for: bool) -> None:  # noqa: FBT001 - typer's interface of callbacks
    if is_asked_for:
        typer.echo(f"shuffledp {version('shuffledp')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Collect statistics from user devices with differential privacy in the shuffle model."""


def _add_missing() -> None:
    """Add placeholders for commands that are not installed, which say how to install them."""
    installed = {point.name for point in entry_points_of("shuffledp.commands")}
    for extra, names in EXTRAS.items():
        if extra not in installed:
            for name in names:
                app.command(name, hidden=True, context_settings=_ANYTHING)(
                    _not_installed(name, extra)
                )


_ANYTHING: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": [],
}


def _not_installed(name: str, extra: str) -> Callable[[], None]:
    def command() -> None:
        raise NotInstalledError(
            f"`shuffledp {name}` is not installed here: pip install 'shuffledp[{extra}]'"
        )

    return command


_add_missing()


def main() -> None:
    """Entry point: the only place that catches this project's errors.

    One line on standard error, and the exit code.
    """
    forbid_core_dumps()
    prepare_terminal()
    with unwinding() as interruption:
        try:
            app()
        except ShuffleDPError as error:
            say_error(f"error: {error}")
            sys.exit(interruption.exit_code or error.exit_code)
        except OSError as error:  # of a file that no one has looked at more closely
            say_error(f"error: {explain(error)}")
            sys.exit(interruption.exit_code or OutputError.exit_code)
        except SystemExit as end:
            sys.exit(interruption.exit_code or end.code)
        except BaseException as error:
            if is_cancellation(error):  # by a signal
                sys.exit(interruption.exit_code)
            raise


if __name__ == "__main__":
    main()
