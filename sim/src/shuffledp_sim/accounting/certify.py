"""`shuffledp certify MECHANISM`: both sides of the truth for given parameters."""

from __future__ import annotations

import typer

from shuffledp_core.privacy import Adjacency
from shuffledp_sim.accounting.options import (
    Circumstances,
    CorruptNodes,
    Delta,
    Epsilon0,
    EpsilonGeo,
    Format,
    Honest,
    MaxDistance,
    MaxValue,
    Neighbours,
    Nodes,
    NoiseEpsilon,
    OutputFormat,
    Padding,
    Plot,
    Randomise,
    Rounds,
    Shares,
    Symbols,
    Users,
    View,
)

certify_app = typer.Typer(help="What a mechanism guarantees, from both sides of the truth.", no_args_is_help=True)


@certify_app.command("krr-histogram")
def krr_histogram(
    *,
    users: Users,
    symbols: Symbols,
    epsilon0: Epsilon0,
    delta: Delta,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    corrupt_nodes: CorruptNodes = None,
    nodes: Nodes = 3,
    output: Format = OutputFormat.TEXT,
    plot: Plot = None,
) -> None:
    """k-ary randomised response, shuffled: a histogram from one message per user."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, adjacency, max_distance, honest, rounds, corrupt_nodes, nodes)
    spec, notes = questions.krr_histogram(symbols, epsilon0)
    asked = questions.question(spec, typed, notes=notes, asked=(("epsilon0", epsilon0),))
    respond.respond(asked, View(output, plot))


@certify_app.command("local")
def local(
    *,
    users: Users,
    epsilon0: Epsilon0,
    delta: Delta,
    honest: Honest = None,
    rounds: Rounds = 1,
    corrupt_nodes: CorruptNodes = None,
    nodes: Nodes = 3,
    output: Format = OutputFormat.TEXT,
    plot: Plot = None,
) -> None:
    """Any local randomiser with parameter ε0, shuffled; nothing else is known of it."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, honest=honest, rounds=rounds, corrupt_nodes=corrupt_nodes, nodes=nodes)
    respond.respond(questions.question(questions.local(epsilon0), typed), View(output, plot))


@certify_app.command("rr-shuffle")
def rr_shuffle(
    *,
    users: Users,
    max_value: MaxValue,
    randomise: Randomise,
    delta: Delta,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    corrupt_nodes: CorruptNodes = None,
    nodes: Nodes = 3,
    output: Format = OutputFormat.TEXT,
    plot: Plot = None,
) -> None:
    """Sums from unary bits, each randomised, shuffled (paper 002, Algorithm 2)."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, adjacency, max_distance, honest, rounds, corrupt_nodes, nodes)
    respond.respond(questions.question(questions.rr_shuffle(max_value, randomise), typed), View(output, plot))


@certify_app.command("geo-shuffle")
def geo_shuffle(
    *,
    users: Users,
    max_value: MaxValue,
    epsilon_geo: EpsilonGeo,
    delta: Delta,
    padding: Padding = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    corrupt_nodes: CorruptNodes = None,
    nodes: Nodes = 3,
    output: Format = OutputFormat.TEXT,
    plot: Plot = None,
) -> None:
    """Sums with discrete Laplace noise from every user, shuffled (paper 002, Algorithm 3)."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, adjacency, max_distance, honest, rounds, corrupt_nodes, nodes)
    respond.respond(questions.geo_question(max_value, epsilon_geo, padding, typed), View(output, plot))


@certify_app.command("sgdl-shuffle")
def sgdl_shuffle(
    *,
    users: Users,
    max_value: MaxValue,
    noise_epsilon: NoiseEpsilon,
    delta: Delta,
    padding: Padding = None,
    shares: Shares = None,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    honest: Honest = None,
    rounds: Rounds = 1,
    corrupt_nodes: CorruptNodes = None,
    nodes: Nodes = 3,
    output: Format = OutputFormat.TEXT,
    plot: Plot = None,
) -> None:
    """Sums with one discrete Laplace noise made in shares, shuffled (paper 002, Algorithm 4)."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, adjacency, max_distance, honest, rounds, corrupt_nodes, nodes)
    respond.respond(questions.sgdl_question(max_value, noise_epsilon, shares, padding, typed), View(output, plot))


@certify_app.command("one-bit-mean")
def one_bit_mean(
    *,
    users: Users,
    max_value: MaxValue,
    epsilon0: Epsilon0,
    delta: Delta = 0.0,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    rounds: Rounds = 1,
    output: Format = OutputFormat.TEXT,
) -> None:
    """One bit per user for a mean, in the local model (max-value 1: binary randomised response)."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, adjacency, max_distance, rounds=rounds)
    respond.respond(questions.question(questions.one_bit_mean(epsilon0, max_value), typed), View(output, None))


@certify_app.command("laplace-mean")
def laplace_mean(
    *,
    users: Users,
    max_value: MaxValue,
    epsilon0: Epsilon0,
    delta: Delta = 0.0,
    adjacency: Neighbours = Adjacency.STANDARD,
    max_distance: MaxDistance = None,
    rounds: Rounds = 1,
    output: Format = OutputFormat.TEXT,
) -> None:
    """Laplace noise per user for a mean, in the local model."""
    from shuffledp_sim.accounting import questions, respond

    typed = Circumstances(users, delta, adjacency, max_distance, rounds=rounds)
    respond.respond(questions.question(questions.laplace_mean(epsilon0, max_value), typed), View(output, None))
