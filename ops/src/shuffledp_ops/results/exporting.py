"""Export of answers as one table: JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from shuffledp_core.errors import ConfigError, OutputError, UsageError
from shuffledp_ops.results.saved import Row, SavedAnswer
from shuffledp_ops.rounds.report import RoundReport


def rows_of(report: RoundReport) -> list[Row]:
    """Table rows of a report: one for a sum, or one for each value of a histogram.

    `value` is None for a sum.
    """
    return list(msgspec.convert(report.to_dict(), SavedAnswer).rows())


def check_export(file: Path) -> None:
    """Raise for a file that `write_rows` cannot write, before anything is fetched.

    Raises:
        UsageError: the file's ending names no format, or it is a folder.
        ConfigError: Parquet without pyarrow.
    """
    if file.suffix.lower() not in WRITERS:
        raise UsageError(
            f"--to must be a file that ends in {', '.join(WRITERS)}, not {str(file)!r}"
        )
    if file.is_dir():
        raise UsageError(f"--to {str(file)!r} is a folder; name a file")
    if file.suffix.lower() == ".parquet":
        _arrow("pyarrow")


def write_rows(rows: Sequence[Row], file: Path) -> None:
    """Writes all rows into the file, atomically. Raises `OutputError`."""
    part = file.with_name(f".{file.name}.part")
    try:
        WRITERS[file.suffix.lower()](rows, part)
        part.replace(file)
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror or error}; name another file with --to"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _write_json(rows: Sequence[Row], file: Path) -> None:
    # NaN and infinity are no JSON: an error here, not in the program that reads the file.
    file.write_text(json.dumps(rows, indent=2, allow_nan=False) + "\n")


def _write_csv(rows: Sequence[Row], file: Path) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(rows: Sequence[Row], file: Path) -> None:
    arrow = _arrow("pyarrow")
    kinds = {
        "question": arrow.string(),
        "value": arrow.int64(),
        "label": arrow.string(),
        "unit": arrow.string(),
        "mean": arrow.float64(),
        "mean_standard_error": arrow.float64(),
        "epsilon": arrow.float64(),
        "epsilon_corrupted": arrow.float64(),
    }
    table = arrow.Table.from_pylist(list(rows))
    for name, kind in kinds.items():  # a column of nothing but None has no type of its own
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(name).cast(kind))
    _arrow("pyarrow.parquet").write_table(table, str(file))


def _arrow(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            "Parquet files need pyarrow, which is not installed: `pip install "
            "'shuffledp-ops[parquet]'`, or name a file that ends in .csv or .json"
        ) from error


WRITERS: Final[dict[str, Callable[[Sequence[Row], Path], None]]] = {
    ".json": _write_json,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
"""Writers by suffix of the file's name."""
