"""The picture of a round: the answer against the truth, and where the time went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shuffledp_sim.report import RoundReport, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ESTIMATE: Final = "#2a6f97"
_TRUTH: Final = "#e07a1f"
_QUIET: Final = "#8a8f98"


def draw_report(report: RoundReport, file: Path) -> None:
    """Writes the picture as PNG."""
    figure = Figure(figsize=(11, 4.6), dpi=130, layout="constrained")
    answer, time = figure.subplots(1, 2, width_ratios=(3, 2))
    (_draw_sum if report.is_sum else _draw_histogram)(report, answer)
    _draw_seconds(report, time)
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
    """The law of the estimate around the truth would be hidden in reality; here both are shown."""
    estimate = report.estimate
    centre, error = estimate.values[0], estimate.standard_errors[0]
    grid: NDArray[np.float64] = np.linspace(-4.5, 4.5, 400)
    axes.fill_between(centre + grid * error, np.exp(-(grid**2) / 2), color=_ESTIMATE, alpha=0.18, lw=0)
    axes.axvspan(estimate.lows[0], estimate.highs[0], color=_ESTIMATE, alpha=0.12, lw=0, label="95 % interval")
    axes.axvline(centre, color=_ESTIMATE, lw=2, label=f"estimate {centre:,.1f} ± {error:,.1f}")
    axes.axvline(float(report.truth[0]), color=_TRUTH, lw=2, ls="--", label=f"true value {int(report.truth[0]):,}")
    axes.set(xlabel="sum over all users", yticks=[], ylim=(0, 1.35))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    _quiet(axes)


def _draw_histogram(report: RoundReport, axes: Axes) -> None:
    estimate = report.estimate
    values = np.asarray(estimate.values)
    spread = np.abs(np.vstack([values - np.asarray(estimate.lows), np.asarray(estimate.highs) - values]))
    symbols = np.arange(len(values))
    axes.bar(symbols, report.truth, color=_TRUTH, alpha=0.55, label="true count", width=0.8)
    axes.errorbar(
        symbols,
        values,
        yerr=spread,
        fmt="o",
        ms=3.5,
        color=_ESTIMATE,
        ecolor=_ESTIMATE,
        elinewidth=1.2,
        label="estimate, 95 % interval",
    )
    axes.axhline(0, color=_QUIET, lw=0.8)
    axes.set(xlabel="value", ylabel="users")
    axes.legend(loc="upper right", frameon=False, fontsize=9)
    _quiet(axes)


def _draw_seconds(report: RoundReport, axes: Axes) -> None:
    stages = {stage: value for stage, value in report.seconds.items() if stage != "total"}
    names = list(stages)[::-1]
    bars = axes.barh(names, [stages[name] for name in names], color=_QUIET, alpha=0.75)
    axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.margins(x=0.15)
    axes.set(xlabel="seconds")
    axes.tick_params(axis="y", labelsize=8)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
