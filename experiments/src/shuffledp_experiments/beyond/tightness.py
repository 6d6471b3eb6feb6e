"""Gap between certified and attained ε (n8), and cost of what adversaries know (n9)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.commands.questions import krr_histogram
from shuffledp_core.mechanisms import GeoShuffle, RRShuffle, SGDLShuffle
from shuffledp_experiments import drawing
from shuffledp_experiments.beyond.common import (
    DELTA,
    both_sides,
    finite,
    logarithmic,
    metric,
    standard,
)
from shuffledp_experiments.entry import Experiment, Kind, Results, Row, RunInputs
from shuffledp_privacy.bounds import Bounds
from shuffledp_privacy.calibration.padding import sgdl_padding, unnoticed_geo_padding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE: Final = 1.05
"""A gap from here on is red in the maps: 5% of ε."""

LARGEST_VALUE: Final = 1000
"""k of the sums, so that d_max may be up to it."""


def _rr(users: int, distance: int) -> Bounds:
    return both_sides(
        RRShuffle(max_value=LARGEST_VALUE, randomise=Fraction(1, 10)), metric(users, distance)
    )


def _geo(rate: Fraction, users: int, distance: int) -> Bounds:
    setting = metric(users, distance)
    padding = unnoticed_geo_padding(rate, LARGEST_VALUE, setting, DELTA)
    return both_sides(
        GeoShuffle(max_value=LARGEST_VALUE, epsilon_geo=rate, padding=padding), setting
    )


def _sgdl(users: int, distance: int) -> Bounds:
    rate = Fraction(1, 5)
    setting = metric(users, distance)
    padding = sgdl_padding(rate, users, LARGEST_VALUE, setting, DELTA)
    spec = SGDLShuffle(max_value=LARGEST_VALUE, noise_epsilon=rate, shares=users, padding=padding)
    return both_sides(spec, setting)


SUMS: Final[dict[str, Callable[[int, int], Bounds]]] = {
    "rr-shuffle, p = 0.1": _rr,
    "geo-shuffle, ε_geo = 0.2": partial(_geo, Fraction(1, 5)),
    "geo-shuffle, ε_geo = 0.6": partial(_geo, Fraction(3, 5)),
    "sgdl-shuffle, ε = 0.2": _sgdl,
}
"""Sums whose tightness is drawn, with paddings of the accountant's choice."""


def _run_n8(work: RunInputs) -> Results:
    rows: list[Row] = []
    for symbols in work["k"]:
        for local in work["ε0"]:
            spec, _ = krr_histogram(symbols, local)
            for users in work["n"]:
                bounds = both_sides(spec, standard(users))
                rows += _cell(f"k-RR, k = {symbols}", users, bounds, {"ε0": local})
    for name, bounds_of in SUMS.items():
        for distance in work["d_max"]:
            for users in work["n"]:
                rows += _cell(name, users, bounds_of(users, distance), {"d_max": distance})
    ratios = _ratios(rows)
    above = [key for key, ratio in ratios.items() if ratio > WIDE]
    words = ", ".join(
        f"{name} at n = {x:,} and {other:g}: {ratios[name, x, other]:.3f}"
        for name, x, other in above
    )
    return Results(
        tuple(rows),
        notes=(
            f"certified/attained is above {WIDE} in {len(above)} of {len(ratios)} "
            f"cells{': ' + words if words else ''}",
            f"the largest ratio is {max(ratios.values()):.4f}, the median "
            f"{np.median(list(ratios.values())):.5f}",
        ),
    )


def _cell(name: str, users: int, bounds: Bounds, settings: dict[str, Any]) -> list[Row]:
    return [
        Row(
            f"{name} {kind}",
            kind,
            "n",
            users,
            "ε (nats)",
            finite(getattr(bounds, kind)),
            settings=settings,
        )
        for kind in (Kind.CERTIFIED, Kind.ATTAINED)
    ]


def _ratios(rows: list[Row] | tuple[Row, ...]) -> dict[tuple[str, Any, Any], float]:
    """Ratio certified/attained by panel, n and the other parameter.

    Infinite where one side is missing.
    """
    sides: dict[tuple[str, Any, Any], dict[Kind, float]] = {}
    for row in rows:
        key = (row.series.removesuffix(f" {row.kind}"), row.x, *row.settings.values())
        sides.setdefault(key, {})[row.kind] = row.y  # type: ignore[arg-type]
    return {
        key: side[Kind.CERTIFIED] / side[Kind.ATTAINED] if side[Kind.ATTAINED] > 0 else math.inf
        for key, side in sides.items()
    }


def _draw_n8(result: Results) -> Figure:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    ratios = _ratios(result.rows)
    names = list(dict.fromkeys(name for name, *_ in ratios))
    columns = 4
    figure, axes = drawing.panels(-(-len(names) // columns), columns, width=13.5, height=6.4)
    colours = colormaps["Blues"].with_extremes(over="#d55e00")
    norm = Normalize(1, WIDE)
    for panel, name in zip(axes.ravel(), names, strict=False):
        other = next(iter(next(row.settings for row in result.rows if row.series.startswith(name))))
        _map(
            panel,
            {key[1:]: value for key, value in ratios.items() if key[0] == name},
            colours,
            norm,
        )
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("users n")
        panel.set_ylabel("largest distance d_max" if other == "d_max" else "local ε0 (nats)")
    spare = axes.ravel()[len(names) :]
    for panel in spare:
        panel.set_axis_off()
    bar = {"cax": spare[0].inset_axes((0.1, 0.0, 0.08, 1.0))} if len(spare) else {"ax": axes}
    figure.colorbar(
        ScalarMappable(norm, colours), extend="max", label=
            "certified ε / attained ε (1: exact)", **bar
    )  # fmt: skip
    figure.suptitle(
        f"How far apart the two sides of the truth are (δ = {DELTA:g}; orange: above {WIDE})"
    )
    return figure


def _map(axes: Axes, cells: dict[Any, float], colours: Any, norm: Any) -> None:
    xs, ys = (sorted({key[i] for key in cells}) for i in (0, 1))
    grid = np.array([[cells[x, y] for x in xs] for y in ys])
    axes.imshow(grid, cmap=colours, norm=norm, origin="lower", aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(xs)), [f"{x:.0e}".replace("e+0", "e") for x in xs])
    axes.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    for (row, column), ratio in np.ndenumerate(grid):
        dark = ratio > 1 + 0.6 * (WIDE - 1)
        text = f"{ratio:.3f}" if ratio < 10 else "none"
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=7.5,
            color="white" if dark else "black",
        )


N8: Final = Experiment(
    id="n8", source="new", question="How far apart are what is certified and what is attained?",
    parameters={
        "k": (2, 3, 10, 100), "ε0": (0.25, 0.5, 1.0, 2.0, 4.0), "n": (100, 1000, 10_000, 100_000,
        1_000_000),
        "d_max": (1, 10, 100, 1000),
    },
    quick={"k": (2, 10), "ε0": (1.0,), "n": (1000, 10_000), "d_max": (100,)},
    run=_run_n8, draw=_draw_n8, seconds=28, seconds_quick=2.7,
)  # fmt: skip


def _ladder(symbols: int, local: float, users: int) -> dict[str, tuple[Kind, float]]:
    """ε at δ of one k-RR round, by the adversary's knowledge, from most to least."""
    from shuffledp_privacy.histogram.published import strong_adversary_delta
    from shuffledp_privacy.local.flags import Pair

    spec, _ = krr_histogram(symbols, local)
    bounds = both_sides(spec, standard(users))
    q = float(spec.blanket) / symbols
    p = 1 - (symbols - 1) * q
    chance = 1 / symbols
    # Everyone else's value is drawn at random: every report of theirs is uniform (K11, with r_y =
    # 1/k).
    nothing = Pair(
        np.array([chance, chance, (symbols - 2) * chance]),
        np.array([p, q, q]) / chance, np.array([q, p, q]) / chance, np.empty((2, 0)), local,
    )  # fmt: skip
    return {
        "local: every node is corrupt": (Kind.EXACT, local),
        "strong: all values and all flags": (
            Kind.CERTIFIED, _invert(lambda epsilon: strong_adversary_delta(spec, users,
            epsilon), 4 * local),
        ),
        "weak certified: values and others' flags": (Kind.CERTIFIED, bounds.certified),
        "values attained": (Kind.ATTAINED, bounds.attained),
        "nothing: others drawn at random": (
            Kind.EXACT, _invert(lambda epsilon: nothing.upper(users, epsilon), local),
        ),
    }  # fmt: skip


def _invert(delta_at: Callable[[float], float], highest: float) -> float:
    """Least ε with δ(ε) <= `DELTA`, rounded up; NaN if even `highest` has a larger δ."""
    if delta_at(highest) > DELTA:
        return math.nan
    low, high = 0.0, highest
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= DELTA else (middle, high)
    return high


def _run_n9(work: RunInputs) -> Results:
    rows = [
        Row(
            series,
            kind,
            "ε0",
            local,
            "ε (nats)",
            finite(value),
            settings={"n": users, "k": work["k"]},
        )
        for users in work["n"]
        for local in work["ε0"]
        for series, (kind, value) in _ladder(work["k"], local, users).items()
    ]
    poor = [
        (row.settings["n"], row.x) for row in rows
        if row.series.startswith("strong") and not row.y <= float(row.x)
    ]  # fmt: skip
    return Results(
        tuple(rows),
        notes=(
            f"against the strong adversary ε is above the local ε0, or nothing, in {len(poor)} of "
            f"{len(work['n']) * len(work['ε0'])} cases: it forgoes the changed user's own noise "
            "(K9)",
            "'nothing' is not a guarantee: it assumes an adversary without any knowledge",
        ),
    )


def _draw_n9(result: Results) -> Figure:
    sizes = list(dict.fromkeys(row.settings["n"] for row in result.rows))
    figure, axes = drawing.panels(1, len(sizes), width=4.4 * len(sizes), height=4.8, sharey=True)
    names = list(dict.fromkeys(row.series for row in result.rows))
    for panel, users in zip(axes[0], sizes, strict=True):
        rows = [row for row in result.rows if row.settings["n"] == users]
        for index, name in enumerate(names):
            style = drawing.series_style(index) | (
                {"ls": (0, (4, 3))} if name == "values attained" else {}
            )
            drawing.line(panel, rows, name, **style)
        panel.set_title(f"n = {users:,}, k = {rows[0].settings['k']}")
        panel.set_xlabel("local ε0 (nats)")
        logarithmic(panel)
    axes[0, 0].set_ylabel("ε (nats)")
    figure.suptitle(f"The less the adversary knows, the smaller ε (k-RR, δ = {DELTA:g})")
    drawing.legend_below(figure, columns=3)
    return figure


N9: Final = Experiment(
    id="n9", source="new", question="What does it cost that the adversary knows more?",
    parameters={"k": 10, "n": (1000, 10_000, 100_000), "ε0": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)},
    quick={"n": (1000,), "ε0": (0.1, 1.0)},
    run=_run_n9, draw=_draw_n9, seconds=18, seconds_quick=1.1,
)  # fmt: skip
