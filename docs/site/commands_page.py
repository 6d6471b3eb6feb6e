"""The reference page of all commands and options, generated from the programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer
from typer.main import get_command

import shuffledp.cli
import shuffledp_accountant.cli
import shuffledp_accountant.ledger_app
import shuffledp_analyst.cli
import shuffledp_client.cli
import shuffledp_client.gateway.cli
import shuffledp_shuffler.command

PROGRAMS: Final = {
    "shuffledp": shuffledp.cli.app,
    "shuffledp-client": shuffledp_client.cli.app,
    "shuffledp-gateway": shuffledp_client.gateway.cli.app,
    "shuffledp-shuffler": shuffledp_shuffler.command.app,
    "shuffledp-analyst": shuffledp_analyst.cli.app,
    "shuffledp-accountant": shuffledp_accountant.cli.app,
    "shuffledp-ledger": shuffledp_accountant.ledger_app.ledger_app,
}
"""In the order in which a newcomer meets them."""

EVERYWHERE: Final = frozenset({"help", "install_completion", "show_completion"})
"""Options that the page says once."""


def page() -> str:
    """A section for each program, with a subsection for each command, as Markdown."""
    return "\n".join(line for name, app in PROGRAMS.items() for line in _program(name, app))


def _program(name: str, app: typer.Typer) -> Iterator[str]:
    command = get_command(app)
    context = typer.Context(command, info_name=name)
    yield f"## `{name}`\n"
    yield from _describe(command, context)
    for below in _commands(command, context):
        yield f"### `{below.command_path}`\n"
        yield from _describe(below.command, below)


def _commands(group: Any, context: typer.Context) -> Iterator[typer.Context]:
    """Every command of a group and its subgroups, each after its own group.

    None that is hidden.
    """
    for name in group.list_commands(context) if hasattr(group, "list_commands") else ():
        command = group.get_command(context, name)
        if not command.hidden:
            below = typer.Context(command, info_name=name, parent=context)
            yield below
            yield from _commands(command, below)


def _mark_options(words: str) -> str:
    """The text with options marked as code: `--view` would otherwise get an en dash."""
    return re.sub(r"`[^`]*`|--[a-z][a-z0-9-]*", lambda match: f"`{match[0].strip('`')}`", words)


def _describe(command: Any, context: typer.Context) -> Iterator[str]:
    yield f"{_mark_options(command.help)}\n"
    if not hasattr(command, "list_commands"):
        yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}\n"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and parameter.name not in EVERYWHERE:
            yield f"* `{record[0]}`: {_mark_options(record[1].replace('  [', ' ['))}"
    yield ""
