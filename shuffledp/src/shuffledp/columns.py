"""Columns of CSV files as user values: whole numbers, or names of answers.

Only simulations read them.
"""

from __future__ import annotations

import csv
import gzip
import math
import unicodedata
import zlib
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError

DEFAULT_COLUMN: Final = "doctor visits"
"""The built-in sample: outpatient doctor visits in the RAND Health Insurance Experiment; see
data/README.md.
"""


MOST_BYTES: Final = 2**28
"""Largest file, unpacked: some ten million rows. It is read as a whole, and devices and packed
files may be endless.
"""

MOST_DRAWN: Final = 10**8
"""Users that can be drawn: their values alone take 0.8 GB."""

LONGEST_NAME: Final = 100
"""Characters of an answer's name; it stands below a bar."""

DRAW_SEED: Final = 2026
"""Seed for users drawn from too few rows: they are the same ones each time, as rows taken in order
are.
"""


@dataclass(frozen=True)
class Column:
    """The values of simulated users, in file order unless they were drawn.

    Attributes:
        values: shape (users,), int64, each in {0..max_value}.
        capped: number of values that were above max_value and now are max_value.
        drawn_from: number of rows from which all values were drawn with replacement; None: each
            user is a row.
        labels: for a column of names, the name of each value 0..k in alphabetical order; else
            empty.
    """

    name: str
    values: NDArray[np.int64]
    capped: int
    drawn_from: int | None = None
    labels: tuple[str, ...] = ()


def load_column(
    file: Path | None,
    name: str | None,
    *,
    users: int,
    max_value: int,
    draw: bool = False,
    names: bool = False,
    wording: QuestionWording | None = None,
) -> Column:
    """Load the first `users` values of a column, capped at `max_value`.

    Args:
        file: a CSV with a header, optionally gzipped; None for the built-in sample.
        name: the column; None takes the only column, or the built-in's.
        users: number of values to take.
        max_value: largest value; larger ones are set to it.
        draw: if there are fewer rows than users, draw all users with replacement; otherwise that is
            an error.
        names: if the first entry of the column is not a number, read the entries as names, of which
            at most max_value + 1 may differ. A simulation may take the list of names from the data;
            a deployment fixes it before anyone answers.
        wording: read the entries as answers to this question, which has one field, without a cap.

    Raises:
        UsageError: no such file or column, too few rows, more users than can be drawn, a value that
            is not a whole number from 0 up, fewer than two or too many names, or a name that is
            empty or too long.
    """
    parse = _Parser(names=names, most=max_value + 1, wording=wording)
    if file is None:
        sample = resources.files("shuffledp") / "data" / "doctor_visits.csv"
        text, label, name = sample.read_text(), "the built-in sample", name or DEFAULT_COLUMN
    else:
        text = read_text(file)
        label = str(file)
    rows = csv.reader(text.splitlines())
    filled = (row for row in rows if row)  # blank lines, as at the end of many files
    try:
        name, position = find_column(name, next(rows, []), label)
        column = [
            parse.value((row + [""] * position)[position], label, rows.line_num)
            for row in islice(filled, users)
        ]
    except csv.Error as error:
        raise UsageError(
            f"{label}, line {rows.line_num}: {error}; a CSV file with a header is needed"
        ) from error
    labels, order = parse.sorted(name, label)
    values = np.array(column, dtype=np.int64)
    drawn_from = None
    if len(column) < users:
        check_drawn(label, len(column), users, draw=draw)
        values = np.random.default_rng(DRAW_SEED).choice(values, users)
        drawn_from = len(column)
    values = order[values] if labels else values
    return Column(
        name, np.minimum(values, max_value), int((values > max_value).sum()), drawn_from, labels
    )


def check_drawn(label: str, rows: int, users: int, *, draw: bool) -> None:
    """Raise `UsageError` if more users than rows are requested and drawing is not allowed."""
    if not draw or not rows:
        raise UsageError(f"{label} has only {rows} rows; ask for at most that many with --users")
    if users > MOST_DRAWN:
        raise UsageError(
            f"{users:,} simulated users do not fit into memory; take at most {MOST_DRAWN:,}, "
            "or ask certify, calibrate and advise, which compute for any number without a "
            "simulation"
        )


def load_points(file: Path, *, users: int) -> NDArray[np.float64]:
    """Load latitude and longitude of the first `users` rows of a CSV with columns lat and lon.

    If there are fewer rows, all users are drawn from them with replacement.

    Returns:
        Shape (users, 2), degrees.

    Raises:
        UsageError: the file or column does not exist, there are no rows, or a value is not a
            number.
    """
    rows = csv.reader(read_text(file).splitlines())
    try:
        header = next(rows, [])
        columns = [find_column(name, header, str(file))[1] for name in ("lat", "lon")]
        filled = islice((row for row in rows if row), users)
        degrees = [
            [_parse_degrees(row, column, str(file), rows.line_num) for column in columns]
            for row in filled
        ]
    except csv.Error as error:
        raise UsageError(
            f"{file}, line {rows.line_num}: {error}; a CSV file with a header is needed"
        ) from error
    if not degrees:
        raise UsageError(f"{file} has no rows; one row per person is needed")
    points = np.array(degrees, dtype=np.float64)
    return (
        points if len(points) == users else np.random.default_rng(DRAW_SEED).choice(points, users)
    )


def _parse_degrees(row: list[str], column: int, label: str, line: int) -> float:
    try:
        degrees = float(row[column])
    except (IndexError, ValueError) as error:
        raise UsageError(
            f"{label}, line {line}: lat and lon must be degrees, such as 48.8566"
        ) from error
    if not abs(degrees) <= 180:
        raise UsageError(
            f"{label}, line {line}: {row[column]!r} is not a latitude or longitude in degrees"
        )
    return degrees


def find_column(name: str | None, header: list[str], label: str) -> tuple[str, int]:
    """Find a column's name and index; the `UsageError` for a missing one lists all columns."""
    if not any(header):
        raise UsageError(
            f"{label} is empty or has no header; a CSV file with a line of column names is needed"
        )
    if name is None and len(header) == 1:
        name = header[0]
    if name is None:
        raise UsageError(
            f"{label} has several columns; choose one of {', '.join(header)} with --column"
        )
    if name not in header:
        raise UsageError(
            f"{label} has no column {name!r}; choose one of {', '.join(header)} with --column"
        )
    times = header.count(name)
    if times > 1:
        raise UsageError(f"{label} has the column {name!r} {times} times; rename all but one")
    return name, header.index(name)


def read_text(file: Path) -> str:
    """Read a text file of bounded length, decompressed. `UsageError` if it cannot be read."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(
                f"{file} is longer than {MOST_BYTES // 2**20} MiB of text; give a file with fewer "
                "rows"
            )
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read {file}: it is not UTF-8 text; save it as CSV in UTF-8"
        ) from error
    except gzip.BadGzipFile as error:
        raise UsageError(
            f"cannot read {file}: it is not gzip data, although its name says so; check the file"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is torn ({error})"
        raise UsageError(f"cannot read {file}: {reason}; check the path and the file") from error


def _parse_value(text: str, label: str, line: int) -> int:
    if not text.strip().isdecimal() or len(text) > 18:
        raise UsageError(
            f"{label}, line {line}: {text[:40]!r} is not a whole number from 0; correct it, or "
            "describe decimals, ranges or names in a question's file (`shuffledp demo --words`)"
        )
    return int(text)


def _in_order(text: str) -> tuple[float, str]:
    """Sort key that puts numbers first, by size, and then names."""
    try:
        number = float(text)
    except ValueError:
        number = math.inf
    return (number if math.isfinite(number) else math.inf, text)


class _Parser:
    """Converts a column's entries to whole numbers; names are numbered by first appearance."""

    def __init__(self, *, names: bool, most: int, wording: QuestionWording | None = None) -> None:
        self._most = most
        self._wording = wording
        self._may_name = names
        self._seen: dict[str, int] | None = None

    def value(self, text: str, label: str, line: int) -> int:
        """The number for an entry; the `UsageError` names the line."""
        if self._wording is not None:
            try:
                return self._wording.locate(text)
            except ValueError as error:
                raise UsageError(
                    f"{label}, line {line}: {text[:40]!r} is not an answer to the question "
                    f"{self._wording.id!r}: {error}; correct the entry, or the question's file"
                ) from error
        if self._may_name:  # the first entry says what the column holds
            self._may_name = False
            self._seen = None if not text.strip() or text.strip().isdecimal() else {}
        if self._seen is None:
            return _parse_value(text, label, line)
        # Composed: what looks the same is one answer, however its accents were typed.
        return self._name(unicodedata.normalize("NFC", text.strip()), label, line)

    def _name(self, text: str, label: str, line: int) -> int:
        seen = self._seen or {}
        if not 0 < len(text) <= LONGEST_NAME:
            raise UsageError(
                f"{label}, line {line}: a name has from 1 to {LONGEST_NAME} characters, not "
                f"{len(text)}"
            )
        if text not in seen and len(seen) == self._most:
            raise UsageError(
                f"{label}, line {line}: the column has more than {self._most} different answers; "
                "allow more with --max-value, put rare ones together, or count numbers in ranges "
                "(`shuffledp demo --table COLUMN`)"
            )
        self._seen = seen
        return seen.setdefault(text, len(seen))

    def sorted(self, column: str, label: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The names in alphabetical order, and each name's new number by its old one.

        Both are empty for a column of numbers.
        """
        if not self._seen:
            return (), np.empty(0, dtype=np.int64)
        if len(self._seen) == 1:
            raise UsageError(
                f"all people in column {column!r} of {label} give the same answer; at least "
                f"two different ones are needed"
            )
        labels = tuple(sorted(self._seen, key=_in_order))
        column_of = {name: index for index, name in enumerate(labels)}
        return labels, np.array([column_of[name] for name in self._seen], dtype=np.int64)
