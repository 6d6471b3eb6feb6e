"""Picture of a round: the answer against the truth, and the time of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shuffledp_ops.rounds.report import RoundReport, show

_ESTIMATE: Final = "#2a6f97"
_TRUTH: Final = "#e07a1f"
QUIET: Final = "#8a8f98"


def draw_report(report: RoundReport, file: Path) -> None:
    """Draws a report and writes the picture as PNG."""
    figure = Figure(figsize=(11, 4.6), dpi=130, layout="constrained")
    seconds = {stage: value for stage, value in report.seconds.items() if stage != "total"}
    answer = figure.subplots(1, 2, width_ratios=(3, 2))[0] if seconds else figure.subplots()
    (_draw_sum if report.is_sum else _draw_histogram)(report, answer)
    if seconds:
        draw_seconds(seconds, figure.axes[1])
    final = report.final
    unit = " per unit" if final.adjacency == "metric" else ""
    figure.suptitle(
        f"{final.mechanism.kind}, {report.accepted:,} users, {report.messages:,} messages: "
        f"ε = {show(final.epsilon.certified)}{unit}, δ = {final.delta:g}  "
        f"(all nodes corrupt: ε = {show(final.corrupted.epsilon)}{unit})",
        fontsize=11,
    )
    figure.savefig(file)


def _draw_sum(report: RoundReport, axes: Axes) -> None:
    estimate = report.estimate
    centre, error = estimate.values[0], estimate.standard_errors[0]
    true = None if report.truth is None else float(report.truth[0])
    reach = 1.25 * max(4 * error, 0.0 if true is None else abs(centre - true))
    axes.axvspan(estimate.lows[0], estimate.highs[0], color=_ESTIMATE, alpha=0.16, lw=0, label="95 % interval")
    axes.axvline(centre, color=_ESTIMATE, lw=2.2, label=f"estimate {centre:,.1f} ± {error:,.1f}")
    if true is not None:
        axes.axvline(true, color=_TRUTH, lw=2.2, ls="--", label=f"true value {true:,.0f} (simulation only)")
    axes.set(xlabel="sum over all users", yticks=[], xlim=(centre - reach, centre + reach))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8.5)
    axes.spines["left"].set_visible(False)
    quiet(axes)


def _draw_histogram(report: RoundReport, axes: Axes) -> None:
    estimate = report.estimate
    symbols = np.arange(len(estimate.values))
    if report.truth is not None:
        axes.bar(symbols, report.truth, color=_TRUTH, alpha=0.5, label="true count (simulation only)", width=0.8)
    axes.vlines(symbols, estimate.lows, estimate.highs, color=_ESTIMATE, lw=1.4, label="95 % interval")
    axes.plot(symbols, estimate.values, "o", ms=4, color=_ESTIMATE, label="estimate")
    axes.axhline(0, color=QUIET, lw=0.8)
    axes.set(xlabel="value", ylabel="users")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8.5)
    quiet(axes)


def draw_seconds(seconds: Mapping[str, float], axes: Axes) -> None:
    """Draws the duration of each stage as bars, the first one on top."""
    names = list(seconds)[::-1]
    bars = axes.barh(names, [seconds[name] for name in names], color=QUIET, alpha=0.75)
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.margins(x=0.15)
    axes.set(xlabel="seconds")
    axes.tick_params(axis="y", labelsize=8)
    quiet(axes)


def quiet(axes: Axes) -> None:
    """Removes the top and right lines of the frame."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
