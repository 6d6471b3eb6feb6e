"""Pages of docs/how-to that a first-time user types from their first line to the last."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typed_pages import processes_of, stopped_after, type_page

pytestmark = pytest.mark.slow


def test_a_column_of_a_file_is_asked_for_with_and_without_a_round(tmp_path: Path) -> None:
    typed = type_page("how-to/own-data.md", tmp_path)
    assert typed.boxes == 5
    assert "users drawn with replacement from 6 rows" in typed.said
    assert "on foot" in typed.said
    reports = sorted((tmp_path / "out").glob("*/report.html"))
    assert len(reports) == 4 + 1, "four rounds, and the link to the newest"
    assert any("bicycle" in report.read_text() for report in reports)
    assert "2.5–10 km" in typed.said
    assert any("How far is it to your work?" in report.read_text() for report in reports)
    assert "quantised-rr: sum over 1,000 users" in typed.said
    assert "Sum of 0..99" in typed.said


def test_people_are_counted_by_group(tmp_path: Path) -> None:
    typed = type_page("how-to/ask-by-group.md", tmp_path)
    assert typed.said.count("The answer: table over 1,000 users") == 2
    assert "hours-by-age" in "".join(
        report.read_text() for report in (tmp_path / "out").glob("*/report.html")
    )
    assert "4 x 3 cells" in typed.said
    assert "elsewhere, or no answer" in typed.said


def test_frequent_texts_are_found_among_candidates(tmp_path: Path) -> None:
    typed = type_page("how-to/open-lists.md", tmp_path)
    assert "4 candidates were looked up" in typed.said
    assert "news.example" in typed.said


def test_percentiles_are_those_of_people_with_a_value(tmp_path: Path) -> None:
    typed = type_page("how-to/percentiles.md", tmp_path)
    assert "Take node-tree: the least error" in typed.said
    assert "node-tree: quantiles over 10,000 users" in typed.said
    assert "The answer: quantiles over 1,000 users" in typed.said
    report = (tmp_path / "out" / "latest" / "report.html").read_text()
    assert "are counted as “no answer”" in report


def test_a_value_of_unknown_range_is_added_up(tmp_path: Path) -> None:
    typed = type_page("how-to/totals.md", tmp_path)
    assert "node-histogram: sum over 10,000 users" in typed.said
    assert "The answer: sum over 1,000 users" in typed.said
    assert "EUR count in full" in typed.said
    reports = [report.read_text() for report in (tmp_path / "out").glob("*/report.html")]
    assert any("How much did you spend in the app last month?" in report for report in reports)


def test_people_are_shown_on_a_map(tmp_path: Path) -> None:
    typed = type_page("how-to/maps.md", tmp_path)
    assert "5 x 6 cells" in typed.said or "not on the map" in typed.said
    assert (tmp_path / "out" / "latest" / "map.geojson").exists()
    assert 'class="chart map wide"' in (tmp_path / "out" / "latest" / "report.html").read_text()


def test_two_people_are_added_one_is_withdrawn_and_the_results_are_exported(tmp_path: Path) -> None:
    with stopped_after(tmp_path / "lab") as lab:
        admitted = type_page("how-to/people.md", tmp_path)
        assert admitted.said.count("receipt of node-1 kept") == 5 + 4
        assert admitted.said.count("The answer: histogram") == 2
        assert list((lab / "keys" / "clients").glob("*.bundle")) == []
        assert (tmp_path / "alice" / "client.toml").is_file()
        fetched = type_page("how-to/results.md", tmp_path)
        assert fetched.said.count("published") >= 2
        assert (tmp_path / "fetched" / "latest" / "report.html").is_file()
        with (tmp_path / "all.csv").open(newline="") as stream:
            reports = [row["reports"] for row in csv.DictReader(stream)]
        assert reports == ["4"] * 5 + ["5"] * 5
        assert processes_of(lab) == []


def test_a_campaign_of_three_weeks_is_planned_and_run(tmp_path: Path) -> None:
    with stopped_after(tmp_path / "lab") as lab:
        typed = type_page("how-to/campaign.md", tmp_path)
        assert typed.said.count(": published") == 2 * 3
        out = tmp_path / "out" / "campaign-weekly"
        assert (out / "index.html").read_text().count(">report</a>") == 2 * 3
        assert {file.name for file in out.glob("*.csv")} == {"hours.csv", "visits.csv"}
        assert processes_of(lab) == []
