"""The rows of an experiment as a CSV in long form."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from typing import Final

from shuffledp_experiments.entry import Row

COLUMNS: Final = ("series", "kind", "x_name", "x", "y_name", "y", "low", "high")


def as_csv(rows: Iterable[Row]) -> str:
    """Format rows as CSV lines: `COLUMNS`, then all settings of any row, sorted.

    Numbers keep all their digits.
    """
    listed = list(rows)
    settings = sorted({name for row in listed for name in row.settings})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *settings])
    for row in listed:
        fixed = (
            row.series,
            row.kind.value,
            row.x_name,
            row.x,
            row.y_name,
            row.y,
            row.low,
            row.high,
        )
        writer.writerow(
            [_cell(value) for value in (*fixed, *(row.settings.get(name) for name in settings))]
        )
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)
