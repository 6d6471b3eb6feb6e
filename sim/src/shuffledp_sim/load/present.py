"""Presentation of a load report as text, as a picture, or as a self-contained page."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from shuffledp.notebook import check_installed
from shuffledp_core.errors import UsageError
from shuffledp_ops.rounds.picture import QUIET, draw_seconds, hide_frame
from shuffledp_sim.load.arrivals import Timeline
from shuffledp_sim.load.figures import ACCEPTED, LoadReport, Spread, accepted_users

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_ACCEPTED: Final = "#2a6f97"
_OTHER: Final = "#e07a1f"
_UNKNOWN: Final = "unknown"
_FEW_DECADES: Final = 1000.0


def rows(report: LoadReport) -> list[tuple[str, str]]:
    """Name and value of each figure, in reading order."""
    refused = _by_reason(report.refused)
    unanswered = _by_reason(report.unanswered_reasons)
    established = _UNKNOWN if report.established is None else f"{report.established:,}"
    lost = f"{_UNKNOWN}: {report.failure}" if report.lost is None else f"{report.lost:,}"
    return [
        (
            "offered",
            f"{report.offered:,} users, {report.arrivals} arrivals, {report.rate:,g} a second",
        ),
        ("accepted", f"{report.accepted:,}"),
        ("refused", refused),
        ("unanswered", unanswered),
        ("calls", f"{report.calls:,}, of them not answered: {_by_reason(report.unanswered_calls)}"),
        ("accepted only when asking again", f"{report.accepted_later:,}"),
        ("lost (receipt, not on the board)", lost),
        (
            "reports counted by the round",
            _UNKNOWN if report.counted is None else f"{report.counted:,}",
        ),
        ("latency from the intended start", _spread(report.latency)),
        ("of it the driver's own lateness", _spread(report.lateness)),
        ("accepted a second", f"{report.accepted_rate:,.1f}"),
        ("started a second", f"{report.started_rate:,.1f}"),
        ("TLS connections, made before", f"{report.connections:,} asked for, {established} stood"),
        ("handshake", _spread(report.handshake)),
        (
            "submission",
            f"{report.mechanism}: {report.messages_per_user} messages, {report.envelope_bytes:,} "
            "bytes",
        ),
        ("sealing", f"before the arrivals, {report.suite}, {report.nodes} nodes"),
        ("memory of the entry node, collecting", _mebibytes(report.collecting_bytes)),
        (
            "peak memory",
            ", ".join(f"{name} {_mebibytes(size)}" for name, size in report.peak_bytes.items())
            or _UNKNOWN,
        ),
        (
            "processor time in the arrivals",
            ", ".join(_cpu(report, name) for name in report.cpu_seconds),
        ),
        (
            "seconds",
            ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in report.seconds.items()),
        ),
        ("machine", report.machine),
    ]


def _by_reason(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.items()) or "0"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "nothing to measure"
    return (
        f"p50 {spread.p50:,.1f}, p90 {spread.p90:,.1f}, p99 {spread.p99:,.1f}, p99.9 "
        f"{spread.p99_9:,.1f}, max {spread.max:,.1f} ms"
    )


def _mebibytes(size: int | None) -> str:
    return _UNKNOWN if size is None else f"{size / 2**20:,.0f} MiB"


def _cpu(report: LoadReport, name: str) -> str:
    spent = report.cpu_seconds[name]
    share = "" if spent is None else f" ({spent / report.seconds['arrivals']:.0%} of a core)"
    return f"{name} {_UNKNOWN if spent is None else f'{spent:.2f} s'}{share}"


def print_report(report: LoadReport, console: Console) -> None:
    """Prints the figures as a table."""
    table = Table(title="Load on the entry node", show_header=False, box=None, title_justify="left")
    for name, value in rows(report):
        table.add_row(name, value)
    console.print(table)


def check_report_file(file: Path) -> None:
    """Raises `UsageError` unless `write_report` could write there.

    And `NotInstalledError` without matplotlib, the extra `plot`.
    """
    if file.suffix not in {".png", ".html"}:
        raise UsageError(f"--report must end in .png or .html, not {file.name!r}")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"--report names a folder that does not exist: {file.parent}")
    check_installed("matplotlib", "shuffledp[plot]", "a report")


def write_report(report: LoadReport, timeline: Timeline, file: Path) -> None:
    """Write a picture (.png), or a self-contained page with picture and all figures (.html)."""
    picture = io.BytesIO()
    draw(report, timeline).savefig(picture, format="png")
    if file.suffix == ".png":
        file.write_bytes(picture.getvalue())
        return
    body = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
        for name, value in rows(report)
    )
    source = base64.b64encode(picture.getvalue()).decode()
    file.write_text(
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>Load on the entry "
        "node</title><style>body{font:15px/1.5 sans-serif;max-width:1100px;margin:2em "
        "auto;padding:0 1em;color:#222}th{text-align:left;font-weight:600;padding:.2em 1.5em .2em "
        "0;vertical-align:top;white-space:nowrap}"
        "td{font-variant-numeric:tabular-nums}img{width:100%}</style></head><body><h1>Load on the "
        f"entry node</h1><p>Round {report.round_id}</p><img alt='latency and throughput' "
        f"src='data:image/png;base64,{source}'><table>{body}</table></body></html>\n"
    )


def draw(report: LoadReport, timeline: Timeline) -> Figure:
    """Plot latency over time, its distribution, throughput, and the time of each stage."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), dpi=130, layout="constrained")
    (over_time, distribution), (throughput, stages) = figure.subplots(2, 2)
    _draw_latency(timeline, over_time)
    _draw_distribution(report, timeline, distribution)
    _draw_throughput(timeline, throughput)
    draw_seconds(report.seconds, stages)
    lost = _UNKNOWN if report.lost is None else f"{report.lost:,}"
    figure.suptitle(
        f"{report.offered:,} users, {report.connections:,} connections, {report.rate:,g} arrivals "
        f"a second ({report.mechanism}): {report.accepted:,} accepted, {lost} lost"
    )
    return figure


def _draw_latency(timeline: Timeline, axes: Axes) -> None:
    accepted = np.array(timeline.outcomes) == ACCEPTED
    for chosen, color, label in (
        (accepted, _ACCEPTED, "accepted"),
        (~accepted, _OTHER, "refused or unanswered"),
    ):
        if chosen.any():
            latency = 1000 * timeline.latency[chosen]
            axes.plot(
                timeline.intended[chosen], latency, ".", ms=2.5, alpha=0.5, color=color, label=label
            )
    lateness = 1000 * timeline.lateness
    axes.plot(
        timeline.intended,
        lateness,
        color=QUIET,
        lw=0.6,
        alpha=0.6,
        zorder=1,
        label="the driver's lateness",
    )
    axes.set(yscale="log", xlabel="intended start, seconds", ylabel="latency, ms")
    _plain_numbers(axes.yaxis, np.concatenate([1000 * timeline.latency, lateness]))
    _legend_above(axes)
    hide_frame(axes)


def _draw_distribution(report: LoadReport, timeline: Timeline, axes: Axes) -> None:
    latency = np.sort(1000 * timeline.latency[accepted_users(timeline)])
    if report.latency is not None:
        axes.step(
            latency,
            np.arange(1, len(latency) + 1) / len(latency),
            where="post",
            color=_ACCEPTED,
            lw=1.8,
        )
        shares = (0.5, 0.9, 0.99, 0.999)
        percentiles = (
            report.latency.p50,
            report.latency.p90,
            report.latency.p99,
            report.latency.p99_9,
        )
        axes.plot(percentiles, shares, "o", ms=4, color=_ACCEPTED, clip_on=False)
        axes.set_title(_spread(report.latency), fontsize=8.5)  # above, where no curve can cross it
    axes.set(
        xscale="log",
        xlabel="latency from the intended start, ms",
        ylabel="share of those accepted",
        ylim=(0, 1.02),
    )
    _plain_numbers(axes.xaxis, latency)
    hide_frame(axes)


def _draw_throughput(timeline: Timeline, axes: Axes) -> None:
    end = float(timeline.finished.max())
    edges = np.linspace(0, end, int(np.clip(end, 10, 60)) + 1)
    width = edges[1] - edges[0]
    finished = timeline.finished[accepted_users(timeline)]
    lines = (
        (timeline.intended, QUIET, "-", "offered"),
        (timeline.started, QUIET, ":", "started by the driver"),
        (finished, _ACCEPTED, "-", "accepted"),
    )
    for moments, color, style, label in lines:
        axes.stairs(
            np.histogram(moments, edges)[0] / width,
            edges,
            color=color,
            ls=style,
            lw=1.6,
            label=label,
        )
    axes.set(xlabel="seconds", ylabel="users a second", ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,g}")
    _legend_above(axes)
    hide_frame(axes)


def _legend_above(axes: Axes) -> None:
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8.5,
        markerscale=4,
    )


def _plain_numbers(axis: Axis, values: NDArray[np.float64]) -> None:
    """Label a logarithmic axis with plain numbers, also at 2 and 5 if it has few decades."""
    from matplotlib.ticker import LogLocator, NullFormatter

    above = values[values > 0]
    few = len(above) > 0 and float(above.max() / above.min()) < _FEW_DECADES
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_formatter(NullFormatter())
