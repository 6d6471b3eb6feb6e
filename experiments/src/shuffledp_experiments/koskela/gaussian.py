"""Figure 4: shuffled Gaussian noise.

Its divergence is that of a mean of lognormals, at any number of users.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri

from shuffledp_experiments import drawing
from shuffledp_experiments.drawing import line
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)
from shuffledp_privacy.central import gaussian_delta
from shuffledp_privacy.primitives.excess import Draw, mean_excess

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

LOWEST: Final = 9.0
"""Deviations of the noise below which one cell takes all: V is next to nothing there."""

RESOLVED: Final = 1e-20
"""δ above which both sides are asked to agree; far below, one lognormal alone decides."""

LIMITS: Final = 1e-9
"""Relative margin for the rounding of the cells' masses and means."""


def highest(users: int) -> float:
    """Number of the noise's deviations beyond which one cell, or a bound, holds all mass.

    More where δ is smaller.
    """
    return min(12.0, 6.0 + 1.9 * math.log10(users))


def cells(sigma: float, users: int, count: int) -> tuple[Floats, Floats]:
    """The lognormal V = exp((z - 1/2)/σ²), z normal with deviation σ, merged cell by cell.

    Args:
        sigma: σ of the noise, in units of the change.
        users: n; see `highest`.
        count: number of cells, narrower near 0.

    Returns:
        Mass and mean of V of each cell, shape (count,). E[V] = 1; merging lowers E f(V) of every
        convex f (Jensen).
    """
    # Under the other law z has the mean 1: E[V; z in a cell] is the cell's mass there.
    edges = np.concatenate(([-np.inf], _spread(sigma, users, count - 1), [np.inf]))
    masses = _between(edges / sigma)
    shifted = _between((edges - 1) / sigma)
    return masses, shifted / masses


def nodes(sigma: float, users: int, count: int) -> tuple[Floats, Floats, float]:
    """V with its mass split between the two ends of each cell: E f(V) of every convex f grows.

    Returns:
        Mass at each node, the node, and what E[(V - last node)_+] adds beyond.
    """
    inner = _spread(sigma, users, count)
    at = np.append(0.0, np.exp((inner - 0.5) / sigma**2))
    edges = np.concatenate(([-np.inf], inner))
    masses = _between(edges / sigma)
    shifted = _between((edges - 1) / sigma)
    right = np.clip((shifted - masses * at[:-1]) / np.diff(at), 0.0, masses)
    total = np.append(masses - right, 0.0)
    total[1:] += right
    # What lies beyond the last node stays there; its excess is added to the result.
    beyond = float(ndtr(-inner[-1] / sigma))
    total[-1] += beyond
    return total, at, float(ndtr(-(inner[-1] - 1) / sigma)) - beyond * float(at[-1])


def _spread(sigma: float, users: int, count: int) -> Floats:
    """Grid points of z, three times as dense near 0 as far out."""
    turn = np.linspace(-math.asinh(LOWEST / 3), math.asinh(highest(users) / 3), count)
    return np.asarray(3 * sigma * np.sinh(turn))


def _between(edges: Floats) -> Floats:
    """Normal probability between neighbouring edges, computed from the nearer tail."""
    upper = edges[:-1] > 0
    left = np.where(upper, -edges[1:], edges[:-1])
    right = np.where(upper, -edges[:-1], edges[1:])
    return np.asarray(ndtr(right) - ndtr(left))


def shuffled_gaussian(
    sigma: float, users: int, epsilon: float, count: int = 600
) -> tuple[float, float]:
    """(certified, attained) δ of shuffled Gaussian noise for a change from 0 to 1 among zeros.

    The ratio of the two densities is the mean of n independent V = exp((z - 1/2)/σ²), so that the
    hockey-stick divergence is E[(mean V - e^ε)_+], or E[(1 - e^ε mean V)_+] in the other order, of
    which the larger counts.

    Args:
        sigma: σ of the noise, in units of the change.
        users: n >= 1.
        epsilon: >= 0, nats.
        count: number of cells; with more, the bounds are tighter.

    Returns:
        (never above, never below) the δ of this pair of datasets. Other datasets may cost more.
    """
    growth = math.exp(epsilon)
    masses, means = cells(sigma, users, count)
    split, at, beyond = nodes(sigma, users, count)
    sides = []
    for slope, shift in ((1.0, -growth), (-growth, 1.0)):
        low, _ = mean_excess(_draw(masses, slope * means + shift), users)
        _, high = mean_excess(_draw(split, slope * at + shift), users)
        sides.append((low, high + max(slope, 0.0) * max(beyond, 0.0)))
    low, high = (max(side) for side in zip(*sides, strict=True))
    return low * (1 - LIMITS), high * (1 + LIMITS)


def _draw(masses: Floats, values: Floats) -> Draw:
    seen = masses > 1e-290
    return Draw(masses[seen], values[seen])


def by_hand(
    sigma: float, users: int, epsilon: float, runs: int, generator: np.random.Generator
) -> tuple[float, float]:
    """δ of the pair by Monte Carlo in n dimensions, as in the paper; and its standard error."""
    noise = generator.normal(0.0, sigma, (runs, users))
    ratio = np.exp((noise - 0.5) / sigma**2).mean(axis=1)
    growth = math.exp(epsilon)
    kinds = [np.maximum(ratio - growth, 0.0), np.maximum(1 - growth * ratio, 0.0)]
    larger = max(kinds, key=lambda values: float(values.mean()))
    return float(larger.mean()), float(larger.std(ddof=1)) / math.sqrt(runs)


def run_gaussian(work: RunInputs) -> Results:
    """δ by n: certified, attained, by Monte Carlo, and without the shuffler."""
    sigma, epsilon = work["σ"], work["ε"]
    runs = work.runs or work["runs"]
    local = gaussian_delta(sigma, 1.0, epsilon)
    rows: list[Row] = []
    widest, agreed = 0.0, True
    normal = float(-ndtri(5e-7))
    for users in work["n"]:
        low, high = shuffled_gaussian(sigma, users, epsilon, work["cells"])
        rows.append(Row("certified: the local guarantee", Kind.CERTIFIED, "n", users, "δ", local))
        rows.append(Row("this pair, from above", Kind.EXACT, "n", users, "δ", high))
        rows.append(Row("attained: all others hold 0", Kind.ATTAINED, "n", users, "δ", low))
        if high > RESOLVED:
            widest = max(widest, high / low - 1)
        if users <= work["measured up to n"]:
            mean, error = by_hand(sigma, users, epsilon, runs, work.generator(users))
            least = max(mean - normal * error, 0.0)
            most = mean + normal * error
            rows.append(
                Row(
                    "Monte Carlo in n dimensions", Kind.MEASURED, "n", users, "δ", mean, least, most
                )
            )
            agreed &= least <= high and most >= low
    claim = PaperClaim(
        "section 5: the divergence 'cannot be projected to a lower-dimensional problem'",
        Verdict.FALSE if agreed and widest < 0.5 else Verdict.OPEN,
        "too pessimistic: the ratio of densities is the mean of n lognormals, one dimension; "
        f"the two sides differ by {widest:.1%} at most for every n where δ is above {RESOLVED:g}",
    )
    notes = (
        "δ is that of one pair of datasets, a lower bound for the mechanism; certified is what "
        "holds without shuffling",
    )
    return Results(tuple(rows), (claim,), notes)


def draw_gaussian(result: Results) -> Figure:
    """Plot δ by n, on logarithmic axes."""
    figure, axes = drawing.panels(width=7.6, height=4.8)
    panel = axes[0, 0]
    line(
        panel,
        result,
        "certified: the local guarantee",
        label="certified: no shuffler, every dataset",
    )
    line(panel, result, "this pair, from above", label="this pair, from above", lw=4, alpha=0.35)
    line(
        panel,
        result,
        "attained: all others hold 0",
        label="attained: all others hold 0, from below",
        marker="o",
        ms=3,
    )
    measured = [row for row in result.rows if row.kind is Kind.MEASURED]
    if measured:
        y = np.array([row.y for row in measured])
        reach = np.array(
            [[row.y - (row.low or 0.0), (row.high or 0.0) - row.y] for row in measured]
        ).T
        panel.errorbar([row.x for row in measured], y, yerr=reach, fmt="s", ms=4, capsize=3,
                      color=drawing.COLOURS[Kind.MEASURED],
                      label="Monte Carlo in n dimensions")  # fmt: skip
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="n, users",
        ylabel="δ at ε = 0.5",
        ylim=(RESOLVED / 100, None),
    )
    panel.set_title("Shuffled Gaussian noise, σ = 2: one dimension is enough at any n")
    drawing.legend_below(figure, columns=2)
    return figure


ENTRIES: Final = (
    Experiment(
        id="004-f4", source="Koskela et al. 2021, figure 4 and section 5",
        question="What does shuffled Gaussian noise cost, and is its divergence really "
                 "n-dimensional?",
        parameters={"σ": 2.0, "ε": 0.5, "n": (*range(1, 11), 20, 50, 100, 200, 1000), "cells": 500,
                    "runs": 200_000, "measured up to n": 10},
        quick={"n": (1, 3, 10, 100), "cells": 200, "runs": 20_000}, inferred=("σ", "ε", "n"),
        run=run_gaussian, draw=draw_gaussian, seconds=12, seconds_quick=1.7,
        verdicts=frozenset({Verdict.FALSE}),
    ),
)  # fmt: skip
