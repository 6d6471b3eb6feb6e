"""Plot of an attack: measured curves and claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from shuffledp.notebook import check_installed
from shuffledp_core.errors import ConfigError


class CurveRole(StrEnum):
    """Meaning of a curve; each member's value is the curve's colour."""

    CERTIFIED = "#2a6f97"
    MEASURED = "#e07a1f"
    SAFE = "#3f9b6c"
    LIMIT = "#8a8f98"


@dataclass(frozen=True)
class PlottedCurve:
    """One curve; all sequences have the same length.

    Attributes:
        label: name of the curve in the legend.
        role: meaning of the curve.
        xs: x values, from left to right.
        ys: y value at each x.
        lows: lower ends of a confidence interval, if there is one.
        highs: upper ends of the interval.
        joined: whether the curve has a meaning between its points. Lower bounds have none, and are
            drawn as arrows upwards.
    """

    label: str
    role: CurveRole
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] | None = None
    highs: Sequence[float] | None = None
    joined: bool = True


@dataclass(frozen=True)
class Chart:
    """Curves of a plot, with title and labels."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[PlottedCurve]
    log: bool = True


_LINES: Final = {
    CurveRole.CERTIFIED: "-",
    CurveRole.MEASURED: "o-",
    CurveRole.SAFE: "s-",
    CurveRole.LIMIT: ":",
}


def draw_chart(chart: Chart, file: Path) -> None:
    """Write the plot; `accounting.drawing.check_plot` has checked the file's ending.

    Raises:
        ConfigError: the file cannot be written.
        NotInstalledError: matplotlib, the extra `plot`, is not installed.
    """
    check_installed("matplotlib", "shuffledp[plot]", "a plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 5.0), dpi=140, layout="constrained")
    axes = figure.subplots()
    for curve in chart.curves:
        look = _LINES[curve.role] if curve.joined else "^"
        axes.plot(
            curve.xs,
            curve.ys,
            look,
            color=curve.role.value,
            lw=2,
            ms=6,
            label=curve.label,
            zorder=3,
            clip_on=False,
        )
        if curve.lows is not None and curve.highs is not None:
            axes.fill_between(
                curve.xs, curve.lows, curve.highs, color=curve.role.value, alpha=0.18, lw=0
            )
    if chart.log:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set(xlabel=chart.xlabel, ylabel=chart.ylabel)
    axes.set_title(chart.title, fontsize=12, loc="left")
    axes.grid(visible=True, which="major", color=CurveRole.LIMIT.value, alpha=0.18, lw=0.7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    try:
        figure.savefig(file)
    except OSError as error:
        raise ConfigError(
            f"cannot write the plot {file}: {error.strerror}; check its permissions"
        ) from error
