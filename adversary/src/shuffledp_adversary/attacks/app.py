"""`shuffledp attack`: one command for each installed attack, created on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from shuffledp.commands.options import Format, NamedCommands, OutputFormat
from shuffledp_adversary.attacks.installed import attack_named, summaries

if TYPE_CHECKING:
    from shuffledp_adversary.attacks.attack import Attack

Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Also plot the curve into this file (.png, .svg or .pdf)."),
]


class InstalledAttacks(NamedCommands):
    """The commands defined in this module, and one command for each installed attack."""

    _listed: Mapping[str, str] | None = None
    """Summaries by name while the commands are only listed, which needs none of their code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """See `click.Group.list_commands`."""
        return [
            *super().list_commands(ctx),
            *(summaries() if self._listed is None else self._listed),
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See `click.Group.get_command`. Imports the attack, unless it is only listed."""
        written = super().get_command(ctx, cmd_name)
        if written is not None:
            return written
        if self._listed is not None:
            return TyperCommand(cmd_name, help=self._listed[cmd_name])
        attack = attack_named(cmd_name)
        return None if attack is None else _command(attack)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """See `click.Group.format_help`."""
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """See `click.Group.shell_complete`."""
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        self._listed = summaries()
        try:
            yield
        finally:
            self._listed = None


attack_app = typer.Typer(
    cls=InstalledAttacks,
    help="Run real attacks and measure each against a claim.",
    no_args_is_help=True,
)


@attack_app.command("list")
def list_attacks(output: Format = OutputFormat.TEXT) -> None:
    """List all attacks with a summary of each."""
    from shuffledp.commands.respond import print_json

    by_name = summaries()
    if output is OutputFormat.JSON:
        print_json(by_name)
        return
    for name, summary in by_name.items():
        typer.echo(f"{name:<10} {summary}")


def _command(attack: Attack) -> Any:
    """The attack as a command: its own options, then those for the output of its report."""
    defaults = signature(attack.run).parameters
    parameters = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=annotation
        )
        for name, annotation in attack.options.items()
    ]
    shown = [
        Parameter("output", Parameter.KEYWORD_ONLY, default=OutputFormat.TEXT, annotation=Format)
    ]
    if attack.chart is not None:
        shown.append(Parameter("plot", Parameter.KEYWORD_ONLY, default=None, annotation=Plot))

    def command(*, output: OutputFormat, plot: Path | None = None, **chosen: Any) -> None:
        from shuffledp_adversary.attacks.present import run_and_present

        run_and_present(attack, chosen, output, plot)

    command.__signature__ = Signature([*parameters, *shown])  # type: ignore[attr-defined]  # typer reads it
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(attack.name, help=attack.summary)(command)
    return typer.main.get_command(single)
