"""Picture of a round: the answer against the truth, and the time of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shuffledp.bars import ESTIMATE, TRUTH, draw_bars
from shuffledp.crosstab import SMALL, CrossTable
from shuffledp.notebook import check_installed
from shuffledp_ops.rounds.report import RoundReport, is_open, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUIET: Final = "#8a8f98"

MOST_NUMBERS: Final = 200
"""Cells of a table that have their number in the picture; larger tables have colours only."""

MOST_NAMES: Final = 30
"""Rows or columns that are named in the picture."""


def draw_report(report: RoundReport, file: Path) -> None:
    """Draw a report as a PNG file; raises `NotInstalledError` as `check_plot`."""
    check_installed("matplotlib", "shuffledp[plot]", "the picture of a round")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), dpi=130, layout="constrained")
    seconds = {stage: value for stage, value in report.seconds.items() if stage != "total"}
    answer = figure.subplots(1, 2, width_ratios=(3, 1))[0] if seconds else figure.subplots()
    if is_open(report):
        _draw_texts(report, answer)
    elif report.table is not None:
        _draw_table(report.table, answer)
    else:
        (_draw_sum if report.is_sum else _draw_histogram)(report, answer)
    if seconds:
        draw_seconds(seconds, figure.axes[1])
    final = report.final
    unit = " per unit" if final.adjacency == "metric" else ""
    guarantee = f"ε = {show(report.epsilon_here)}{unit}, δ = {report.delta_here:g}"
    if report.all_corrupt:
        guarantee = f"all nodes corrupt, {guarantee}"
    else:
        guarantee += f"  (all nodes corrupt: ε = {show(final.corrupted.epsilon)}{unit})"
    figure.suptitle(
        f"{final.mechanism.kind}, {report.accepted:,} users, {report.messages:,} messages: "
        f"{guarantee}",
        fontsize=11,
    )
    figure.savefig(file)


def _draw_sum(report: RoundReport, axes: Axes) -> None:
    estimate, digits = report.answer, report.decimals
    centre, error = estimate.values[0], estimate.standard_errors[0]
    true = None if report.true_answer is None else report.true_answer[0]
    reach = 1.25 * max(4 * error, 0.0 if true is None else abs(centre - true))
    axes.axvspan(
        estimate.lows[0], estimate.highs[0], color=ESTIMATE, alpha=0.16, lw=0, label="95% interval"
    )
    axes.axvline(
        centre, color=ESTIMATE, lw=2.2, label=f"estimate {centre:,.{digits}f} ± {error:,.{digits}f}"
    )
    if true is not None:
        axes.axvline(
            true,
            color=TRUTH,
            lw=2.2,
            ls="--",
            label=f"true value {true:,.{digits - 1}f} (simulation only)",
        )
    unit = f", {report.unit}".replace("$", r"\$") if report.unit else ""
    axes.set(xlabel=f"sum over all users{unit}", yticks=[], xlim=(centre - reach, centre + reach))
    axes.xaxis.set_major_formatter(f"{{x:,.{digits - 1}f}}")
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8.5)
    axes.spines["left"].set_visible(False)
    hide_frame(axes)


def _draw_table(table: CrossTable, axes: Axes) -> None:
    rows, columns = table.shape
    values = [[max(number.value, 0.0) for number in row] for row in table.cells]
    image = axes.imshow(values, cmap="Blues", aspect="auto", vmin=0.0)
    most = max(max(row) for row in values) or 1.0
    if rows * columns <= MOST_NUMBERS:
        for row, numbers in enumerate(table.cells):
            for column, number in enumerate(numbers):
                axes.text(
                    column,
                    row,
                    f"{number.value:,.0f}{SMALL if number.is_small else ''}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if number.value > 0.6 * most else "black",
                )
    every = (-(-columns // MOST_NAMES), -(-rows // MOST_NAMES))
    axes.set_xticks(
        range(0, columns, every[0]), _plain(table.column_names[:: every[0]]), rotation=30
    )
    axes.set_yticks(range(0, rows, every[1]), _plain(table.row_names[:: every[1]]))
    axes.tick_params(labelsize=8)
    axes.set_xlabel(_plain([table.column_title])[0])
    axes.set_ylabel(_plain([table.row_title])[0])
    axes.figure.colorbar(image, ax=axes, label="users", shrink=0.9)


def _plain(names: list[str]) -> list[str]:
    """The first 24 characters of each name, escaped so that none is read as a formula."""
    short = (name if len(name) <= 24 else f"{name[:23]}…" for name in names)
    return [name.replace("$", r"\$") for name in short]


def _draw_histogram(report: RoundReport, axes: Axes) -> None:
    estimate = report.estimate
    labels = [report.label(symbol) for symbol in range(len(estimate.values))]
    draw_bars(
        axes,
        labels,
        estimate.values,
        estimate.lows,
        estimate.highs,
        report.truth,
        truth="true count (simulation only)",
    )
    axes.set_xlabel("value" if report.column is None else report.column.replace("$", r"\$"))
    axes.set_ylabel("users")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8.5)
    hide_frame(axes)


def _draw_texts(report: RoundReport, axes: Axes) -> None:
    texts = () if report.open_list is None else report.open_list.texts[:MOST_NAMES]
    truths = [text.true for text in texts if text.true is not None]
    if texts:
        draw_bars(
            axes,
            _plain([text.text for text in texts]),
            [text.people for text in texts],
            [text.low for text in texts],
            [text.high for text in texts],
            truths if len(truths) == len(texts) else None,
            truth="true count (simulation only)",
        )
        axes.tick_params(axis="x", rotation=30)
    axes.set(xlabel="text" if texts else "no text is listed", ylabel="users")
    hide_frame(axes)


def draw_seconds(seconds: Mapping[str, float], axes: Axes) -> None:
    """Draw the duration of each stage as a bar, with the first stage on top."""
    names = list(seconds)[::-1]
    bars = axes.barh(names, [seconds[name] for name in names], color=QUIET, alpha=0.75)
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.margins(x=0.15)
    axes.set(xlabel="seconds")
    axes.tick_params(axis="y", labelsize=8)
    hide_frame(axes)


def hide_frame(axes: Axes) -> None:
    """Hide the top and right lines of the frame."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
