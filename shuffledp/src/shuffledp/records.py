"""Rows of CSV files as records of named fields, and descriptions of their columns.

They stay in the simulator.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from shuffledp.columns import (
    DRAW_SEED,
    Column,
    check_drawn,
    find_column,
    load_column,
    read_text,
)
from shuffledp_core.documents.wording import QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.questions import (
    CategoryField,
    RangeField,
    RecordQuestion,
    RecordSchema,
    SchemaField,
    counts,
    table,
)

MOST_SINGLE: Final = 12
"""Most different whole numbers of a column that are counted one by one, not in ranges."""

RANGES: Final = 8
"""Ranges that a column of other numbers has, about."""

_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})")


def load_records(file: Path, wording: QuestionWording, *, users: int, draw: bool = False) -> Column:
    """The symbols of the first `users` rows, computed as devices do from such records.

    Args:
        file: a CSV with a header that has the question's fields, optionally gzipped.
        wording: the question.
        users: how many to take.
        draw: where there are fewer rows than users, draw all users with replacement instead of
            refusing.

    Raises:
        UsageError: no such file or column, too few rows, or a record that has no symbol.
    """
    symbol_of: dict[tuple[str, ...], int] = {}
    symbols = []
    for line, entries in islice(read_rows(file, wording.fields), users):
        symbol = symbol_of.get(entries)
        if symbol is None:
            try:
                symbol = wording.locate_record(dict(zip(wording.fields, entries, strict=True)))
            except ValueError as error:
                raise UsageError(
                    f"{file}, line {line}: no answer to the question {wording.id!r}: {error}; "
                    "correct the entry, or the question's file"
                ) from error
            if wording.sum_axis is None:  # amounts are rounded at random, for each person afresh
                symbol_of[entries] = symbol
        symbols.append(symbol)
    values = np.array(symbols, dtype=np.int64)
    drawn_from = None
    if len(symbols) < users:
        check_drawn(str(file), len(symbols), users, draw=draw)
        values = np.random.default_rng(DRAW_SEED).choice(values, users)
        drawn_from = len(symbols)
    return Column(", ".join(wording.fields), values, 0, drawn_from)


def load_answers(
    file: Path | None,
    column: str | None,
    wording: QuestionWording | None,
    *,
    users: int,
    max_value: int,
    names: bool = False,
) -> Column:
    """The answers of simulated users: from records if the question needs them, else a column.

    Users are drawn with replacement from too few rows.

    Raises:
        UsageError: as `load_records` and `load_column`.
    """
    if wording is None or not (wording.others or len(wording.axes) > 1 or wording.is_open):
        return load_column(
            file,
            column,
            users=users,
            max_value=max_value,
            draw=True,
            names=names,
            wording=wording,
        )
    if file is None:
        raise UsageError(
            f"the question needs the columns {', '.join(wording.fields)}, which the built-in "
            "sample lacks: name a file with --data"
        )
    return load_records(file, wording, users=users, draw=True)


def describe_columns(file: Path, names: Sequence[str]) -> RecordQuestion:
    """A question over these columns, whose levels are the values in the file.

    Who simulates may read levels from the data; a deployment describes them before anyone answers.

    Raises:
        UsageError: no such file or column, or one with too many different entries, or only one.
    """
    distinct: list[set[str]] = [set() for _ in names]
    for _, entries in read_rows(file, names):
        for seen, entry in zip(distinct, entries, strict=True):
            seen.add(entry.strip())
    fields = {}
    for name, seen in zip(names, distinct, strict=True):
        try:
            fields[name] = _describe(seen - {""})
        except UsageError as error:
            raise UsageError(
                f"column {name!r} of {file} cannot be counted: {error}; or describe the field in "
                "a question's file (`--question`)"
            ) from error
    schema = RecordSchema(fields)
    return counts(schema, names[0]) if len(names) == 1 else table(schema, *names)


def _describe(seen: set[str]) -> SchemaField:
    if not all(_NUMBER.fullmatch(entry) for entry in seen):
        return CategoryField(sorted(seen))
    numbers = sorted({Decimal(entry) for entry in seen})
    if len(numbers) <= MOST_SINGLE and all(number == int(number) for number in numbers):
        return CategoryField([int(number) for number in numbers])
    low, high = numbers[0], numbers[-1]
    step = _round_step((high - low) / RANGES)
    start = (low / step).to_integral_value(ROUND_FLOOR) * step
    count = int(((high - start) / step).to_integral_value(ROUND_CEILING))
    stop = start + step * max(2, count)
    return RangeField.steps(start, stop, step)


def _round_step(least: Decimal) -> Decimal:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below `least`."""
    power = Decimal(10) ** least.adjusted()
    steps = [Decimal(factor) * power for factor in ("1", "2", "2.5", "5", "10")]
    return next(step for step in steps if step >= least)


def read_rows(file: Path, names: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield line number and entries of these columns for each row that is not blank."""
    rows = csv.reader(read_text(file).splitlines())
    try:
        header = next(rows, [])
        columns = [find_column(name, header, str(file))[1] for name in names]
        for row in rows:
            if row:
                entries = (row[column] if column < len(row) else "" for column in columns)
                yield rows.line_num, tuple(entries)
    except csv.Error as error:
        raise UsageError(
            f"{file}, line {rows.line_num}: {error}; a CSV file with a header is needed"
        ) from error
