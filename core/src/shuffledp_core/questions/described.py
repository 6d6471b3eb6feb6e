"""Reads a question from a description in TOML; docs/how-to/ask-by-group.md has an example."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from typing import Any, Final

from shuffledp_core.documents.wording import NameSet, NumberRange
from shuffledp_core.errors import UsageError
from shuffledp_core.questions.asking import OTHERS, QuestionKind, RecordQuestion
from shuffledp_core.questions.conditions import among, between
from shuffledp_core.questions.schema import (
    AmountField,
    CategoryField,
    RangeField,
    RecordSchema,
    SchemaField,
    TextField,
    check_text,
    shorten,
)

MOST_BYTES: Final = 2**20
"""Longest description."""

_KEYS: Final = ("id", "text", "ask", "of", "fields", "where", "others")
_FIELD_KEYS: Final = ("names", "edges", "from", "to", "step", "least", "most", "parts", "unit")


def read_question(text: str) -> RecordQuestion:
    """Read a question from its description in TOML.

    Raises:
        UsageError: it is not TOML, or breaks a rule; one sentence names the place and the remedy.
    """
    if len(text) > MOST_BYTES:
        raise UsageError(f"a description has at most {MOST_BYTES:,} characters, not {len(text):,}")
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        comma = _DECIMAL_COMMA.search(text)
        hint = f"; decimals have a point: write {comma[1]}.{comma[2]}" if comma else ""
        raise UsageError(f"this is not TOML: {error}{hint}") from error
    except RecursionError as error:
        raise UsageError("this TOML is nested too deeply for a description") from error
    return convert_question(given)


def convert_question(given: Mapping[str, Any]) -> RecordQuestion:
    """Convert a question's description, given as a table, into the question."""
    _check_keys("a question", given, _KEYS)
    for key in ("ask", "of", "fields"):
        if key not in given:
            raise UsageError(f"the description has no {key!r}: {_EXAMPLES[key]}")
    try:
        kind = QuestionKind(given["ask"])
    except ValueError as error:
        meant = _MEANT.get(given["ask"]) if isinstance(given["ask"], str) else None
        if meant is not None:
            raise UsageError(f"there is no ask = {shorten(given['ask'])}: {meant}") from error
        *first, last = (f'"{option.value}"' for option in QuestionKind)
        raise UsageError(
            f"ask must be {', '.join(first)} or {last}, not {shorten(given['ask'])}"
        ) from error
    schema = _convert_schema(given["fields"])
    names = [given["of"]] if isinstance(given["of"], str) else given["of"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f'of must list fields, such as ["sex", "age"], not {shorten(names)}')
    texts = {
        key: check_text(key, given[key], 1000) for key in ("id", "text", "others") if key in given
    }
    return RecordQuestion(
        schema,
        kind,
        tuple(names),
        _convert_where(given.get("where", {})),
        texts.get("id", ""),
        texts.get("text", ""),
        texts.get("others", OTHERS),
    )


_DECIMAL_COMMA: Final = re.compile(r"=\s*(-?[0-9]{1,9}),([0-9]{1,9})\s*$", re.MULTILINE)

_MEAN: Final = 'ask = "total" adds up a field of amounts; divide it by the number of people'
_COUNTS: Final = 'ask = "counts" counts the people with each value of a field'
_QUANTILES: Final = 'ask = "quantiles" gives the median and other percentiles of a field'
_STRINGS: Final = 'ask = "strings" finds the most frequent texts of a field with text = true'
_MEANT: Final = {
    "sum": 'ask = "total" adds up a field of amounts, described with least',
    "mean": _MEAN,
    "average": _MEAN,
    "median": _QUANTILES,
    "medians": _QUANTILES,
    "percentile": _QUANTILES,
    "percentiles": _QUANTILES,
    "quantile": _QUANTILES,
    "text": _STRINGS,
    "texts": _STRINGS,
    "words": _STRINGS,
    "count": _COUNTS,
    "histogram": _COUNTS,
    "map": 'ask = "table" of a field in °N and a field in °E is a map',
    "group": 'ask = "table" counts each combination of several fields',
    "tables": 'ask = "table" counts each combination of several fields',
    "several": 'ask = "columns" counts several fields by themselves',
}
"""Words that people try, and what asks for that."""

_OF_TEXT: Final = ("text", "columns", "bits", "salt")

_EXAMPLES: Final = {
    "ask": 'add one line such as ask = "counts", or "table", "columns", "quantiles", "strings", '
    '"total"',
    "of": 'name the fields that are counted, such as of = ["sex", "age"]',
    "fields": "describe each field in a table, such as [fields.age] with edges = [0, 18, 65]",
}


def _convert_schema(given: object) -> RecordSchema:
    if not isinstance(given, dict):
        raise UsageError(f"fields must be tables, such as [fields.age], not {shorten(given)}")
    fields = {}
    for name, described in given.items():
        try:
            fields[name] = _convert_field(described)
        except UsageError as error:
            raise UsageError(f"field {shorten(name)}: {error}") from error
    return RecordSchema(fields)


def _convert_field(given: object) -> SchemaField:
    if not isinstance(given, dict):
        raise UsageError(f"expected a table with names or edges, not {shorten(given)}")
    _check_keys("a field", given, (*_FIELD_KEYS, *_OF_TEXT))
    ways = [key for key in ("names", "edges", "step", "text", "least") if key in given]
    if len(ways) != 1:
        raise UsageError(
            "describe the values in one way: names = [..], edges = [..], from, to and step, "
            "text = true, or least for amounts that are added up"
        )
    _check_companions(ways[0], given)
    unit = given.get("unit", "")
    if ways[0] == "text":
        if given["text"] is not True:
            raise UsageError(f"text must be true, not {shorten(given['text'])}: or leave it out")
        return TextField(unit=unit, **{key: given[key] for key in _OF_TEXT[1:] if key in given})
    if ways[0] == "least":
        of_amounts = {key: given[key] for key in ("most", "parts") if key in given}
        return AmountField(given["least"], unit=unit, **of_amounts)
    if ways[0] == "names":
        return CategoryField(_as_list("names", given["names"]), unit=unit)
    if ways[0] == "edges":
        return RangeField(_as_list("edges", given["edges"]), unit=unit)
    if "from" not in given or "to" not in given:
        raise UsageError("a step needs from and to: name the first and the last number")
    return RangeField.steps(given["from"], given["to"], given["step"], unit=unit)


def _check_companions(way: str, given: Mapping[str, Any]) -> None:
    """Check that a field has no keys of another kind of field."""
    companions = {
        "least": (("most", "parts"), "least"),
        "step": (("from", "to"), "a step"),
        "text": (_OF_TEXT[1:], "a field with text = true"),
    }
    for other, (keys, what) in companions.items():
        present = [key for key in keys if key in given]
        if other != way and present:
            raise UsageError(
                f"{' and '.join(present)} belong to {what}, not to {way}: leave them out"
            )


def _convert_where(given: object) -> dict[str, NameSet | NumberRange]:
    if not isinstance(given, dict):
        raise UsageError(
            f"where must be a table of conditions by field, such as [where], not {shorten(given)}"
        )
    conditions: dict[str, NameSet | NumberRange] = {}
    for name, described in given.items():
        try:
            conditions[name] = _convert_condition(described)
        except UsageError as error:
            raise UsageError(f"condition on {shorten(name)}: {error}") from error
    return conditions


def _convert_condition(given: object) -> NameSet | NumberRange:
    if isinstance(given, list):
        return among(*given)
    if isinstance(given, str):
        return among(given)
    if not isinstance(given, dict):
        raise UsageError(
            f"expected a list of names or a range such as {{ from = 18 }}, not {shorten(given)}"
        )
    _check_keys("a condition", given, ("from", "below"))
    return between(given.get("from", "-inf"), given.get("below", "inf"))


def _as_list(key: str, given: object) -> list[Any]:
    if not isinstance(given, list):
        raise UsageError(f"{key} must be a list in square brackets, not {shorten(given)}")
    return given


def _check_keys(what: str, given: Mapping[str, Any], keys: Collection[str]) -> None:
    for key in given:
        if key not in keys:
            raise UsageError(f"{what} has no {shorten(key)}: it has {', '.join(keys)}")
