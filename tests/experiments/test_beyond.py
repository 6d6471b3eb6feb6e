"""The figures that no paper has: each runs in a quick form, draws its picture, and keeps certified above attained."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache

import pytest

from shuffledp_experiments.beyond import ENTRIES
from shuffledp_experiments.entry import Entry, Found, Kind, Row

IDS = [entry.id for entry in ENTRIES]


@cache
def quick(name: str) -> Found:
    """One run of each entry, which all tests share."""
    return entry_of(name).run(entry_of(name).work(quick=True))


def entry_of(name: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.id == name)


def value(name: str, series: str, x: float | str) -> float:
    (row,) = [row for row in quick(name).rows if row.series == series and row.x == x]
    return row.y


@pytest.mark.parametrize("name", IDS)
def test_the_verdicts_are_those_that_the_entry_states(name: str) -> None:
    assert {claim.verdict for claim in quick(name).claims} == set(entry_of(name).verdicts)


@pytest.mark.parametrize("name", IDS)
def test_certified_is_nowhere_below_attained(name: str) -> None:
    sides: dict[tuple[object, ...], dict[Kind, Row]] = defaultdict(dict)
    for row in quick(name).rows:
        if row.kind in {Kind.CERTIFIED, Kind.ATTAINED} and not math.isnan(row.y):
            stem = row.series.replace(str(row.kind), "").strip()
            sides[stem, row.x, row.y_name, tuple(sorted(map(str, row.settings.items())))][row.kind] = row
    for pair in sides.values():
        if len(pair) == 2:
            assert pair[Kind.CERTIFIED].y >= pair[Kind.ATTAINED].y


@pytest.mark.parametrize("name", IDS)
def test_a_claim_never_has_certified_below_attained(name: str) -> None:
    for claim in quick(name).claims:
        if claim.certified is not None and claim.attained is not None:
            assert claim.certified >= claim.attained


@pytest.mark.parametrize("name", IDS)
def test_a_picture_is_drawn_of_what_was_found(name: str) -> None:
    figure = entry_of(name).draw(quick(name))
    assert all(axes.has_data() for axes in figure.axes if axes.get_visible() and axes.axison)
