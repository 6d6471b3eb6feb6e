"""A plan's guarantee on its way to the screen: computed, drawn if asked, printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from shuffledp.commands.options import OutputFormat, Presentation
from shuffledp.guarantees import guarantee_of
from shuffledp.plans import Plan
from shuffledp.progress import working

if TYPE_CHECKING:
    from rich.console import RenderableType


def respond(asked: Plan, view: Presentation) -> None:
    """Prints the plan's guarantee, after drawing it where a file is named.

    Raises:
        UsageError: a parameter is outside its range, or the picture's file name has no known ending.
        ConfigError: the picture cannot be written, or there is nothing to draw it with.
    """
    if view.plot is not None:
        from shuffledp.drawing import check_plot, draw

        check_plot(view.plot)
    with working(f"certifying {asked.kind}"):
        found = guarantee_of(asked)
    if view.plot is not None:
        with working("drawing"):
            draw(found, view.plot)
    if view.output is OutputFormat.JSON:
        print_json(found.to_dict())
        return
    from shuffledp.commands.tables import answer_tables

    print_rich(*answer_tables(found))
    if view.plot is not None:
        typer.echo(f"drawn into {view.plot}")


def print_json(value: Any) -> None:
    """One JSON value; never NaN or infinity."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_rich(*items: RenderableType) -> None:
    """Tables and text for people."""
    from rich.console import Console

    console = Console()
    for item in items:
        console.print(item)
