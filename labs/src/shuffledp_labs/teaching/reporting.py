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
from shuffledp_labs.predictions import FILE, RECORD, digest_of, load_record
from shuffledp_labs.reading import read_bounded
from shuffledp_labs.results import LabResult, read_result
from shuffledp_labs.student.source import digest_of_program, read_source
from shuffledp_labs.teaching.grading_one import prediction_points, predictions_of
from shuffledp_labs.teaching.report import PredictedAnswer, Report, page
from shuffledp_labs.teaching.starting import PARTIAL, RESULT, find
from shuffledp_labs.teaching.viva import VivaQuestion, viva

WORDS_BYTES = 2**20
"""Of report.md or work.py."""


def write_report(number: int, folder: Path | None, result: Path | None, to: Path | None) -> Path:
    """Writes the report of a folder, and says where."""
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
    """All that a report shows of a folder."""
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
    """The questions on a folder."""
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
            f"of them, by "
            f"shuffledp lab check {result.lab}."
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
