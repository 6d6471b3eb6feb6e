"""The results of a campaign so far: tables, pictures and a page, regenerated after each date."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from shuffledp.pages import as_html, self_contained
from shuffledp_core.errors import NotInstalledError, OutputError
from shuffledp_core.runtime.files import size_of, write_atomic
from shuffledp_ops.campaigns.config import Campaign, CampaignQuestion, zone_named
from shuffledp_ops.campaigns.state import ROUNDS, CampaignState, DateEntry
from shuffledp_ops.results import saved
from shuffledp_ops.results.saved import SavedAnswer
from shuffledp_ops.rounds.page import PAGE
from shuffledp_ops.rounds.reading import MOST_BYTES

INDEX: Final = "index.html"

COLUMNS: Final = (
    "name", "number", "date", "outcome", "tries", "spent", "error", "report", *saved.COLUMNS
)  # fmt: skip
"""Of a question's table: those of the campaign, then those of every exported answer.

`name` is the question's in the campaign's file. `epsilon` is certified for the reports that
arrived, `spent` is the population's so far.
"""


@dataclass(frozen=True)
class DatedAnswer:
    """One date of a question, with its answer if it has one whose folder still exists."""

    entry: DateEntry
    when: datetime
    answer: SavedAnswer | None


def dated_answers(
    campaign: Campaign, question: CampaignQuestion, state: CampaignState, folder: Path
) -> list[DatedAnswer]:
    """The dates of a question in ascending order, in the question's time zone."""
    zone = zone_named(campaign.schedule_of(question).zone)
    return [
        DatedAnswer(entry, datetime.fromtimestamp(entry.at / 1000, zone), _answer(entry, folder))
        for entry in state.entries
        if entry.question == question.name
    ]


def _answer(entry: DateEntry, folder: Path) -> SavedAnswer | None:
    if entry.last is None or entry.last.accepted is None:
        return None
    file = folder / ROUNDS / entry.last.round_id / "report.json"
    if size_of(file) > MOST_BYTES:
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=SavedAnswer)
    except (
        OSError,
        msgspec.DecodeError,
    ):  # moved or damaged; `shuffledp results show` refetches it
        return None


def write_results(campaign: Campaign, state: CampaignState, folder: Path) -> None:
    """Writes a table and a picture for each question, and the page, each file atomically.

    Raises `OutputError`.
    """
    from shuffledp_ops.campaigns.pictures import draw_answers

    try:
        for question in campaign.questions:
            rows = dated_answers(campaign, question, state, folder)
            write_atomic(folder / f"{question.name}.csv", table(rows).encode())
            with suppress(NotInstalledError):  # without matplotlib there is no picture
                write_atomic(folder / f"{question.name}.png", draw_answers(question, rows))
        write_atomic(folder / INDEX, page(campaign, state, folder).encode())
    except OSError as error:
        raise OutputError(
            f"cannot write the tables of {folder}: {error.strerror}; free space, and run again"
        ) from error


def table(rows: Sequence[DatedAnswer]) -> str:
    """The answers of a question as CSV: a row for each date, or for each value of a histogram."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells for row in rows for cells in _csv_rows(row))
    return text.getvalue()


def _csv_rows(row: DatedAnswer) -> Iterator[dict[str, object]]:
    entry, answer, last = row.entry, row.answer, row.entry.last
    shared: dict[str, object] = {
        "name": entry.question,
        "number": entry.number,
        "date": row.when.isoformat(),
        "outcome": entry.outcome.value,
        "tries": len(entry.attempts),
    }
    if last is not None:
        shared |= {"round": last.round_id, "spent": last.spent, "error": last.error}
    if answer is None or last is None:
        yield shared
        return
    shared["report"] = f"{ROUNDS}/{last.round_id}/{PAGE}"
    yield from ({**cells, **shared} for cells in answer.rows())


def page(campaign: Campaign, state: CampaignState, folder: Path) -> str:
    """The campaign as one HTML page: pictures, and a table of all dates with links to reports."""
    parts = [f"<header><h1>Campaign {as_html(campaign.name)}</h1></header>"]
    if state.stopped is not None:
        parts.append(f'<p class="note">Stopped: {as_html(state.stopped)}</p>')
    parts += [*_picture(folder / "budget.png", "The budget over all dates, as it was planned")]
    for question in campaign.questions:
        parts.append(f"<section><h2>{as_html(question.name)}: {as_html(question.subject)}</h2>")
        parts += _picture(
            folder / f"{question.name}.png", f"The answers to {question.name} over time"
        )
        parts.append('<table class="numbers"><thead><tr>')
        parts += [
            f"<th>{head}</th>"
            for head in ("date", "outcome", "answer", "reports", "ε certified", "ε spent", "")
        ]
        parts.append("</tr></thead><tbody>")
        parts += [_html_row(row) for row in dated_answers(campaign, question, state, folder)]
        link = as_html(f"{question.name}.csv")
        parts.append(
            f'</tbody></table><p class="fine">{_HINT}</p>'
            f'<p><a href="{link}">All numbers: {link}</a></p></section>'
        )
    return self_contained(f"Campaign {campaign.name}", _STYLE, "\n".join(parts), "; img-src data:")


def _html_row(row: DatedAnswer) -> str:
    last, answer = row.entry.last, row.answer
    error = f": {last.error}" if last is not None and last.error else ""
    link = (
        ""
        if last is None or answer is None
        else f'<a href="{ROUNDS}/{last.round_id}/{PAGE}">report</a>'
    )
    cells = (
        f"{row.entry.outcome}{error}",
        "" if answer is None else answer.summary(),
        "" if answer is None else f"{answer.accepted:,}",
        "" if answer is None or answer.epsilon is None else f"{answer.epsilon:.4g}",
        "" if last is None or last.spent is None else f"{last.spent:.4g}",
    )
    columns = "".join(f"<td>{as_html(cell)}</td>" for cell in cells)
    return f"<tr><th>{row.when:%Y-%m-%d %H:%M}</th>{columns}<td>{link}</td></tr>"


def _picture(file: Path, words: str) -> Iterator[str]:
    try:
        data = base64.b64encode(file.read_bytes()).decode()
    except OSError:
        return
    yield f'<figure><img alt="{as_html(words)}" src="data:image/png;base64,{data}"></figure>'


_HINT: Final = (
    "Answers are estimates ± one standard error, or with their 95% interval in parentheses; of a "
    "histogram or an open list, the most frequent value is shown, of several sums the largest. "
    "Unbiased estimates can be negative or exceed the total; intervals are clipped to possible "
    "values. ε certified is a proved upper bound for one round; ε spent is the bound for all "
    "rounds of these people so far."
)

_STYLE: Final = """
img { width: 100%; max-width: 36rem; height: auto; background: #fff; border-radius: 4px; }
@media screen and (prefers-color-scheme: dark) { img { filter: invert(.9) hue-rotate(180deg); } }
.numbers td, .numbers th {
  font-variant-numeric: tabular-nums; text-align: right; padding: .2rem .6rem;
}
.numbers tbody th { font-weight: 600; }
.numbers tbody * { white-space: nowrap; }
@media screen and (max-width: 40em) { .numbers { display: block; overflow-x: auto; } }
"""
