"""Questions over a schema, and the wording of them that a plan carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Final

from shuffledp_core.documents.wording import (
    LONGEST_TEXT,
    MOST_AXES,
    MOST_CONDITIONS,
    FieldValue,
    NameSet,
    NumberRange,
    QuestionAxis,
    QuestionWording,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.questions.conditions import check_conditions
from shuffledp_core.questions.schema import (
    AmountField,
    RangeField,
    RecordSchema,
    TextField,
    check_text,
    shorten,
)

MECHANISM: Final = "node-histogram"
"""Mechanism of a question that names none: the smallest error, and no honest people needed."""

COLUMNS_MECHANISM: Final = "node-columns"
"""Mechanism of an open list, and of several fields that are counted by themselves."""

QUANTILES_MECHANISM: Final = "node-tree"
"""Mechanism of quantiles."""

MOST_CELLS: Final = 100_000
"""Most cells of a question."""

NORTH: Final = "°N"
EAST: Final = "°E"
"""Units of latitude and longitude: a table of both, in this order, is a map."""

OTHERS: Final = "none of these"
"""Name of the symbol for everyone who is in no cell, where a description has no other."""


class QuestionKind(StrEnum):
    """The kind of answer that a question asks for, such as counts, a table or quantiles.

    People with each value of one field, with each combination of several, or with each value of
    several fields by themselves; quantiles of one field; the most frequent texts of one field; or
    the sum of one field, by any others.
    """

    COUNTS = "counts"
    TABLE = "table"
    COLUMNS = "columns"
    QUANTILES = "quantiles"
    STRINGS = "strings"
    TOTAL = "total"

    @property
    def fields(self) -> range:
        """Possible numbers of fields in a question of this kind."""
        return {
            "table": range(2, MOST_AXES + 1),
            "columns": range(2, MOST_AXES + 1),
            "total": range(1, MOST_AXES + 1),
        }.get(self.value, range(1, 2))

    @property
    def mechanism(self) -> str:
        """Name of the default mechanism for questions of this kind."""
        return {
            "columns": COLUMNS_MECHANISM,
            "quantiles": QUANTILES_MECHANISM,
            "strings": COLUMNS_MECHANISM,
        }.get(self.value, MECHANISM)


@dataclass(frozen=True)
class RecordQuestion:
    """A question about the records of users, over the fields of a schema.

    Attributes:
        schema: schema of the records.
        kind: the kind of question, which determines what is counted.
        fields: the fields whose values are counted: one for counts, quantiles and strings, 2 to 4
            for a table and for columns; of a total one field of amounts, and up to 3 others that
            make groups.
        where: conditions by field; people who do not meet all of them are counted as others.
        id: identifier, such as "table-of-sex-age".
        text: one sentence for people.
        others: name of the symbol for everyone who is in no cell.
    """

    schema: RecordSchema
    kind: QuestionKind
    fields: tuple[str, ...]
    where: Mapping[str, NameSet | NumberRange] = field(default_factory=dict)
    id: str = ""
    text: str = ""
    others: str = OTHERS

    def __post_init__(self) -> None:
        limits = self.kind.fields
        if len(self.fields) not in limits:
            number = "one field" if len(limits) == 1 else f"{limits[0]} to {limits[-1]} fields"
            raise UsageError(
                f"a question of the kind {self.kind.value!r} counts {number}, not "
                f"{len(self.fields)}"
            )
        self._check_amounts()
        for name in self.fields:
            self.schema.field(name)
            if self.fields.count(name) > 1:
                raise UsageError(f"the field {shorten(name)} is counted twice: leave one out")
        self._check_open()
        self._check_quantiles()
        self._check_columns()
        self._check_map()
        if len(self.where) > MOST_CONDITIONS:
            raise UsageError(
                f"a question has at most {MOST_CONDITIONS} conditions, not {len(self.where)}"
            )
        is_by_field = self.kind is QuestionKind.COLUMNS
        cells = sum(self.shape) if is_by_field else prod(self.shape)
        if cells > MOST_CELLS and not self.is_open:
            raise UsageError(
                f"the question has {cells:,} cells, at most {MOST_CELLS:,} can be counted: put "
                "levels together, or ask for fewer fields"
            )
        _ = self.wording  # every mistake is found here

    def _check_amounts(self) -> None:
        amounts = [name for name in self.fields if isinstance(self.schema.field(name), AmountField)]
        if self.kind is QuestionKind.TOTAL and len(amounts) != 1:
            raise UsageError(
                f"a total adds up one field of amounts, not {len(amounts)}: describe one with "
                "least, such as [fields.income] with least = 1"
            )
        if self.kind is not QuestionKind.TOTAL and amounts:
            raise UsageError(
                f"the field {shorten(amounts[0])} has amounts, which are added up: ask for their "
                'sum with ask = "total", or describe it by edges'
            )

    def _check_open(self) -> None:
        """Check that fields of any text are in open lists only, and open lists have no others."""
        for name in self.fields:
            has_any_text = isinstance(self.schema.field(name), TextField)
            if has_any_text and not self.is_open:
                raise UsageError(
                    f'the field {shorten(name)} has any text: ask = "strings" finds the most '
                    "frequent ones, or give the field names"
                )
            if self.is_open and not has_any_text:
                raise UsageError(
                    f"the field {shorten(name)} has names or ranges, which can be counted: ask = "
                    '"counts", or describe it with text = true'
                )
        if self.is_open and self.others != OTHERS:
            raise UsageError(
                "an open list has no others, because every text counts: leave `others` out"
            )
        if self.is_open and self.where:
            raise UsageError("an open list has no conditions: leave `where` out")

    def _check_quantiles(self) -> None:
        if self.kind is not QuestionKind.QUANTILES:
            return
        field = self.schema.field(self.fields[0])
        if not isinstance(field, RangeField):
            raise UsageError(
                f"quantiles need a field of numbers in ranges, and {shorten(self.fields[0])} is "
                'none: describe it by from, to and step, or ask = "counts"'
            )

    def _check_map(self) -> None:
        """Check that a table of two coordinates is a map: latitudes, then longitudes."""
        fields = [self.schema.field(name) for name in self.fields]
        units = [field.unit for field in fields]
        if self.kind is not QuestionKind.TABLE or len(units) != 2 or not {*units} <= {NORTH, EAST}:
            return
        if units != [NORTH, EAST]:
            raise UsageError(
                f"a map has a field in {NORTH} and then one in {EAST}, not {units[0]} and "
                f'{units[1]}: name the latitude first, such as of = ["lat", "lon"]'
            )
        for name, coordinate, most in zip(self.fields, fields, (90, 180), strict=True):
            if not isinstance(coordinate, RangeField):
                raise UsageError(
                    f"a map needs ranges, and {shorten(name)} has none: describe it by from, to "
                    "and step"
                )
            if not all(abs(float(edge)) <= most for edge in coordinate.edges):
                raise UsageError(
                    f"{shorten(name)} in {coordinate.unit} must be from -{most} to {most}: "
                    "correct its from and to, or its edges"
                )

    def _check_columns(self) -> None:
        """Check that a question by columns has neither conditions nor others."""
        if self.kind is not QuestionKind.COLUMNS:
            return
        if self.where:
            raise UsageError(
                "columns have no conditions, because everyone is counted in every column: leave "
                '`where` out, or ask = "table"'
            )
        if self.others != OTHERS:
            raise UsageError(
                "columns have no others, because everyone is counted in every column: leave "
                "`others` out, and name an answer such as “unknown” in each field"
            )

    @property
    def is_open(self) -> bool:
        """True if the question asks for the most frequent texts."""
        return self.kind is QuestionKind.STRINGS

    @property
    def mechanism(self) -> str:
        """Name of the default mechanism for this question."""
        return self.kind.mechanism

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each field."""
        return tuple(self.schema.field(name).symbols.size for name in self.fields)

    @property
    def size(self) -> int:
        """Number of symbols for the mechanism: the cells, and one for all others."""
        return self.wording.size

    @cached_property
    def wording(self) -> QuestionWording:
        """The question in words, as the plan carries it and devices evaluate it."""
        where = check_conditions(self.schema, self.where)
        text = self.text or self._sentence()
        text = check_text("sentence of a question", text, LONGEST_TEXT)
        has_others = self.kind not in {QuestionKind.STRINGS, QuestionKind.COLUMNS}
        others = check_text("name of the others", self.others) if has_others else ""
        name = self.id or _identifier(self.kind, self.fields)
        try:
            return QuestionWording(
                id=name,
                text=text,
                axes=tuple(self._axis(field, name, text) for field in self.fields),
                where=where,
                others=others,
            )
        except ValueError as error:
            raise UsageError(f"{error}: change the question's description") from error

    def _axis(self, name: str, *words: str) -> QuestionAxis:
        field = self.schema.field(name)
        symbols = field.hashes_of(*words, name) if isinstance(field, TextField) else field.symbols
        return QuestionAxis(field=name, unit=field.unit, symbols=symbols)

    def _sentence(self) -> str:
        if self.kind is QuestionKind.QUANTILES:
            return f"Which {self.fields[0]} do people have, from the lowest to the highest?"
        if self.kind is not QuestionKind.TOTAL:
            return f"How many people are there for each {' and '.join(self.fields)}?"
        amounts = [isinstance(self.schema.field(name), AmountField) for name in self.fields]
        groups = [name for name, adds in zip(self.fields, amounts, strict=True) if not adds]
        whom = f" of the people for each {' and '.join(groups)}" if groups else " of all people"
        return f"What is the sum of {self.fields[amounts.index(True)]}{whom}?"

    def locate_record(self, record: Mapping[str, FieldValue]) -> int:
        """The symbol of a record, computed as devices do."""
        return self.wording.locate_record(record)


def counts(
    schema: RecordSchema,
    name: str,
    *,
    where: Mapping[str, NameSet | NumberRange] | None = None,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
    others: str = OTHERS,
) -> RecordQuestion:
    """A question: how many people have each value of one field?"""
    return RecordQuestion(schema, QuestionKind.COUNTS, (name,), where or {}, id, text, others)


def table(
    schema: RecordSchema,
    *names: str,
    where: Mapping[str, NameSet | NumberRange] | None = None,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
    others: str = OTHERS,
) -> RecordQuestion:
    """A question: how many people have each combination of the values of 2 to 4 fields?"""
    return RecordQuestion(schema, QuestionKind.TABLE, names, where or {}, id, text, others)


def columns(
    schema: RecordSchema,
    *names: str,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
) -> RecordQuestion:
    """A question: how many people have each value of 2 to 4 fields, each field by itself?"""
    return RecordQuestion(schema, QuestionKind.COLUMNS, names, {}, id, text)


def quantiles(
    schema: RecordSchema,
    name: str,
    *,
    where: Mapping[str, NameSet | NumberRange] | None = None,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
    others: str = OTHERS,
) -> RecordQuestion:
    """A question: the median and percentiles of a numeric field, and the people in any range."""
    return RecordQuestion(schema, QuestionKind.QUANTILES, (name,), where or {}, id, text, others)


def strings(
    schema: RecordSchema,
    name: str,
    *,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
) -> RecordQuestion:
    """A question: which texts of a field are the most frequent, and how many people have each?"""
    return RecordQuestion(schema, QuestionKind.STRINGS, (name,), {}, id, text)


def total(
    schema: RecordSchema,
    *names: str,
    where: Mapping[str, NameSet | NumberRange] | None = None,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
    others: str = OTHERS,
) -> RecordQuestion:
    """A question: the sum of an amount field, by the combinations of up to 3 other fields."""
    return RecordQuestion(schema, QuestionKind.TOTAL, names, where or {}, id, text, others)


def mechanism_of(wording: QuestionWording) -> str:
    """Name of the default mechanism of a wording that comes without a description."""
    return COLUMNS_MECHANISM if wording.is_open else MECHANISM


def _identifier(kind: QuestionKind, fields: tuple[str, ...]) -> str:
    words = "-".join((kind.value, "of", *fields)).lower()
    return re.sub(r"[^a-z0-9._-]+", "-", words)[:64].rstrip("-")
