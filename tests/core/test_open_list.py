"""Open lists: the hash that a device computes, what counts as missing, and wrong descriptions."""

from __future__ import annotations

import hashlib
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.documents.open_list import LONGEST_STRING, SymbolHashes, normalise
from shuffledp_core.documents.signed import from_json, to_json
from shuffledp_core.documents.wording import (
    NameSet,
    QuestionAxis,
    QuestionCondition,
    QuestionWording,
    SymbolScale,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.questions import (
    CategoryField,
    RecordSchema,
    TextField,
    among,
    counts,
    mechanism_of,
    read_question,
    strings,
)
from shuffledp_core.questions.asking import QuestionKind, RecordQuestion

HASHES = SymbolHashes(salt="0123456789abcdef" * 2, columns=3, bits=13)
AXIS = QuestionAxis(field="homepage", unit="", symbols=HASHES)
WORDING = QuestionWording(id="homepages", text="Which homepage?", axes=(AXIS,))
SCHEMA = RecordSchema(
    {"homepage": TextField(bits=6), "country": CategoryField(["DE", "FR"]), "name": TextField()}
)

DESCRIBED = """
ask = "strings"
of = "homepage"
[fields.homepage]
text = true
"""


@given(st.text(max_size=300))
def test_a_symbol_is_the_first_bits_of_a_salted_hash(answer: str) -> None:
    composed = unicodedata.normalize("NFC", answer.strip(" \t\r\n"))
    text = composed if len(composed) <= 256 else ""
    digest = hashlib.sha256(
        b"shuffledp/v1/open-list\0" + bytes.fromhex("0123456789abcdef" * 2) + text.encode()
    ).hexdigest()
    bits = bin(int("1" + digest, 16))[3:]
    assert WORDING.locate(answer) == int(bits[:39], 2)
    assert HASHES.cells_of(np.array([WORDING.locate(answer)]))[:, 0].tolist() == [
        int(bits[13 * column : 13 * column + 13], 2) for column in range(3)
    ]


def test_two_spellings_of_a_text_are_one_text() -> None:
    assert WORDING.locate("  e\u0301t\u00e9 ") == WORDING.locate("\u00e9te\u0301")
    assert WORDING.locate("a b") != WORDING.locate("A b")


def test_a_record_without_a_text_answers_all_the_same() -> None:
    missing = WORDING.locate("")
    for record in ({}, {"homepage": None}, {"homepage": " "}, {"homepage": "x" * 257}):
        assert WORDING.locate_record(record) == missing
    assert WORDING.locate_record({"homepage": "x" * LONGEST_STRING}) != missing
    assert WORDING.locate_record({"homepage": 17}) == WORDING.locate("17")
    assert normalise("\ud800") == ""


def test_a_plan_has_the_hashes_and_the_mechanism_a_column_for_each() -> None:
    again = from_json(to_json(WORDING), QuestionWording)
    assert again == WORDING
    assert again.size == 2**39
    assert again.columns == (8192, 8192, 8192)
    assert mechanism_of(again) == "node-columns"
    assert again.cell_names()[8192] == "homepage: cell 0 of hash 2"
    assert "any text" in AXIS.symbols.describe("")


@pytest.mark.parametrize(
    ("salt", "columns", "bits", "words"),
    [
        ("0" * 31, 3, 13, "32 lower-case hex digits"),
        ("A" * 32, 3, 13, "32 lower-case hex digits"),
        ("0" * 32, 0, 13, "1 to 4 columns"),
        ("0" * 32, 5, 12, "1 to 4 columns"),
        ("0" * 32, 3, 3, "from 4 to 13"),
        ("0" * 32, 3, 14, "from 4 to 13"),
        ("0" * 32, 1, 16, "from 4 to 15"),
    ],
)
def test_impossible_hashes_are_malformed(salt: str, columns: int, bits: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SymbolHashes(salt=salt, columns=columns, bits=bits)


def test_an_open_list_is_a_question_of_its_own() -> None:
    scale = QuestionAxis(field="age", unit="", symbols=SymbolScale(start="0", step="1", size=9))
    with pytest.raises(ValueError, match="question's only axis"):
        QuestionWording(id="a", text="a", axes=(AXIS, scale))
    condition = QuestionCondition(field="age", unit="", holds=NameSet(names=("DE",)))
    with pytest.raises(ValueError, match="has no others"):
        QuestionWording(id="a", text="a", axes=(AXIS,), where=(condition,), others="none")


def test_a_description_is_the_same_question_each_time_and_has_its_own_hashes() -> None:
    first, again = read_question(DESCRIBED).wording, read_question(DESCRIBED).wording
    assert first == again
    assert first.id == "strings-of-homepage"
    other = read_question('id = "other"\n' + DESCRIBED).wording
    assert first.hashes is not None
    assert other.hashes is not None
    assert first.hashes.salt != other.hashes.salt
    chosen = read_question(DESCRIBED + f'salt = "{"ab" * 16}"\nbits = 8\ncolumns = 2\n').wording
    assert chosen.hashes == SymbolHashes(salt="ab" * 16, columns=2, bits=8)


def test_a_typed_question_is_that_of_the_description() -> None:
    question = strings(RecordSchema({"homepage": TextField()}), "homepage")
    assert question.wording == read_question(DESCRIBED).wording
    assert question.locate_record({}) == question.wording.locate("")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("text = true\nnames = ['a', 'b']", "describe the values in one way"),
        ("text = false", "text must be true"),
        ("text = true\nbits = 2", "from 4 to 13"),
        ("text = true\nbits = 'many'", "bits must be a whole number"),
        ("text = true\ncolumns = true", "columns must be a whole number"),
        ("text = true\nsalt = 'abc'", "32 lower-case hex digits"),
        ("text = true\nsalt = 5", "must be 32 hex digits in quotation marks, not 5"),
        ("text = true\nfrom = 3", "belong to a step"),
        ("names = ['a', 'b']\nbits = 9", "belong to a field with text = true"),
        ("names = ['a', 'b']", "has names or ranges, which can be counted"),
    ],
)
def test_a_wrong_description_gives_one_sentence(changed: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        read_question(DESCRIBED.replace("text = true", changed))
    assert "\n" not in str(refused.value)


def test_texts_without_names_are_not_counted_one_by_one() -> None:
    with pytest.raises(UsageError, match='ask = "strings"'):
        counts(SCHEMA, "homepage")
    with pytest.raises(UsageError, match="counts one field"):
        RecordQuestion(SCHEMA, QuestionKind.STRINGS, ("homepage", "name"))
    with pytest.raises(UsageError, match="no conditions"):
        RecordQuestion(SCHEMA, QuestionKind.STRINGS, ("homepage",), {"country": among("DE")})
    with pytest.raises(UsageError, match="a condition needs a field with names"):
        counts(SCHEMA, "country", where={"homepage": among("a")})
