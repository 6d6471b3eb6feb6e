"""`shuffledp location`: simulate a round that asks where people are on average."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, Mechanism, OutputFormat, parse_integer


def location(
    data: Annotated[
        Path, typer.Argument(help="CSV file (or .csv.gz) with columns lat and lon, in degrees.")
    ],
    *,
    box: Annotated[
        str,
        typer.Option(
            metavar="S,W,N,E",
            help="Edges of the map in degrees, for example 48.82,2.28,48.88,2.40.",
        ),
    ],
    side: Annotated[float, typer.Option(help="Side of the map's grid squares, in metres.")] = 100.0,
    radius: Annotated[
        float, typer.Option(help="Distance in metres at which two points are protected with ε.")
    ] = 500.0,
    epsilon: Annotated[
        float, typer.Option(help="Target ε for points at that distance, in nats.")
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Target δ of both rounds together.")] = 1e-6,
    users: Annotated[int, typer.Option(min=2, help="Number of simulated users.")] = 2000,
    honest: Annotated[
        int | None,
        typer.Option(
            parser=parse_integer,
            metavar="INTEGER",
            help="Users who follow the protocol; default: 95%.",
        ),
    ] = None,
    mechanism: Mechanism = "geo-shuffle",
    seed: Annotated[
        int | None,
        typer.Option(
            parser=parse_integer,
            metavar="INTEGER",
            help="Seed for fast, repeatable noise; default: the clients' exact samplers.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also plot the map into this file (.png, .svg or .pdf).")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Estimate people's mean location from two rounds under metric privacy, one per map axis."""
    from shuffledp.columns import load_points
    from shuffledp.commands.respond import print_json, print_rich
    from shuffledp.commands.tables import rows_table
    from shuffledp.location import Grid, plan_location, simulate_location
    from shuffledp.progress import working
    from shuffledp_privacy.bounds import Setting

    if plot is not None:
        from shuffledp.drawing import check_plot

        check_plot(plot)
    grid = Grid(*_edges(box), side)
    honest = users - users // 20 if honest is None else honest
    Setting(users, honest)  # refuses what no round can have, before so many points are drawn
    points = load_points(data, users=users)
    with working("calibrating both rounds"):
        plan = plan_location(
            grid, radius=radius, epsilon=epsilon, delta=delta, users=users,
            honest=honest, mechanism=mechanism,
        )  # fmt: skip
    with working("simulating"):
        centroid = simulate_location(plan, points, seed)
    if plot is not None:
        from shuffledp.drawing import save

        save(centroid.plot(), plot)
    if output is OutputFormat.JSON:
        print_json(centroid.to_dict())
        return
    tables = {"the two rounds": plan.table(), f"{users:,} simulated users": centroid.table()}
    print_rich(*(rows_table(title, rows, justify="left") for title, rows in tables.items()))
    if centroid.outside:
        typer.echo(f"{centroid.outside:,} points outside the map went to its nearest square")
    if plot is not None:
        typer.echo(f"drawn into {plot}")


def _edges(box: str) -> tuple[float, float, float, float]:
    try:
        south, west, north, east = map(float, box.split(","))
    except ValueError as error:
        raise typer.BadParameter(
            f"{box!r} is not a box of four degrees: south,west,north,east", param_hint="--box"
        ) from error
    return south, west, north, east
