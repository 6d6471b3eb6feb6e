"""`shuffledp audit MECHANISM`: the parameters of `shuffledp certify MECHANISM`, small by default, and how hard to look.

The default users are few enough for the default trials on each dataset in a minute on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final

import typer

from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_sim.accounting.options import (
    Circumstances,
    Delta,
    Epsilon0,
    EpsilonGeo,
    Format,
    MaxDistance,
    MaxValue,
    NamedCommands,
    Neighbours,
    NoiseEpsilon,
    OutputFormat,
    Padding,
    Randomise,
    Shares,
    Symbols,
    Users,
    real,
    whole,
)

if TYPE_CHECKING:
    from shuffledp_sim.accounting.questions import Question

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
"""On each dataset, in process: with the default users at most a minute on two cores. Shares of noise are dear."""

MIXNET_TRIALS: Final = 20
"""On each dataset, over real processes."""

DEFAULT_USERS: Final = 8
DEFAULT_DELTA: Final = 1e-2
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
ThroughMixnet = Annotated[
    bool, typer.Option("--through-mixnet", help="A few rounds over real processes, by what they publish.")
]


@dataclass(frozen=True, slots=True)
class Look:
    """The options that every audit shares, as they were typed; checked by `audit.Effort`."""

    trials: int | None
    confidence: float
    distance: int | None
    values: tuple[int, int] | None
    local: bool
    through_mixnet: bool
    output: OutputFormat


@audit_app.command("krr-histogram")
def krr_histogram(
    *,
    users: Users = DEFAULT_USERS,
    symbols: Symbols = 3,
    epsilon0: Epsilon0 = 1.0,
    delta: Delta = DEFAULT_DELTA,
    trials: Trials = None,
    confidence: Confidence = 0.95,
    values: Values = None,
    local: Local = False,
    through_mixnet: ThroughMixnet = False,
    output: Format = OutputFormat.TEXT,
) -> None:
    """k-ary randomised response: all others hold a third symbol."""
    from shuffledp_sim.accounting import questions

    spec, notes = questions.krr_histogram(symbols, epsilon0)
    asked = questions.question(spec, Circumstances(users, delta), notes=notes, asked=(("epsilon0", epsilon0),))
    _run(asked, Look(trials, confidence, None, values, local, through_mixnet, output))


@audit_app.command("rr-shuffle")
def rr_shuffle(
    *,
    users: Users = DEFAULT_USERS,
    max_value: MaxValue = 3,
    randomise: Randomise = ONE_HALF,
    delta: Delta = DEFAULT_DELTA,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    trials: Trials = None,
    confidence: Confidence = 0.95,
    distance: Distance = None,
    values: Values = None,
    local: Local = False,
    through_mixnet: ThroughMixnet = False,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Sums from randomised unary bits: all others hold 0."""
    from shuffledp_sim.accounting import questions

    asked = questions.question(
        questions.rr_shuffle(max_value, randomise), Circumstances(users, delta, adjacency, max_distance)
    )
    _run(asked, Look(trials, confidence, distance, values, local, through_mixnet, output))


@audit_app.command("geo-shuffle")
def geo_shuffle(
    *,
    users: Users = DEFAULT_USERS,
    max_value: MaxValue = 3,
    epsilon_geo: EpsilonGeo = ONE_HALF,
    delta: Delta = DEFAULT_DELTA,
    padding: Padding = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    trials: Trials = None,
    confidence: Confidence = 0.95,
    distance: Distance = None,
    values: Values = None,
    local: Local = False,
    through_mixnet: ThroughMixnet = False,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Sums with discrete Laplace noise from every user: all others hold 0."""
    from shuffledp_sim.accounting import questions

    typed = Circumstances(users, delta, adjacency, max_distance)
    asked = questions.geo_question(max_value, epsilon_geo, padding, typed)
    _run(asked, Look(trials, confidence, distance, values, local, through_mixnet, output))


@audit_app.command("sgdl-shuffle")
def sgdl_shuffle(
    *,
    users: Users = DEFAULT_USERS,
    max_value: MaxValue = 3,
    noise_epsilon: NoiseEpsilon = ONE_HALF,
    delta: Delta = DEFAULT_DELTA,
    padding: Padding = None,
    shares: Shares = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    trials: Trials = None,
    confidence: Confidence = 0.95,
    distance: Distance = None,
    values: Values = None,
    local: Local = False,
    through_mixnet: ThroughMixnet = False,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Sums with one discrete Laplace noise made in shares: all others hold 0."""
    from shuffledp_sim.accounting import questions

    typed = Circumstances(users, delta, adjacency, max_distance)
    asked = questions.sgdl_question(max_value, noise_epsilon, shares, padding, typed)
    _run(asked, Look(trials, confidence, distance, values, local, through_mixnet, output))


def _run(asked: Question, look: Look) -> None:
    from shuffledp_sim.audit.audit import Effort
    from shuffledp_sim.audit.command import run_audit_command

    default = MIXNET_TRIALS if look.through_mixnet else TRIALS[asked.kind]
    trials = default if look.trials is None else look.trials
    effort = Effort(trials, look.confidence, look.distance, look.values, look.local)
    run_audit_command(asked, effort, through_mixnet=look.through_mixnet, output=look.output)
