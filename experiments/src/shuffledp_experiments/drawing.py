"""Style of all plots: colours by kind of number, safe for the colour-blind and in print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp_experiments.entry import Kind, Results, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = {
    Kind.PUBLISHED: "#d55e00",
    Kind.PRINTED: "#e69f00",
    Kind.MEASURED: "#56b4e9",
    Kind.ATTAINED: "#009e73",
    Kind.CERTIFIED: "#0072b2",
    Kind.EXACT: "#333333",
}
"""Okabe and Ito's colours (2008): certified is always blue, attained green, what the paper says
orange.
"""

CYCLE: Final = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#333333",
    "#8c6d31",
)
"""For series that are all of one kind, such as mechanisms; with `MARKERS`, so that grey prints
differ, too.
"""

MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")

QUIET: Final = "#8a8f98"


def panels(
    rows: int = 1, columns: int = 1, *, width: float = 8.6, height: float = 5.0, **options: Any
) -> tuple[Figure, Any]:
    """A figure without a window, and its axes, shape (rows, columns); sizes in inches.

    Args:
        rows: number of rows of axes.
        columns: number of columns of axes.
        width: width of the whole figure.
        height: height of the whole figure.
        options: those of matplotlib's `Figure.subplots`, such as sharey.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=140, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for panel in axes.ravel():
        tidy(panel)
    return figure, axes


def tidy(axes: Axes) -> None:
    """Remove superfluous lines of the axes, and add a light grid."""
    axes.grid(visible=True, which="major", color=QUIET, alpha=0.18, lw=0.7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def line(
    axes: Axes,
    result: Results | Iterable[Row],
    series: str,
    *,
    label: str | None = None,
    **style: Any,
) -> None:
    """Plot one series in its kind's colour unless `style` differs, with its interval if any.

    A point without a neighbour gets a mark, since no line shows it.
    """
    rows = [
        row
        for row in (result.rows if isinstance(result, Results) else result)
        if row.series == series
    ]
    if not rows:
        raise ValueError(f"there is no series {series!r}")
    style.setdefault("color", COLOURS[rows[0].kind])
    style.setdefault("lw", 1.8)
    x = np.array([row.x for row in rows], dtype=np.float64)
    y = np.array([row.y for row in rows], dtype=np.float64)
    shown = np.isfinite(y)
    beside = np.append(False, shown[:-1]) | np.append(shown[1:], False)
    (drawn,) = axes.plot(x, y, label=series if label is None else label, **style)
    alone = np.flatnonzero(shown & ~beside)
    if alone.size and drawn.get_marker() in {"None", None}:
        drawn.set_marker("o")
        drawn.set_markersize(4.5)
        drawn.set_markevery(alone.tolist())
    if any(row.low is not None and row.high is not None for row in rows):
        # Without an interval: not a number, where nothing is filled.
        low, high = (
            np.array([getattr(row, end) for row in rows], dtype=np.float64)
            for end in ("low", "high")
        )
        axes.fill_between(x, low, high, color=style["color"], alpha=0.15, lw=0)


def series_style(index: int) -> dict[str, Any]:
    """Colour, marker and line of series number `index`, for several series of one kind."""
    lap, turn = divmod(index, len(CYCLE))
    return {
        "color": CYCLE[turn],
        "marker": MARKERS[turn],
        "ms": 4.5,
        "ls": ("-", ":", "-.")[lap],
    }


def legend_below(figure: Figure, *, columns: int = 4) -> None:
    """Add one legend below all axes, each label once, in up to `columns` columns."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for count in range(columns, 0, -1):
        legend = figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=count,
            frameon=False,
            fontsize=8.5,
        )
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
