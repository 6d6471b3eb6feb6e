"""Report parts for several fields that are counted separately: sentence and charts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shuffledp.pages import as_html
from shuffledp_core.mechanisms import MECHANISMS
from shuffledp_ops.rounds import charts
from shuffledp_ops.rounds.report import RoundReport


@dataclass(frozen=True)
class CountedField:
    """A field, with the position of its counts among all numbers of the answer."""

    name: str
    labels: tuple[str, ...]
    places: slice


def fields_of(report: RoundReport) -> list[CountedField]:
    """The fields of a question that counts each separately; none for any other question."""
    words = report.final.question_wording
    if words is None or words.is_open or len(words.axes) < 2:
        return []
    if not MECHANISMS[report.final.mechanism.kind].counts_columns:
        return []
    fields = []
    start = 0
    for axis in words.axes:
        size = axis.symbols.size
        labels = tuple(axis.symbols.name(symbol, axis.unit) for symbol in range(size))
        fields.append(CountedField(axis.field, labels, slice(start, start + size)))
        start += size
    return fields


def in_a_sentence(report: RoundReport, fields: list[CountedField]) -> str:
    """The most frequent value of each field, as HTML."""
    parts = []
    for field in fields:
        values = report.answer.values[field.places]
        top = max(range(len(values)), key=values.__getitem__)
        value = charts.figure(values[top])
        name = f"<strong>{as_html(field.labels[top])}</strong>"
        parts.append(f"{as_html(field.name)}: {name} (about {value})")
    return f"Most frequent of {report.accepted:,} people: {'; '.join(parts)}."


def draw_fields(report: RoundReport, fields: list[CountedField], legend: str) -> Iterator[str]:
    """A chart for each field, as HTML."""
    answer, truths = report.answer, report.true_answer
    for field in fields:
        bars = charts.Bars(
            field.labels,
            answer.values[field.places],
            answer.lows[field.places],
            answer.highs[field.places],
            None if truths is None else truths[field.places],
            named=True,
        )
        title = f"Estimated number of people for each value of {field.name}, with 95% intervals"
        yield f"<h3>{as_html(field.name)}</h3><figure>{charts.histogram(bars, title)}"
        yield f'<figcaption class="legend">{legend}</figcaption></figure>'
