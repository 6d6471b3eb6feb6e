"""Plots of results: curves δ(ε), and a simulated answer next to the truth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from shuffledp.bars import ESTIMATE, TRUTH, draw_bars
from shuffledp.curves import Curve, curve_of
from shuffledp.guarantees import Guarantee, number
from shuffledp.notebook import check_installed
from shuffledp.plans import people_needed
from shuffledp_core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from shuffledp.location import Centroid
    from shuffledp.simulation import Answer

ENDINGS: Final = (".png", ".svg", ".pdf")

_CERTIFIED: Final = "#2a6f97"
_ATTAINED: Final = "#3f9b6c"
_PUBLISHED: Final = "#e07a1f"
_QUIET: Final = "#8a8f98"


def check_plot(file: Path) -> None:
    """Check that a picture can be drawn and saved as this file.

    Raises:
        UsageError: the file has another ending.
        ConfigError: the folder does not exist.
        NotInstalledError: matplotlib, the extra `plot`, is not installed.
    """
    if file.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"plot must be a file that ends in {', '.join(ENDINGS)}, not {str(file)!r}"
        )
    if not file.parent.is_dir():
        raise ConfigError(f"the folder of the plot, {file.parent}, does not exist; make it first")
    check_installed("matplotlib", "shuffledp[plot]", "a plot")


def new_axes() -> Axes:
    """Axes of a new plot, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(8.6, 5.4), dpi=140, layout="constrained").subplots()


def figure_of(axes: Axes) -> Figure:
    """The figure that contains the axes."""
    figure = axes.get_figure(root=True)
    if figure is None:
        raise ValueError("these axes do not belong to a figure")
    return figure


def draw(guarantee: Guarantee, file: Path) -> None:
    """Write the plot of a guarantee's curve; raises ConfigError if that is not possible."""
    save(curve_of(guarantee).plot(), file)


def legend_below(axes: Axes) -> None:
    """Add a legend of the lines below the plot."""
    figure_of(axes).legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def save(axes: Axes, file: Path) -> None:
    """Write the plot that contains the axes; raises ConfigError if that is not possible."""
    try:
        figure_of(axes).savefig(file)
    except OSError as error:
        raise ConfigError(
            f"cannot write the plot {file}: {error.strerror}; check its permissions"
        ) from error


def draw_curve(axes: Axes, lines: Curve) -> None:
    """Plot certified and attained curve, published formula, the given δ, and ε_L if near."""
    guarantee = lines.guarantee
    _draw_bounds(axes, guarantee, lines)
    _draw_local(axes, lines)
    _draw_published(axes, lines)
    _mark_asked(axes, guarantee, lines)
    _mark_local(axes, guarantee, lines)
    _finish(axes, guarantee, lines)


def draw_answer(axes: Axes, answer: Answer) -> None:
    """Plot the estimate with its interval and the truth: one point, or one for each symbol."""
    totals = np.atleast_1d(answer.total)
    truths = np.atleast_1d(answer.true_total)
    low, high = np.atleast_2d(answer.total_interval).T
    if totals.size > 1:
        draw_bars(axes, [str(symbol) for symbol in range(totals.size)], totals, low, high, truths)
        axes.set(xlabel="value", ylabel="users")
    else:  # a bar without its foot would mislead
        middle, half = (
            (low + high) / 2,
            (high - low) / 2,
        )  # an unbiased estimate may lie outside its interval
        axes.axhline(float(truths[0]), color=TRUTH, ls=":", label="truth")
        axes.errorbar(
            0,
            middle,
            yerr=half,
            fmt="none",
            ecolor=ESTIMATE,
            elinewidth=2,
            capsize=3,
            label="95% interval",
        )
        axes.plot(0, totals, "o", color=ESTIMATE, ms=5, label="estimate")
        axes.set(ylabel="sum", xticks=[], ylim=_around(np.concatenate((truths, totals, low, high))))
    axes.set_title(f"{answer.quantity} over {answer.users:,} users", fontsize=12, loc="left")
    axes.legend(frameon=False, fontsize=9)


def draw_centroid(axes: Axes, centroid: Centroid) -> None:
    """Plot the density of users, their true mean, the estimate and its box, in degrees.

    The picture is true to scale at its middle latitude.
    """
    grid = centroid.plan.grid
    (south, west), (north, east) = (
        grid.point(*corner) for corner in ((-0.5, -0.5), (grid.columns - 0.5, grid.rows - 0.5))
    )
    # At most some 60 cells across: a picture of single squares would show nothing but dots.
    coarse = max(1, math.ceil(max(grid.columns, grid.rows) / 60))
    shape = math.ceil(grid.columns / coarse), math.ceil(grid.rows / coarse)
    density = np.zeros(shape)
    np.add.at(density, tuple((centroid.squares // coarse).T), 1)
    # The last cells may reach beyond the map.
    right = west + (east - west) * shape[0] * coarse / grid.columns
    top = south + (north - south) * shape[1] * coarse / grid.rows
    shades = axes.imshow(
        np.sqrt(density.T),
        origin="lower",
        extent=(west, right, south, top),
        cmap="Greys",
        interpolation="nearest",
        aspect=1 / math.cos(math.radians((grid.south + grid.north) / 2)),
        alpha=0.85,
        zorder=0,
    )
    shades.set_clim(0, 1.4 * max(float(shades.get_clim()[1]), 1.0))
    corners = np.array(centroid.box)
    axes.plot(*_outline(corners), color=_CERTIFIED, lw=2, label="95% for each axis", zorder=3)
    axes.plot(
        centroid.truth[1],
        centroid.truth[0],
        "X",
        color=_PUBLISHED,
        ms=10,
        mec="white",
        label="true middle",
        zorder=4,
    )
    axes.plot(
        centroid.point[1],
        centroid.point[0],
        "o",
        color=_CERTIFIED,
        ms=8,
        mec="white",
        label="estimate",
        zorder=5,
    )
    seen = np.vstack((corners, centroid.truth, centroid.point, ((south, west), (top, right))))
    axes.set(xlim=(seen[:, 1].min(), seen[:, 1].max()), ylim=(seen[:, 0].min(), seen[:, 0].max()))
    axes.set_xlabel("longitude, degrees")
    axes.set_ylabel("latitude, degrees")
    plan = centroid.plan
    axes.set_title(
        f"{len(centroid.squares):,} users, ε = {number(plan.epsilon)} for {plan.radius:g} m, δ = "
        f"{plan.delta:g}",
        fontsize=12,
        loc="left",
    )
    axes.ticklabel_format(useOffset=False)
    axes.legend(frameon=True, framealpha=0.9, fontsize=9)


def _outline(
    corners: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> tuple[list[float], list[float]]:
    """Longitudes and latitudes along the outline of a box with these two corners."""
    (south, west), (north, east) = corners.tolist()
    return [west, east, east, west, west], [south, south, north, north, south]


def _around(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """An axis range in which a small difference of large sums is visible."""
    low = float(values.min())
    high = float(values.max())
    margin = 0.5 * max(high - low, 1.0)
    return low - margin, high + margin


def _draw_bounds(axes: Axes, guarantee: Guarantee, lines: Curve) -> None:
    bottom = lines.floor / 10
    upper, lower = (np.maximum(values, bottom) for values in (lines.certified, lines.attained))
    rounds = guarantee.plan.rounds
    attained = "attained by one round alone" if rounds > 1 else "attained by a dataset"
    axes.plot(
        lines.epsilons,
        upper,
        color=_CERTIFIED,
        lw=2.4,
        label="certified: never below the truth",
        zorder=4,
    )
    axes.plot(
        lines.epsilons, lower, color=_ATTAINED, lw=1.8, ls=(0, (5, 2)), label=attained, zorder=5
    )
    axes.fill_between(
        lines.epsilons,
        lower,
        upper,
        color=_CERTIFIED,
        alpha=0.12,
        lw=0,
        label="the truth lies here",
    )


def _draw_local(axes: Axes, lines: Curve) -> None:
    local = lines.local()
    if local.size:
        deltas = np.maximum(local, lines.floor / 10)
        style = (0, (1, 1.5))
        axes.plot(
            lines.epsilons,
            deltas,
            color=_QUIET,
            lw=1.8,
            ls=style,
            label="local only: no shuffler",
            zorder=2,
        )


def _draw_published(axes: Axes, lines: Curve) -> None:
    if not lines.published.size:
        return
    epsilons, deltas = lines.published
    visible = bool(np.any((deltas >= lines.floor) & (epsilons <= lines.epsilons[-1])))
    label = "printed in the paper" if visible else "printed in the paper: outside this picture"
    deltas = np.maximum(deltas, lines.floor / 10)
    axes.plot(epsilons, deltas, color=_PUBLISHED, lw=1.8, ls="-.", label=label, zorder=3)


def _mark_asked(axes: Axes, guarantee: Guarantee, lines: Curve) -> None:
    """Mark the given δ, and the certified ε at that δ."""
    delta = guarantee.plan.delta
    if delta == 0:
        return
    left = (guarantee.certified or 0.0) > 0.75 * lines.epsilons[-1]
    axes.axhline(delta, color=_QUIET, lw=1, ls=":", zorder=1)
    axes.annotate(
        f"δ = {delta:g}",
        (0 if left else 1, delta),
        xycoords=("axes fraction", "data"),
        xytext=(6 if left else -4, -12),
        textcoords="offset points",
        ha="left" if left else "right",
        fontsize=9,
        color=_QUIET,
    )
    if guarantee.certified is None:
        return
    axes.plot(
        [guarantee.certified], [delta], "o", color=_CERTIFIED, ms=8, mec="white", mew=1.2, zorder=6
    )
    axes.annotate(
        f"ε = {number(guarantee.certified)}",
        (guarantee.certified, delta),
        xytext=(8, 9),
        textcoords="offset points",
        fontsize=10.5,
        color=_CERTIFIED,
        weight="bold",
    )


def _mark_local(axes: Axes, guarantee: Guarantee, lines: Curve) -> None:
    """Mark ε_L, if it is near."""
    local = guarantee.corrupted
    if local is None or guarantee.plan.all_corrupt or local > lines.epsilons[-1]:
        return
    axes.axvline(local, color=_QUIET, lw=1, zorder=1)
    axes.annotate(
        f"ε_L = {number(local)}, all nodes corrupt",
        (local, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(-4, 0),
        textcoords="offset points",
        ha="right",
        va="top",
        rotation=90,
        fontsize=8.5,
        color=_QUIET,
    )


def _finish(axes: Axes, guarantee: Guarantee, lines: Curve) -> None:
    plan = guarantee.plan
    over = f", {plan.rounds:,} rounds" if plan.rounds > 1 else ""
    nodes = ", every node corrupt" if plan.all_corrupt else ""
    settings = ", ".join(f"{name} = {value}" for name, value in plan.parameters.items())
    axes.set_yscale("log")
    axes.set(xlim=(0, lines.epsilons[-1]), ylim=(lines.floor, 2), ylabel="δ")
    axes.set_xlabel(f"ε in nats{', per unit of distance' if plan.per_unit else ''}")
    who = people_needed(plan)
    axes.set_title(f"{plan.kind}, {who}{over}{nodes}\n", fontsize=12, loc="left")
    axes.text(0, 1.02, settings, transform=axes.transAxes, fontsize=8.5, color=_QUIET)
    axes.grid(visible=True, which="major", color=_QUIET, alpha=0.18, lw=0.7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
