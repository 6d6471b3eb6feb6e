"""`shuffledp attack`: one command for each installed attack, made when it is asked for."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shuffledp.commands.options import Format, NamedCommands, OutputFormat

if TYPE_CHECKING:
    from shuffledp_adversary.attacks.attack import Attack

Plot = Annotated[Path | None, typer.Option("--plot", help="Also draw the curve into this file (.png, .svg or .pdf).")]


class InstalledAttacks(NamedCommands):
    """The commands that are written here, and one for each attack."""

    def list_commands(self, ctx: Any) -> list[str]:
        """See `click.Group.list_commands`. Imports all attacks."""
        from shuffledp_adversary.attacks.installed import attacks_by_name

        return [*super().list_commands(ctx), *attacks_by_name()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """See `click.Group.get_command`. Imports one attack."""
        from shuffledp_adversary.attacks.installed import attack_named

        written = super().get_command(ctx, cmd_name)
        if written is not None:
            return written
        attack = attack_named(cmd_name)
        return None if attack is None else _command(attack)


attack_app = typer.Typer(
    cls=InstalledAttacks, help="Attacks that really try, each measured against a claim.", no_args_is_help=True
)


@attack_app.command("list")
def list_attacks(output: Format = OutputFormat.TEXT) -> None:
    """Every attack with what it does."""
    from shuffledp.commands.respond import print_json
    from shuffledp_adversary.attacks.installed import attacks_by_name

    summaries = {name: attack.summary for name, attack in attacks_by_name().items()}
    if output is OutputFormat.JSON:
        print_json(summaries)
        return
    for name, summary in summaries.items():
        typer.echo(f"{name:<10} {summary}")


def _command(attack: Attack) -> Any:
    """The attack as a command: its own options, then how its report is shown."""
    defaults = signature(attack.run).parameters
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=annotation)
        for name, annotation in attack.options.items()
    ]
    shown = [Parameter("output", Parameter.KEYWORD_ONLY, default=OutputFormat.TEXT, annotation=Format)]
    if attack.chart is not None:
        shown.append(Parameter("plot", Parameter.KEYWORD_ONLY, default=None, annotation=Plot))

    def command(*, output: OutputFormat, plot: Path | None = None, **asked: Any) -> None:
        from shuffledp_adversary.attacks.present import run_and_present

        run_and_present(attack, asked, output, plot)

    command.__signature__ = Signature([*parameters, *shown])  # type: ignore[attr-defined]  # typer reads it
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(attack.name, help=attack.summary)(command)
    return typer.main.get_command(alone)
