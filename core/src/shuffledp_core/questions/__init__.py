"""Typed questions over records of named fields: schema, question, and wording. Pure.

    schema = RecordSchema({
        "sex": CategoryField(["Female", "Male"]),
        "age": RangeField([17, 30, 45, 60, "inf"], unit="years"),
    })
    question = table(schema, "sex", "age", where={"age": between(18, "inf")})
    question.wording          # what the plan carries, and devices evaluate
    question.size             # symbols of the mechanism, node-histogram by default

docs/how-to/ask-by-group.md, docs/how-to/open-lists.md, docs/how-to/totals.md; ADR 28, 31 and 33.
Every mistake in a description is a `UsageError` with one sentence that names the field and the
remedy.
"""

from __future__ import annotations

from shuffledp_core.questions.asking import (
    EAST,
    MECHANISM,
    MOST_CELLS,
    NORTH,
    OTHERS,
    QuestionKind,
    RecordQuestion,
    columns,
    counts,
    mechanism_of,
    quantiles,
    strings,
    table,
    total,
)
from shuffledp_core.questions.conditions import among, between
from shuffledp_core.questions.described import read_question
from shuffledp_core.questions.schema import (
    AmountField,
    CategoryField,
    RangeField,
    RecordSchema,
    SchemaField,
    TextField,
)

__all__ = [
    "EAST",
    "MECHANISM",
    "MOST_CELLS",
    "NORTH",
    "OTHERS",
    "AmountField",
    "CategoryField",
    "QuestionKind",
    "RangeField",
    "RecordQuestion",
    "RecordSchema",
    "SchemaField",
    "TextField",
    "among",
    "between",
    "columns",
    "counts",
    "mechanism_of",
    "quantiles",
    "read_question",
    "strings",
    "table",
    "total",
]
