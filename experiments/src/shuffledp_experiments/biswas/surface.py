"""The papers' surface δ(ε, ε0), as Theorem 1 prints it and as certified."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp_experiments import drawing
from shuffledp_experiments.biswas.truth import Group, both_sides, printed_delta
from shuffledp_experiments.entry import (
    Experiment,
    Kind,
    PaperClaim,
    Results,
    Row,
    RunInputs,
    Verdict,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PRINTED, _CERTIFIED, _ATTAINED = "Theorem 1 as printed", "certified", "attained"
_KINDS = {_PRINTED: Kind.PRINTED, _CERTIFIED: Kind.CERTIFIED, _ATTAINED: Kind.ATTAINED}
_FLOOR = 1e-60
"""Smallest δ that is drawn in a colour of its own."""


def _run_surface(work: RunInputs) -> Results:
    low, high = work["range"]
    axis = np.linspace(low, high, work["points"]).round(12).tolist()
    rows: list[Row] = []
    false, least, most = 0, math.inf, -math.inf
    for epsilon0 in axis:
        group = Group(work["n"], work["k"], epsilon0)
        for epsilon in (smaller for smaller in axis if smaller < epsilon0):
            certified, attained = both_sides(group, epsilon)
            values = {
                _PRINTED: printed_delta(group, epsilon),
                _CERTIFIED: certified,
                _ATTAINED: attained,
            }
            rows += [
                Row(name, _KINDS[name], "ε (nats)", epsilon, "δ", value, settings=group.settings())
                for name, value in values.items()
            ]
            if values[_PRINTED] < attained * (1 - 1e-3):
                false += 1
                orders = math.log10(attained / max(values[_PRINTED], 5e-324))
                least = min(least, orders)
                most = max(most, orders)
    points = len(rows) // 3
    verdict = Verdict.FALSE if false else Verdict.SOUND
    why = (
        f"at {false} of {points} points with ε < ε0 a dataset costs more, by {least:.1f} to "
        f"{most:.0f} orders (K8)"
    )
    claims = (PaperClaim("figure 1: the surface is δ of the shuffled histogram", verdict, why),)
    return Results(
        tuple(rows),
        claims,
        ("k = 10 and 0.8 n others at x0 are inferred; from ε0 on δ is 0, in print and in truth",),
    )


def _draw(result: Results) -> Figure:
    from matplotlib.colors import LogNorm

    figure, grid = drawing.panels(1, 3, width=12.5, height=4.6)
    axis = sorted(
        {float(row.settings["epsilon0"]) for row in result.rows}  # type: ignore[arg-type]
        | {float(row.x) for row in result.rows}
    )
    tables: dict[str, Any] = {name: np.full((len(axis), len(axis)), np.nan) for name in _KINDS}
    for row in result.rows:
        tables[row.series][axis.index(row.settings["epsilon0"]), axis.index(row.x)] = row.y  # type: ignore[arg-type]
    for axes, name in zip(grid[0], (_PRINTED, _CERTIFIED), strict=False):
        shown = np.maximum(tables[name], _FLOOR)
        mesh = axes.pcolormesh(
            axis, axis, shown, norm=LogNorm(_FLOOR, 1), cmap="viridis", shading="nearest"
        )
        axes.set_title(f"δ, {name}", fontsize=11)
    figure.colorbar(
        mesh, ax=grid[0, :2].tolist(), label="δ (1e-60 and below alike; white: δ = 0)", shrink=0.9
    )
    orders = np.log10(tables[_ATTAINED] / np.maximum(tables[_PRINTED], 5e-324))
    mesh = grid[0, 2].pcolormesh(axis, axis, orders, cmap="inferno_r", vmin=0, shading="nearest")
    grid[0, 2].set_title("orders of magnitude, attained / printed", fontsize=11)
    figure.colorbar(mesh, ax=grid[0, 2], shrink=0.9)
    for axes in grid[0]:
        axes.grid(visible=False)
        axes.set_xlabel("ε (nats)")
        axes.set_ylabel("ε0 (nats)")
    return figure


ENTRIES = (
    Experiment(
        id="001-f1", source="Biswas et al. 2022, figure 1",
        question="What is δ over ε and ε0, printed and true?",
        parameters={"n": 100, "k": 10, "range": (0.1, 3.0), "points": 30}, quick={"points": 7},
        inferred=("k",),
        run=_run_surface, draw=_draw, seconds=1, seconds_quick=1.3,
        verdicts=frozenset({Verdict.FALSE}),
    ),
)  # fmt: skip
