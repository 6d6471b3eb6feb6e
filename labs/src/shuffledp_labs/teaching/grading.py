"""`lab grade`: grades a class's submissions in parallel, each in its own process.

A submission can disturb only its own grading process: the others are still graded, and the
submission's row says what happened. A graded submission is graded again only if one of its files
changed, so the same command continues an interrupted run.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_core.errors import OutputError, UsageError
from shuffledp_core.runtime.files import make_folder, write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import KEY_BYTES, NONCE_BYTES
from shuffledp_labs.lab import PREDICTION_POINTS, Lab
from shuffledp_labs.results import LabResult
from shuffledp_labs.student.pipes import working_box
from shuffledp_labs.student.source import WORK, read_source
from shuffledp_labs.teaching.apart import Apart
from shuffledp_labs.teaching.course import load_key
from shuffledp_labs.teaching.exports.gradescope import results_json
from shuffledp_labs.teaching.exports.table import TableRow, checks_table, table
from shuffledp_labs.teaching.report import page, report_of
from shuffledp_labs.teaching.similarity import similar_programs
from shuffledp_labs.teaching.submissions import StudentSubmission, find_submissions

RESULT: Final = "result.json"
GRADED: Final = "graded.json"
FOR_GRADESCOPE: Final = "results.json"
TABLE: Final = "results.csv"
CHECKS: Final = "checks.csv"

SPARE_SECONDS: Final = 60.0
"""Beyond the limits of all checks: for the start of the process and of its sandboxes."""


@dataclass(frozen=True)
class GradeRequest:
    """Options of the command `lab grade`."""

    lab: int
    submissions: Path
    key: Path | None
    out: Path
    jobs: int
    replay: str | None
    students: tuple[str, ...]
    again: bool
    reports: bool
    unconfined: bool
    system: bool


def grade_class(request: GradeRequest, say: Callable[[str], None]) -> bool:
    """Grade a class and print a summary; return True if every submission has a result."""
    lab = lab_of(request.lab)
    submissions = _select(find_submissions(request.submissions), request.students)
    grading = _grading(lab, request)
    if not request.unconfined:
        require_sandbox()
    with Stages(Console(stderr=True)) as stages:
        stages.update("graded", 0, len(submissions))
        rows = grade(
            grading, submissions, request.jobs, lambda done, of: stages.update("graded", done, of)
        )
    rows = _with_similar_programs(lab, submissions, rows)
    _write_table(grading, rows)
    if request.reports:
        _write_reports(lab, grading.out, submissions, rows, say)
    troubled = [row for row in rows if row.trouble]
    for row in sorted(troubled, key=lambda row: row.student):
        say(f"{row.student}: {row.trouble}")
    alike = sum(bool(row.similar) for row in rows)
    if alike:
        say(f"{alike} programs are equal or nearly equal to another: column similar of the table")
    for name, lost in _most_lost(lab, rows):
        say(f"{name}: {lost} of {len(rows)} fail it; {CHECKS} has all checks")
    say(f"{len(rows) - len(troubled)} of {len(rows)} graded: {grading.out / TABLE}")
    return not troubled


def _most_lost(lab: Lab, rows: Sequence[TableRow]) -> list[tuple[str, int]]:
    """The check that most submissions fail, with their number; empty if all pass."""
    lost = Counter(
        check.name
        for row in rows
        if row.result
        for check in row.result.checks
        if check.outcome == "failed"
    )
    names = [check.name for check in lab.checks if lost[check.name]]
    return [(name, lost[name]) for name in sorted(names, key=lambda name: -lost[name])[:1]]


def _with_similar_programs(
    lab: Lab, submissions: Sequence[StudentSubmission], rows: Sequence[TableRow]
) -> tuple[TableRow, ...]:
    """The rows, with a note on programs that are equal or nearly equal."""
    sources = {}
    for submission in submissions:
        if submission.folder is None:
            continue
        try:
            sources[submission.student] = read_source(submission.folder / WORK).listing
        except LabUsageError:  # its row says why it cannot be read
            continue
    similar = similar_programs(sources, lab.file(WORK).read_text(encoding="utf-8"))
    return tuple(replace(row, similar=similar.get(row.student, "")) for row in rows)


def require_sandbox() -> None:
    """Refuse to grade if a student's program would have the grader's rights.

    Raises:
        LabUsageError: no sandbox works on this machine.
    """
    if confinement() == "none":
        raise LabUsageError(
            "no sandbox works here, and others' programs would have your rights: shuffledp lab "
            "doctor"
        )


def confinement() -> str:
    """Name of the sandbox that a student's program gets on this machine, or "none"."""
    return working_box()


def _select(
    submissions: Sequence[StudentSubmission], students: Sequence[str]
) -> tuple[StudentSubmission, ...]:
    missing = set(students) - {submission.student for submission in submissions}
    if missing:
        raise UsageError(
            f"no submission is of {', '.join(sorted(missing))}; the names are those of the folders"
        )
    return tuple(
        submission for submission in submissions if not students or submission.student in students
    )


def _grading(lab: Lab, request: GradeRequest) -> Grading:
    if request.key is None:
        raise UsageError(
            "a grading needs the course's key: --key FILE (`shuffledp lab course init` makes one)"
        )
    key, out = load_key(request.key), request.out
    assert len(key) == KEY_BYTES  # noqa: S101 - one length for both
    if request.replay is not None:
        if not re.fullmatch(f"[0-9a-f]{{{2 * NONCE_BYTES}}}", request.replay):
            raise UsageError(
                f"a nonce has {2 * NONCE_BYTES} hex digits, as in the table, not {request.replay!r}"
            )
        out = out / f"replay-{request.replay}"
    return Grading(lab, key, out, request.replay, request.system, request.again)


def _write_reports(
    lab: Lab,
    out: Path,
    submissions: Sequence[StudentSubmission],
    rows: Sequence[TableRow],
    say: Callable[[str], None],
) -> None:
    results = {row.student: row.result for row in rows}
    for submission in submissions:
        if submission.folder is None or results[submission.student] is None:
            continue
        try:
            text = page(
                report_of(lab, submission.folder, results[submission.student], submission.student)
            )
            write_atomic(out / submission.student / "report.html", text.encode())
        except Exception as error:  # noqa: BLE001 - whatever was handed in, the others get their reports
            say(f"{submission.student}: no report: {type(error).__name__}: {error}")


class GradedMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Record of a completed grading: digest of the files, and points for predictions."""

    digest: str
    predictions: int
    system: bool
    trouble: str = ""


@dataclass(frozen=True)
class Grading:
    """Settings for grading a class.

    Attributes:
        lab: the lab to grade.
        key: key of the course.
        out: folder of the results, one folder a student, and the table.
        nonce: the instance to repeat, None for a fresh one each.
        system: whether to run checks with a running system as well.
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
        """Time limit for one submission, in seconds."""
        return SPARE_SECONDS + sum(
            check.seconds for check in self.lab.checks if self.system or not check.system
        )


def grade(
    grading: Grading,
    submissions: Sequence[StudentSubmission],
    jobs: int,
    progress: Callable[[int, int], None],
) -> tuple[TableRow, ...]:
    """Grade all submissions, `jobs` at a time; write the table after each.

    `progress` is called with the number of graded submissions.

    After an interruption no process is left running, and finished results are written.
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
        "shuffledp_labs.teaching.autograder", _job(grading, submission, folder), grading.seconds
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
    """Describe faults of the grader or machine in a result, for the instructor.

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
        write_atomic(grading.out / CHECKS, checks_table(rows, names).encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {grading.out / TABLE}: {error.strerror}; make room, and run it again"
        ) from error


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write a JSON document for another program atomically."""
    write_atomic(file, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
