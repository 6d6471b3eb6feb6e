"""`shuffledp compose FILE..`: the joint guarantee of several rounds with the same people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, OutputFormat, TotalDelta, parse_integer


def compose(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Signed certificates, manifests or results, or JSON output of certify and "
            "calibrate."
        ),
    ],
    *,
    delta: TotalDelta,
    times: Annotated[
        list[int] | None,
        typer.Option(
            parser=parse_integer,
            metavar="INTEGER",
            help="Number of rounds: one number for all files, or one per file in order.",
        ),
    ] = None,
    roster: Annotated[
        Path | None, typer.Option(help="The signed roster; default: roster.json beside a FILE.")
    ] = None,
    root_key: Annotated[
        str | None, typer.Option(help="Root key in hex; default: root.pub beside the roster.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The accountant's public key in hex, instead of a roster.")
    ] = None,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Compose rounds about the same people: verified certificates, or planned rounds."""
    from shuffledp.commands import files as documents
    from shuffledp.commands.respond import print_json, print_rich
    from shuffledp.commands.tables import basis_of, rows_table
    from shuffledp.composed import compose as compose_plans
    from shuffledp.progress import working

    counts = documents.spread_times(files, times or [1])
    with working("composing"):
        plans = [
            documents.plan_in(file, roster=roster, root_key=root_key, key=key) for file in files
        ]
        composition = compose_plans(documents.repeat_plans(plans, counts), delta=delta)
    if output is OutputFormat.JSON:
        print_json(composition.to_dict())
    else:
        plural = "s" if composition.rounds > 1 else ""
        rounds = f"[bold]{composition.rounds:,} round{plural}[/bold] on the same people"
        print_rich(rows_table(rounds, composition.rows()), *basis_of(composition.basis))
