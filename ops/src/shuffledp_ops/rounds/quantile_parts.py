"""Report parts for a round that asks for quantiles: sentence, curve and table. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from shuffledp.pages import as_html
from shuffledp_core.answering.quantiles import BinDistribution
from shuffledp_ops.rounds import charts
from shuffledp_ops.rounds.report import RoundReport, true_quantile

POINTS: Final = 96
"""Most points of the curve, each with its own interval."""


def in_a_sentence(report: RoundReport) -> str:
    """The median with its interval, as HTML."""
    median = next(quantile for quantile in report.quantiles if quantile.share == 0.5)
    names = [as_html(report.label(symbol)) for symbol in (median.bin, median.low, median.high)]
    return f"Median: <strong>{names[0]}</strong> (95% interval {names[1]} to {names[2]})."


def chart(report: RoundReport, distribution: BinDistribution) -> str:
    """The distribution function with its band, as SVG."""
    bins = distribution.counted
    ends = np.unique(np.linspace(1, bins, min(bins, POINTS)).astype(np.int64))
    lows, highs = distribution.band(ends)
    people = distribution.reports
    truths = None
    if report.truth is not None:
        truths = tuple((np.cumsum(report.truth)[ends - 1] / report.truth.sum()).tolist())
    curve = charts.DistributionCurve(
        [report.label(symbol) for symbol in range(bins)],
        tuple(ends.tolist()),
        tuple((distribution.rising_sums[ends - 1] / people).tolist()),
        tuple((lows / people).tolist()),
        tuple((highs / people).tolist()),
        truths,
    )
    return charts.distribution(
        curve, "Estimated share of people up to each value, with 95% intervals"
    )


def remarks(report: RoundReport) -> Iterator[str]:
    """A sentence on people outside all bins, who are in no quantile; none if there is no one."""
    distribution = report.distribution
    if distribution is None or not distribution.outside:
        return
    others = distribution.count_range(distribution.counted, distribution.tree.bins - 1)
    low, high = max(0, math.floor(others.low)), math.ceil(others.high)
    yield (
        f"Quantiles are those of the people with a value. About {max(others.people, 0.0):,.0f} of "
        f"all {report.accepted:,} people (95% interval {low:,} to {high:,}) are counted as "
        f"“{report.label(distribution.counted)}”; the curve has shares of all people."
    )


def table(report: RoundReport) -> Iterator[str]:
    """The displayed quantiles as an HTML table; nothing for other answers."""
    if not report.quantiles:
        return
    headings = ["share of people", "up to", "95% interval"]
    if report.truth is not None:
        headings.append("true")
    cells = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    yield f'<table class="numbers quantiles"><thead><tr>{cells}</tr></thead><tbody>'
    for quantile in report.quantiles:
        name, low, high = (
            as_html(report.label(symbol)) for symbol in (quantile.bin, quantile.low, quantile.high)
        )
        data = f"<td>{name}</td><td>{low} to {high}</td>"
        true = true_quantile(report, quantile.share)
        if true is not None:
            data += f"<td>{as_html(report.label(true))}</td>"
        yield f'<tr><th scope="row">{quantile.share:.0%}</th>{data}</tr>'
    yield "</tbody></table>"
