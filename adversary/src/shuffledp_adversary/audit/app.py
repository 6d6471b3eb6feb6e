"""`shuffledp audit MECHANISM`: options of `certify` with small defaults, and of the effort.

The default number of users is small, because each trial draws one report of every user on both
datasets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from shuffledp.commands.asking import ask, options_of
from shuffledp.commands.options import (
    Delta,
    Format,
    NamedCommands,
    OutputFormat,
    Scenario,
    Users,
    parse_integer,
    real,
    spread,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers, Spec
from shuffledp_core.privacy import Adjacency

if TYPE_CHECKING:
    from shuffledp.plans import Plan

audit_app = typer.Typer(
    cls=NamedCommands,
    help="Measure the real privacy loss by experiment. Exit code 1 if it breaks a claim.",
    no_args_is_help=True,
)

TRIALS: Final = 10_000_000
"""On each dataset, in process, 8 reports each: 160 million reports by default."""

SLOWER: Final = 10
"""Factor by which `--one-by-one` reduces the trials."""

QUICK: Final = 20
"""Factor by which `--quick` reduces the trials."""

FEWEST_QUICK: Final = 4
"""But no fewer than these, over real processes."""

MIXNET_TRIALS: Final = 20
"""On each dataset, over real processes."""

ONE_HALF: Final = Fraction(1, 2)
"""The default of every exact parameter."""

_SMALL: Final[dict[str, float | Fraction]] = {
    "symbols": 3,
    "max_value": 3,
    "epsilon0": 1.0,
    "when_zero": Fraction(1, 4),
    "when_one": Fraction(3, 4),
}
"""Defaults of other parameters, and of those that must not be equal."""

Trials = Annotated[
    int | None,
    typer.Option(
        parser=parse_integer,
        metavar="INTEGER",
        help=f"Rounds on each of the two datasets; default: {TRIALS:,} (fewer for many symbols), "
        f"{TRIALS // SLOWER:,} with --one-by-one, {MIXNET_TRIALS} with --through-mixnet.",
    ),
]
Confidence = Annotated[
    float,
    typer.Option(
        parser=real,
        metavar="NUMBER",
        help="Confidence level: the probability that a true claim is not reported as broken.",
    ),
]
Distance = Annotated[
    int | None,
    typer.Option(
        parser=parse_integer,
        metavar="INTEGER",
        help="Distance by which the value changes; default: the largest covered.",
    ),
]
Values = Annotated[
    tuple[int, int] | None,
    typer.Option(metavar="X Y", help="The changed user's two values, instead of --distance."),
]
Local = Annotated[
    bool,
    typer.Option(
        "--local", help="Audit a single user's messages against ε_L, as if every node were corrupt."
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help=f"Run 1/{QUICK} of the trials, for a quick estimate with a wider interval."
    ),
]
OneByOne = Annotated[
    bool,
    typer.Option(
        "--one-by-one",
        help="Sample with the clients' own code, one value at a time, instead of in bulk.",
    ),
]
ThroughMixnet = Annotated[
    bool,
    typer.Option("--through-mixnet", help="Audit what a few real rounds over processes publish."),
]


@dataclass(frozen=True, slots=True)
class Small(Scenario):
    """Options of a round of few users, all honest."""

    users: Users = 8
    delta: Delta = 1e-2
    honest: int | None = field(default=None, init=False)
    rounds: int = field(default=1, init=False)
    corrupt_nodes: str | None = field(default=None, init=False)
    nodes: int = field(default=3, init=False)


@dataclass(frozen=True, slots=True)
class SmallHistogram(Small):
    """Options of a small round of symbols, which all have the same distance."""

    adjacency: Adjacency = field(default=Adjacency.STANDARD, init=False)
    max_distance: int | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class Look:
    """Options of every audit, as typed; `audit.Effort` checks them."""

    trials: Trials = None
    quick: Quick = False
    confidence: Confidence = 0.95
    values: Values = None
    local: Local = False
    one_by_one: OneByOne = False
    through_mixnet: ThroughMixnet = False
    output: Format = OutputFormat.TEXT


def _audit(kind: str, spec: type[Spec]) -> Callable[..., None]:
    def of_distances(
        *, scenario: Small, distance: Distance = None, look: Look, **parameters: Any
    ) -> None:
        _run_audit(ask(kind, scenario, **parameters), look, distance)

    def of_changes(*, scenario: SmallHistogram, look: Look, **parameters: Any) -> None:
        _run_audit(ask(kind, scenario, **parameters), look)

    small = [option.replace(default=_default(option)) for option in options_of(kind)]
    return spread(of_distances if spec.metric else of_changes, *small)


def _default(option: Parameter) -> Any:
    """Default parameters of a small round; mechanisms without defaults need their options."""
    exact = get_args(option.annotation)[:1] == (Fraction,)
    return _SMALL.get(option.name, ONE_HALF if exact else option.default)


_OTHERS: Final = {
    Answers.HISTOGRAM: "All other users hold a third symbol.",
    Answers.SUM: "All other users hold 0.",
}

for _kind, _spec in MECHANISMS.items():
    audit_app.command(_kind, help=f"{_spec.summary} {_OTHERS[_spec.answers]}")(_audit(_kind, _spec))


def _run_audit(question: Plan, look: Look, distance: int | None = None) -> None:
    from shuffledp_adversary.audit.audit import Effort, spec_of
    from shuffledp_adversary.audit.command import run_audit_command
    from shuffledp_adversary.audit.sampling import usual_trials

    if look.quick and look.trials is not None:
        raise UsageError("--quick chooses the trials itself; leave out --trials")
    if look.through_mixnet and look.one_by_one:
        raise UsageError(
            "leave out --one-by-one: through the mixnet each real client draws for itself anyway"
        )
    default = (
        MIXNET_TRIALS if look.through_mixnet else TRIALS // SLOWER if look.one_by_one else TRIALS
    )
    if look.quick:
        default = max(FEWEST_QUICK, default // QUICK)
    trials = usual_trials(spec_of(question), default) if look.trials is None else look.trials
    effort = Effort(trials, look.confidence, distance, look.values, look.local, look.one_by_one)
    run_audit_command(question, effort, through_mixnet=look.through_mixnet, output=look.output)
