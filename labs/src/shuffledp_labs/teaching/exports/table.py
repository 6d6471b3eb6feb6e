"""The results of a class as CSV files, with one row per submission."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shuffledp_labs.results import LabResult

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a cell must not begin with: a spreadsheet would compute what a student wrote."""


@dataclass(frozen=True)
class TableRow:
    """One submission: its result if any, points for predictions, errors, similar programs."""

    student: str
    result: LabResult | None
    predictions: int = 0
    trouble: str = ""
    similar: str = ""


def table(rows: Sequence[TableRow], checks: Sequence[str]) -> str:
    """The CSV file of a class, with one row for each submission.

    The columns are student, points, explanations, predictions, each check, nonce, digest, trouble,
    and similar: students whose programs are equal or nearly equal.

    `points` are of 80. The explanations, of 20, have an empty column for the person who judges
    them.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    first = ("student", "points", "explanations", "predictions")
    last = ("nonce", "digest", "trouble", "similar")
    writer.writerow([*first, *checks, *last])
    for row in sorted(rows, key=lambda row: row.student):
        by_name = {check.name: check.points for check in row.result.checks} if row.result else {}
        writer.writerow(
            [
                _cell(row.student),
                row.predictions + sum(by_name.values()),
                "",
                row.predictions,
                *(by_name.get(name, 0) for name in checks),
                row.result.nonce if row.result else "",
                row.result.digest if row.result else "",
                _cell(row.trouble),
                _cell(row.similar),
            ]
        )
    return file.getvalue()


OUTCOMES: Final = ("passed", "failed", "not-reached", "left-out", "error")
"""What can become of a check, in the columns of `checks_table`."""


def checks_table(rows: Sequence[TableRow], checks: Sequence[str]) -> str:
    """A CSV file with the numbers of submissions that passed, failed or skipped each check.

    Submissions without a result are counted in the column `ungraded`.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["check", *OUTCOMES, "ungraded"])
    for name in checks:
        outcomes = [
            check.outcome
            for row in rows
            if row.result
            for check in row.result.checks
            if check.name == name
        ]
        counts = [outcomes.count(outcome) for outcome in OUTCOMES]
        writer.writerow([name, *counts, len(rows) - sum(counts)])
    return file.getvalue()


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
