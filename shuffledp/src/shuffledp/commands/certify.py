"""`shuffledp certify MECHANISM`: upper and lower bounds of ε for given parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import typer

from shuffledp.commands.asking import ask, options_of
from shuffledp.commands.options import (
    AnyEpsilon0,
    Delta,
    Epsilon0,
    Format,
    Matrix,
    MaxValue,
    OtherWords,
    OutputFormat,
    Presentation,
    Scenario,
    spread,
)
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_core.privacy import Adjacency

certify_app = typer.Typer(
    help="Compute a mechanism's guarantee: a proved upper bound and an attained lower bound.",
    no_args_is_help=True,
)


@dataclass(frozen=True, slots=True)
class WithoutDistance(Scenario):
    """Options of a scenario whose values have no distance."""

    adjacency: Adjacency = field(default=Adjacency.STANDARD, init=False)
    max_distance: int | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class LocalModel(Scenario):
    """Options of a scenario without a shuffle, in which other users do not matter."""

    delta: Delta = 0.0
    honest: int | None = field(default=None, init=False)
    corrupt_nodes: str | None = field(default=None, init=False)
    nodes: int = field(default=3, init=False)


def _certify(kind: str) -> Callable[..., None]:
    def command(
        *, scenario: Scenario, shown: Presentation, other: OtherWords, **parameters: Any
    ) -> None:
        from shuffledp.commands.respond import respond

        respond(ask(kind, scenario, **parameters), shown, other)

    return spread(command, *options_of(kind))


for _kind, _spec in MECHANISMS.items():
    certify_app.command(_kind, help=_spec.summary)(_certify(_kind))


@certify_app.command("local")
@spread
def local(
    *,
    epsilon0: AnyEpsilon0 = None,
    matrix: Matrix = None,
    scenario: WithoutDistance,
    shown: Presentation,
    other: OtherWords,
) -> None:
    """Any local randomiser, shuffled, given by its ε0 or the matrix of its probabilities."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.question(questions.local(epsilon0, matrix), scenario), shown, other)


@certify_app.command("one-bit-local")
@spread
def one_bit_local(
    *,
    max_value: MaxValue,
    epsilon0: Epsilon0,
    scenario: LocalModel,
    output: Format = OutputFormat.TEXT,
) -> None:
    """A mean from one bit per user in the local model (one-bit randomised response).

    With --max-value 1 this is binary randomised response.
    """
    from shuffledp.commands import questions, respond

    respond.respond(
        questions.question(questions.one_bit_local(epsilon0, max_value), scenario),
        Presentation(output, None),
    )


@certify_app.command("laplace-mean")
@spread
def laplace_mean(
    *,
    max_value: MaxValue,
    epsilon0: Epsilon0,
    scenario: LocalModel,
    output: Format = OutputFormat.TEXT,
) -> None:
    """A mean with Laplace noise per user in the local model."""
    from shuffledp.commands import questions, respond

    respond.respond(
        questions.question(questions.laplace_mean(epsilon0, max_value), scenario),
        Presentation(output, None),
    )
