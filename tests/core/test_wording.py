"""Questions in words: one encoding, what symbols mean, and where answers belong."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.documents.wording import (
    QuestionAxis,
    QuestionWording,
    SymbolMeaning,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
    parse_decimal,
    spell_decimal,
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
    with pytest.raises(ValueError, match="gives 2 symbols a meaning, the mechanism has 3"):
        RoundPlan(
            population="demo", mechanism="krr-histogram", size=3, epsilon=1.0, delta=1e-6,
            min_reports=10, max_reports=20, route=("node-1", "node-2"), wording=words,
        )  # fmt: skip
