"""`shuffledp verify FILE`: check a certificate's signature and recompute its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffledp.commands.options import Format, OutputFormat


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="A signed certificate, manifest, announcement or result (JSON), or the folder of "
            "a round."
        ),
    ],
    *,
    roster: Annotated[
        Path | None, typer.Option(help="The signed roster; default: roster.json beside FILE.")
    ] = None,
    root_key: Annotated[
        str | None,
        typer.Option(
            help="The root key that you trust, in hex or as a file; default: root.pub beside the "
            "roster."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="The accountant's public key in hex, instead of a roster.")
    ] = None,
    patient: Annotated[
        bool,
        typer.Option(
            "--patient",
            help="Also recompute numbers that take more than about a second of processor time.",
        ),
    ] = False,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Verify the signature and recompute every number of a certificate.

    Exit code 1 if anything is wrong.
    """
    from shuffledp import verification
    from shuffledp.commands.respond import print_json
    from shuffledp.progress import working

    with working("computing again"):
        reports = verification.verify(
            file, roster=roster, root_key=root_key, key=key, patient=patient
        )
    if output is OutputFormat.JSON:
        print_json([report.to_dict() for report in reports])
        return
    for report in reports:
        typer.echo(report.verdict)
        for line in report.lines:
            typer.echo(f"  - {line}")
