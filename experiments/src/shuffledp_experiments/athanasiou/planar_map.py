"""The map of addresses by square, drawn from a real round's estimate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments import drawing
from shuffledp_experiments.athanasiou.places import BOX, SUBURBS, addresses
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

Floats = NDArray[np.float64]


def run_map(work: RunInputs) -> Results:
    """Figure 22: number of addresses in each cell of a map."""
    points, note = addresses(work.data)
    cells = work["cells"]
    counts, rows_, columns = np.histogram2d(points[:, 0], points[:, 1], bins=cells, range=BOX)
    rows = [
        Row(
            "addresses", Kind.EXACT, "longitude", float((columns[j] + columns[j + 1]) / 2),
            "addresses in the cell",
            float(counts[i, j]), settings={"latitude": float((rows_[i] + rows_[i + 1]) / 2)},
        )
        for i in range(cells)
        for j in range(cells)
        if counts[i, j] > 0
    ]  # fmt: skip
    empty = 1 - len(rows) / cells**2
    return Results(
        tuple(rows),
        (PaperClaim("figure 22", Verdict.DRAWING, "nothing is claimed"),),
        (note, f"{empty:.0%} of the cells are empty"),
    )


def _map_cells(x: Floats, y: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Edges and counts of the map's cells, from the centres of the cells with addresses.

    Counts are NaN where there are none.
    """
    edges, places = [], []
    for centres, (low, high) in zip((x, y), (BOX[1], BOX[0]), strict=True):
        count = round((high - low) / float(np.diff(np.unique(centres)).min()))
        edges.append(np.linspace(low, high, count + 1))
        places.append(np.searchsorted(edges[-1], centres) - 1)
    grid = np.full((edges[1].size - 1, edges[0].size - 1), np.nan)
    grid[places[1], places[0]] = counts
    return edges[0], edges[1], grid


def draw_map(result: Results) -> Figure:
    """Plot the addresses by cell, on a logarithmic scale."""
    from matplotlib.colors import LogNorm

    figure, axes = drawing.panels(width=7.2, height=6.4)
    panel = axes[0, 0]
    x = np.array([float(r.x) for r in result.rows])
    latitudes = np.array([float(r.settings["latitude"]) for r in result.rows])  # type: ignore[arg-type]
    counts = np.array([r.y for r in result.rows])
    points = panel.pcolormesh(*_map_cells(x, latitudes, counts), cmap="viridis", norm=LogNorm())
    figure.colorbar(points, ax=panel, label="addresses in the cell", shrink=0.85)
    (south, north), (west, east) = SUBURBS
    panel.plot(
        [west, east, east, west, west], [south, south, north, north, south], color="#d55e00", lw=1.4
    )
    behind = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    panel.text(
        west + 0.012,
        north - 0.02,
        "left out of the\ndispersed data",
        color="#d55e00",
        fontsize=8.5,
        va="top",
        bbox=behind,
    )
    panel.set_xlim(*BOX[1])
    panel.set_ylim(*BOX[0])
    panel.set_aspect(1 / math.cos(math.radians(30.5)))
    panel.set_xlabel("longitude (degrees)")
    panel.set_ylabel("latitude (degrees)")
    kind = "stand-in addresses" if result.notes[0].startswith("stand-in") else "addresses"
    panel.set_title(
        f"{int(counts.sum()):,} {kind} in the paper's rectangle around Austin", fontsize=11
    )
    return figure


MAP: Final = Experiment(
    id="002-f22",
    source="Athanasiou et al. 2025, figure 22",
    question="Where are the addresses?",
    parameters={"cells": 100},
    quick={"cells": 40},
    run=run_map,
    draw=draw_map,
    seconds=1.8,
    seconds_quick=0.6,
    verdicts=frozenset({Verdict.DRAWING}),
    inferred=("cells",),
    data=("austin",),
)

ENTRIES: Final[tuple[Experiment, ...]] = (MAP,)
