"""An attack as the command line sees it, and the options that attacks share.

A module `attacks/NAME.py` (or `attacks/NAME/attack.py`) with an `ATTACK` is all that an attack
needs: the command `shuffledp attack NAME`, its help, its place in `attack list` and its report as
text or JSON follow from it. docs/extending.md adds one from another package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from shuffledp.commands.options import parse_integer, real
from shuffledp_adversary.attacks.findings import AttackReport
from shuffledp_adversary.attacks.picture import Chart


@dataclass(frozen=True)
class Attack:
    """An attack with its name, function and options.

    Attributes:
        name: name on the command line, which is that of its module.
        summary: what the attack does, in a line.
        run: function that returns the report. All its parameters are keyword-only and have
            defaults.
        options: the parameters of `run` that are options, each with the annotation that typer
            reads; their defaults are those of `run`.
        chart: function from a report to its curve, for `--plot`; None if there is none to draw.
    """

    name: str
    summary: str
    run: Callable[..., AttackReport]
    options: Mapping[str, Any] = field(default_factory=dict)
    chart: Callable[[AttackReport], Chart] | None = None


def whole_number(words: str) -> Any:
    """Make an option that takes a whole number."""
    return Annotated[int, typer.Option(parser=parse_integer, metavar="INTEGER", help=words)]


USERS: Final = whole_number("Number of simulated users.")
TRIALS: Final = whole_number("Trials with each of two neighbouring datasets.")
CONFIDENCE: Final = Annotated[
    float,
    typer.Option(
        parser=real, metavar="NUMBER", help="Confidence level of the intervals, between 0 and 1."
    ),
]
