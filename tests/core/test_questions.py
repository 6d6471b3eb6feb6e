"""Typed questions: what they compile to, and one helpful sentence for each wrong description."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.documents.wording import FieldValue, QuestionWording
from shuffledp_core.errors import UsageError
from shuffledp_core.questions import (
    CategoryField,
    RangeField,
    RecordQuestion,
    RecordSchema,
    among,
    between,
    columns,
    counts,
    quantiles,
    read_question,
    table,
)

RIGHT = """
id = "work"
text = "How many hours do people of each sex work?"
ask = "table"
of = ["sex", "hours"]
others = "not in work"

[fields.sex]
names = ["Female", "Male"]
[fields.hours]
unit = "h"
from = 0
to = 60
step = 12.5
[fields.age]
edges = [17, 25.5, "65", inf]
unit = "years"
[fields.country]
names = ["DE", "FR", "IT"]

[where]
country = ["DE", "FR"]
age = { from = 18, below = 65 }
"""

SCHEMA = RecordSchema(
    {
        "sex": CategoryField(["Female", "Male"]),
        "hours": RangeField([0, 12.5, "25", Decimal("37.5"), 50, 60], unit="h"),
        "age": RangeField([17, 25.5, 65, math.inf], unit="years"),
        "country": CategoryField(["DE", "FR", "IT"]),
    }
)


def test_toml_and_python_describe_one_question() -> None:
    described = read_question(RIGHT)
    written = table(
        SCHEMA,
        "sex",
        "hours",
        where={"country": among("DE", "FR"), "age": between(18, 65)},
        id="work",
        text="How many hours do people of each sex work?",
        others="not in work",
    )
    assert described.wording == written.wording
    assert (written.shape, written.size) == ((2, 5), 11)
    assert from_json(to_json(written.wording), QuestionWording) == written.wording
    names = written.wording.names()
    assert names[1] == "Female, 12.5–25 h"
    assert names[9:] == ("Male, 50–60 h", "not in work")


RECORD: dict[str, FieldValue] = {"sex": "Male", "hours": 40, "age": 30, "country": "FR"}


def test_a_device_finds_its_cell_from_the_signed_words() -> None:
    wording = from_json(to_json(read_question(RIGHT).wording), QuestionWording)
    assert wording.name(wording.locate_record(RECORD)) == "Male, 37.5–50 h"
    changes: list[dict[str, FieldValue]] = [
        {"country": "IT"}, {"country": None}, {"age": 65}, {"age": 17}, {"hours": 61}, {"sex": ""},
    ]  # fmt: skip
    for change in changes:
        assert wording.locate_record(RECORD | change) == wording.size - 1


@given(st.dictionaries(st.sampled_from(["sex", "hours", "age", "country"]), st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["Female", "Male", "DE", "FR", "IT"]), st.decimals(0, 70, places=3),
)))  # fmt: skip
def test_every_record_has_a_symbol(record: dict[str, FieldValue]) -> None:
    question = read_question(RIGHT)
    symbol = question.locate_record(record)
    assert 0 <= symbol < question.size
    if set(record) < {"sex", "hours", "age", "country"}:
        assert symbol == question.size - 1


def test_a_description_without_words_gets_some() -> None:
    question = counts(SCHEMA, "age")
    assert (question.wording.id, question.wording.others) == ("counts-of-age", "none of these")
    assert question.wording.text == "How many people are there for each age?"
    assert question.size == 4
    odd = RecordSchema({"Straße / Ort": CategoryField(["a", "b"])})
    assert counts(odd, "Straße / Ort").wording.id == "counts-of-stra-e-ort"


KINDS = """
ask = "{}"
of = {}
[fields.a]
names = ["x", "y"]
[fields.b]
names = ["x", "y", "z"]
[fields.n]
from = 0
to = 5
step = 1
[fields.t]
text = true
[fields.m]
least = 1
"""


@pytest.mark.parametrize(
    ("kind", "of", "mechanism", "size"),
    [
        ("counts", '"a"', "node-histogram", 3),
        ("table", '["a", "b"]', "node-histogram", 7),
        ("columns", '["a", "b"]', "node-columns", 6),
        ("quantiles", '"n"', "node-tree", 6),
        ("strings", '"t"', "node-columns", 8192**3),
        ("total", '["a", "m"]', "node-histogram", 123),
    ],
)
def test_each_kind_has_a_mechanism_that_serves_it(
    kind: str, of: str, mechanism: str, size: int
) -> None:
    question = read_question(KINDS.format(kind, of))
    assert (question.kind, question.mechanism, question.size) == (kind, mechanism, size)
    assert question.wording.text.endswith("?")


def test_columns_count_everyone_in_each_of_them() -> None:
    question = columns(SCHEMA, "sex", "country")
    assert question.wording.others == ""
    assert question.locate_record({"sex": "Male", "country": "FR"}) == 4
    with pytest.raises(ValueError, match="no value for the field 'country'"):
        question.locate_record({"sex": "Male"})


def test_quantiles_are_those_of_people_with_a_value_who_meet_the_conditions() -> None:
    question = quantiles(SCHEMA, "hours", where={"sex": among("Male")})
    assert question.locate_record({"sex": "Male", "hours": 20}) == 1
    others: list[dict[str, FieldValue]] = [{"sex": "Female", "hours": 20}, {"sex": "Male"}]
    assert [question.locate_record(record) for record in others] == [question.size - 1] * 2


def test_whole_numbers_may_be_names() -> None:
    assert CategoryField([1, 2, 3]).names == ("1", "2", "3")
    assert counts(RecordSchema({"n": CategoryField([1, 2])}), "n").locate_record({"n": 2}) == 1


FIELD = "[fields.f]\n{}\n"
ASK = 'ask = "counts"\nof = "f"\n'
NAMES = 'ask = "counts"\nof = "f"\n[fields.f]\nnames = ["a", "b"]\n'
EDGES = 'ask = "counts"\nof = "f"\n[fields.f]\nedges = [0, 1, 2]\n'


def field(line: str) -> str:
    return f"{ASK}[fields.f]\n{line}\n"


def big(fields: int, levels: int) -> str:
    names = [f"f{at}" for at in range(fields)]
    edges = list(range(levels + 1))
    tables = "\n".join(f"[fields.{name}]\nedges = {edges}" for name in names)
    return f'ask = "table"\nof = {names}\n{tables}'.replace("'", '"')


WRONG: dict[str, tuple[str, str]] = {
    "not TOML": ("ask: table", "not TOML"),
    "an open quotation mark": ('ask = "table', "not TOML"),
    "nothing": ("", "has no 'ask'"),
    "no fields asked for": ('ask = "counts"\n[fields.f]\nnames = ["a", "b"]', "has no 'of'"),
    "no fields described": ('ask = "counts"\nof = "f"', "has no 'fields'"),
    "another kind": (NAMES.replace("counts", "ranks"), '"counts", "table", .* or "total", not'),
    "a kind that is a number": ('ask = 1\nof = "f"\n[fields.f]\nnames = ["a", "b"]', "not 1"),
    "a kind that is a list": ('ask = []\nof = "f"\n[fields.f]\nnames = ["a", "b"]', "ask must be"),
    "an unknown key": (f'askk = "table"\n{NAMES}', "has no 'askk': it has id, text, ask"),
    "an unknown field": (NAMES.replace('"f"', '"g"'), "no field 'g'.*choose one of f"),
    "a field in other case": (NAMES.replace('"f"', '"F"'), "no field 'F'"),
    "fields that are text": ('ask = "counts"\nof = "f"\nfields = "f"', "such as .fields.age."),
    "fields that are a list": ('ask = "counts"\nof = "f"\nfields = ["f"]', "fields must be tables"),
    "a field that is a list": ('ask = "counts"\nof = "f"\n[fields]\nf = ["a"]', "'f': expected"),
    "no description of a field": (field(""), "in one way"),
    "two descriptions of a field": (field('names = ["a", "b"]\nedges = [0, 1, 2]'), "in one way"),
    "an unknown key of a field": (field('ranges = [[0, 1]]'), "'ranges': it has names, edges"),
    "a schema without fields": ('ask = "counts"\nof = "f"\n[fields]', "a schema needs a field"),
    "counts of two fields": (NAMES.replace('"f"', '["f", "f"]'), "counts one field, not 2"),
    "counts of no field": (NAMES.replace('"f"', "[]"), "counts one field, not 0"),
    "a table of one field": (NAMES.replace("counts", "table"), "counts 2 to 4 fields, not 1"),
    "a table of five fields": (big(5, 2), "counts 2 to 4 fields, not 5"),
    "a field counted twice": (
        NAMES.replace("counts", "table").replace('"f"', '["f", "f"]'), "counted twice",
    ),
    "fields as a number": (NAMES.replace('"f"', "7"), "of must list fields"),
    "fields as numbers": (NAMES.replace('"f"', "[7]"), "of must list fields"),
    "a billion cells": (big(3, 1000), "1,000,000,000 cells, at most 100,000"),
    "a few cells too many": (big(2, 317), "100,489 cells"),
    "too many words": (big(2, 600), "360,000 cells"),
    "too many names": (field(f"names = {[str(at) for at in range(1025)]}"), "at most 1,024 names"),
    "too many ranges": (field(f"edges = {list(range(1026))}"), "at most 1,024 ranges"),
    "names that are text": (field('names = "a, b"'), "names must be a list"),
    "one name": (field('names = ["a"]'), "2 or more names"),
    "no name": (field("names = []"), "2 or more names .*not 0"),
    "a name twice": (field('names = ["a", "b", "a"]'), "'a' is listed twice"),
    "a name twice in two spellings": (field('names = ["ü", "u\\u0308"]'), "listed twice"),
    "an empty name": (field('names = ["a", ""]'), "1 to 100 characters"),
    "a long name": (field(f'names = ["a", "{"b" * 101}"]'), "1 to 100 characters"),
    "a name with a line break": (field('names = ["a", "b\\nc"]'), r"U\+000A"),
    "a name with a control character": (field('names = ["a", "b\\u0007"]'), r"U\+0007"),
    "a name that turns the text": (field('names = ["a", "\\u202eb"]'), r"U\+202E"),
    "a name with spaces around it": (field('names = ["a", " b"]'), "two spaces in a row"),
    "a name that is a decimal": (field("names = [1.5, 2.5]"), "text in quotation marks"),
    "a name that is a truth": (field("names = [true, false]"), "text in quotation marks"),
    "edges that are a number": (field("edges = 5"), "edges must be a list"),
    "edges that are text": (field('edges = "0-18"'), "edges must be a list"),
    "two edges": (field("edges = [0, 1]"), "3 or more edges, not 2"),
    "overlapping ranges": (field("edges = [0, 30, 18, 65]"), "do not overlap: 18 stands after 30"),
    "equal edges": (field("edges = [0, 18, 18, 65]"), "18 stands after 18"),
    "an edge that is not a number": (field('edges = [0, "young", 65]'), "'young' is not a number"),
    "an edge that is a truth": (field("edges = [0, true, 65]"), "not True"),
    "an edge that is a list": (field("edges = [0, [18], 65]"), "such as 12.5"),
    "an edge that is a date": (field("edges = [0, 2026-01-01, 65]"), "such as 12.5"),
    "an edge that is no number at all": (field("edges = [0, nan, 65]"), "nan is not a number"),
    "infinity in the middle": (field("edges = [0, inf, 65]"), "only the last one inf"),
    "only infinite edges": (field('edges = ["-inf", "inf", "inf"]'), "may be -inf"),
    "an edge of many digits": (field("edges = [0, 1e30, 1e31]"), "15 digits before"),
    "an edge of small steps": (field("edges = [0, 1e-12, 1]"), "9 after"),
    "a step of nothing": (field("from = 0\nto = 10\nstep = 0"), "step must be above 0"),
    "a step backwards": (field("from = 10\nto = 0\nstep = 1"), "from must be below to"),
    "a step over everything": (field("from = 0\nto = 10\nstep = 20"), "makes one range"),
    "a step of dust": (field("from = 0\nto = 1000000\nstep = 0.001"), "at most 1,024 ranges"),
    "a step without an end": (field("from = 0\nstep = 1"), "needs from and to"),
    "an end without a step": (field("from = 0\nto = 9"), "in one way"),
    "a step to infinity": (field("from = 0\nto = inf\nstep = 1"), "first edge may be"),
    "names with a start": (field('names = ["a", "b"]\nfrom = 0'), "belong to a step"),
    "a unit that is a number": (field("edges = [0, 1, 2]\nunit = 5"), "unit must be text"),
    "a long unit": (field(f'edges = [0, 1, 2]\nunit = "{"u" * 33}"'), "1 to 32 characters"),
    "a unit with a tab": (field('edges = [0, 1, 2]\nunit = "a\\tb"'), r"U\+0009"),
    "a field with a control character": (
        NAMES.replace("[fields.f]", '[fields."f\\u0000"]'), r"field must be plain text.*U\+0000",
    ),
    "a field of many letters": (NAMES.replace("[fields.f]", f"[fields.{'f' * 101}]"), "1 to 100"),
    "an identifier with spaces": (f'id = "my question"\n{NAMES}', "not a valid identifier"),
    "an identifier that is a number": (f"id = 7\n{NAMES}", "id must be text"),
    "a sentence of two lines": (f'text = "a\\nb"\n{NAMES}', r"U\+000A"),
    "a long sentence": (f'text = "{"t" * 301}"\n{NAMES}', "1 to 300"),
    "others that are a name": (f'others = "a"\n{NAMES}', "must not be that of a symbol"),
    "others that are empty": (f'others = ""\n{NAMES}', "1 to 1000 characters"),
    "others that are a truth": (f"others = true\n{NAMES}", "others must be text"),
    "conditions as text": (f'where = "f = a"\n{NAMES}', "where must be a table"),
    "conditions as a list": (f'where = ["a"]\n{NAMES}', "where must be a table"),
    "a condition on an unknown field": (f'{NAMES}[where]\ng = ["a"]', "no field 'g'"),
    "a condition with an unknown name": (f'{NAMES}[where]\nf = ["c"]', "'c'.*choose from a, b"),
    "a condition without names": (f"{NAMES}[where]\nf = []", "would count no one"),
    "a condition with a name twice": (f'{NAMES}[where]\nf = ["a", "a"]', "a name twice"),
    "a condition that is a number": (f"{NAMES}[where]\nf = 5", "list of names or a range"),
    "a condition with other keys": (f"{NAMES}[where]\nf = {{ min = 1 }}", "has from, below"),
    "a range for names": (f"{NAMES}[where]\nf = {{ from = 1 }}", "but the field has names"),
    "names for a range": (f'{EDGES}[where]\nf = ["a"]', "but the field has numbers"),
    "a range of nothing": (f"{EDGES}[where]\nf = {{ from = 5, below = 5 }}", "there are none"),
    "a range backwards": (f"{EDGES}[where]\nf = {{ from = 5, below = 1 }}", "exchange the ends"),
    "a range without ends": (f"{EDGES}[where]\nf = {{}}", "needs an end"),
    "a range of words": (f'{EDGES}[where]\nf = {{ from = "old" }}', "'old' is not a number"),
    "five conditions": (
        big(2, 2)
        + "".join(f"\n[fields.g{at}]\nnames = ['a', 'b']" for at in range(5))
        + "\n[where]\n"
        + "\n".join(f"g{at} = ['a']" for at in range(5)),
        "at most 4 conditions, not 5",
    ),
    "deeply nested": ("a = " + "[" * 2000, "TOML"),
    "a million characters": ("#" * 2**21, "at most 1,048,576 characters"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_description_gives_one_sentence_that_helps(name: str) -> None:
    text, words = WRONG[name]
    with pytest.raises(UsageError, match=words) as refusal:
        read_question(text)
    sentence = str(refusal.value)
    assert "\n" not in sentence
    assert len(sentence) <= 300
    assert all(character.isprintable() for character in sentence)


def test_at_least_sixty_wrong_descriptions_are_told_apart() -> None:
    assert len(WRONG) >= 60


@pytest.mark.parametrize(
    "call",
    [
        lambda: CategoryField("abc"),
        lambda: RangeField("012"),
        among,
        between,
        lambda: RecordSchema({}),
        lambda: table(SCHEMA, "sex"),
        lambda: RangeField([object(), 1, 2]),  # type: ignore[list-item]
    ],
)
def test_wrong_python_is_refused_alike(call: Any) -> None:
    with pytest.raises(UsageError):
        call()


def test_a_question_is_as_large_as_its_bound() -> None:
    edges = list(range(317))
    wide = RecordSchema({"a": RangeField(edges), "b": RangeField(edges[:251])})
    question: RecordQuestion = table(wide, "a", "b")
    assert question.size == 316 * 250 + 1
