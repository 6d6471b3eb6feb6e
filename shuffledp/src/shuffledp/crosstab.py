"""The cross table of a round whose question has several fields: cells, margins, and names.

Pure. Numbers are fitted to the number of answers (`shuffledp_core.answering.margins`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.answering.margins import TableEstimate, fit_table
from shuffledp_core.documents.wording import QuestionAxis, QuestionWording
from shuffledp_core.mechanisms import Mechanism

SMALL: Final = "†"
"""Mark of a number whose interval contains 0."""


@dataclass(frozen=True)
class TableNumber:
    """An estimated number of people, with standard error and interval."""

    value: float
    error: float
    low: float
    high: float

    @property
    def is_small(self) -> bool:
        """True if the interval contains 0, so that there may be no such people."""
        return self.low <= 0


@dataclass(frozen=True)
class CrossTable:
    """A fitted table whose rows are all fields but the last, and whose columns are the last field.

    Attributes:
        wording: the question, of two or more fields.
        fitted: the estimates.
        truth: true counts of all symbols, in a simulation only.
    """

    wording: QuestionWording
    fitted: TableEstimate
    truth: NDArray[np.int64] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        shape = self.wording.shape
        return prod(shape[:-1]), shape[-1]

    @property
    def row_title(self) -> str:
        """Names of the fields in the rows."""
        return ", ".join(axis.field for axis in self.wording.axes[:-1])

    @property
    def column_title(self) -> str:
        """Name of the field in the columns."""
        return self.wording.axes[-1].field

    @cached_property
    def row_names(self) -> list[str]:
        """Names of the rows."""
        return [self._name(self.wording.axes[:-1], row) for row in range(self.shape[0])]

    @cached_property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return [self._name(self.wording.axes[-1:], column) for column in range(self.shape[1])]

    @staticmethod
    def _name(axes: tuple[QuestionAxis, ...], cell: int) -> str:
        parts = []
        for axis in reversed(axes):
            cell, level = divmod(cell, axis.symbols.size)
            parts.append(axis.symbols.name(level, axis.unit))
        return ", ".join(reversed(parts))

    @cached_property
    def cells(self) -> list[list[TableNumber]]:
        """Numbers of the cells, row by row."""
        numbers = _numbers(self.fitted.cells)
        width = self.shape[1]
        return [numbers[row * width : (row + 1) * width] for row in range(self.shape[0])]

    @cached_property
    def row_sums(self) -> list[TableNumber]:
        """Sum of each row, with its own error."""
        last = len(self.wording.shape) - 1
        return _numbers(self.fitted.margin(*range(last)))

    @cached_property
    def column_sums(self) -> list[TableNumber]:
        """Sum of each column, with its own error."""
        return _numbers(self.fitted.margin(len(self.wording.shape) - 1))

    @cached_property
    def in_cells(self) -> TableNumber:
        """Number of people in any cell."""
        return _numbers(self.fitted.in_cells)[0]

    @cached_property
    def others(self) -> TableNumber | None:
        """Number of people in no cell; None if the question has no symbol for them."""
        return _numbers(self.fitted.cells)[-1] if self.wording.others else None

    @cached_property
    def true_cells(self) -> NDArray[np.int64] | None:
        """True counts in a simulation, shape (rows, columns); otherwise None."""
        return None if self.truth is None else self.truth[: prod(self.shape)].reshape(self.shape)

    @property
    def true_others(self) -> int | None:
        """True number of people in no cell, in a simulation; None if not known."""
        return None if self.truth is None or not self.wording.others else int(self.truth[-1])

    def to_dict(self) -> dict[str, Any]:
        """The object `table` of `report.json`."""
        return {
            "row_fields": [axis.field for axis in self.wording.axes[:-1]],
            "column_field": self.column_title,
            "rows": self.row_names,
            "columns": self.column_names,
            "cells": [_columns(row) for row in self.cells],
            "row_sums": _columns(self.row_sums),
            "column_sums": _columns(self.column_sums),
            "in_cells": _columns([self.in_cells]),
            "others": None if self.others is None else _columns([self.others]),
        }


def table_of(
    mechanism: Mechanism,
    estimate: Estimate,
    wording: QuestionWording | None,
    present: Present,
    truth: NDArray[np.int64] | None = None,
) -> CrossTable | None:
    """The cross table of a histogram; None for a single field, or if margins are unknown."""
    if wording is None or len(wording.axes) < 2 or wording.size != len(estimate.values):
        return None
    if mechanism.counts_columns or mechanism.for_ranges or wording.sum_axis is not None:
        return None
    fitted = fit_table(mechanism, estimate, wording.shape, present, has_others=bool(wording.others))
    return None if fitted is None else CrossTable(wording, fitted, truth)


def names_of(mechanism: Mechanism, wording: QuestionWording) -> tuple[str, ...]:
    """Names of the numbers in a histogram's estimate, from the question's wording."""
    return wording.cell_names() if mechanism.counts_columns else wording.names()


def present_messages(reports: float, nodes: int) -> Present:
    """The messages that count; each lost message takes a fraction off a report."""
    return Present(Fraction(reports).limit_denominator(10_000), nodes)


def _numbers(estimate: Estimate) -> list[TableNumber]:
    columns = (estimate.values, estimate.standard_errors, estimate.lows, estimate.highs)
    return [TableNumber(*numbers) for numbers in zip(*columns, strict=True)]


def _columns(numbers: list[TableNumber]) -> dict[str, list[float]]:
    return {
        "estimate": [number.value for number in numbers],
        "standard_error": [number.error for number in numbers],
        "low_95": [number.low for number in numbers],
        "high_95": [number.high for number in numbers],
    }
