"""`lab grade`: what is asked for, checked before the first submission runs, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from shuffledp.progress import Stages
from shuffledp_core.errors import UsageError
from shuffledp_core.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.installed import lab as lab_of
from shuffledp_labs.instance import KEY_BYTES, NONCE_BYTES
from shuffledp_labs.lab import Lab
from shuffledp_labs.student.pipes import working_box
from shuffledp_labs.teaching.course import load_key
from shuffledp_labs.teaching.exports.table import TableRow
from shuffledp_labs.teaching.grading import TABLE, Grading, grade
from shuffledp_labs.teaching.report import page
from shuffledp_labs.teaching.reporting import report_of
from shuffledp_labs.teaching.submissions import StudentSubmission, find_submissions


@dataclass(frozen=True)
class GradeRequest:
    """The options of the command."""

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
    """Grades, says how it went, and whether every submission came to a result."""
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
    if request.reports:
        _write_reports(lab, grading.out, submissions, rows, say)
    troubled = [row for row in rows if row.trouble]
    for row in sorted(troubled, key=lambda row: row.student):
        say(f"{row.student}: {row.trouble}")
    say(f"{len(rows) - len(troubled)} of {len(rows)} graded: {grading.out / TABLE}")
    return not troubled


def require_sandbox() -> None:
    """Refuse to grade where a student's program would have the grader's rights.

    Raises:
        LabUsageError: no sandbox works on this machine.
    """
    if confinement() == "none":
        raise LabUsageError(
            "no sandbox works here, and others' programs would have your rights: shuffledp lab "
            "doctor"
        )


def confinement() -> str:
    """The sandbox that a student's program gets on this machine; "none" without any."""
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
