"""Integer columns of CSV files as user values. Values stay in the simulator: it plays all users at once."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError

DEFAULT_COLUMN: Final = "mdvis"
"""Number of doctor visits in the RAND Health Insurance Experiment; see data/README.md."""


@dataclass(frozen=True)
class Column:
    """The values of simulated users, in file order.

    Attributes:
        values: shape (users,), int64, each in {0..max_value}.
        capped: how many were above max_value and now are max_value.
    """

    name: str
    values: NDArray[np.int64]
    capped: int


def load_column(file: Path | None, name: str | None, *, users: int, max_value: int) -> Column:
    """The first `users` values of a column, capped at `max_value`.

    Args:
        file: a CSV with a header, optionally gzipped; None for the built-in sample.
        name: the column; None takes the only column, or the built-in's.
        users: how many rows to take.
        max_value: values above it are set to it.

    Raises:
        UsageError: no such file or column, too few rows, or a value that is no whole number from 0 up.
    """
    if file is None:
        sample = resources.files("shuffledp_sim") / "data" / "doctor_visits.csv"
        text, label, name = sample.read_text(), "the built-in sample", name or DEFAULT_COLUMN
    else:
        text, label = _read(file), str(file)
    rows = csv.reader(text.splitlines())
    header = next(rows, [])
    if name is None and len(header) == 1:
        name = header[0]
    if name not in header:
        raise UsageError(f"{label} has no column {name!r}; choose one of {', '.join(header)} with --column")
    position = header.index(name)
    values = np.empty(users, dtype=np.int64)
    count = 0
    for number, row in enumerate(rows, start=2):
        if count == users:
            break
        values[count] = _whole(row[position] if position < len(row) else "", label, number)
        count += 1
    if count < users:
        raise UsageError(f"{label} has only {count} rows; ask for at most that many with --users")
    return Column(name, np.minimum(values, max_value), int((values > max_value).sum()))


def _read(file: Path) -> str:
    try:
        data = file.read_bytes()
        return (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error


def _whole(text: str, label: str, line: int) -> int:
    if not text.strip().isdecimal() or len(text) > 18:
        raise UsageError(f"{label}, line {line}: the column needs whole numbers from 0 up")
    return int(text)
