"""`lab report` and `lab viva`: reads a student's folder, which may be one's own or one that was
handed in.
"""

from __future__ import annotations

from pathlib import Path

from shuffledp_core.errors import OutputError
from shuffledp_core.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.lab import CHECK_POINTS, Lab
from shuffledp_labs.predictions import FILE, KEPT, digest_of, kept_of
from shuffledp_labs.reading import read_bounded
from shuffledp_labs.results import LabResult, read_result
from shuffledp_labs.student.source import digest_of_program, read_source
from shuffledp_labs.teaching.grading_one import prediction_points, predictions_of
from shuffledp_labs.teaching.report import Predicted, Report, page
from shuffledp_labs.teaching.starting import PARTIAL, RESULT, find
from shuffledp_labs.teaching.viva import Question, viva

WORDS_BYTES = 2**20
"""Of report.md or work.py."""


def write_report(number: int, folder: Path | None, result: Path | None, to: Path | None) -> Path:
    """Writes the report of a folder, and says where."""
    place = _place(number, folder)
    file = to or place / "report.html"
    text = page(report_of(lab_of(number), place, _result(place, result), place.resolve().name))
    try:
        write_atomic(file, text.encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror}; give another place with --to"
        ) from error
    return file


def report_of(lab: Lab, place: Path, result: LabResult | None, student: str) -> Report:
    """All that a report shows of a folder."""
    made = predictions_of(lab, place)
    return Report(
        number=lab.number,
        title=lab.title,
        student=result.student if result and result.student else student,
        titles={check.name: check.title for check in lab.checks},
        result=result,
        predicted=[
            Predicted(one.question, _shown(made.get(one.key), one.unit)) for one in lab.predictions
        ],
        prediction_points=prediction_points(lab, place),
        pictures=sorted((place / "out").glob("*.png")),
        explained=_words(place / "report.md"),
        explanations=lab.explanations,
        source=_listing(place / "work.py"),
        notes=_notes(place, result),
    )


def viva_of(
    number: int, folder: Path | None, result: Path | None
) -> tuple[Question, Question, Question]:
    """The questions on a folder."""
    lab, place = lab_of(number), _place(number, folder)
    found = _result(place, result)
    if found is None:
        raise LabUsageError(
            f"{place / RESULT} is not there: the questions are about a run, so run `shuffledp lab "
            f"check`"
        )
    made = predictions_of(lab, place)
    told = [
        (one.question, _shown(made[one.key], one.unit))
        for one in lab.predictions
        if one.key in made
    ]
    titles = {check.name: check.title for check in lab.checks}
    return viva(found, titles, told, _words(place / "work.py"), lab.file("work.py").read_text())


def _place(number: int, folder: Path | None) -> Path:
    # A folder that was handed in may have lost its mark, which has a name that many programs leave
    # out.
    if folder is not None and (folder / "work.py").is_file():
        return folder
    return find(number, folder).path


def _result(place: Path, result: Path | None) -> LabResult | None:
    if result is not None:
        return read_result(result)
    found = (place / name for name in (RESULT, PARTIAL) if (place / name).is_file())
    return next(map(read_result, found), None)


def _notes(place: Path, result: LabResult | None) -> list[str]:
    notes = []
    if result is not None and _changed_program(place / "work.py", result):
        notes.append(
            "work.py has been changed since this run: check again, so that code and points belong "
            "together."
        )
    if result is not None and not result.finished:
        notes.append("This run was broken off; the checks that are not listed have not run.")
    if result is not None and result.partial:
        notes.append(
            f"A partial run: its checks give {result.possible} of {CHECK_POINTS} points. Run all "
            f"of them, by "
            f"shuffledp lab check {result.lab}."
        )
    if _changed_predictions(place):
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


def _changed_predictions(place: Path) -> bool:
    try:
        return (place / KEPT).is_file() and kept_of(place).get("digest") != digest_of(place / FILE)
    except (LabUsageError, OSError):
        return False


def _shown(answer: object, unit: str) -> str:
    return "" if answer is None else f"{answer} {unit}".strip()


def _listing(work: Path) -> str:
    """The whole program, as far as it can be read."""
    try:
        return read_source(work).listing
    except LabUsageError:
        return _words(work)


def _words(file: Path) -> str:
    try:
        return "" if file.is_symlink() else read_bounded(file, WORDS_BYTES).decode(errors="replace")
    except OSError:
        return ""
