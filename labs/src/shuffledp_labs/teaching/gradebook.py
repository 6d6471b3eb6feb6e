"""Fills a gradebook exported from Canvas or Moodle with the points of a graded class.

Every cell but those of one column stays as it was, so the file can be imported again. A row is
found by the column that holds the names of the submissions' folders.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final

from shuffledp_core.errors import OutputError, UsageError
from shuffledp_core.runtime.files import write_atomic
from shuffledp_labs.errors import LabUsageError
from shuffledp_labs.reading import read_bounded
from shuffledp_labs.teaching.course import LabCourse
from shuffledp_labs.teaching.submissions import student_name

MAX_FILE: Final = 2**24
"""Longest table in bytes."""

ID_COLUMNS: Final = (
    "SIS Login ID",
    "SIS User ID",
    "ID",
    "Username",
    "ID number",
    "Identifier",
    "Email address",
)
"""Columns that name a student: the first four of Canvas, the others of Moodle."""

CERTAIN_ROWS: Final = 1
"""Least number of rows that a column has to match."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file: its columns, and its rows with one cell per column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> tuple[str, ...]:
        """All cells of a column."""
        index = self.columns.index(name)
        return tuple(row[index] for row in self.rows)


@dataclass(frozen=True)
class FilledGradebook:
    """A gradebook with the points filled in, and unmatched students.

    Attributes:
        text: the CSV file.
        filled: rows that got points.
        missing: graded students who are in no row.
    """

    text: str
    filled: int
    missing: tuple[str, ...]


def read_table(file: Path) -> CsvTable:
    """Read a CSV file whose first line names the columns.

    Raises:
        LabUsageError: the file cannot be read, or is not such a table.
    """
    try:
        text = read_bounded(file, MAX_FILE).decode("utf-8-sig")
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
    except OSError as error:
        raise LabUsageError(f"{file} cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise LabUsageError(f"{file} is not a CSV file in UTF-8: {error}") from None
    if not lines or len(set(lines[0])) < len(lines[0]):
        raise LabUsageError(f"{file} needs a first line that names each column once")
    width = len(lines[0])
    for number, line in enumerate(lines, start=1):
        if len(line) != width:
            raise LabUsageError(
                f"{file}: line {number} has {len(line)} cells, not {width}; export it again"
            )
    return CsvTable(tuple(lines[0]), tuple(tuple(line) for line in lines[1:]))


def points_of_class(
    results: CsvTable, course: LabCourse | None, lab: int, submitted: Mapping[str, date]
) -> dict[str, int]:
    """Points of each student: checks, predictions, explanations, less late deductions.

    Raises:
        LabUsageError: the table is not `results.csv`, or explanations are not numbers to 20.
    """
    missing = {"student", "points", "explanations"} - set(results.columns)
    if missing:
        raise LabUsageError(
            f"the results have no column {', '.join(sorted(missing))}; give the results.csv of "
            "`shuffledp lab grade`"
        )
    points = {}
    rows = zip(
        results.column("student"),
        results.column("points"),
        results.column("explanations"),
        strict=True,
    )
    for student, checks, explained in rows:
        name = student.removeprefix("'")
        total = _number(name, checks, 80) + _number(name, explained or "0", 20)
        day = submitted.get(name)
        if course is not None and day is not None:
            total = course.points_when_late(lab, total, day)
        points[name] = total
    return points


def _number(student: str, cell: str, most: int) -> int:
    if not (cell.isascii() and cell.isdecimal() and len(cell) <= 3 and int(cell) <= most):
        raise LabUsageError(
            f"{student}: {cell[:20]!r} is not a whole number from 0 to {most}; correct the results"
        )
    return int(cell)


def read_submission_days(file: Path) -> dict[str, date]:
    """Read each student's day of submission from a CSV with columns student and submitted.

    A time is written as 2026-10-12 or 2026-10-12T09:30, in the course's own time.

    Raises:
        LabUsageError: the file is not of this form.
    """
    table = read_table(file)
    if not {"student", "submitted"} <= set(table.columns):
        raise LabUsageError(f"{file} needs the columns student and submitted")
    days = {}
    for student, text in zip(table.column("student"), table.column("submitted"), strict=True):
        try:
            days[student_name(student)] = datetime.fromisoformat(text.strip()).date()
        except ValueError:
            raise LabUsageError(
                f"{file}: {text[:40]!r} of {student[:40]} is not a time such as 2026-10-12T09:30"
            ) from None
    return days


def fill_gradebook(
    gradebook: CsvTable, points: Mapping[str, int], column: str, id_column: str | None = None
) -> FilledGradebook:
    """Write points into a column of a gradebook, which is added if missing.

    Args:
        gradebook: the table as Canvas or Moodle exported it.
        points: points by the name of the submission's folder.
        column: the column to fill, for instance "Lab 8 (4711)" of Canvas.
        id_column: holds the names; None: the one of `ID_COLUMNS` that matches most rows.

    Raises:
        UsageError: no column matches a student.
    """
    names = _names(gradebook, points, id_column)
    columns = gradebook.columns
    rows = [list(row) for row in gradebook.rows]
    if column not in columns:
        columns = (*columns, column)
        rows = [[*row, ""] for row in rows]
    index = columns.index(column)
    filled = 0
    for row, name in zip(rows, names, strict=True):
        if name in points:
            row[index] = str(points[name])
            filled += 1
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows([columns, *rows])
    missing = tuple(sorted(points.keys() - set(names)))
    return FilledGradebook(file.getvalue(), filled, missing)


def _names(
    gradebook: CsvTable, points: Mapping[str, int], id_column: str | None
) -> tuple[str, ...]:
    """Name of the student in each row, in the form of submission folders."""
    best: tuple[str, ...] = ()
    most = CERTAIN_ROWS - 1
    for names in _candidates(gradebook, id_column):
        matches = sum(name in points for name in names)
        if matches > most:
            best = names
            most = matches
    if not best:
        raise UsageError(
            "no column of the gradebook holds a name of a submission's folder; name the column "
            f"with --id (columns: {', '.join(gradebook.columns)[:300]})"
        )
    return best


def _candidates(gradebook: CsvTable, id_column: str | None) -> Iterator[tuple[str, ...]]:
    chosen: Sequence[str] = ID_COLUMNS if id_column is None else (id_column,)
    for name in chosen:
        if name in gradebook.columns:
            yield tuple(student_name(cell) if cell else "" for cell in gradebook.column(name))


def write_gradebook(file: Path, filled: FilledGradebook) -> None:
    """Write the file, readable only by its owner.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        write_atomic(file, filled.text.encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror}; give another file with --to"
        ) from error
