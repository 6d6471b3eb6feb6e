"""Questions over a schema, and the words that a plan carries for them."""

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
from shuffledp_core.questions.schema import RecordSchema, check_text, shorten

MECHANISM: Final = "node-histogram"
"""Mechanism of a question that names none: the smallest error, and no honest people needed."""

MOST_CELLS: Final = 100_000
"""Most cells of a question."""

OTHERS: Final = "none of these"
"""Name of the symbol for everybody who is in no cell, where a description has no other."""


class QuestionKind(StrEnum):
    """What a question counts: the values of one field, or the combinations of several."""

    COUNTS = "counts"
    TABLE = "table"


@dataclass(frozen=True)
class RecordQuestion:
    """A question over a schema.

    Attributes:
        schema: of the records.
        kind: what is counted.
        fields: whose values are counted: one for counts, 2 to 4 for a table.
        where: conditions by field; people who do not meet all of them are counted as others.
        id: identifier, such as "table-of-sex-age".
        text: one sentence for people.
        others: name of the symbol for everybody who is in no cell.
    """

    schema: RecordSchema
    kind: QuestionKind
    fields: tuple[str, ...]
    where: Mapping[str, NameSet | NumberRange] = field(default_factory=dict)
    id: str = ""
    text: str = ""
    others: str = OTHERS

    def __post_init__(self) -> None:
        limits = (1, 1) if self.kind is QuestionKind.COUNTS else (2, MOST_AXES)
        if not limits[0] <= len(self.fields) <= limits[1]:
            number = "one field" if limits[1] == 1 else f"2 to {MOST_AXES} fields"
            raise UsageError(
                f"a question of the kind {self.kind.value!r} counts {number}, not "
                f"{len(self.fields)}"
            )
        for name in self.fields:
            self.schema.field(name)
            if self.fields.count(name) > 1:
                raise UsageError(f"the field {shorten(name)} is counted twice: leave one out")
        if len(self.where) > MOST_CONDITIONS:
            raise UsageError(
                f"a question has at most {MOST_CONDITIONS} conditions, not {len(self.where)}"
            )
        cells = prod(self.shape)
        if cells > MOST_CELLS:
            raise UsageError(
                f"the question has {cells:,} cells, at most {MOST_CELLS:,} can be counted: put "
                "levels together, or ask for fewer fields"
            )
        _ = self.wording  # every mistake is found here

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each field."""
        return tuple(self.schema.field(name).symbols.size for name in self.fields)

    @property
    def size(self) -> int:
        """Symbols of the mechanism: the cells, and one for all others."""
        return self.wording.size

    @cached_property
    def wording(self) -> QuestionWording:
        """The question in words, as the plan carries it and devices evaluate it."""
        axes = tuple(
            QuestionAxis(
                field=name,
                unit=self.schema.field(name).unit,
                symbols=self.schema.field(name).symbols,
            )
            for name in self.fields
        )
        where = check_conditions(self.schema, self.where)
        text = self.text or f"How many people are there for each {' and '.join(self.fields)}?"
        text = check_text("sentence of a question", text, LONGEST_TEXT)
        others = check_text("name of the others", self.others)
        try:
            return QuestionWording(
                id=self.id or _identifier(self.kind, self.fields),
                text=text,
                axes=axes,
                where=where,
                others=others,
            )
        except ValueError as error:
            raise UsageError(f"{error}: change the question's description") from error

    def locate_record(self, record: Mapping[str, FieldValue]) -> int:
        """The symbol of a record, as a device finds it."""
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
    """How many people have each value of one field."""
    return RecordQuestion(schema, QuestionKind.COUNTS, (name,), where or {}, id, text, others)


def table(
    schema: RecordSchema,
    *names: str,
    where: Mapping[str, NameSet | NumberRange] | None = None,
    id: str = "",  # noqa: A002 - the word of the documents
    text: str = "",
    others: str = OTHERS,
) -> RecordQuestion:
    """How many people have each combination of the values of 2 to 4 fields."""
    return RecordQuestion(schema, QuestionKind.TABLE, names, where or {}, id, text, others)


def _identifier(kind: QuestionKind, fields: tuple[str, ...]) -> str:
    words = "-".join((kind.value, "of", *fields)).lower()
    return re.sub(r"[^a-z0-9._-]+", "-", words)[:64].rstrip("-")
