"""`shuffledp certify MECHANISM`: both sides of the truth for given parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import typer

from shuffledp.commands.options import (
    Circumstances,
    Delta,
    Epsilon0,
    EpsilonGeo,
    Format,
    MaxValue,
    NoiseEpsilon,
    OutputFormat,
    Padding,
    Randomise,
    Shares,
    Symbols,
    View,
    spread,
)
from shuffledp_core.privacy import Adjacency

certify_app = typer.Typer(help="What a mechanism guarantees, from both sides of the truth.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class WithoutDistance(Circumstances):
    """Of a mechanism whose values are unknown."""

    adjacency: Adjacency = field(default=Adjacency.STANDARD, init=False)
    max_distance: int | None = field(default=None, init=False)


@dataclass(frozen=True, slots=True)
class LocalModel(Circumstances):
    """Of a mechanism without a shuffle: nobody else matters."""

    delta: Delta = 0.0
    honest: int | None = field(default=None, init=False)
    corrupt_nodes: str | None = field(default=None, init=False)
    nodes: int = field(default=3, init=False)


@certify_app.command("krr-histogram")
@spread
def krr_histogram(*, symbols: Symbols, epsilon0: Epsilon0, typed: Circumstances, view: View) -> None:
    """k-ary randomised response, shuffled: a histogram from one message per user."""
    from shuffledp.commands import questions, respond

    spec, notes = questions.krr_histogram(symbols, epsilon0)
    respond.respond(questions.question(spec, typed, notes=notes, asked=(("epsilon0", epsilon0),)), view)


@certify_app.command("local")
@spread
def local(*, epsilon0: Epsilon0, typed: WithoutDistance, view: View) -> None:
    """Any local randomiser with parameter ε0, shuffled; nothing else is known of it."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.question(questions.local(epsilon0), typed), view)


@certify_app.command("rr-shuffle")
@spread
def rr_shuffle(*, max_value: MaxValue, randomise: Randomise, typed: Circumstances, view: View) -> None:
    """Sums from unary bits, each randomised, shuffled (Athanasiou et al. 2025, Algorithm 2)."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.question(questions.rr_shuffle(max_value, randomise), typed), view)


@certify_app.command("geo-shuffle")
@spread
def geo_shuffle(
    *, max_value: MaxValue, epsilon_geo: EpsilonGeo, padding: Padding = None, typed: Circumstances, view: View
) -> None:
    """Sums with discrete Laplace noise from every user, shuffled (Athanasiou et al. 2025, Algorithm 3)."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.geo_question(max_value, epsilon_geo, padding, typed), view)


@certify_app.command("sgdl-shuffle")
@spread
def sgdl_shuffle(
    *,
    max_value: MaxValue,
    noise_epsilon: NoiseEpsilon,
    shares: Shares = None,
    padding: Padding = None,
    typed: Circumstances,
    view: View,
) -> None:
    """Sums with one discrete Laplace noise made in shares, shuffled (Athanasiou et al. 2025, Algorithm 4)."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.sgdl_question(max_value, noise_epsilon, shares, padding, typed), view)


@certify_app.command("one-bit-mean")
@spread
def one_bit_mean(
    *, max_value: MaxValue, epsilon0: Epsilon0, typed: LocalModel, output: Format = OutputFormat.TEXT
) -> None:
    """One bit per user for a mean, in the local model (max-value 1: binary randomised response)."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.question(questions.one_bit_mean(epsilon0, max_value), typed), View(output, None))


@certify_app.command("laplace-mean")
@spread
def laplace_mean(
    *, max_value: MaxValue, epsilon0: Epsilon0, typed: LocalModel, output: Format = OutputFormat.TEXT
) -> None:
    """Laplace noise per user for a mean, in the local model."""
    from shuffledp.commands import questions, respond

    respond.respond(questions.question(questions.laplace_mean(epsilon0, max_value), typed), View(output, None))
