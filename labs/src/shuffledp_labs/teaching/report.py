"""`lab report` and `lab viva`: a student's folder as one HTML file, and questions about it.

The folder may be one's own or a submission. The page shows predictions next to results, picture,
explanations, code and points. It is opened by people other than its author, so it loads and runs
nothing: everything is in the file, the author's words and code are escaped, and the page's own
policy forbids scripts and addresses.
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
from shuffledp_core.errors import OutputError
from shuffledp_core.runtime.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.lab import CHECK_POINTS, EXPLANATION_POINTS, PREDICTION_POINTS, Lab
from shuffledp_labs.predictions import (
    FILE,
    RECORD,
    digest_of,
    load_record,
    prediction_points,
    predictions_of,
)
from shuffledp_labs.reading import read_bounded
from shuffledp_labs.results import LabResult, read_result
from shuffledp_labs.student.source import digest_of_program, read_source
from shuffledp_labs.teaching.starting import PARTIAL, RESULT, find
from shuffledp_labs.teaching.viva import VivaQuestion, viva

PICTURE_BYTES: Final = 8 * 2**20
"""Of one picture; those that the labs draw have a hundredth of it."""

_KINDS: Final = {".png": ("image/png", b"\x89PNG\r\n\x1a\n"), ".svg": ("image/svg+xml", b"")}

WORDS_BYTES: Final = 2**20
"""Most bytes of report.md or work.py that a report shows."""

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
    """A question before the lab, and the student's answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class Report:
    """Everything that a report shows. `result` is None before the first `check`."""

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
    """The report as a whole HTML file."""
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
    yield '<h2>Predictions, and what the checks saw</h2><div class="beside">'
    yield "<table><thead><tr><th>question</th><th>before the lab</th></tr></thead><tbody>"
    for prediction in report.predicted:
        answer = escape(prediction.answer) or "<em>nothing</em>"
        yield f"<tr><td>{_with_code(prediction.question)}</td><td>{answer}</td></tr>"
    yield (
        "</tbody></table><table><thead><tr><th>check</th><th>what it saw</th></tr></thead><tbody>"
    )
    for check in report.result.checks if report.result else ():
        if check.outcome in {"passed", "failed"}:
            yield (
                "<tr><th "
                f"scope='row'>{escape(check.name)}</th><td>{_with_code(check.message)}</td></tr>"
            )
    yield "</tbody></table></div>"


def _with_code(words: str) -> str:
    """Escape text, and format words between backticks as code."""
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
    """A picture as a data URL; "" if there is none or it is too large."""
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
    """Render Markdown without raw HTML and without pictures, which browsers would load."""
    from markdown_it import MarkdownIt

    rendered: Any = (
        MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
    )
    return str(rendered.render(words))


def highlight_source(source: str) -> str:
    """A program as HTML, with line numbers and highlighted syntax."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    formatter: Any = HtmlFormatter(
        linenos="inline", linespans="line", cssclass="code", wrapcode=True
    )
    return str(highlight(source, PythonLexer(), formatter))


def _style() -> str:
    return files("shuffledp_labs.teaching.exports").joinpath("files", "report.css").read_text()


def write_report(number: int, folder: Path | None, result: Path | None, to: Path | None) -> Path:
    """Write the report of a folder; return its path."""
    work_folder = _work_folder(number, folder)
    file = to or work_folder / "report.html"
    text = page(
        report_of(
            lab_of(number), work_folder, _result(work_folder, result), work_folder.resolve().name
        )
    )
    try:
        write_atomic(file, text.encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror}; give another place with --to"
        ) from error
    return file


def report_of(lab: Lab, work_folder: Path, result: LabResult | None, student: str) -> Report:
    """Collect everything that the report of a folder shows."""
    answers = predictions_of(lab, work_folder)
    return Report(
        number=lab.number,
        title=lab.title,
        student=result.student if result and result.student else student,
        titles={check.name: check.title for check in lab.checks},
        result=result,
        predicted=[
            PredictedAnswer(
                prediction.question, _with_unit(answers.get(prediction.key), prediction.unit)
            )
            for prediction in lab.predictions
        ],
        prediction_points=prediction_points(lab, work_folder),
        pictures=sorted((work_folder / "out").glob("*.png")),
        explained=_words(work_folder / "report.md"),
        explanations=lab.explanations,
        source=_listing(work_folder / "work.py"),
        notes=_notes(work_folder, result),
    )


def viva_of(
    number: int, folder: Path | None, result: Path | None
) -> tuple[VivaQuestion, VivaQuestion, VivaQuestion]:
    """The three oral-exam questions about the last run in a student's folder."""
    lab = lab_of(number)
    work_folder = _work_folder(number, folder)
    last_result = _result(work_folder, result)
    if last_result is None:
        raise LabUsageError(
            f"{work_folder / RESULT} does not exist, and the questions are about a run: run "
            "`shuffledp lab check` first"
        )
    answers = predictions_of(lab, work_folder)
    answered_predictions = [
        (prediction.question, _with_unit(answers[prediction.key], prediction.unit))
        for prediction in lab.predictions
        if prediction.key in answers
    ]
    titles = {check.name: check.title for check in lab.checks}
    return viva(
        last_result,
        titles,
        answered_predictions,
        _words(work_folder / "work.py"),
        lab.file("work.py").read_text(),
    )


def _work_folder(number: int, folder: Path | None) -> Path:
    # A folder that was handed in may have lost its mark, which has a name that many programs leave
    # out.
    if folder is not None and (folder / "work.py").is_file():
        return folder
    return find(number, folder).path


def _result(work_folder: Path, result: Path | None) -> LabResult | None:
    if result is not None:
        return read_result(result)
    files = (work_folder / name for name in (RESULT, PARTIAL) if (work_folder / name).is_file())
    return next(map(read_result, files), None)


def _notes(work_folder: Path, result: LabResult | None) -> list[str]:
    notes = []
    if result is not None and _changed_program(work_folder / "work.py", result):
        notes.append(
            "work.py has been changed since this run: check again, so that code and points belong "
            "together."
        )
    if result is not None and not result.finished:
        notes.append("This run was broken off; the checks that are not listed have not run.")
    if result is not None and result.partial:
        notes.append(
            f"A partial run: its checks give {result.possible} of {CHECK_POINTS} points. Run all "
            f"of them, by shuffledp lab check {result.lab}."
        )
    if _changed_predictions(work_folder):
        notes.append(
            "predict.toml was changed after the first run; what is shown are the predictions "
            "before it."
        )
    return notes


def _changed_program(work: Path, result: LabResult) -> bool:
    try:
        return digest_of_program(work) != result.digest
    except (LabUsageError, OSError):
        return True


def _changed_predictions(work_folder: Path) -> bool:
    try:
        return (work_folder / RECORD).is_file() and load_record(work_folder).get(
            "digest"
        ) != digest_of(work_folder / FILE)
    except (LabUsageError, OSError):
        return False


def _with_unit(answer: object, unit: str) -> str:
    return "" if answer is None else f"{answer} {unit}".strip()


def _listing(work: Path) -> str:
    """The whole program, as far as it is readable."""
    try:
        return read_source(work).listing
    except LabUsageError:
        return _words(work)


def _words(file: Path) -> str:
    try:
        return "" if file.is_symlink() else read_bounded(file, WORDS_BYTES).decode(errors="replace")
    except OSError:
        return ""
