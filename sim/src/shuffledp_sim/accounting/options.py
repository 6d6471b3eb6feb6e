"""The options that the accounting commands share, and how their texts become values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final

import typer

from shuffledp_core.privacy import Adjacency

_DECIMAL: Final = re.compile(r"[+-]?(\d{1,19}(\.\d{0,19})?|\.\d{1,19})([eE][+-]?\d{1,2})?|[+-]?\d{1,19}/\d{1,19}")


def decimal(text: str | Fraction) -> Fraction:
    """The exact rational that a decimal such as 0.1 or a ratio such as 1/3 names."""
    if isinstance(text, Fraction):
        return text
    if not _DECIMAL.fullmatch(text.strip()):
        raise typer.BadParameter(f"{text!r} is not a decimal such as 0.1 or a ratio such as 1/3")
    try:
        return Fraction(text.strip())
    except ZeroDivisionError as error:
        raise typer.BadParameter(f"{text!r} divides by zero") from error


class OutputFormat(StrEnum):
    """How a command prints its answer."""

    TEXT = "text"
    JSON = "json"


Users = Annotated[int, typer.Option(help="n, reports that arrive.")]
Delta = Annotated[float, typer.Option(help="δ over all rounds, 1e-12 to below 1; 0 asks for a pure guarantee.")]
Epsilon = Annotated[float, typer.Option(help="Target ε over all rounds, in nats; per unit under metric adjacency.")]
Neighbours = Annotated[Adjacency, typer.Option("--adjacency", help="standard: any change; metric: per unit of change.")]
MaxDistance = Annotated[int | None, typer.Option(help="Largest change covered; default: the whole domain.")]
Honest = Annotated[int | None, typer.Option(help="Users who follow the protocol; default: all.")]
Rounds = Annotated[int, typer.Option(help="Rounds on the same people.")]
CorruptNodes = Annotated[str | None, typer.Option(help="Corrupt mix nodes, such as 1,3.", metavar="I,J")]
Nodes = Annotated[int, typer.Option(help="Mix nodes of the route.")]
Format = Annotated[OutputFormat, typer.Option("--format", help="text for people, json for programs.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw δ(ε) into this file (.png, .svg or .pdf).")]
MaxValue = Annotated[int, typer.Option(help="k: values are 0..k.")]
Randomise = Annotated[
    Fraction,
    typer.Option(parser=decimal, metavar="DECIMAL", help="p, the chance that a bit is replaced by a fair coin."),
]
EpsilonGeo = Annotated[
    Fraction, typer.Option(parser=decimal, metavar="DECIMAL", help="ε of one user's noise, in nats per unit.")
]
NoiseEpsilon = Annotated[
    Fraction,
    typer.Option(parser=decimal, metavar="DECIMAL", help="ε of all shares of the noise together, in nats per unit."),
]
Padding = Annotated[int | None, typer.Option(help="c, bits added on each side; default: the least sound one.")]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What every question shares, as it was typed; checked in `questions`."""

    users: int
    delta: float
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None
    honest: int | None = None
    rounds: int = 1
    corrupt_nodes: str | None = None
    nodes: int = 3


@dataclass(frozen=True, slots=True)
class View:
    """How the answer is shown."""

    output: OutputFormat = OutputFormat.TEXT
    plot: Path | None = None
