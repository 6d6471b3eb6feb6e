"""Vectors of questions in words: in certificates, by themselves, and within a device's policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

import msgspec
from client_rounds import NOW, POPULATION, ROUND_ID
from vector_cases import ASKED, GENEROUS, Case, Fields, make_case, sign_text, text_of
from vector_world import derive, identity, make_draft, sign_roster

from shuffledp_core.documents.magnitudes import SymbolMagnitudes
from shuffledp_core.documents.open_list import SymbolHashes
from shuffledp_core.documents.signed import to_json
from shuffledp_core.documents.wording import (
    NameSet,
    NumberRange,
    QuestionAxis,
    QuestionCondition,
    QuestionWording,
    SymbolNames,
    SymbolRanges,
    SymbolScale,
)
from shuffledp_core.mechanisms import KRRHistogram, NodeColumns, RRShuffle
from shuffledp_core.runtime.keys import ROOT

MINUTES: Final = QuestionWording(
    id="minutes-used",
    text="How many minutes did you use the app today?",
    axes=(
        QuestionAxis(
            field="minutes_used",
            unit="min",
            symbols=SymbolRanges(edges=("0", "0.5", "15", "60", "inf")),
        ),
    ),
)
COMMUTE: Final = QuestionWording(
    id="commute",
    text="Wie kommst du zur Arbeit, früh oder spät?",
    axes=(
        QuestionAxis(field="transport", unit="", symbols=SymbolNames(names=("Rad", "Bahn"))),
        QuestionAxis(
            field="begins at", unit="h", symbols=SymbolScale(start="-7.5", step="8", size=2)
        ),
    ),
)
WARMTH: Final = QuestionWording(
    id="warmth",
    text="How warm is your room?",
    axes=(
        QuestionAxis(
            field="warmth", unit="°C", symbols=SymbolScale(start="18.5", step="0.25", size=5)
        ),
    ),
)
TRIPS: Final = QuestionWording(
    id="trips",
    text="How do people of each age travel?",
    axes=(
        QuestionAxis(
            field="age", unit="years", symbols=SymbolRanges(edges=("0", "18", "64.5", "120"))
        ),
        QuestionAxis(field="transport", unit="", symbols=SymbolNames(names=("café", "Bahn"))),
    ),
    where=(
        QuestionCondition(field="country", unit="", holds=NameSet(names=("DE", "Österreich"))),
        QuestionCondition(field="km", unit="km", holds=NumberRange(low="-0.5", high="12.25")),
    ),
    others="another country, or no answer",
)
NIGHTS: Final = QuestionWording(
    id="nights",
    text="How long did you sleep?",
    axes=(
        QuestionAxis(field="sleep", unit="h", symbols=SymbolScale(start="-1", step="0.5", size=21)),
    ),
    others="unknown",
)
SMALL_TRIPS: Final = QuestionWording(
    id="small-trips",
    text="How old are you?",
    axes=TRIPS.axes[:1],
    where=TRIPS.where[:1],
    others="another country",
)
"""Questions that have a symbol for every record; the last as many as `ASKED`."""

MEDICINE: Final = QuestionWording(
    id="medicine",
    text="Which medicine do you take?",
    axes=(
        QuestionAxis(
            field="medicine",
            unit="",
            symbols=SymbolHashes(salt="0123456789abcdef" * 2, columns=2, bits=4),
        ),
    ),
)
SPENT: Final = QuestionWording(
    id="spent",
    text="How much did you spend, by means of transport?",
    axes=(
        QuestionAxis(field="transport", unit="", symbols=SymbolNames(names=("Rad", "Bahn"))),
        QuestionAxis(
            field="spent", unit="€", symbols=SymbolMagnitudes(step="0.05", parts=2, size=7)
        ),
    ),
    others="no answer",
)
"""Questions of an open list, and of numbers that are added up."""

SYMBOLS: Final = '"symbols":{"kind":"ranges","edges":["0","0.5","15","60","inf"]}'


def questions() -> Iterator[Case]:
    """Questions in words: their form and meaning, in certificates, and a device's policy."""
    yield from wordings()
    yield from certificates()
    yield from policies()


def wordings() -> Iterator[Case]:
    """What each symbol means, and words that are refused."""
    for wording in (MINUTES, COMMUTE, WARMTH, TRIPS, NIGHTS, MEDICINE, SPENT):
        yield _case(f"the words of {wording.id}", to_json(wording).decode())
    yield from records()
    yield from open_lists()
    yield from magnitudes()
    yield from conditions()
    text = to_json(MINUTES).decode()
    for name, old, new in DEFECTS:
        if old not in text:
            raise AssertionError(name)
        yield _case(name, text.replace(old, new, 1), "MalformedDocumentError")
    axis = json.loads(text)["axes"][0]
    scales = [{"kind": "scale", "start": "0", "step": "1", "size": 2}] * 5
    five = [{**axis, "field": f"f{at}", "symbols": scale} for at, scale in enumerate(scales)]
    for name, axes in {
        "no axes": [],
        "five axes": five,
        "a field twice": [axis, axis],
        "fields that look alike": [axis, {**axis, "field": axis["field"] + "\u200c"}],
    }.items():
        yield _case(name, json.dumps({**json.loads(text), "axes": axes}), "MalformedDocumentError")
    for count, error in ((1024, None), (1025, "MalformedDocumentError")):
        names = {"kind": "names", "names": [f"n{at}" for at in range(count)]}
        body = {**json.loads(text), "axes": [{**axis, "symbols": names}]}
        yield _case(f"{count} names", json.dumps(body), error)
    long = {"kind": "names", "names": [f"{at:03}{'ü' * 97}" for at in range(90)]}
    body = {**json.loads(text), "axes": [{**axis, "symbols": long}]}
    yield _case("too many bytes", json.dumps(body), "MalformedDocumentError")


def open_lists() -> Iterator[Case]:
    """Hashes of texts, and words of open lists that are refused."""
    texts: list[Any] = [
        "", "Aspirin", "aspirin", " Aspirin\n", "Cafe\u0301", "Caf\u00e9", "\u00a0Aspirin",
        "x" * 256, "x" * 257, "\U0001f48a" * 256, "\U0001f48a" * 257, "e\u0301" * 256, 12, 1.5,
        -0.0, 12.0, True, None, "long " + "y" * 251 + " " * 20,
    ]  # fmt: skip
    taken = json.dumps([*({"medicine": text} for text in texts), {}])
    yield _case("records of an open list", to_json(MEDICINE).decode(), records=taken)
    text = json.loads(to_json(MEDICINE))
    axis, others = text["axes"][0], json.loads(to_json(WARMTH))["axes"][0]
    largest = {"axes": [axis | {"symbols": axis["symbols"] | {"columns": 1, "bits": 10}}]}
    yield _case("an open list of one column", json.dumps(text | largest))
    defects: dict[str, Fields] = {
        "an open list with others": {"others": "nothing"},
        "an open list beside another field": {"axes": [axis, others]},
        "two open lists": {"axes": [axis, axis | {"field": "more"}]},
        **{
            f"an open list with {name}": {"axes": [axis | {"symbols": axis["symbols"] | change}]}
            for name, change in {
                "a salt in capitals": {"salt": "0123456789ABCDEF" * 2},
                "a salt that is too short": {"salt": "01" * 15},
                "a salt that is too long": {"salt": "01" * 17},
                "no columns": {"columns": 0},
                "five columns": {"columns": 5},
                "three bits": {"bits": 3},
                "more cells than fit": {"columns": 3, "bits": 14},
                "more cells than fit in one column": {"columns": 1, "bits": 16},
                "bits that are text": {"bits": "4"},
                "more": {"more": 1},
            }.items()
        },
    }
    for name, change in defects.items():
        yield _case(name, json.dumps(text | change), "MalformedDocumentError")


def magnitudes() -> Iterator[Case]:
    """Numbers that are added up: symbols, rounding, and words that are refused."""
    numbers: list[Any] = [
        0, "0.05", 0.1, "0.15", 0.2, 0.3, 0.4, 0.40000001, 1e9, -0.01, "-0", "0.10", None, "x",
        True,
    ]  # fmt: skip
    spent = [{"transport": "Bahn", "spent": number} for number in numbers]
    yield _case(
        "records of magnitudes",
        to_json(SPENT).decode(),
        records=json.dumps([*spent, {"spent": 0.1}]),
    )
    text = json.loads(to_json(SPENT))
    axis = text["axes"][1]
    fine = axis | {"symbols": {"kind": "magnitudes", "step": "0.01", "parts": 64, "size": 131}}
    yield _case("magnitudes with many parts", json.dumps(text | {"axes": [fine], "others": ""}))
    defects: dict[str, Fields] = {
        "two fields that are added up": {"axes": [axis, axis | {"field": "more"}]},
        **{
            f"magnitudes with {name}": {"axes": [axis | {"symbols": axis["symbols"] | change}]}
            for name, change in {
                "a step of 0": {"step": "0"},
                "a step below 0": {"step": "-1"},
                "a step with a needless zero": {"step": "0.050"},
                "a step that is a number": {"step": 1},
                "no parts": {"parts": 0},
                "65 parts": {"parts": 65, "size": 200},
                "too few symbols": {"size": 4},
                "too many symbols": {"size": 82},
                "a largest number that is no decimal": {"step": "1000000", "size": 81},
                "more": {"more": 1},
            }.items()
        },
    }
    for name, change in defects.items():
        yield _case(name, json.dumps(text | change), "MalformedDocumentError")
    for name, symbols, answers in (
        ("halves", SPENT.axes[1].symbols, ["0.025", "0.125", "0.175", "0.25", "0.35"] * 8),
        (
            "thirds and less",
            SymbolMagnitudes(step="0.03", parts=3, size=20),
            ["0.01", "0.02", "0.1234567891", "7.7", "1.00000000000000000000000000000000000001"] * 6,
        ),
        ("ends", SPENT.axes[1].symbols, ["0", "0.4", "99", "0.39999999999999999999", "-0.01", ""]),
    ):
        fields: Fields = {
            "symbols": json.loads(to_json(symbols)),
            "answers": answers,
            "coins": derive("rounding", name).hex(),
        }
        yield make_case(f"{name}, rounded", "rounding", fields)


TRAVELLER: Final[Fields] = {"age": 30, "transport": "Bahn", "country": "DE", "km": 3}


def records() -> Iterator[Case]:
    """The symbols of records: floating-point numbers by their shortest spelling, others missing."""
    traveller = TRAVELLER
    changed: dict[str, list[Any]] = {
        "age": [
            0, 17.999999999999996, 18, "64.4999999999", 64.5, 120, 120.00000000000001, -1e-9, "-0",
            " +30.\t", ".5", "3e1", 1e21, 1e-7, 1e300, "1" * 41, "NaN", "٣", None, "", " \r\n",
            True, "30\u00a0", 9007199254740993,
        ],
        "transport": ["cafe\u0301", " Bahn\n", "bahn", "Bahn\u2003", "", False, 1],
        "country": ["O\u0308sterreich", "FR", None, "DE ", "de"],
        "km": [
            -0.5, "-0.50000001", 12.25, 12.249999999999998, "12.2499999999999999999999999999",
            f"3.{'0' * 40}",
        ],
    }  # fmt: skip
    shown: list[Fields] = [traveller, {}, {"more": 1} | traveller]
    for field, values in changed.items():
        shown += [traveller | {field: value} for value in values]
        shown.append({name: value for name, value in traveller.items() if name != field})
    yield _case("records of a table", to_json(TRIPS).decode(), records=json.dumps(shown))
    numbers: list[Any] = [
        -1.25, -1.2500000000000002, -1.2499999999999998, -1, -0.75, 0.25, 0.75, 1.25, 9, 9.25,
        9.250000000000002, "9.2499999999999999", 0.1, "0.24999", None,
    ]  # fmt: skip
    slept = json.dumps([{"sleep": number} for number in numbers])
    yield _case("records of a scale", to_json(NIGHTS).decode(), records=slept)
    answers = [{"minutes_used": value} for value in (0, 0.5, 15, "59.9", 10**9, -1, "", None)]
    # Without a symbol for others, a record may have none.
    yield _case("records without others", to_json(MINUTES).decode(), records=json.dumps(answers))


def conditions() -> Iterator[Case]:
    """Conditions, and names of the others, that are refused."""
    text = json.loads(to_json(TRIPS))
    among = {"kind": "among", "names": ["DE"]}
    where = {"field": "country", "unit": "", "holds": among}
    ranged = {"kind": "range", "low": "1", "high": "2"}
    defects: dict[str, Fields] = {
        "conditions without a name for others": {"others": ""},
        "others with a line break": {"others": "a\nb"},
        "others of 101 characters": {"others": "o" * 101},
        "others that are a number": {"others": 1},
        "others with the name of a symbol": {"others": "Bahn"},
        "others with the text of an edge": {"others": "120"},
        "two conditions on a field": {"where": [where, where]},
        "five conditions": {"where": [where | {"field": f"f{at}"} for at in range(5)]},
        "conditions that are no list": {"where": where},
        "a condition without a field": {"where": [where | {"field": ""}]},
        "a condition with a unit of 33 characters": {"where": [where | {"unit": "u" * 33}]},
        "a condition with more": {"where": [where | {"more": 1}]},
        **{
            f"a condition with {name}": {"where": [where | {"holds": holds}]}
            for name, holds in {
                "no names": among | {"names": []},
                "a name twice": among | {"names": ["a", "a"]},
                "an empty name": among | {"names": [""]},
                "an unknown kind": among | {"kind": "names"},
                "no end": ranged | {"low": "-inf", "high": "inf"},
                "an empty range": ranged | {"high": "1"},
                "a range that falls": ranged | {"low": "3"},
                "infinity as its low end": ranged | {"low": "inf"},
                "an end that is a number": ranged | {"low": 1},
                "an end with a needless zero": ranged | {"low": "1.0"},
            }.items()
        },
        "too many names in conditions": {
            "where": [where | {"holds": among | {"names": [f"n{at}" for at in range(1020)]}}]
        },
    }
    for name, change in defects.items():
        yield _case(name, json.dumps(text | change), "MalformedDocumentError")
    accepted: dict[str, Fields] = {
        "no conditions, but others": {"where": []},
        "conditions without an upper end": {"where": [where | {"holds": ranged | {"high": "inf"}}]},
        "many names in conditions": {
            "where": [where | {"holds": among | {"names": [f"n{at}" for at in range(1019)]}}]
        },
    }
    for name, change in accepted.items():
        yield _case(name, json.dumps(text | change))


DEFECTS: Final = [
    ("an identifier in capitals", '"minutes-used"', '"Minutes"'),
    ("an identifier that is empty", '"minutes-used"', '""'),
    ("an identifier of 65 characters", '"minutes-used"', f'"{"a" * 65}"'),
    ("no sentence", '"How many minutes did you use the app today?"', '""'),
    ("a sentence of 301 characters", "How many", "H" * 266),
    ("a sentence with a line break", "How many", "How\\nmany"),
    ("a sentence with a null", "How many", "How\\u0000many"),
    ("a sentence with a delete character", "How many", "How\\u007fmany"),
    ("a sentence that turns the direction of writing", "How many", "How \\u202emany"),
    ("a sentence with an invisible character", "How many", "How\\u200bmany"),
    ("a sentence with a soft hyphen", "How many", "How\\u00admany"),
    ("a sentence with a letter that fills space", "How many", "How\\u3164many"),
    ("a sentence with a blank pattern", "How many", "How\\u2800many"),
    ("a unit that no one sees", '"min"', '"\\u200d"'),
    ("a sentence with a no-break space", "How many", "How\\u00a0many"),
    ("a sentence with a byte order mark", "How many", "\\ufeffHow many"),
    ("a sentence with a tag character", "How many", "How \\udb40\\udc41many"),
    ("a sentence with two spaces", "How many", "How  many"),
    ("a sentence that begins with a space", "How many", " How many"),
    ("a sentence that is not composed", "How many", "Hou\\u0308 many"),
    ("a sentence that is a number", '"How many minutes did you use the app today?"', "1"),
    ("an empty field", '"minutes_used"', '""'),
    ("a field of 101 characters", '"minutes_used"', f'"{"f" * 101}"'),
    ("a unit of 33 characters", '"min"', f'"{"m" * 33}"'),
    ("a unit with a tab", '"min"', '"m\\tn"'),
    ("no unit", '"unit":"min",', ""),
    ("an unknown field", '"unit":"min",', '"unit":"min","more":1,'),
    ("an unknown kind", '"ranges"', '"steps"'),
    ("no kind", '"kind":"ranges",', ""),
    ("edges that fall", '"0.5","15"', '"15","0.5"'),
    ("equal edges", '"0.5","15"', '"15","15"'),
    ("infinity in the middle", '"15"', '"inf"'),
    ("two edges", '"0","0.5","15","60","inf"', '"0","1"'),
    ("edges of infinity alone", '"0","0.5","15","60","inf"', '"-inf","inf"'),
    ("an edge with a needless zero", '"0.5"', '"0.50"'),
    ("an edge without a digit before the point", '"0.5"', '".5"'),
    ("an edge with a leading zero", '"15"', '"015"'),
    ("an edge with a plus sign", '"15"', '"+15"'),
    ("an edge with an exponent", '"15"', '"1.5e1"'),
    ("an edge that is minus zero", '"0",', '"-0",'),
    ("an edge that is a number", '"15"', "15"),
    ("an edge in digits of another script", '"15"', '"١٥"'),
    ("an edge of 16 digits", '"60"', '"1234567890123456"'),
    ("an edge with 10 digits behind the point", '"0.5"', '"0.1234567891"'),
    *(
        (name, SYMBOLS, f'"symbols":{symbols}')
        for name, symbols in {
            "one name": '{"kind":"names","names":["a"]}',
            "a name twice": '{"kind":"names","names":["a","b","a"]}',
            "names that differ in a joiner": '{"kind":"names","names":["a","a\\u200d"]}',
            "names that differ in a variation": '{"kind":"names","names":["a","a\\ufe0f"]}',
            "an empty name": '{"kind":"names","names":["a",""]}',
            "a name of 101 characters": f'{{"kind":"names","names":["a","{"b" * 101}"]}}',
            "a step of 0": '{"kind":"scale","start":"0","step":"0","size":4}',
            "a step below 0": '{"kind":"scale","start":"0","step":"-1","size":4}',
            "a scale of one symbol": '{"kind":"scale","start":"0","step":"1","size":1}',
            "a scale that is too long": f'{{"kind":"scale","start":"0","step":"1","size":{2**31}}}',
            "a scale without a step": '{"kind":"scale","start":"0","size":4}',
            "names with edges": '{"kind":"names","names":["a","b"],"edges":["1"]}',
        }.items()
    ),
]
"""Each replaces a part of the words of `MINUTES`."""


def _case(name: str, text: str, error: str | None = None, **more: str) -> Case:
    return make_case(name, "wording", {"wording": text} | more, error)


def certificates() -> Iterator[Case]:
    """Certificates with a question: the words fit the mechanism, or the document is refused."""
    accountant = identity("accountant")
    named = {"label": "certificate", "signer": "accountant", "key": accountant.public_key.hex()}
    malformed = "MalformedDocumentError"
    summed = RRShuffle(max_value=4, randomise=ASKED.blanket)
    named_sum = to_json(MINUTES).decode().replace('"15",', '"15","16",')
    six, seven = (KRRHistogram(symbols=size, blanket=ASKED.blanket) for size in (6, 7))
    slept = RRShuffle(max_value=21, randomise=ASKED.blanket)
    for name, mechanism, wording, error in (
        ("ranges of a histogram", ASKED, MINUTES, None),
        ("a table of a histogram", ASKED, COMMUTE, None),
        ("a scale of a sum", summed, WARMTH, None),
        ("words for more symbols", ASKED, WARMTH, malformed),
        ("words for fewer symbols", summed, MINUTES, malformed),
        ("others of a histogram", seven, TRIPS, None),
        ("words for all symbols but others", six, TRIPS, malformed),
        ("others of a sum", slept, NIGHTS, malformed),
        ("ranges of a sum", summed, named_sum, malformed),
        ("words that are null", ASKED, "null", malformed),
        ("an open list of columns", LISTED, MEDICINE, None),
        ("an open list of other columns", six, MEDICINE, malformed),
        ("magnitudes and others", SPENT_COUNTED, SPENT, None),
        ("magnitudes of a sum", slept, NO_GROUPS, malformed),
        ("magnitudes of columns", SPENT_COLUMNS, SPENT_SUMS, None),
    ):
        body = make_draft(mechanism).signed_certificate().body
        words = wording if isinstance(wording, str) else to_json(wording).decode()
        signed = sign_text(accountant, "certificate", f'{body[:-1]},"wording":{words}}}')
        fields: Fields = {"document": text_of(signed)}
        yield make_case(f"a certificate with {name}", "document", fields | named, error)


LISTED: Final = NodeColumns(
    symbols=256, noise_epsilon=Fraction(1, 2), mean=12, spare=40, columns=(16, 16)
)
SPENT_COUNTED: Final = KRRHistogram(symbols=15, blanket=Fraction(1, 2))
NO_GROUPS: Final = msgspec.structs.replace(
    SPENT,
    axes=(
        QuestionAxis(
            field="spent", unit="€", symbols=SymbolMagnitudes(step="0.05", parts=2, size=22)
        ),
    ),
    others="",
)
SPENT_SUMS: Final = msgspec.structs.replace(SPENT, others="")
SPENT_COLUMNS: Final = NodeColumns(
    symbols=14, noise_epsilon=Fraction(1, 2), mean=12, spare=40, columns=(2, 7)
)


def policies() -> Iterator[Case]:
    """Each limit of a policy on questions and fields refuses by itself."""
    refusal = "ClientPolicyRefusal"
    worded, wordless = {"wording": MINUTES}, Fields()
    table: list[tuple[Fields, Any, str | None]] = [
        ({}, worded, None),
        ({"questions": ["minutes-used"]}, worded, None),
        ({"questions": ["other"]}, worded, refusal),
        ({"questions": []}, worded, refusal),
        ({"refuse_questions": ["minutes-used"]}, worded, refusal),
        ({"refuse_questions": ["other"]}, worded, None),
        ({"fields": ["minutes_used"]}, worded, None),
        ({"fields": ["transport"]}, worded, refusal),
        ({"refuse_fields": ["minutes_used"]}, worded, refusal),
        ({"refuse_fields": ["transport"]}, worded, None),
        ({"fields": ["transport"]}, {"wording": COMMUTE}, refusal),
        ({"fields": ["transport", "begins at"]}, {"wording": COMMUTE}, None),
        ({"refuse_fields": ["begins at"]}, {"wording": COMMUTE}, refusal),
        ({"refuse_fields": ["country"]}, {"wording": SMALL_TRIPS}, refusal),
        ({"fields": ["age"]}, {"wording": SMALL_TRIPS}, refusal),
        ({"fields": ["age", "country"]}, {"wording": SMALL_TRIPS}, None),
        ({"questions": ["minutes-used"]}, wordless, refusal),
        ({"refuse_fields": ["transport"]}, wordless, refusal),
    ]
    make = _round_maker()
    for policy, certificate, error in table:
        words = certificate.get("wording")
        name = f"the policy {policy}, {'no words' if words is None else words.id}"
        yield make(name, certificate, policy, error)


def _round_maker() -> Callable[[str, Fields, Fields, str | None], Case]:
    root_key = identity(ROOT).public_key.hex()

    def make(name: str, certificate: Fields, policy: Fields, error: str | None) -> Case:
        draft = make_draft(ASKED, certificate=certificate)
        fields = {
            "roster": text_of(sign_roster(draft.deployment.roster)),
            "root_key": root_key,
            "announcement": to_json(draft.announcement()).decode(),
            "policy": GENEROUS | policy,
            "population": POPULATION,
            "now": NOW,
            "round_id": ROUND_ID,
        }
        return make_case(name, "round", fields, error)

    return make
