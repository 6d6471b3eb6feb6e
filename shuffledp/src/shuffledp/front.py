"""Plots of a comparison: error by number of messages, and what breaks each mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shuffledp.choosing import Comparison
from shuffledp.drawing import save
from shuffledp.guarantees import number
from shuffledp.recommending import Recommendation
from shuffledp_core.mechanisms import Answers, Mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_CROWD: Final = "#2a8fc9"
_NODES: Final = "#5d9e5d"
_ENDS: Final = "#e07a1f"

_MARKERS: Final = {
    "o": "a lost message or a lie costs its share",
    "s": "absent people leave a gap in the noise",
    "X": "one lost message or lie ruins the answer",
}

_CORNERS: Final = (
    ("left", "center", 1, 0),
    ("right", "center", -1, 0),
    ("center", "bottom", 0, 1),
    ("center", "top", 0, -1),
    ("left", "bottom", 1, 1),
    ("left", "top", 1, -1),
    ("right", "bottom", -1, 1),
    ("right", "top", -1, -1),
)
"""Places of a label around its point: its alignment, and the direction in which it lies."""

_GAP: Final = 8
"""Points between a label and its point."""


def draw_fronts(comparison: Comparison, file: Path) -> None:
    """Write one plot for each kind of answer, side by side.

    Raises:
        ConfigError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    recommendations = comparison.recommendations
    figure = Figure(figsize=(7.2 * len(recommendations), 5.8), dpi=140, layout="constrained")
    panels = figure.subplots(1, len(recommendations), squeeze=False)[0]
    for axes, recommendation in zip(panels, recommendations, strict=True):
        axes.set_title(_title(comparison, recommendation), loc="left", fontsize=11)
        draw_front(axes, recommendation)
        add_legend(axes)
    save(panels[0], file)


def draw_front(axes: Axes, recommendation: Recommendation) -> None:
    """Plot errors by messages, between the local model and a trusted curator."""
    counts = recommendation.answers is Answers.HISTOGRAM
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="messages of a person",
        ylabel="standard error of one count, at worst" if counts else "standard error of the sum",
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    rows = recommendation.rows
    messages = [row.messages for row in rows]
    ends = (recommendation.beside.central, recommendation.beside.local)
    axes.set_xlim(min(messages) / 2, max(messages) * 8)
    errors = [*ends, *(row.error for row in rows)]
    axes.set_ylim(min(errors) / 2, max(errors) * 2)
    for error, words, side in zip(
        ends, ("trusted party", "no shuffler"), ("top", "bottom"), strict=True
    ):
        axes.axhline(error, color=_ENDS, lw=1.5, ls=(0, (4, 3)), zorder=1)
        axes.annotate(
            f"{words}: {error:,.4g}",
            (0, error),
            (4, -4 if side == "top" else 4),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="left",
            va=side,
            fontsize=9,
        )
    for row in rows:
        axes.plot(
            [row.messages],
            [row.error],
            marker=_marker_of(row.mechanism),
            color=_CROWD if row.mechanism.needs_crowd else _NODES,
            ms=9,
            ls="",
            gid=row.kind,
        )
    _label(
        axes,
        [
            (row.messages, row.error, f"{row.kind}\n{_local_words(row.corrupted_epsilon)}")
            for row in sorted(rows, key=lambda row: -row.error)
        ],
        ends,
    )


def add_legend(axes: Axes) -> None:
    """Explain markers and colours above the picture."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker=marker, color=_CROWD, ls="", ms=8, label=words)
        for marker, words in _MARKERS.items()
    ]
    handles.append(
        Line2D([], [], marker="o", color=_NODES, ls="", ms=8, label="needs no honest people")
    )
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        frameon=False,
        fontsize=9,
        ncols=1,
    )


def _title(comparison: Comparison, recommendation: Recommendation) -> str:
    target = comparison.target
    counts = recommendation.answers is Answers.HISTOGRAM
    what = f"histogram of {target.bins:,}" if counts else f"sum of 0..{target.largest:,}"
    return (
        f"{what}: {target.users:,} people, {comparison.nodes} nodes, ε = {target.epsilon:g}, "
        f"δ = {target.delta:g}"
    )


def _marker_of(mechanism: Mechanism) -> str:
    if not mechanism.bears_losses:
        return "X"
    return "o" if mechanism.noise_alone else "s"


def _local_words(epsilon: float) -> str:
    return "no ε_L" if math.isinf(epsilon) else f"ε_L {number(epsilon)}"


def _label(axes: Axes, points: Iterable[tuple[float, float, str]], lines: Sequence[float]) -> None:
    """Label each point where the label covers no other label, point or line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    points = list(points)
    figure: Figure = axes.get_figure(root=True)  # type: ignore[assignment]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    reach = _GAP * figure.dpi / 72
    covered = []
    for x, y, _ in points:
        center = axes.transData.transform((x, y))
        covered.append(Bbox([center - reach / 2, center + reach / 2]))
    frame = axes.get_window_extent(renderer)
    for y in lines:
        height = float(axes.transData.transform((1.0, y))[1])
        covered.append(Bbox([[frame.x0, height - 1], [frame.x1, height + 1]]))
    covered.extend(label.get_window_extent(renderer) for label in axes.texts)
    for x, y, words in points:
        covered.append(_add_label(axes, (x, y), words, covered, renderer))


def _add_label(
    axes: Axes,
    point: tuple[float, float],
    words: str,
    covered: list[Bbox],
    renderer: RendererBase,
) -> Bbox:
    """Add the label at the first free corner, or else where it covers least."""
    best: tuple[int, int] | None = None
    for index, corner in enumerate((*_CORNERS, None)):
        horizontal, vertical, right, up = (
            _CORNERS[best[1] if best else 0] if corner is None else corner
        )
        label = axes.annotate(
            words,
            point,
            (right * _GAP, up * _GAP),
            textcoords="offset points",
            ha=horizontal,
            va=vertical,
            fontsize=9,
            linespacing=1.05,
        )
        box = label.get_window_extent(renderer)
        frame = axes.get_window_extent(renderer)
        outside = box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1
        hidden = 10 * outside + sum(box.overlaps(other) for other in covered)
        if hidden == 0 or corner is None:
            return box
        if best is None or hidden < best[0]:
            best = (hidden, index)
        label.remove()
    raise AssertionError("the last corner is always taken")
