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
from shuffledp_labs.teaching.exports.table import Row
from shuffledp_labs.teaching.grading import TABLE, Grading, grade
from shuffledp_labs.teaching.report import page
from shuffledp_labs.teaching.reporting import report_of
from shuffledp_labs.teaching.submissions import Submission, find_submissions


@dataclass(frozen=True)
class Asked:
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


def grade_class(asked: Asked, say: Callable[[str], None]) -> bool:
    """Grades, says how it went, and whether every submission came to a result."""
    lab = lab_of(asked.lab)
    chosen = _chosen(find_submissions(asked.submissions), asked.students)
    grading = _grading(lab, asked)
    if not asked.unconfined:
        require_sandbox()
    with Stages(Console(stderr=True)) as stages:
        stages.update("graded", 0, len(chosen))
        rows = grade(
            grading, chosen, asked.jobs, lambda done, of: stages.update("graded", done, of)
        )
    if asked.reports:
        _write_reports(lab, grading.out, chosen, rows, say)
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


def _chosen(found: Sequence[Submission], students: Sequence[str]) -> tuple[Submission, ...]:
    missing = set(students) - {one.student for one in found}
    if missing:
        raise UsageError(
            f"no submission is of {', '.join(sorted(missing))}; the names are those of the folders"
        )
    return tuple(one for one in found if not students or one.student in students)


def _grading(lab: Lab, asked: Asked) -> Grading:
    if asked.key is None:
        raise UsageError(
            "a grading needs the course's key: --key FILE (`shuffledp lab course init` makes one)"
        )
    key, out = load_key(asked.key), asked.out
    assert len(key) == KEY_BYTES  # noqa: S101 - one length for both
    if asked.replay is not None:
        if not re.fullmatch(f"[0-9a-f]{{{2 * NONCE_BYTES}}}", asked.replay):
            raise UsageError(
                f"a nonce has {2 * NONCE_BYTES} hex digits, as in the table, not {asked.replay!r}"
            )
        out = out / f"replay-{asked.replay}"
    return Grading(lab, key, out, asked.replay, asked.system, asked.again)


def _write_reports(
    lab: Lab,
    out: Path,
    submissions: Sequence[Submission],
    rows: Sequence[Row],
    say: Callable[[str], None],
) -> None:
    results = {row.student: row.result for row in rows}
    for one in submissions:
        if one.folder is None or results[one.student] is None:
            continue
        try:
            text = page(report_of(lab, one.folder, results[one.student], one.student))
            write_atomic(out / one.student / "report.html", text.encode())
        except Exception as error:  # noqa: BLE001 - whatever was handed in, the others get their reports
            say(f"{one.student}: no report: {type(error).__name__}: {error}")
