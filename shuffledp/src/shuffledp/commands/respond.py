"""Computes a plan's guarantee, and prints or plots it."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typer

from shuffledp.commands.options import OtherWords, OutputFormat, Presentation, ViewName
from shuffledp.guarantees import guarantee_of
from shuffledp.plans import Plan
from shuffledp.progress import working

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shuffledp.views import View


def respond(plan: Plan, view: Presentation, other: OtherWords | None = None) -> None:
    """Print the plan's guarantee and requested views, after plotting it if a file is named.



    Raises:
        UsageError: a parameter is outside its range, or the picture's file name has no known
            ending.
        ConfigError: the picture cannot be written, or there is nothing to draw it with.
    """
    if view.plot is not None:
        from shuffledp.drawing import check_plot, draw

        check_plot(view.plot)
    with working(f"certifying {plan.kind}"):
        guarantee = guarantee_of(plan)
        other_view = None if other is None else _in_other_words(plan, other)
    if view.plot is not None:
        with working("drawing"):
            draw(guarantee, view.plot)
    if view.output is OutputFormat.JSON:
        print_json(
            guarantee.to_dict() | ({} if other_view is None else {"view": other_view.to_dict()})
        )
        return
    from shuffledp.commands.tables import answer_tables, view_tables

    print_rich(*answer_tables(guarantee), *(() if other_view is None else view_tables(other_view)))
    if view.plot is not None:
        typer.echo(f"drawn into {view.plot}")


def _in_other_words(plan: Plan, other: OtherWords) -> View | None:
    if other.view is None:
        return None
    from shuffledp import views

    if other.view is ViewName.RDP:
        return views.renyi(plan)
    if other.view is ViewName.F_DP:
        return views.trade_off(plan)
    if other.view is ViewName.GROUP:
        return views.group(plan, 2 if other.reports is None else other.reports)
    if other.view is ViewName.SUBSAMPLED:
        return views.subsampled(plan, other.rate or Fraction(1))
    return _of_papers(plan, other)


def _of_papers(plan: Plan, other: OtherWords) -> View:
    from shuffledp import paper_views

    if other.view is ViewName.PRIMARY:
        return paper_views.primary_count(plan, other.at_x0 or 0)
    if other.view is ViewName.DATASETS:
        return paper_views.datasets(plan, other.distances())
    if other.view is ViewName.ADVERSARIES:
        return paper_views.adversaries(plan)
    if other.view is ViewName.GAUSSIAN:
        return paper_views.central_gaussian(plan)
    if other.view is ViewName.CORRUPT:
        return paper_views.all_corrupt(plan)
    return paper_views.growing_delta(plan)


def print_json(value: Any) -> None:
    """Print one JSON value; NaN and infinity are errors."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_rich(*items: RenderableType) -> None:
    """Print tables and text for people."""
    from rich.console import Console

    console = Console()
    for item in items:
        console.print(item)
