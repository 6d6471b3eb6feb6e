"""Answers of every kind over the dates of a campaign: tables, the page's summaries, pictures."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from campaigns import campaign_file
from matplotlib.figure import Figure

from shuffledp_core.errors import ConfigError
from shuffledp_ops.campaigns import pictures
from shuffledp_ops.campaigns.config import load_campaign
from shuffledp_ops.campaigns.results import DatedAnswer, table
from shuffledp_ops.campaigns.state import DateEntry, DateOutcome, RoundAttempt
from shuffledp_ops.results.saved import SavedAnswer

COMMON: dict[str, Any] = {
    "accepted": 400,
    "estimate": [100.0, 300.0],
    "standard_error": [3.0, 3.0],
    "interval_95": [[94.0, 294.0], [106.0, 306.0]],
    "epsilon": 1.0,
    "delta": 1e-6,
    "labels": ["0–1 h", "1–2 h"],
}
QUANTILES = [
    {"share": 0.1, "bin": 0, "low": 0, "high": 0, "names": ["0–1 h", "0–1 h", "0–1 h"]},
    {"share": 0.5, "bin": 1, "low": 0, "high": 1, "names": ["1–2 h", "0–1 h", "1–2 h"]},
]


def sums(**groups: float) -> dict[str, Any]:
    return {
        "unit": "EUR",
        "groups": [
            {
                "name": name,
                "value": value,
                "standard_error": 5.0,
                "low": value - 10,
                "high": value + 10,
            }
            for name, value in groups.items()
        ],
    }


def texts(**people: float) -> dict[str, Any]:
    return {
        "candidates": 9,
        "texts": [
            {"text": text, "people": number, "low": number - 5, "high": number + 5, "true": None}
            for text, number in people.items()
        ],
    }


KINDS: dict[str, tuple[list[dict[str, Any]], str, list[str], str]] = {
    "quantiles": (
        [{"quantiles": QUANTILES}, {"quantiles": QUANTILES}],
        "median 1–2 h (0–1 h to 1–2 h)",
        ["median", "10%"],
        "quantiles",
    ),
    "sums": (
        [{"totals": sums(DE=70.0, FR=20.0)}, {"totals": sums(DE=80.0, FR=30.0)}],
        "DE: sum 80 ± 5 EUR",
        ["DE", "FR"],
        "sum in EUR",
    ),
    "texts": (
        [{"open_list": texts(news=60.0, maps=20.0)}, {"open_list": texts(news=65.0)}],
        "news: 65 people (60 to 70)",
        ["news", "maps"],
        "people",
    ),
    "no texts": ([{"open_list": texts()}] * 2, "none of 9 texts is frequent", [], "people"),
    "counts": ([{}, {}], "1–2 h: 75.0% ± 0.8%", ["0–1 h", "1–2 h"], "% of reports"),
}


def rows_of(changes: list[dict[str, Any]]) -> list[DatedAnswer]:
    rows = []
    for number, change in enumerate(changes, start=1):
        answer = msgspec.convert(COMMON | change, SavedAnswer)
        attempt = RoundAttempt(round_id=f"{number:032x}", began_at=0, accepted=400)
        entry = DateEntry(
            question="q", number=number, at=0, outcome=DateOutcome.PUBLISHED, attempts=(attempt,)
        )
        rows.append(DatedAnswer(entry, datetime(2030, 3, number, tzinfo=UTC), answer))
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_summary_and_lines_over_time(kind: str) -> None:
    changes, summary, lines, label = KINDS[kind]
    rows = rows_of(changes)
    answer = rows[-1].answer
    assert answer is not None
    assert answer.summary() == summary
    axes = Figure().subplots()
    pictures._drawing_of(answer)(axes, rows)
    assert axes.get_legend_handles_labels()[1] == lines
    assert axes.get_ylabel().startswith(label)


def test_a_text_has_no_point_on_a_date_on_which_it_is_not_listed() -> None:
    axes = Figure().subplots()
    pictures._draw_texts(axes, rows_of(KINDS["texts"][0]))
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert np.array_equal(drawn["maps"], [20.0, np.nan], equal_nan=True)


def test_quantiles_are_named_at_the_axis() -> None:
    axes = Figure().subplots()
    pictures._draw_quantiles(axes, rows_of(KINDS["quantiles"][0]))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0–1 h", "1–2 h"]


@pytest.mark.parametrize(
    ("kind", "quantity", "labels", "numbers"),
    [
        ("quantiles", "quantile", ["10%: 0–1 h", "50%: 1–2 h"], 4),
        ("sums", "sum", ["DE", "FR"], 4),
        ("texts", "text", ["news", "maps"], 2),
    ],
)
def test_the_table_has_what_people_ask_for(
    kind: str, quantity: str, labels: list[str], numbers: int
) -> None:
    rows = list(csv.DictReader(table(rows_of(KINDS[kind][0][:1])).splitlines()))
    assert len(rows) == numbers
    assert [row["label"] for row in rows if row["quantity"] == quantity] == labels
    # The counts of an open list's hashes are no answer.
    assert sum(row["quantity"] == "count" for row in rows) == (0 if kind == "texts" else 2)


@pytest.mark.parametrize(
    "change",
    [
        {"quantiles": [QUANTILES[0] | {"bin": 2, "high": 1}]},
        {"quantiles": [QUANTILES[0] | {"share": 1.5}]},
        {"quantiles": [QUANTILES[0] | {"names": ["a" * 601] * 3}]},
        {"open_list": texts(news=1e300)},
        {"open_list": {"candidates": 1, "texts": [texts(a=1)["texts"][0] | {"text": "a" * 601}]}},
    ],
)
def test_numbers_and_names_that_no_round_has_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(COMMON | change, SavedAnswer)


OPEN = """
[questions.description]
ask = "strings"
of = "site"
[questions.description.fields.site]
text = true
bits = 4
"""
CANDIDATES = ("max_reports", 'candidates = "candidates.txt"\nmax_reports')


def test_candidates_belong_to_open_lists_and_may_change(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    unnamed = (("max_value = 3\n", ""), ('mechanism = "krr-histogram"\n', ""))
    without = load_campaign(campaign_file(tmp_path, keys, unnamed, question=OPEN))
    assert without.questions[0].mechanism == "node-columns"
    campaign = load_campaign(campaign_file(tmp_path, keys, (*unnamed, CANDIDATES), question=OPEN))
    assert campaign.questions[0].candidates == tmp_path / "candidates.txt"
    assert campaign.digest == without.digest
    with pytest.raises(ConfigError, match="candidates, which only an open list has"):
        load_campaign(campaign_file(tmp_path, keys, (CANDIDATES,)))
