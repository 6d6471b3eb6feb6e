"""Cross tables in reports: numbers that add up, names as text, and a picture."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from client_rounds import Draft, make_certificate, make_deployment
from rich.console import Console

from shuffledp_core.answering.estimation import estimate
from shuffledp_core.mechanisms import DummyHistogram, HadamardHistogram, KRRHistogram, Mechanism
from shuffledp_core.questions import CategoryField, RangeField, RecordSchema, among, table
from shuffledp_ops.results.exporting import rows_of
from shuffledp_ops.rounds import charts
from shuffledp_ops.rounds import wording as sentences
from shuffledp_ops.rounds.page import page
from shuffledp_ops.rounds.picture import draw_report
from shuffledp_ops.rounds.present import print_report
from shuffledp_ops.rounds.report import RoundReport

SCHEMA = RecordSchema(
    {
        "sex": CategoryField(["<b>f</b>", "$m$"]),
        "age": RangeField([0, 18, 65, "inf"], unit="years"),
        "smokes": CategoryField(["yes", "no"]),
        "country": CategoryField(["DE", "FR"]),
    }
)
COUNTS = [200, 80, 40, 150, 1, 100, 29]
KRR = KRRHistogram(symbols=7, blanket=Fraction(1, 4))


@pytest.fixture
def report(tmp_path: Path) -> RoundReport:
    return make(tmp_path, KRR, ("sex", "age"), COUNTS)


def make(
    folder: Path, mechanism: Mechanism, fields: tuple[str, ...], counts: list[int]
) -> RoundReport:
    question = table(SCHEMA, *fields, where={"country": among("DE")}, others="abroad")
    draft = Draft(make_deployment(folder / "keys"))
    final = make_certificate(draft.deployment, mechanism, wording=question.wording)
    users = sum(counts) // mechanism.messages_per_user
    answer = estimate(mechanism, counts, users)
    return RoundReport(
        "ab" * 16, users, users, sum(counts), answer, final, "sealed-box", {}, {},
        labels=question.wording.names(), column=", ".join(question.wording.fields),
    )  # fmt: skip


class Cells(HTMLParser):
    """The texts of the cells of a page's first table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = self.is_over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag == "tr" and not self.is_over:
            self.rows.append([])
        if tag in {"td", "th"}:
            self.inside = True
            if not self.is_over:
                self.rows[-1].append("")
        if tag in {"small", "sup"}:
            self.inside = False

    def handle_endtag(self, tag: str) -> None:
        self.is_over |= tag == "table"
        self.inside &= tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        if self.inside and not self.is_over:
            self.rows[-1][-1] += data


def cells_of(report: RoundReport) -> list[list[str]]:
    parser = Cells()
    parser.feed(page(report, set()))
    return parser.rows


def test_rows_and_columns_of_the_page_add_up(report: RoundReport) -> None:
    heads, *rows = cells_of(report)
    assert heads == ["sex \\ age", "0–18 years", "18–65 years", "65 or more years", "all"]
    assert [row[0] for row in rows] == ["<b>f</b>", "$m$", "all"]
    numbers = np.array([[int(text.replace(",", "")) for text in row[1:]] for row in rows])
    assert np.abs(numbers[:2].sum(axis=0) - numbers[2]).max() <= 1  # rounded one by one
    assert np.abs(numbers[:, :3].sum(axis=1) - numbers[:, 3]).max() <= 2


def test_the_sentence_has_the_largest_number_of_the_table(tmp_path: Path) -> None:
    dummies = DummyHistogram(symbols=7, slots=1, fill=Fraction(1, 4))
    report = make(tmp_path, dummies, ("sex", "age"), [*COUNTS, 400])
    assert report.table is not None
    fitted = report.table.fitted.cells
    largest = max(fitted.values)
    assert largest != max(report.estimate.values)
    assert f"about {charts.figure(largest)} of " in page(report, set())


def test_names_are_text_and_small_cells_are_marked(report: RoundReport) -> None:
    text = page(report, set())
    assert "<b>f</b>" not in text
    assert text.count("<sup>†</sup>") == 1  # of 1 report in 600
    assert "there may be no such people" in text
    assert "“abroad”: about" in text
    assert "Table of sex, age, country" in text
    words = sentences.question(report)
    assert words.endswith("; only for country: DE; all others: abroad.)")
    assert sentences.liars(report)[0].startswith(
        "A device that lies can move each cell and each sum of the table by at most 1.34"
    )


def test_json_has_the_table_and_the_exported_rows_all_cells(report: RoundReport) -> None:
    crosstab = report.to_dict()["table"]
    assert (crosstab["row_fields"], crosstab["column_field"]) == (["sex"], "age")
    cells = np.array([row["estimate"] for row in crosstab["cells"]])
    np.testing.assert_allclose(crosstab["row_sums"]["estimate"], cells.sum(axis=1))
    np.testing.assert_allclose(crosstab["column_sums"]["estimate"], cells.sum(axis=0))
    everybody = crosstab["in_cells"]["estimate"][0] + crosstab["others"]["estimate"][0]
    assert everybody == pytest.approx(600)
    rows = rows_of(report)
    assert [row["label"] for row in rows][3:] == [
        "$m$, 0–18 years", "$m$, 18–65 years", "$m$, 65 or more years", "abroad",
    ]  # fmt: skip
    assert {row["question"] for row in rows} == {"table-of-sex-age"}


def test_the_terminal_shows_the_table_and_how_often_it_is_right(report: RoundReport) -> None:
    truth = np.array([220, 85, 35, 150, 0, 90, 20])
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        print_report(replace(report, truth=truth), console)
    text = captured.get()
    assert "sex \\ age" in text
    assert "Simulation: " in text
    assert "(true: 20)" in text


def test_three_fields_have_rows_of_two(tmp_path: Path) -> None:
    spec = KRRHistogram(symbols=13, blanket=Fraction(1, 4))
    three = make(tmp_path, spec, ("sex", "smokes", "age"), [*range(20, 80, 5), 7])
    heads, *rows = cells_of(three)
    assert heads[0] == "sex, smokes \\ age"
    assert [row[0] for row in rows][:2] == ["<b>f</b>, yes", "<b>f</b>, no"]
    assert three.table is not None
    sums = [number.value for number in three.table.row_sums]
    assert sum(sums) == pytest.approx(three.table.in_cells.value)


def test_a_mechanism_without_margins_shows_bars(tmp_path: Path) -> None:
    spec = HadamardHistogram(symbols=7, blanket=Fraction(1, 2))
    bars = make(tmp_path, spec, ("sex", "age"), [80] * 8)
    assert bars.table is None
    assert "table" not in bars.to_dict()
    assert "<svg" in page(bars, set())


def test_the_picture_is_drawn(report: RoundReport, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_report(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
