"""Questions in words from an operator's file: entries of a column, reports and exported tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from client_rounds import Draft, make_certificate, make_deployment

from shuffledp.columns import load_column
from shuffledp.question_files import load_wording
from shuffledp_core.answering.estimates import Estimate
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms.liars import largest_shift
from shuffledp_ops.results.exporting import rows_of
from shuffledp_ops.rounds import wording as sentences
from shuffledp_ops.rounds.report import RoundReport

RANGES = 'kind = "ranges", edges = ["0", "0.5", "2.5", "inf"]'
SCALE = 'kind = "scale", start = "18.5", step = "0.5", size = 5'


def write_question(folder: Path, symbols: str) -> Path:
    file = folder / "question.toml"
    file.write_text(
        'id = "far"\ntext = "How far is it?"\n[[axes]]\nfield = "km"\nunit = "km"\n'
        f"symbols = {{ {symbols} }}\n"
    )
    return file


def load_entries(folder: Path, wording: QuestionWording | None, *entries: str) -> list[int]:
    file = folder / "data.csv"
    file.write_text("\n".join(("km", *entries)) + "\n")
    column = load_column(file, "km", users=len(entries), max_value=20, wording=wording)
    return [int(value) for value in column.values]


def test_decimals_of_a_column_are_read_by_the_question(tmp_path: Path) -> None:
    wording = load_wording(write_question(tmp_path, RANGES), is_sum=False)
    assert load_entries(tmp_path, wording, "0.4", "0.5", "2.49", "2.5", "1000") == [0, 1, 1, 2, 2]
    with pytest.raises(UsageError, match=r"line 3: '-1' is not an answer to the question 'far'"):
        load_entries(tmp_path, wording, "1", "-1")


def test_without_words_the_entry_and_the_remedy_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 2: '2\.5' is not a whole number .*--words"):
        load_entries(tmp_path, None, "2.5")


@pytest.mark.parametrize(
    ("symbols", "words"),
    [
        ('kind = "ranges", edges = ["2", "1", "3"]', "edges must be in ascending order"),
        ('kind = "ranges", edges = ["1", "2.50", "3"]', "'2.50' is not a decimal such as 12.5"),
        ('kind = "other"', "Invalid value 'other'"),
        ('kind = "names", names = ["a"]', "names must be at least 2"),
    ],
)
def test_a_wrong_file_is_refused_with_its_reason(tmp_path: Path, symbols: str, words: str) -> None:
    with pytest.raises(UsageError, match="cannot be used") as refusal:
        load_wording(write_question(tmp_path, symbols), is_sum=False)
    assert words in str(refusal.value)


def test_a_sum_is_not_asked_in_ranges(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a sum needs one axis with a scale"):
        load_wording(write_question(tmp_path, RANGES), is_sum=True)


def test_a_report_and_the_exported_table_have_the_question(tmp_path: Path) -> None:
    wording = load_wording(write_question(tmp_path, SCALE), is_sum=True)
    draft = Draft(make_deployment(tmp_path / "keys"))
    final = make_certificate(draft.deployment, draft.mechanism, wording=wording)
    estimate = Estimate(
        quantity="sum", values=(40.0,), standard_errors=(4.0,), lows=(32.0,), highs=(48.0,),
        mean=2.0, mean_standard_error=0.2,
    )  # fmt: skip
    report = RoundReport("ab" * 16, 20, 20, 40, estimate, final, "sealed-box", {}, {})
    assert sentences.question(report).startswith("How far is it? (far; km: 18.5 to 20.5 km.)")
    # An rr-shuffle's liar: 4 steps of 0.5 km, debiased.
    shift = report.largest_shift(1)
    assert shift == pytest.approx(0.5 * float(largest_shift(final.mechanism, 1) or 0))
    assert report.to_dict()["largest_shift_by_one_liar"] == shift
    (sentence,) = sentences.liars(report)
    assert re.fullmatch(
        r"A device that lies can move the sum by at most [0-9.,]+ km; 10 of them, as many as the "
        r"guarantee allows for, by at most [0-9.,]+ km, which is [0-9.]+ km of the mean\.",
        sentence,
    )
    (row,) = rows_of(report)
    assert (row["question"], row["unit"]) == ("far", "km")
    assert (row["mean"], row["mean_standard_error"]) == (19.5, 0.1)
    numbers = [row[name] for name in ("estimate", "standard_error", "low_95", "high_95")]
    assert numbers == [390.0, 2.0, 386.0, 394.0]  # 20 x 18.5 km and 40 ± 4 (8) steps of 0.5 km
    assert str(row["time"]).startswith("2027-01-15T07:59:50")
