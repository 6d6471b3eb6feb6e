"""Grades the submissions of a class: each in a process of its own, several at a time.

Whatever a submission does to its grader, it does to that process alone: the class goes on, and the
row of the submission says what happened. What has been graded is not graded again unless a file of
it changed, so a run that was broken off is continued by the same command.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from shuffledp_core.errors import OutputError
from shuffledp_core.files import make_folder, write_atomic
from shuffledp_labs.lab import PREDICTION_POINTS, Lab
from shuffledp_labs.results import LabResult
from shuffledp_labs.teaching.apart import Apart
from shuffledp_labs.teaching.exports.gradescope import results_json
from shuffledp_labs.teaching.exports.table import TableRow, table
from shuffledp_labs.teaching.submissions import StudentSubmission

RESULT: Final = "result.json"
GRADED: Final = "graded.json"
FOR_GRADESCOPE: Final = "results.json"
TABLE: Final = "results.csv"

SPARE_SECONDS: Final = 60.0
"""Beyond the limits of all checks: for the start of the process and of its sandboxes."""


class GradedMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a grading that came to its end leaves beside the result: of which files, and points of
    predictions.
    """

    digest: str
    predictions: int
    system: bool
    trouble: str = ""


@dataclass(frozen=True)
class Grading:
    """How a class is graded.

    Attributes:
        lab: which.
        key: of the course.
        out: folder of the results, one folder a student, and the table.
        nonce: the instance to repeat, None for a fresh one each.
        system: whether checks with a running system are done, too.
        again: grade even what has been graded and not changed.
    """

    lab: Lab
    key: bytes
    out: Path
    nonce: str | None = None
    system: bool = True
    again: bool = False

    @property
    def seconds(self) -> float:
        """Limit for one submission."""
        return SPARE_SECONDS + sum(
            check.seconds for check in self.lab.checks if self.system or not check.system
        )


def grade(
    grading: Grading,
    submissions: Sequence[StudentSubmission],
    jobs: int,
    progress: Callable[[int, int], None],
) -> tuple[TableRow, ...]:
    """Grades all of them, `jobs` at a time, and writes the table after each.

    `progress` hears how many are done.

    After an interruption nothing of it is left running, and what was done is written.
    """
    make_folder(grading.out)
    rows: list[TableRow] = []
    running = Apart()
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="grading") as pool:
        waiting: set[Future[TableRow]] = {
            pool.submit(_grade_safely, grading, submission, running) for submission in submissions
        }
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                rows += [future.result() for future in done]
                _write_table(grading, rows)
                progress(len(rows), len(submissions))
        finally:
            for future in waiting:
                future.cancel()
            running.end()
    return tuple(rows)


def _grade_safely(grading: Grading, submission: StudentSubmission, running: Apart) -> TableRow:
    try:
        return _grade_submission(grading, submission, running)
    except OSError as error:
        return TableRow(submission.student, None, trouble=f"cannot be graded: {error}")
    except Exception as error:  # noqa: BLE001 - whatever one submission brings about, the class is graded
        return TableRow(
            submission.student, None, trouble=f"cannot be graded: {type(error).__name__}: {error}"
        )


def _grade_submission(grading: Grading, submission: StudentSubmission, running: Apart) -> TableRow:
    folder = grading.out / submission.student
    if submission.folder is None:
        return TableRow(submission.student, None, trouble=submission.trouble)
    digest = submission.digest
    before = None if grading.again or grading.nonce else _read_mark(folder)
    if before and before.digest == digest and before.system >= grading.system:
        return TableRow(submission.student, _result(folder), before.predictions, before.trouble)
    make_folder(folder)
    for name in (RESULT, GRADED, FOR_GRADESCOPE):
        (folder / name).unlink(missing_ok=True)
    answer, trouble = running.run_module(
        "shuffledp_labs.teaching.grading_one", _job(grading, submission, folder), grading.seconds
    )
    result = _result(folder)
    trouble = trouble or faults(result)
    predictions = int(answer.get("predictions", 0))
    if result is not None:
        titles = {check.name: check.title for check in grading.lab.checks}
        write_json(
            folder / FOR_GRADESCOPE, results_json(result, titles, (predictions, PREDICTION_POINTS))
        )
    if not trouble:  # what broke off is done again by the next run
        write_atomic(
            folder / GRADED, msgspec.json.encode(GradedMark(digest, predictions, grading.system))
        )
    return TableRow(submission.student, result, predictions, trouble)


def _job(grading: Grading, submission: StudentSubmission, folder: Path) -> dict[str, Any]:
    return {
        "lab": grading.lab.number,
        "student": submission.student,
        "folder": str(submission.folder),
        "key": grading.key.hex(),
        "nonce": grading.nonce or secrets.token_hex(16),
        "system": grading.system,
        "result": str(folder / RESULT),
    }


def faults(result: LabResult | None) -> str:
    """What of a result is the grader's fault or the machine's, in words for the instructor.

    Empty where nothing is.
    """
    failed = [check for check in result.checks if check.outcome == "error"] if result else []
    return (
        f"{', '.join(check.name for check in failed)} could not be carried out: {failed[0].message}"
        if failed
        else ""
    )


def _read_mark(folder: Path) -> GradedMark | None:
    try:
        return msgspec.json.decode((folder / GRADED).read_bytes(), type=GradedMark)
    except (OSError, msgspec.MsgspecError):
        return None


def _result(folder: Path) -> LabResult | None:
    try:
        return msgspec.json.decode((folder / RESULT).read_bytes(), type=LabResult)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_table(grading: Grading, rows: Sequence[TableRow]) -> None:
    names = [check.name for check in grading.lab.checks]
    try:
        write_atomic(grading.out / TABLE, table(rows, names).encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {grading.out / TABLE}: {error.strerror}; make room, and run it again"
        ) from error


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Writes a document for another program, whole or not at all."""
    write_atomic(file, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
