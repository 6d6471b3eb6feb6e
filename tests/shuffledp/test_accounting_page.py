"""docs/accounting.md: symbols with one meaning, a status for every proposition, code that exists,
and tables that the library computes again.
"""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

import shuffledp as sdp
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.mechanisms.base import Spec
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.adaptive import spent_adaptively
from shuffledp_privacy.analysis import Cost, compose_costs

PAGE: Final = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text(encoding="utf-8")
DELTA: Final = 1e-6


def sections() -> dict[str, str]:
    """Texts by the first word of their headings: "K6", "Notation", "Sums" for both of its kind."""
    texts: dict[str, str] = defaultdict(str)
    for part in re.split(r"(?m)^(?=##+ )", PAGE)[1:]:
        heading, _, text = part.partition("\n")
        texts[heading.lstrip("# ").split()[0].rstrip(".,:")] += text
    return texts


def without_code(text: str) -> str:
    """Text without code spans, link targets and TeX commands."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text).replace("\\beta", "β")
    return re.sub(r"\\mathbb\{E\}|\\[a-zA-Z]+", " ", text)


SECTIONS_OF: Final = {
    "u": "K6 S18 S20 S24 Composition C1 C2 C3 C5 C7 C13 C14 C15 C18 C19 C20",
    "q": "k-RR K0 K1 K2 K3 K4 K5 K6 K7 K9 K10 K15 K16 S18 S21 S22 C21",
    "r": "The Sums S2 S3 S4 S5 S6b S7 S8 S13 S17 C12 All",
    "m": "S19 C17",
    "c": "S6 S6b S7 S12 S13 S17 All",
    "β": "K0 K1 K3 K4 K5 K6 K10 K15",
    "v": "K8 All",
    "p": "k-RR K0 K1 K4 K5 K6 K7 K9 K10 K14 K16 S10 S21 S22 C10 C21",
    "γ": "k-RR K1 K9 K10 K11 K12 K13 K14 K16 S10 S11 S18 S20 S21 S22 S24 N7 N8 C6 C9 C21",
    "κ": "K0 K1 K2 K4 K5",
    "θ": "S3 S6b",
}
"""Sections in which a letter has its meaning of the notation table, by their first word."""


@pytest.mark.parametrize("letter", SECTIONS_OF)
def test_a_letter_occurs_only_where_it_has_its_one_meaning(letter: str) -> None:
    """A letter in parentheses is the number of a statement, such as (c)."""
    single = re.compile(rf"(?<![A-Za-z(]){letter}(?![A-Za-z])|\({letter}(?![A-Za-z)])")
    assert f"| {letter}" in sections()["Notation"] or f", {letter}" in sections()["Notation"]
    used = {name for name, text in sections().items() if single.search(without_code(text))}
    assert used - {"Notation"} == set(SECTIONS_OF[letter].split())


def test_an_expectation_is_never_written_as_the_total_epsilon() -> None:
    assert re.findall(r"(?<![A-Za-z_^])E\[|\\mathrm\{E\}", PAGE) == []


def test_every_proposition_states_that_it_is_proved_computed_or_observed() -> None:
    propositions = re.findall(r"(?m)^### ([KSNC]\d+b?)\. .*\n(.*)$", PAGE)
    assert len(propositions) > 60
    assert [
        name
        for name, line in propositions
        if not re.match(r"\*Status: (proved|computed|observed)\b", line)
    ] == []


def test_all_code_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:core|privacy|client|shuffledp)\.[a-zA-Z_.0-9]+)`", PAGE)
    assert len(named) > 40
    assert [name for name in named if not exists(name)] == []


def exists(name: str) -> bool:
    first, _, rest = name.partition(".")
    path = name if first == "shuffledp" else f"shuffledp_{first}.{rest}"
    module, _, attribute = path.rpartition(".")
    try:
        importlib.import_module(path)
    except ModuleNotFoundError:
        return hasattr(importlib.import_module(module), attribute)
    return True


def test_lines_are_at_most_120_columns_wide() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > 120] == []


def table(heading: str) -> list[list[str]]:
    """Rows of the first table of a section, without its two lines of head."""
    lines = [line for line in sections()[heading].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


TIGHTNESS: Final = {row[0].strip("`"): row[3:] for row in table("Mechanisms")}
COLUMNS: Final = [
    (100, Adjacency.STANDARD),
    (1_000, Adjacency.STANDARD),
    (100_000, Adjacency.STANDARD),
    (1_000, Adjacency.METRIC),
]


def test_every_mechanism_has_a_row() -> None:
    assert set(TIGHTNESS) == set(MECHANISMS)


def tightness(kind: str, column: int) -> float:
    users, adjacency = COLUMNS[column]
    is_histogram = MECHANISMS[kind].answers is Answers.HISTOGRAM
    plan = sdp.calibrate(
        kind,
        epsilon=1 if adjacency is Adjacency.STANDARD else 0.2,
        delta=DELTA,
        setting=sdp.Setting(users, users, adjacency),
        symbols=10 if is_histogram else None,
        max_value=None if is_histogram else 20,
    )
    guarantee = sdp.certify(plan)
    assert guarantee.certified is not None
    assert guarantee.attained is not None
    return guarantee.certified / guarantee.attained


@pytest.mark.parametrize("kind", TIGHTNESS)
def test_tightness_for_a_thousand_users_is_computed(kind: str) -> None:
    assert tightness(kind, 1) == pytest.approx(float(TIGHTNESS[kind][1]), abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize("column", [0, 2, 3])
@pytest.mark.parametrize("kind", TIGHTNESS)
def test_tightness_is_computed(kind: str, column: int) -> None:
    assert tightness(kind, column) == pytest.approx(float(TIGHTNESS[kind][column]), abs=6e-4)


ROUNDS: Final[dict[str, tuple[str, dict[str, Any], int]]] = {
    "4-RR, n = 1000": ("krr-histogram", {"symbols": 4}, 1000),
    "rr-shuffle {0..10}, n = 1000": ("rr-shuffle", {"max_value": 10}, 1000),
    "geo-shuffle {0..20}, n = 1000": ("geo-shuffle", {"max_value": 20}, 1000),
    "4-RR, n = 50": ("krr-histogram", {"symbols": 4}, 50),
    "sgdl-shuffle {0..20}, n = 1000": ("sgdl-shuffle", {"max_value": 20}, 1000),
}
"""Mechanism, domain and users of the rounds whose price C15 states."""

LENGTHS: Final = [1, 2, 8, 52]


def prices(row: list[str]) -> list[tuple[float, float]]:
    """Smallest budget of a filter, and the composed ε of rounds that were fixed in advance."""
    kind, domain, users = ROUNDS[row[0]]
    setting = sdp.Setting(users, users - users // 20)
    plan = sdp.calibrate(kind, epsilon=float(row[1]), delta=1e-8, setting=setting, **domain)
    assert isinstance(plan.spec, Spec)
    cost = Cost(plan.spec, setting, 1e-8)
    return [
        (
            smallest_budget({cost: length}),
            compose_costs({cost: length}, Adjacency.STANDARD, DELTA).certified,
        )
        for length in LENGTHS
    ]


def smallest_budget(costs: dict[Cost, int]) -> float:
    """Smallest ε, to 1 in 5,000, that admits the rounds, from above."""
    low = 0.01
    high = 200.0
    while high / low > 1.0002:
        middle = (low * high) ** 0.5
        if spent_adaptively(costs, Adjacency.STANDARD, middle, DELTA).certified <= middle:
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row[0], marks=[] if "n = 50" in row[0] else [pytest.mark.slow])
        for row in table("C15")
    ],
)
def test_prices_of_filters_are_computed(row: list[str]) -> None:
    stated = [tuple(map(float, re.findall(r"[\d.]+", cell))) for cell in row[2:]]
    for numbers, price in zip(prices(row), stated, strict=True):
        assert numbers == pytest.approx(price, rel=1e-3)
