"""Options that several of the operator's commands share."""

from __future__ import annotations

from typing import Annotated

import typer

OtlpEndpoint = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="OpenTelemetry collector (OTLP over gRPC) that gets a trace of each round, such as "
        "http://localhost:4317; needs shuffledp-ops[telemetry].",
    ),
]
