"""Report parts for an open list: sentence, chart and table of frequent texts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shuffledp import open_lists
from shuffledp.pages import as_html
from shuffledp_core.answering.strings import OpenListAnswer
from shuffledp_ops.rounds import charts
from shuffledp_ops.rounds.report import RoundReport

BARS: Final = 30
"""Most texts of the chart; the table has all."""

MOST_ROWS: Final = 1000
"""Most texts of the table; `texts.csv` has all."""


def in_a_sentence(report: RoundReport) -> str:
    """The most frequent text with its interval, as HTML."""
    answer = report.open_list
    if answer is None:
        return f"No candidates were looked up yet: <code>{as_html(open_lists.COMMAND)}</code>."
    if not answer.texts:
        return f"None of the {answer.candidates:,} candidates is frequent enough to be listed."
    top = answer.texts[0]
    numbers = [charts.figure(number) for number in (top.people, top.low, top.high)]
    return (
        f"Most frequent: <strong>{as_html(top.text)}</strong>: about {numbers[0]} of "
        f"{report.accepted:,} people (95% interval {numbers[1]} to {numbers[2]})."
    )


def remarks(report: RoundReport) -> Iterator[str]:
    """Remarks on the listed texts, as plain text."""
    if report.open_list is not None:
        yield from open_lists.remarks(report.open_list)


def chart_and_table(report: RoundReport, legend: str) -> Iterator[str]:
    """The listed texts as bars and as a table; nothing if none is listed."""
    answer = report.open_list
    if answer is None or not answer.texts:
        return
    yield f'<figure>{_chart(answer)}<figcaption class="legend">{legend}</figcaption></figure>'
    headings = ["text", "people", "95% interval"]
    is_simulated = _truths(answer) is not None
    if is_simulated:
        headings.append("true")
    cells = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    yield f'<table class="numbers"><thead><tr>{cells}</tr></thead><tbody>'
    for text in answer.texts[:MOST_ROWS]:
        data = f"<td>{text.people:,.0f}</td><td>{text.low:,.0f} to {text.high:,.0f}</td>"
        if is_simulated:
            data += f"<td>{text.true:,}</td>"
        yield f'<tr><th scope="row">{as_html(text.text)}</th>{data}</tr>'
    yield "</tbody></table>"


def _chart(answer: OpenListAnswer) -> str:
    texts = answer.texts[:BARS]
    truths = _truths(answer)
    bars = charts.Bars(
        [text.text for text in texts],
        [text.people for text in texts],
        [text.low for text in texts],
        [text.high for text in texts],
        None if truths is None else truths[:BARS],
        named=True,
    )
    return charts.histogram(bars, "Estimated number of people for each text, with 95% intervals")


def _truths(answer: OpenListAnswer) -> list[float] | None:
    """True counts of the listed texts, in a simulation; otherwise None."""
    truths = [float(text.true) for text in answer.texts if text.true is not None]
    return truths if len(truths) == len(answer.texts) else None
