"""Answers as tables for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import JustifyMethod, RenderableType
from rich.markup import escape
from rich.table import Table

from shuffledp.guarantees import Guarantee, attained_remark, error_remark, number
from shuffledp.plans import neighbours, people_needed
from shuffledp_core.privacy import Adjacency

if TYPE_CHECKING:
    from shuffledp.views import View


def answer_tables(guarantee: Guarantee) -> tuple[RenderableType, ...]:
    """Tables of a guarantee: both bounds, published value, ε_L, error, messages and basis."""
    plan = guarantee.plan
    settings = ", ".join(f"{name} = {value}" for name, value in plan.parameters.items())
    table = rows_table(f"[bold]{plan.kind}[/bold]: {escape(settings)}")
    _add_guarantee(table, guarantee)
    _add_local(table, guarantee)
    _add_cost(table, guarantee)
    return table, *basis_of(guarantee.basis)


def rows_table(
    title: str, rows: Iterable[tuple[str, str, str]] = (), *, justify: JustifyMethod = "right"
) -> Table:
    """A table of name, value and remark without a header; `justify` is the value's."""
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=False, pad_edge=False
    )
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify=justify, no_wrap=True)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def basis_of(lines: Iterable[str]) -> tuple[RenderableType, RenderableType]:
    """A heading, and the list of what a number rests on."""
    reasons = Table.grid(padding=(0, 1))
    for line in lines:
        reasons.add_row("-", escape(line))
    return "[cyan]What this rests on[/cyan]", reasons


def view_tables(view: View) -> tuple[RenderableType, ...]:
    """The tables of a view: numbers, points, and basis."""
    table = rows_table(f"[bold]{view.name}[/bold]", view.rows())
    return table, *(f"- {escape(line)}" for line in view.basis)


def _add_guarantee(table: Table, guarantee: Guarantee) -> None:
    plan = guarantee.plan
    unit = " per unit of distance" if plan.setting.adjacency is Adjacency.METRIC else ""
    over = f", over {plan.rounds:,} rounds" if plan.rounds > 1 else ""
    table.add_row(
        "ε certified",
        f"[bold]{number(guarantee.certified)}[/bold]",
        f"the guarantee: true for every dataset{unit}{over}",
    )
    between = "" if plan.rounds > 1 else ": the truth lies between"
    table.add_row("ε attained", number(guarantee.attained), f"{attained_remark(plan)}{between}")
    if guarantee.published is not None:
        remark = guarantee.formula or "for comparison only"
        table.add_row("ε published", number(guarantee.published), escape(remark))
    table.add_row("δ", f"{plan.delta:g}", neighbours(plan), end_section=True)


def _add_local(table: Table, guarantee: Guarantee) -> None:
    plan = guarantee.plan
    honest = people_needed(plan)
    if plan.all_corrupt:
        words = f"all {plan.nodes} nodes corrupt, {honest}"
    else:
        words = f"at least one of {plan.nodes - len(plan.corrupt)} nodes honest, {honest}"
    table.add_row("holds while", "", words)
    table.add_row(
        "ε_L",
        number(guarantee.corrupted),
        f"left to each user if every node is corrupt (δ = {guarantee.corrupted_delta:g})",
    )


def _add_cost(table: Table, guarantee: Guarantee) -> None:
    messages = "" if guarantee.messages is None else f"{guarantee.messages:,}"
    table.add_row("messages", messages, "per user and round")
    if guarantee.error is not None:
        error = f"{guarantee.error:,.4g}"
        table.add_row("standard error", error, error_remark(guarantee), end_section=True)
    else:
        table.add_section()
