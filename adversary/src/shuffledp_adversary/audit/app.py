"""`shuffledp audit MECHANISM`: the parameters of `shuffledp certify MECHANISM`, small by default, and how hard to look.

The default users are few, and what an audit costs is trials: each draws one report of every user on either dataset.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shuffledp.commands.options import (
    Circumstances,
    Delta,
    Epsilon0,
    EpsilonGeo,
    Format,
    MaxValue,
    NamedCommands,
    NoiseEpsilon,
    OutputFormat,
    Padding,
    Randomise,
    Shares,
    Symbols,
    Users,
    real,
    spread,
    whole,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency

if TYPE_CHECKING:
    from shuffledp.commands.questions import Question

audit_app = typer.Typer(
    cls=NamedCommands,
    help="Measure the privacy that is really there. Exit code 1 when a claim is broken.",
    no_args_is_help=True,
)

TRIALS: Final[dict[str, int]] = {
    KRRHistogram.kind: 1_000_000,
    RRShuffle.kind: 1_000_000,
    GeoShuffle.kind: 1_000_000,
    SGDLShuffle.kind: 500_000,
}
"""On each dataset, in process, 8 reports each: 16 million reports by default. Shares of noise are dear."""

QUICK: Final = 20
"""`--quick` takes so many times fewer."""

FEWEST_QUICK: Final = 4
"""But no fewer than these, over real processes."""

MIXNET_TRIALS: Final = 20
"""On each dataset, over real processes."""

ONE_HALF: Final = Fraction(1, 2)

Trials = Annotated[
    int | None,
    typer.Option(
        parser=whole,
        metavar="INTEGER",
        help=f"Rounds on each of the two datasets; default: {TRIALS[KRRHistogram.kind]:,}, for sgdl-shuffle "
        f"{TRIALS[SGDLShuffle.kind]:,}, through the mixnet {MIXNET_TRIALS}.",
    ),
]
Confidence = Annotated[
    float, typer.Option(parser=real, metavar="NUMBER", help="That a true claim is not called broken.")
]
Distance = Annotated[
    int | None,
    typer.Option(parser=whole, metavar="INTEGER", help="How far the value changes; default: the most covered."),
]
Values = Annotated[
    tuple[int, int] | None, typer.Option(metavar="X Y", help="The changed user's two values, instead of a distance.")
]
Local = Annotated[bool, typer.Option("--local", help="Audit one user's own messages against ε_L: every node corrupt.")]
Quick = Annotated[bool, typer.Option("--quick", help=f"1/{QUICK} of the trials, for a first look at a wider interval.")]
ThroughMixnet = Annotated[
    bool, typer.Option("--through-mixnet", help="A few rounds over real processes, by what they publish.")
]


@dataclass(frozen=True, slots=True)
class Small(Circumstances):
    """A round of few users, all of them honest."""

    users: Users = 8
    delta: Delta = 1e-2
    honest: int | None = field(default=None, init=False)
    rounds: int = field(default=1, init=False)
    corrupt_nodes: str | None = field(default=None, init=False)
    nodes: int = field(default=3, init=False)


@dataclass(frozen=True, slots=True)
class SmallHistogram(Small):
    """The same for symbols: one is no farther from another than any."""

    adjacency: Adjacency = field(default=Adjacency.STANDARD, init=False)
    max_distance: int | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class Look:
    """The options that every audit shares, as they were typed; checked by `audit.Effort`."""

    trials: Trials = None
    quick: Quick = False
    confidence: Confidence = 0.95
    values: Values = None
    local: Local = False
    through_mixnet: ThroughMixnet = False
    output: Format = OutputFormat.TEXT


@audit_app.command("krr-histogram")
@spread
def krr_histogram(*, symbols: Symbols = 3, epsilon0: Epsilon0 = 1.0, typed: SmallHistogram, look: Look) -> None:
    """k-ary randomised response: all others hold a third symbol."""
    from shuffledp.commands import questions

    spec, notes = questions.krr_histogram(symbols, epsilon0)
    _run(questions.question(spec, typed, notes=notes, asked=(("epsilon0", epsilon0),)), look)


@audit_app.command("rr-shuffle")
@spread
def rr_shuffle(
    *,
    max_value: MaxValue = 3,
    randomise: Randomise = ONE_HALF,
    typed: Small,
    distance: Distance = None,
    look: Look,
) -> None:
    """Sums from randomised unary bits: all others hold 0."""
    from shuffledp.commands import questions

    _run(questions.question(questions.rr_shuffle(max_value, randomise), typed), look, distance)


@audit_app.command("geo-shuffle")
@spread
def geo_shuffle(
    *,
    max_value: MaxValue = 3,
    epsilon_geo: EpsilonGeo = ONE_HALF,
    padding: Padding = None,
    typed: Small,
    distance: Distance = None,
    look: Look,
) -> None:
    """Sums with discrete Laplace noise from every user: all others hold 0."""
    from shuffledp.commands import questions

    _run(questions.geo_question(max_value, epsilon_geo, padding, typed), look, distance)


@audit_app.command("sgdl-shuffle")
@spread
def sgdl_shuffle(
    *,
    max_value: MaxValue = 3,
    noise_epsilon: NoiseEpsilon = ONE_HALF,
    shares: Shares = None,
    padding: Padding = None,
    typed: Small,
    distance: Distance = None,
    look: Look,
) -> None:
    """Sums with one discrete Laplace noise made in shares: all others hold 0."""
    from shuffledp.commands import questions

    _run(questions.sgdl_question(max_value, noise_epsilon, shares, padding, typed), look, distance)


def _run(asked: Question, look: Look, distance: int | None = None) -> None:
    from shuffledp_adversary.audit.audit import Effort
    from shuffledp_adversary.audit.command import run_audit_command

    if look.quick and look.trials is not None:
        raise UsageError("--quick chooses the trials itself; leave out --trials")
    default = MIXNET_TRIALS if look.through_mixnet else TRIALS[asked.kind]
    if look.quick:
        default = max(FEWEST_QUICK, default // QUICK)
    trials = default if look.trials is None else look.trials
    effort = Effort(trials, look.confidence, distance, look.values, look.local)
    run_audit_command(asked, effort, through_mixnet=look.through_mixnet, output=look.output)
