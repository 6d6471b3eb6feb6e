"""A round that asks for quantiles, over real processes: its report, its page and its terminal."""

from __future__ import annotations

import asyncio
import io
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rounds_for_tests import small_round

from shuffledp_core.answering.quantiles import QUANTILES, distribution_of
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.picture import draw_report
from shuffledp_ops.rounds.present import print_report
from shuffledp_ops.rounds.report import RoundReport
from shuffledp_sim.system.processes import LocalSystem


@pytest.fixture(scope="module")
def report(running: LocalSystem, pool: ProcessPoolExecutor) -> RoundReport:
    return asyncio.run(small_round(running, pool, mechanism="node-tree", size=100))


def shown(report: RoundReport) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_report(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_report_has_the_quantiles_that_anyone_computes_from_the_result(
    report: RoundReport,
) -> None:
    nodes = report.final.nodes
    own = distribution_of(report.final.mechanism, report.estimate, report.accepted, nodes)
    assert own is not None
    rows = report.to_dict()["quantiles"]
    assert [row["share"] for row in rows] == list(QUANTILES)
    assert json.loads(json.dumps(rows)) == rows
    for row, found in zip(rows, own.quantiles(), strict=True):
        assert (row["bin"], row["low"], row["high"]) == found[1:]
        assert report.truth is not None
        below = np.cumsum(report.truth) >= row["share"] * report.truth.sum()
        assert row["true_bin"] == int(np.argmax(below))


def test_the_page_and_the_terminal_show_them(report: RoundReport, tmp_path: Path) -> None:
    html = page(report, [])
    words = shown(report)
    median = report.quantiles[2]
    assert f"Median: <strong>{median.bin}</strong> (95% interval {median.low} to" in html
    assert html.count('class="estimate" d="M') == 2 + 1  # both widths, and the legend
    assert "and the share of people up to any value by at most" in html
    for found in report.quantiles:
        assert f'<tr><th scope="row">{found.share:.0%}</th><td>{found.bin}</td>' in html
        assert f"{found.low} .. {found.high}" in words
    draw_report(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_names_of_bins_are_escaped_in_the_table(report: RoundReport) -> None:
    html = page(replace(report, labels=tuple(f"<i>{symbol}</i>" for symbol in range(100))), [])
    assert "<i>" not in html
    assert "&lt;i&gt;" in html


def test_lost_messages_widen_what_is_shown(report: RoundReport) -> None:
    fewer = replace(report, dropped=6)
    assert fewer.distribution is not None
    assert report.distribution is not None
    ends = np.array([10, 50, 90])
    lows, highs = report.distribution.band(ends)
    less, more = fewer.distribution.band(ends)
    assert (less <= lows).all()
    assert (more >= np.minimum(highs, fewer.distribution.reports)).all()
