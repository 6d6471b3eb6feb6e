"""Options that the accounting commands share, and the conversion of their texts to values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer
from typer.core import TyperGroup

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.privacy import Adjacency
from shuffledp_core.vocabulary import Mix

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_DECIMAL: Final = re.compile(
    r"[+-]?(\d{1,19}(\.\d{0,19})?|\.\d{1,19})([eE][+-]?\d{1,2})?|[+-]?\d{1,19}/\d{1,19}"
)


def decimal(text: str | Fraction) -> Fraction:
    """Parse a decimal such as 0.1 or a ratio such as 1/3 as an exact rational."""
    if isinstance(text, Fraction):
        return text
    if not _DECIMAL.fullmatch(text.strip()):
        raise typer.BadParameter(f"{text!r} is not a decimal such as 0.1 or a ratio such as 1/3")
    try:
        return Fraction(text.strip())
    except ZeroDivisionError as error:
        raise typer.BadParameter(f"{text!r} divides by zero") from error


class OutputFormat(StrEnum):
    """Output format of a command."""

    TEXT = "text"
    JSON = "json"


Suite = Annotated[
    str, typer.Option(help="Encryption of onions: sealed-box, hpke or hpke-mlkem768-x25519.")
]


Mixing = Annotated[
    Mix,
    typer.Option(
        "--mix", help="plain, or verified: anyone can check the mixing, at a higher cost."
    ),
]


def mechanism_kind(text: str) -> str:
    """Parse the name of a registered mechanism."""
    if text not in MECHANISMS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(MECHANISMS)}")
    return text


Mechanism = Annotated[
    str,
    typer.Option(
        parser=mechanism_kind,
        metavar="|".join(MECHANISMS),
        autocompletion=lambda: list(MECHANISMS),
        help="Mechanism with which users randomise.",
    ),
]
OptionalMechanism = Annotated[
    str | None,
    typer.Option(
        parser=mechanism_kind,
        metavar="|".join(MECHANISMS),
        autocompletion=lambda: list(MECHANISMS),
        help="Mechanism with which users randomise; default: the one that serves the question.",
    ),
]


class NamedCommands(TyperGroup):
    """A group whose error for an unknown command is one line with the valid names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `click.Group.resolve_command`; raises `UsageError` for an unknown name."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise UsageError(
                f"no command {args[0]!r}; choose one of {', '.join(self.list_commands(ctx))}"
            )
        return super().resolve_command(ctx, args)


def parse_integer(text: str | int) -> int:
    """Parse a whole number; the error names the typed text."""
    try:
        return int(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a whole number") from error


def parse_integers(text: str | tuple[int, ...]) -> tuple[int, ...]:
    """Parse whole numbers separated by commas; the error names the typed text."""
    if isinstance(text, tuple):
        return text
    return tuple(parse_integer(part.strip()) for part in text.split(","))


def real(text: str | float) -> float:
    """Parse a number; the error names the typed text. The range is checked later."""
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a number") from error


def _integer_option(words: str) -> Any:
    return typer.Option(parser=parse_integer, metavar="INTEGER", help=words)


def _real(words: str) -> Any:
    return typer.Option(parser=real, metavar="NUMBER", help=words)


def _exact(words: str) -> Any:
    return typer.Option(parser=decimal, metavar="DECIMAL", help=words)


Users = Annotated[int, _integer_option("n, reports that arrive.")]
Delta = Annotated[float, _real("δ over all rounds, 1e-12 to below 1; 0 asks for a pure guarantee.")]
TotalDelta = Annotated[float, _real("δ over all rounds together, 1e-12 to below 1.")]
TargetDelta = Annotated[float, _real("Target δ over all rounds, 1e-12 to below 1.")]
Epsilon = Annotated[
    float, _real("Target ε over all rounds, in nats; per unit under metric adjacency.")
]
Epsilon0 = Annotated[float, _real("ε0 of one user's report, in nats.")]
AnyEpsilon0 = Annotated[float | None, _real("ε0 of one user's report, in nats.")]
Blanket = Annotated[
    Fraction | None,
    _exact("Instead of --epsilon0: probability of a uniform report, as calibrate prints it."),
]
Matrix = Annotated[
    Path | None,
    typer.Option(
        help="Instead of --epsilon0: a CSV of probabilities, one row per value, one column per "
        "output.",
        metavar="FILE",
    ),
]
Neighbours = Annotated[
    Adjacency,
    typer.Option(
        "--adjacency", help="standard: any change of a value; metric: ε per unit of change."
    ),
]
MaxDistance = Annotated[
    int | None,
    _integer_option("Largest change of a value that the guarantee covers; default: any change."),
]
Honest = Annotated[int | None, _integer_option("Users who follow the protocol; default: all.")]
Rounds = Annotated[int, _integer_option("Rounds on the same people.")]
CorruptNodes = Annotated[
    str | None, typer.Option(help="Corrupt mix nodes, such as 1,3.", metavar="I,J")
]
Nodes = Annotated[int, _integer_option("Number of mix nodes in the route.")]
Format = Annotated[OutputFormat, typer.Option("--format", help="Output format: text or json.")]
Plot = Annotated[
    Path | None, typer.Option(help="Also plot δ(ε) into this file (.png, .svg or .pdf).")
]
FrontPlot = Annotated[
    Path | None,
    typer.Option(help="Also plot errors by messages into this file (.png, .svg or .pdf)."),
]
MaxValue = Annotated[int, _integer_option("k: values are 0..k.")]
Symbols = Annotated[int, _integer_option("k, symbols of the histogram.")]
TargetMaxValue = Annotated[
    int | None, _integer_option("k: values are 0..k; without it only histograms.")
]
TargetSymbols = Annotated[int | None, _integer_option("Symbols of a histogram; default: k + 1.")]
QuestionFile = Annotated[
    Path | None,
    typer.Option(
        "--question",
        "--words",
        help="TOML file with the question: a description, such as one by group, or the wording of "
        "a plan. Its fields are read from the data's columns of the same names.",
    ),
]
TableOfColumns = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="COLUMN,COLUMN",
        help="Count people by 1 to 4 columns of the data; the different entries are the levels.",
    ),
]
Candidates = Annotated[
    Path | None,
    typer.Option(
        "--candidates",
        metavar="FILE",
        help="Texts to look up in the answer of an open list, one in each line.",
    ),
]
EpsilonGeo = Annotated[Fraction, _exact("ε of one user's noise, in nats per unit.")]
NoiseEpsilon = Annotated[
    Fraction, _exact("ε of all shares of the noise together, in nats per unit.")
]
Shares = Annotated[
    int | None, _integer_option("Honest users who make one noise; default: all of them.")
]
Padding = Annotated[
    int | None, _integer_option("c, bits added on each side; default: the least sound one.")
]
Modulus = Annotated[
    int | None,
    _integer_option("q: sums are taken modulo q; default: the least power of two with room."),
]
Pieces = Annotated[
    int | None,
    _integer_option("m, messages that a value is split into; default: the fewest that mix well."),
]
MaxError = Annotated[float | None, _real("Largest standard error accepted.")]
EpsilonLocal = Annotated[
    float | None, _real("Largest ε_L: ε of one round if every node is corrupt; default: any.")
]
MaxMessages = Annotated[int | None, _integer_option("Most messages per user accepted.")]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Options that all questions share, as typed; `questions` checks them."""

    users: Users
    delta: Delta
    adjacency: Neighbours = Adjacency.STANDARD
    max_distance: MaxDistance = None
    honest: Honest = None
    rounds: Rounds = 1
    corrupt_nodes: CorruptNodes = None
    nodes: Nodes = 3


@dataclass(frozen=True, slots=True)
class Presentation:
    """Output format and plot of an answer."""

    output: Format = OutputFormat.TEXT
    plot: Plot = None


class ViewName(StrEnum):
    """A form in which a guarantee can be restated, such as Rényi or f-DP."""

    RDP = "rdp"
    F_DP = "f-dp"
    GROUP = "group"
    SUBSAMPLED = "subsampled"
    ADVERSARIES = "adversaries"
    PRIMARY = "primary"
    GAUSSIAN = "gaussian"
    CORRUPT = "corrupt"
    DATASETS = "datasets"
    GROWING_DELTA = "growing-delta"


@dataclass(frozen=True, slots=True)
class OtherWords:
    """Options of `--view`, which restates a guarantee, as typed."""

    view: Annotated[
        ViewName | None,
        typer.Option(
            help="Also state the guarantee as Rényi DP, as a trade-off function, for several "
            "reports, for a random subset, or in the terms of a paper."
        ),
    ] = None
    reports: Annotated[
        int | None,
        _integer_option("With --view group: reports of one user in a round; default: 2."),
    ] = None
    rate: Annotated[
        Fraction | None, _exact("With --view subsampled: the probability that a user is drawn.")
    ] = None

    at_x0: Annotated[
        int | None,
        _integer_option("With --view primary: other users that hold the primary symbol, n_x0."),
    ] = None
    changes: Annotated[
        str | None,
        typer.Option(help="With --view datasets: distances, such as 5,1,20, one per changed user."),
    ] = None

    def distances(self) -> list[int]:
        """Parse the numbers in `changes`; raise `UsageError` for anything else."""
        try:
            return [int(part) for part in (self.changes or "").split(",")]
        except ValueError as error:
            raise UsageError(
                f"--changes takes whole numbers such as 5,1,20, not {self.changes!r}"
            ) from error

    def __post_init__(self) -> None:
        if (self.at_x0 is None) == (self.view is ViewName.PRIMARY):
            raise UsageError("--view primary and --at-x0 need each other: give both, or neither")
        if (self.changes is None) == (self.view is ViewName.DATASETS):
            raise UsageError("--view datasets and --changes need each other: give both, or neither")
        if self.reports is not None and self.view is not ViewName.GROUP:
            raise UsageError("--reports needs --view group: add it, or leave out --reports")
        if (self.rate is None) == (self.view is ViewName.SUBSAMPLED):
            raise UsageError("--view subsampled and --rate need each other: give both, or neither")


def spread(command: Callable[..., None], *first: Parameter) -> Callable[..., None]:
    """The command with one option for each field of its dataclass parameters.

    A field's annotation says how its option is read and explained, its default what holds without
    it; a field with `init=False` is no option. Options that are only known as parameters come
    `first`; the command takes them by `**`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    options = {name: list(_options(kind)) for name, kind in groups.items()}
    declared = signature(command).parameters.values()
    parameters = [
        option
        for given in (
            *first,
            *(option for option in declared if option.kind is not Parameter.VAR_KEYWORD),
        )
        for option in options.get(
            given.name, [given.replace(annotation=hints.get(given.name, given.annotation))]
        )
    ]

    @wraps(command)
    def spread_out(**typed: Any) -> None:
        for name, kind in groups.items():
            typed[name] = kind(**{option.name: typed.pop(option.name) for option in options[name]})
        command(**typed)

    spread_out.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return spread_out


def _options(kind: type[DataclassInstance]) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if field.init:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(
                field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name]
            )
