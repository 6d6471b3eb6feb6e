"""Reports of a question that adds up a field: page, terminal, JSON, exported rows, saved again."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from client_rounds import Draft, make_certificate, make_deployment
from rich.console import Console

from shuffledp_core.answering.estimation import estimate
from shuffledp_core.mechanisms import NodeHistogram
from shuffledp_core.questions import AmountField, CategoryField, RecordSchema, total
from shuffledp_ops.results.exporting import rows_of
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.picture import draw_report
from shuffledp_ops.rounds.present import print_report
from shuffledp_ops.rounds.report import RoundReport

SCHEMA = RecordSchema(
    {"<i>spent</i>": AmountField(1, unit="$"), "country": CategoryField(["<b>DE</b>", "FR"])}
)
PEOPLE = 900


def make(folder: Path, *names: str) -> RoundReport:
    wording = total(SCHEMA, *names).wording
    spec = NodeHistogram(
        symbols=wording.size, noise_epsilon=Fraction(50), mean=1, dummies=wording.size + 1
    )
    draft = Draft(make_deployment(folder / "keys"))
    final = make_certificate(draft.deployment, spec, wording=wording)
    countries = ("<b>DE</b>", "FR")
    drawn = [
        wording.locate_record({"<i>spent</i>": 96, "country": countries[person % 3 == 0]})
        for person in range(PEOPLE)
    ]
    truth = np.bincount(drawn, minlength=wording.size)
    board = np.bincount(drawn, minlength=spec.alphabet)
    dummies = [*([final.nodes] * wording.size), final.nodes]  # noise that is 0, for every node
    answer = estimate(spec, board + np.array(dummies), PEOPLE, nodes=final.nodes)
    return RoundReport(
        "ab" * 16, PEOPLE, PEOPLE, int(board.sum()), answer, final, "sealed-box", {}, {},
        labels=wording.names(), column=", ".join(wording.fields), truth=truth,
    )  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> RoundReport:
    return make(tmp_path_factory.mktemp("one"), "<i>spent</i>")


@pytest.fixture(scope="module")
def by_country(tmp_path_factory: pytest.TempPathFactory) -> RoundReport:
    return make(tmp_path_factory.mktemp("groups"), "country", "<i>spent</i>")


def shown(report: RoundReport) -> str:
    console = Console(file=io.StringIO(), width=300)
    print_report(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_page_has_the_sum_its_cut_and_a_bound_of_those_above(report: RoundReport) -> None:
    html = page(report, [])
    assert report.totals is not None
    assert report.totals.cut == 128
    assert "<h1>Sum of &lt;i&gt;spent&lt;/i&gt;</h1>" in html
    assert "Sum of values up to 128 $: <strong>86,400" in html
    assert "people have a larger value" in html
    assert "from 256 $ on not at all" in html
    assert "<i>" not in html
    # Bars up to twice the cut only, in both widths.
    assert html.count("about 256 $") >= 1
    assert "about 512 $</text>" not in html


def test_the_terminal_and_the_json_have_it_too(report: RoundReport) -> None:
    words = shown(report)
    assert "86,400" in words
    assert "Values up to 128 $ count in full" in words
    entries = report.to_dict()["totals"]
    assert json.loads(json.dumps(entries)) == entries
    assert (entries["cut"], entries["unit"], entries["field"]) == (128, "$", "<i>spent</i>")
    assert entries["groups"][0]["truth"] == 86_400
    assert entries["true_sum_without_cut"] == 86_400


def test_exported_rows_begin_with_the_sums(by_country: RoundReport) -> None:
    rows = rows_of(by_country)
    sums = [row for row in rows if row["quantity"] == "sum"]
    assert rows[: len(sums)] == sums
    assert [row["label"] for row in sums] == ["<b>DE</b>", "FR"]
    assert sum(float(row["estimate"] or 0) for row in sums) == pytest.approx(86_400, rel=1e-3)
    assert len(rows) == len(sums) + len(by_country.estimate.values)


def test_groups_are_a_table(by_country: RoundReport) -> None:
    html = page(by_country, [])
    assert by_country.totals is not None
    assert "<b>" not in html
    assert '<th scope="row">&lt;b&gt;DE&lt;/b&gt;</th><td>57,600' in html
    assert '<th scope="row">FR</th><td>28,800' in html
    assert by_country.table is None


def test_the_picture_is_drawn(report: RoundReport, tmp_path: Path) -> None:
    draw_report(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_without_a_truth_nothing_is_said_of_it(report: RoundReport) -> None:
    real = replace(report, truth=None)
    assert "Simulation:" not in page(real, [])
    assert real.to_dict()["totals"]["true_sum_without_cut"] is None
