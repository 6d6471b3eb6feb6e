"""`shuffledp advise`: which mechanism for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shuffledp_core.privacy import Adjacency
from shuffledp_sim.accounting.options import (
    Circumstances,
    Delta,
    Epsilon,
    Format,
    Honest,
    MaxDistance,
    Neighbours,
    OutputFormat,
    Rounds,
    Users,
)

if TYPE_CHECKING:
    from rich.table import Table

    from shuffledp_accountant.numerics.advice import Advice
    from shuffledp_accountant.numerics.calibration import Target


def advise(
    *,
    users: Users,
    epsilon: Epsilon,
    delta: Delta,
    max_value: Annotated[int | None, typer.Option(help="k: values are 0..k; without it only histograms.")] = None,
    symbols: Annotated[int | None, typer.Option(help="Symbols of a histogram; default: k + 1.")] = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    max_error: Annotated[float | None, typer.Option(help="Largest standard error accepted.")] = None,
    max_messages: Annotated[int | None, typer.Option(help="Most messages per user accepted.")] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Every mechanism that keeps (ε, δ): its error, messages, and what is left without a shuffler."""
    from shuffledp_sim.accounting import targets
    from shuffledp_sim.accounting.respond import print_json, print_rich

    typed = Circumstances(users, delta, adjacency, max_distance, honest, rounds)
    sizes, limits = targets.Sizes(max_value, symbols), targets.Limits(max_error, max_messages)
    target, rows = targets.advised(typed, sizes, epsilon, limits)
    if output is OutputFormat.JSON:
        print_json([targets.row_to_dict(row) for row in rows])
    else:
        print_rich(_table(target, rows))


def _table(target: Target, rows: list[Advice]) -> Table:
    from rich import box
    from rich.table import Table

    unit = " per unit" if target.adjacency is Adjacency.METRIC else ""
    over = f", {target.rounds:,} rounds" if target.rounds > 1 else ""
    table = Table(
        title=f"ε = {target.epsilon:g}{unit}, δ = {target.delta:g}, {target.users:,} users{over}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption="standard error: of one round. ε_L: what a user keeps in one round if every node is corrupt.",
        caption_justify="left",
    )
    table.add_column("mechanism", style="cyan", no_wrap=True)
    for heading in ("standard error", "messages", "ε_L", "ε certified", "ε attained"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("parameters", style="dim")
    for row in rows:
        from shuffledp_sim.accounting.questions import exact

        table.add_row(
            row.kind,
            f"{row.error:,.4g} ({'one count' if row.estimates != 'sum' else 'sum'})",
            f"{row.messages:,}",
            f"{row.corrupted_epsilon:.4g}",
            f"{row.certified:.4g}",
            f"{row.attained:.4g}",
            ", ".join(f"{name} = {value}" for name, value in exact(row.mechanism).items()),
        )
    return table
