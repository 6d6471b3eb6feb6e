"""`shuffledp calibrate MECHANISM`: find the least noise that meets a target."""

from __future__ import annotations

from typing import Annotated

import typer

from shuffledp.commands.options import (
    CorruptNodes,
    Epsilon,
    EpsilonLocal,
    Format,
    Honest,
    MaxDistance,
    Neighbours,
    Nodes,
    OutputFormat,
    Plot,
    Presentation,
    Rounds,
    Scenario,
    TargetDelta,
    TargetMaxValue,
    TargetSymbols,
    Users,
)
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.privacy import Adjacency


def calibrate(
    mechanism: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(MECHANISMS)}.", autocompletion=lambda: list(MECHANISMS)
        ),
    ],
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
    corrupt_nodes: CorruptNodes = None,
    nodes: Nodes = 3,
    epsilon_local: EpsilonLocal = None,
    output: Format = OutputFormat.TEXT,
    plot: Plot = None,
) -> None:
    """Find and certify the mechanism of this kind with the least error that satisfies (ε, δ)."""
    from shuffledp.commands import targets
    from shuffledp.commands.respond import respond
    from shuffledp.progress import working

    scenario = Scenario(users, delta, adjacency, max_distance, honest, rounds, corrupt_nodes, nodes)
    sizes = targets.Sizes(max_value, symbols)
    with working(f"calibrating {mechanism}"):
        plan = targets.calibrate_plan(mechanism, scenario, sizes, epsilon, epsilon_local)
    respond(plan, Presentation(output, plot))
