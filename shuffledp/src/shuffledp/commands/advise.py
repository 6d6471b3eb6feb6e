"""`shuffledp advise`: which mechanism for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffledp.commands.options import (
    Epsilon,
    Format,
    Honest,
    MaxDistance,
    MaxError,
    MaxMessages,
    Neighbours,
    OutputFormat,
    Rounds,
    Scenario,
    TargetDelta,
    TargetMaxValue,
    TargetSymbols,
    Users,
)
from shuffledp_core.privacy import Adjacency

if TYPE_CHECKING:
    from rich.table import Table

    from shuffledp.choosing import Comparison


def advise(
    *,
    users: Users,
    epsilon: Epsilon,
    delta: TargetDelta,
    max_value: TargetMaxValue = None,
    symbols: TargetSymbols = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    max_error: MaxError = None,
    max_messages: MaxMessages = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Every mechanism that keeps (ε, δ): its error, messages, and what is left without a shuffler."""
    from shuffledp.commands import targets
    from shuffledp.commands.respond import print_json, print_rich
    from shuffledp.progress import working

    scenario = Scenario(users, delta, adjacency, max_distance, honest, rounds)
    sizes, limits = targets.Sizes(max_value, symbols), targets.SearchLimits(max_error, max_messages)
    with working("comparing mechanisms"):
        found = targets.advised(scenario, sizes, epsilon, limits)
    if output is OutputFormat.JSON:
        print_json(found.to_dict())
    else:
        print_rich(_table(found), _notes(found))


def _table(found: Comparison) -> Table:
    from rich import box
    from rich.table import Table

    target = found.target
    unit = " per unit" if target.adjacency is Adjacency.METRIC else ""
    over = f", {target.rounds:,} rounds" if target.rounds > 1 else ""
    table = Table(
        title=f"ε = {target.epsilon:g}{unit}, δ = {target.delta:g}, {target.users:,} users{over}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("mechanism", style="cyan", no_wrap=True)
    for heading in ("error", "messages", "ε_L", "ε certified", "ε attained"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found:
        numbers = (row.corrupted_epsilon, row.certified, row.attained)
        table.add_row(row.kind, f"{row.error:,.4g}", f"{row.messages:,}", *(f"{value:.4g}" for value in numbers))
    return table


def _notes(found: Comparison) -> Table:
    """Explains the columns, and lists each mechanism's exact parameters."""
    from rich.table import Table

    from shuffledp.plans import exact

    notes = Table.grid(padding=(0, 1))
    notes.add_row("error", "standard error of one round: of the sum, or of one count of a histogram")
    notes.add_row("messages", "per user and round")
    notes.add_row("ε_L", "left to each user in one round if every node is corrupt")
    for row in found:
        notes.add_row(
            f"[cyan]{row.kind}[/cyan]", ", ".join(f"{name} = {value}" for name, value in exact(row.mechanism).items())
        )
    return notes
