"""Questions in words: one encoding, what symbols mean, and where answers belong."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.documents.decimals import parse_decimal, spell_decimal
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.documents.wording import (
    FieldValue,
    NameSet,
    NumberRange,
    QuestionAxis,
    QuestionCondition,
    QuestionWording,
    SymbolMeaning,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
    spell_value,
)

DECIMALS = st.decimals(-(10**6), 10**6, places=4)


def of(*symbols: SymbolMeaning) -> QuestionWording:
    axes = tuple(
        QuestionAxis(field=f"f{at}", unit="", symbols=meaning) for at, meaning in enumerate(symbols)
    )
    return QuestionWording(id="q", text="Which one?", axes=axes)


@given(DECIMALS)
def test_a_number_has_one_spelling(number: Decimal) -> None:
    text = spell_decimal(number)
    assert parse_decimal(text) == number
    assert spell_decimal(parse_decimal(text)) == text


@given(st.lists(DECIMALS, min_size=3, max_size=20, unique=True), st.data())
def test_an_answer_is_in_the_range_that_its_symbol_names(
    edges: list[Decimal], data: st.DataObject
) -> None:
    edges.sort()
    ranges = SymbolRanges(edges=tuple(spell_decimal(edge) for edge in edges))
    answer = data.draw(st.decimals(edges[0], edges[-1], places=4))
    symbol = ranges.locate(f"{answer:f}")
    assert edges[symbol] <= answer
    assert answer < edges[symbol + 1] or (answer == edges[-1] and symbol == len(edges) - 2)


@given(DECIMALS, st.integers(1, 10**5), st.integers(2, 500), st.data())
def test_an_answer_counts_as_the_nearest_number_of_a_scale(
    start: Decimal, thousandths: int, size: int, data: st.DataObject
) -> None:
    step = Decimal(thousandths) / 1000
    scale = SymbolScale(start=spell_decimal(start), step=spell_decimal(step), size=size)
    last = start + step * (size - 1)
    answer = data.draw(st.decimals(start, last, places=4))
    symbol = scale.locate(f"{answer:f}")
    assert abs(Fraction(answer) - Fraction(scale.value(symbol))) <= Fraction(step) / 2
    for outside in (start - step, last + step):
        with pytest.raises(ValueError, match="expected a number from"):
            scale.locate(f"{outside:f}")


def test_ranges_may_be_open_at_their_ends() -> None:
    ranges = SymbolRanges(edges=("-inf", "0", "0.5", "inf"))
    names = ("below 0 h", "0–0.5 h", "0.5 or more h")
    assert tuple(ranges.name(symbol, "h") for symbol in range(3)) == names
    answers = ("-1000000", "-0.1", "0", ".5", "+7", "0.4999")
    assert [ranges.locate(answer) for answer in answers] == [0, 0, 1, 2, 2, 1]


def test_a_table_is_read_row_by_row() -> None:
    table = of(SymbolNames(names=("a", "b")), SymbolScale(start="1", step="1", size=3))
    assert table.size == 6
    assert [table.locate(first, second) for first in "ab" for second in "123"] == list(range(6))
    assert table.names()[4] == "b, 2"
    with pytest.raises(ValueError, match="one answer for each of f0, f1"):
        table.locate("a")


def test_an_answer_is_composed_before_it_is_compared_and_never_repeated() -> None:
    names = SymbolNames(names=("café", "tea"))
    assert names.locate(" cafe\u0301 ") == 0
    with pytest.raises(ValueError, match="expected one of café, tea") as refusal:
        names.locate("secret")
    assert "secret" not in str(refusal.value)
    for text in ("1e3", "٣", "1" * 41, "", "NaN", "1_0"):
        with pytest.raises(ValueError, match="a number such as"):
            SymbolScale(start="0", step="1", size=9).locate(text)


def test_a_plan_without_words_is_what_it_always_was() -> None:
    plain = RoundPlan(
        population="demo", mechanism="krr-histogram", size=2, epsilon=1.0, delta=1e-6,
        min_reports=10, max_reports=20, route=("node-1", "node-2"),
    )  # fmt: skip
    assert b"wording" not in to_json(plain)
    words = of(SymbolNames(names=("a", "b")))
    worded = RoundPlan(
        population="demo", mechanism="krr-histogram", size=2, epsilon=1.0, delta=1e-6,
        min_reports=10, max_reports=20, route=("node-1", "node-2"), wording=words,
    )  # fmt: skip
    assert from_json(to_json(worded), RoundPlan) == worded
    with pytest.raises(ValueError, match="gives 2 symbols a meaning, but the mechanism has 3"):
        RoundPlan(
            population="demo", mechanism="krr-histogram", size=3, epsilon=1.0, delta=1e-6,
            min_reports=10, max_reports=20, route=("node-1", "node-2"), wording=words,
        )  # fmt: skip


def test_a_record_in_no_cell_is_counted_as_one_of_the_others() -> None:
    table = QuestionWording(
        id="q",
        text="Which one?",
        axes=(
            QuestionAxis(field="age", unit="", symbols=SymbolRanges(edges=("0", "18", "65"))),
            QuestionAxis(field="sex", unit="", symbols=SymbolNames(names=("f", "m"))),
        ),
        where=(
            QuestionCondition(field="country", unit="", holds=NameSet(names=("DE", "FR"))),
            QuestionCondition(field="age", unit="", holds=NumberRange(low="16", high="inf")),
        ),
        others="none of these",
    )
    assert (table.fields, table.shape, table.size) == (("age", "sex", "country"), (2, 2), 5)
    assert table.names()[-2:] == ("18–65, m", "none of these")
    person: dict[str, FieldValue] = {"age": 16, "sex": "m", "country": "FR"}
    assert table.locate_record(person) == 1
    others: dict[str, list[FieldValue]] = {
        "age": [15.9, 66, None, "", "many", float("nan")],
        "sex": ["x", None, 1],
        "country": ["IT", None, " "],
    }
    for field, values in others.items():
        for value in values:
            assert table.locate_record(person | {field: value}) == 4
        assert table.locate_record({name: person[name] for name in person if name != field}) == 4
    # What people type is not silently counted as one of the others.
    with pytest.raises(ValueError, match="expected one of f, m"):
        table.locate("20", "x", "DE")
    assert table.locate("15", "x", "DE") == table.locate("none of these") == 4
    with pytest.raises(TypeError, match="text, numbers"):
        table.locate_record(person | {"age": [1]})  # type: ignore[arg-type]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.booleans())
def test_a_floating_point_number_is_read_as_people_write_it(number: float, exact: bool) -> None:  # noqa: FBT001
    value = Decimal(repr(number)) if exact else number
    answer = spell_value(value)
    assert answer is not None
    assert "e" not in answer.lower()
    assert float(answer) == number


def test_a_record_without_a_field_has_no_answer_where_there_are_no_others() -> None:
    question = of(SymbolNames(names=("a", "b")))
    assert question.locate_record({"f0": "b"}) == 1
    with pytest.raises(ValueError, match="no value for the field 'f0'"):
        question.locate_record({"f1": "secret"})
    with pytest.raises(ValueError, match="expected one of a, b") as refusal:
        question.locate_record({"f0": "secret"})
    assert "secret" not in str(refusal.value)


def test_words_without_others_are_written_as_they_always_were() -> None:
    assert b"where" not in to_json(of(SymbolNames(names=("a", "b"))))
    assert b"others" not in to_json(of(SymbolNames(names=("a", "b"))))
