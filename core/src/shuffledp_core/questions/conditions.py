"""Conditions on fields, which devices evaluate: sets of names and ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from shuffledp_core.documents.wording import NameSet, NumberRange, QuestionCondition
from shuffledp_core.errors import UsageError
from shuffledp_core.questions.schema import (
    CategoryField,
    Number,
    RecordSchema,
    TextField,
    check_text,
    shorten,
    spell_edge,
)


def among(*names: str | int) -> NameSet:
    """A condition: the value is one of these names."""
    if not names:
        raise UsageError("a condition needs a name: an empty list would count no one")
    texts = tuple(
        str(name)
        if isinstance(name, int) and not isinstance(name, bool)
        else check_text("name", name)  # type: ignore[arg-type]
        for name in names
    )
    if len(set(texts)) < len(texts):
        raise UsageError("a condition lists a name twice: leave one out")
    return NameSet(names=texts)


def between(low: Number = "-inf", high: Number = "inf") -> NumberRange:
    """A condition: the number is from `low` to below `high`."""
    ends = (spell_edge(low, is_first=True), spell_edge(high, is_last=True))
    if ends == ("-inf", "inf"):
        raise UsageError("a condition on numbers needs an end: name `from` or `below`")
    if Decimal(ends[0]) >= Decimal(ends[1]):
        raise UsageError(
            f"a condition counts numbers from {ends[0]} to below {ends[1]}, and there are none: "
            "exchange the ends"
        )
    return NumberRange(low=ends[0], high=ends[1])


def check_conditions(
    schema: RecordSchema, where: Mapping[str, NameSet | NumberRange]
) -> tuple[QuestionCondition, ...]:
    """The conditions for a question's wording, after checking that each suits its field."""
    conditions = []
    for name, holds in where.items():
        field = schema.field(name)
        if isinstance(field, TextField):
            raise UsageError(
                f"the field {shorten(name)} is of any text, but a condition needs a field with "
                "names: give it names in the schema"
            )
        if isinstance(field, CategoryField):
            if not isinstance(holds, NameSet):
                raise UsageError(
                    f"the condition on {shorten(name)} is a range, but the field has names: list "
                    "the names that count"
                )
            unknown = [text for text in holds.names if text not in field.names]
            if unknown:
                raise UsageError(
                    f"the condition on {shorten(name)} names {shorten(unknown[0])}, which is not "
                    f"among the field's names: choose from {', '.join(field.names[:12])}"
                )
        elif not isinstance(holds, NumberRange):
            raise UsageError(
                f"the condition on {shorten(name)} lists names, but the field has numbers: give "
                "a range, such as { from = 18, below = 65 }"
            )
        conditions.append(QuestionCondition(field=name, unit=field.unit, holds=holds))
    return tuple(conditions)
