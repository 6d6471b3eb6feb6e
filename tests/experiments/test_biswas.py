"""The entries of Biswas et al.: the verdicts that come out, and numbers against computations of this file's own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from shuffledp_experiments.biswas import ENTRIES
from shuffledp_experiments.biswas.truth import Group, agrees, both_sides
from shuffledp_experiments.entry import Found, Kind, Row, Verdict


@pytest.fixture(scope="module")
def found() -> Mapping[str, Found]:
    return {entry.id: entry.run(entry.work(quick=True)) for entry in ENTRIES}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.id))
def test_the_verdicts_are_those_that_the_registry_states(entry: object, found: Mapping[str, Found]) -> None:
    stated = next(each for each in ENTRIES if each is entry)
    assert {claim.verdict for claim in found[stated.id].claims} == stated.verdicts


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.id))
def test_no_dataset_costs_more_than_is_certified(entry: object, found: Mapping[str, Found]) -> None:
    rows = next(found[each.id] for each in ENTRIES if each is entry).rows

    def place(row: Row) -> tuple[object, ...]:
        about = row.series.removesuffix("certified").removesuffix("attained")
        return (about, row.x, row.y_name, *sorted((name, str(value)) for name, value in row.settings.items()))

    certified = {place(row): row.y for row in rows if row.kind is Kind.CERTIFIED}
    attained = {place(row): row.y for row in rows if row.kind is Kind.ATTAINED}
    assert certified.keys() == attained.keys()
    assert all(certified[each] >= attained[each] for each in certified)


def test_every_entry_draws_its_picture(found: Mapping[str, Found]) -> None:
    for entry in ENTRIES:
        assert entry.draw(found[entry.id]).axes


def every_delta(group: Group, epsilon: float) -> float:
    """δ of the worst dataset, by the laws of all histograms, for all compositions of the others."""
    symbols, blanket = group.symbols, float(group.spec().blanket)
    law = np.full((symbols, symbols), blanket / symbols) + np.eye(symbols) * (1 - blanket)

    def shuffled(values: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        laws = {(0,) * symbols: 1.0}
        for value in values:
            after: dict[tuple[int, ...], float] = {}
            for counts, chance in laws.items():
                for symbol in range(symbols):
                    key = (*counts[:symbol], counts[symbol] + 1, *counts[symbol + 1 :])
                    after[key] = after.get(key, 0.0) + chance * law[value, symbol]
            laws = after
        return laws

    worst = 0.0
    for others in product(range(symbols), repeat=group.users - 1):
        if list(others) != sorted(others):
            continue
        p, q = shuffled((0, *others)), shuffled((1, *others))
        worst = max(worst, sum(max(0.0, p[key] - math.exp(epsilon) * q[key]) for key in p))
    return worst


@pytest.mark.parametrize(
    ("users", "symbols", "epsilon0", "epsilon"), [(5, 3, 1.0, 0.2), (6, 3, 2.0, 1.0), (4, 4, 2.0, 0.5)]
)
def test_both_sides_hold_the_worst_of_all_datasets_between_them(
    users: int, symbols: int, epsilon0: float, epsilon: float
) -> None:
    group = Group(users, symbols, epsilon0)
    certified, attained = both_sides(group, epsilon)
    assert attained * (1 - 1e-9) <= every_delta(group, epsilon) <= certified * (1 + 1e-9)


def test_digits_agree_when_they_are_rounded_or_cut_off() -> None:
    assert agrees(2.389e-28, 2.38e-28, 3)
    assert agrees(2.3849e-28, 2.38e-28, 3)
    assert not agrees(2.48e-15, 2.49e-15, 3)
    assert not agrees(2.391e-28, 2.38e-28, 3)


def test_six_cells_of_the_table_over_three_parameters_are_not_those_of_its_formula(found: Mapping[str, Found]) -> None:
    off = {claim.published for claim in found["000-t3"].claims if claim.verdict is Verdict.NOT_REPRODUCED}
    assert off == {2.49e-15, 8.79e-11, 1.91e-8, 5.02e-12, 2.40e-15, 1.66e-18}
