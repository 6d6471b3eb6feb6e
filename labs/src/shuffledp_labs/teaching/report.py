"""The report of a lab as one HTML file: predictions beside results, picture, explanations, code,
points.

It is opened by somebody else than its author, so nothing in it is loaded or run: everything is in
the file, the author's words and code are escaped, and the page's own policy forbids scripts and
addresses.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from shuffledp.pages import self_contained
from shuffledp_labs.lab import CHECK_POINTS, EXPLANATION_POINTS, PREDICTION_POINTS
from shuffledp_labs.results import LabResult

PICTURE_BYTES: Final = 8 * 2**20
"""Of one picture; those that the labs draw have a hundredth of it."""

_KINDS: Final = {".png": ("image/png", b"\x89PNG\r\n\x1a\n"), ".svg": ("image/svg+xml", b"")}

_POLICY: Final = "; img-src data:; style-src-attr 'unsafe-inline'"
"""Beside the page's own style: its pictures, and how the cells of the author's tables are aligned.
"""

_JUDGED: Final = ("claim", "own numbers", "cause", "limit")
"""What an explanation is judged by, 5 points each over both."""

_OUTCOMES: Final = {
    "passed": "passed",
    "failed": "failed",
    "not-reached": "not reached",
    "left-out": "left out",
    "error": "error",
}


@dataclass(frozen=True)
class PredictedAnswer:
    """A question before the lab, and what was answered."""

    question: str
    answer: str


@dataclass(frozen=True)
class Report:
    """All that a report shows. `result` is None before the first `check`."""

    number: int
    title: str
    student: str
    titles: Mapping[str, str]
    result: LabResult | None
    predicted: Sequence[PredictedAnswer]
    prediction_points: int
    pictures: Sequence[Path]
    explained: str
    explanations: Sequence[str]
    source: str
    notes: Sequence[str] = field(default=())


def page(report: Report) -> str:
    """The whole file."""
    heading = f"Lab {report.number}: {report.title}"
    body = "\n".join(
        part
        for section in (
            _head(report),
            _predictions(report),
            _pictures(report),
            _explanations(report),
            _code(report),
        )
        for part in section
    )
    return self_contained(
        f"{heading}, {report.student}", _style(), f"<h1>{escape(heading)}</h1>\n{body}", _POLICY
    )


def _head(report: Report) -> Iterator[str]:
    result = report.result
    yield f'<p class="by">{escape(report.student)}</p>'
    for note in report.notes:
        yield f'<p class="note">{escape(note)}</p>'
    if result is None:
        yield '<p class="note">No check has run yet: <code>shuffledp lab check</code>.</p>'
        return
    points = report.prediction_points + sum(check.points for check in result.checks)
    most = PREDICTION_POINTS + (result.possible if result.partial else CHECK_POINTS)
    by_a_person = EXPLANATION_POINTS * len(report.explanations)
    yield (
        f'<p class="total"><strong>{points}</strong> of {most}, and up to {by_a_person} by a '
        f"person</p>"
    )
    yield "<table><thead><tr>"
    yield "<th>check</th><th>asked</th><th>points</th><th></th></tr></thead><tbody>"
    yield _row(
        "A", "Predictions made before the lab", report.prediction_points, PREDICTION_POINTS, "", ""
    )
    for check in result.checks:
        yield _row(
            check.name,
            report.titles.get(check.name, ""),
            check.points,
            check.of,
            check.outcome,
            check.message or "",
        )
    yield "</tbody></table>"
    yield (
        f'<p class="fine">Instance {escape(result.nonce)}, work.py '
        f"{escape(result.digest[:16])}.</p>"
    )


def _row(name: str, title: str, points: int, of: int, outcome: str, observation: str) -> str:
    message_html = f'<div class="said">{_with_code(observation)}</div>' if observation else ""
    badge = (
        f'<span class="{escape(outcome)}">{escape(_OUTCOMES.get(outcome, outcome))}</span>'
        if outcome
        else ""
    )
    return (
        f"<tr><th scope='row'>{escape(name)}</th><td>{_with_code(title)}{message_html}</td>"
        f"<td class='points'>{points}/{of}</td><td>{badge}</td></tr>"
    )


def _predictions(report: Report) -> Iterator[str]:
    if not report.predicted:
        return
    yield '<h2>Predicted, and found</h2><div class="beside">'
    yield "<table><thead><tr><th>question</th><th>before the lab</th></tr></thead><tbody>"
    for prediction in report.predicted:
        answer = escape(prediction.answer) or "<em>nothing</em>"
        yield f"<tr><td>{_with_code(prediction.question)}</td><td>{answer}</td></tr>"
    yield (
        "</tbody></table><table><thead><tr><th colspan='2'>what the checks "
        "saw</th></tr></thead><tbody>"
    )
    for check in report.result.checks if report.result else ():
        if check.outcome in {"passed", "failed"}:
            yield (
                f"<tr><th "
                f"scope='row'>{escape(check.name)}</th><td>{_with_code(check.message)}</td></tr>"
            )
    yield "</tbody></table></div>"


def _with_code(words: str) -> str:
    """Escaped words, with what stands between two backticks as code, as a terminal's reader takes
    it.
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def _pictures(report: Report) -> Iterator[str]:
    shown = [(file, data_address(file)) for file in report.pictures]
    if any(data for _, data in shown):
        yield "<h2>Picture</h2>"
    for file, data in shown:
        if data:
            yield f'<figure><img src="{data}" alt="{escape(file.stem)}, drawn by the run"></figure>'


def _explanations(report: Report) -> Iterator[str]:
    yield "<h2>Explanations</h2>"
    yield (
        "<ol>"
        + "".join(f"<li>{_with_code(question)}</li>" for question in report.explanations)
        + "</ol>"
    )
    yield f'<div class="words">{as_html(report.explained)}</div>'
    boxes = "".join(f"<td>{name}: <span class='box'></span> / 5</td>" for name in _JUDGED)
    yield f'<table class="judged"><tbody><tr>{boxes}</tr></tbody></table>'


def _code(report: Report) -> Iterator[str]:
    yield "<h2>work.py</h2>"
    yield highlight_source(report.source)


def data_address(file: Path) -> str:
    """A picture as an address that holds it, empty for what is none or too large."""
    kind = _KINDS.get(file.suffix.lower())
    try:
        data = (
            file.read_bytes()
            if kind and not file.is_symlink() and file.stat().st_size <= PICTURE_BYTES
            else b""
        )
    except OSError:
        return ""
    if not kind or not data.startswith(kind[1]) or not data:
        return ""
    return f"data:{kind[0]};base64,{base64.b64encode(data).decode()}"


def as_html(words: str) -> str:
    """Markdown as HTML: without HTML of its own, and without pictures, which would be loaded from
    elsewhere.
    """
    from markdown_it import MarkdownIt

    rendered: Any = (
        MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
    )
    return str(rendered.render(words))


def highlight_source(source: str) -> str:
    """A program with line numbers and coloured words."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    formatter: Any = HtmlFormatter(
        linenos="inline", linespans="line", cssclass="code", wrapcode=True
    )
    return str(highlight(source, PythonLexer(), formatter))


def _style() -> str:
    return files("shuffledp_labs.teaching.exports").joinpath("files", "report.css").read_text()
