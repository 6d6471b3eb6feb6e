"""The tabulated curves that the ledger composes: never below the mechanism's own, and hardly
above."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shuffledp_core.mechanisms import (
    MECHANISMS,
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_privacy.bounds import Setting, certified_curve, delta_bounds
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.tabulated import TABLES, Tabulated

SPECS: list[Mechanism] = [
    BloomRappor(symbols=4, bits=8, hashes=2, cohorts=4, fake=Fraction(1, 2)),
    KRRHistogram(symbols=4, blanket=Fraction(1, 2)),
    HadamardHistogram(symbols=4, blanket=Fraction(1, 2)),
    DummyHistogram(symbols=4, slots=8, fill=Fraction(1, 2)),
    NodeHistogram(symbols=4, noise_epsilon=Fraction(1), mean=30, dummies=140),
    NodeColumns(symbols=6, noise_epsilon=Fraction(1), mean=30, spare=60, columns=(3, 2)),
    NodeTree(symbols=5, noise_epsilon=Fraction(1), mean=30, spare=60, width=2),
    NodeSum(max_value=8, noise_epsilon=Fraction(2), base=9, mean=70),
    RapporHistogram(
        symbols=4, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
    ),
    LocalLaplace(max_value=8, epsilon_geo=Fraction(1, 2)),
    OneBitShuffle(max_value=8, randomise=Fraction(1, 3)),
    QuantisedRR(max_value=8, bits=3, randomise=Fraction(1, 3)),
    RRShuffle(max_value=2, randomise=Fraction(1, 3)),
    GeoShuffle(max_value=8, epsilon_geo=Fraction(1, 2), padding=40),
    SGDLShuffle(max_value=8, noise_epsilon=Fraction(1, 10), shares=60, padding=150),
    SplitMix(max_value=8, noise_epsilon=Fraction(1, 10), shares=60, modulus=2048, pieces=16),
]
SETTING = Setting(80, 60)


def test_every_mechanism_is_looked_at() -> None:
    assert {type(spec) for spec in SPECS} == set(MECHANISMS.values())


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
@settings(max_examples=8, deadline=None)
@given(st.just(0.0) | st.floats(1e-9, 90.0) | st.floats(1e-9, 2.0))
@example(4.0)  # exactly the local ε of the geo-shuffle above: the direct bound has its jump there
def test_the_table_is_above_what_a_dataset_attains_and_never_below_the_curve(
    spec: Mechanism, epsilon: float
) -> None:
    at = np.array([epsilon])
    table = float(certified_curve(Tabulated(spec), SETTING, spec.domain - 1, at)[0])
    # Where the direct bound jumps to 0, a chord to that 0 is lower than it and still above the
    # convex truth: so the table is held against the direct bound at its own next node.
    nodes = TABLES.of(spec, SETTING, spec.domain - 1).excess
    ahead = int(np.searchsorted(nodes, np.expm1(min(epsilon, 700.0))))
    after = np.array([max(epsilon, float(np.log1p(nodes[ahead])))]) if ahead < len(nodes) else at
    curve = float(certified_curve(spec, SETTING, spec.domain - 1, after)[0])
    assert table >= delta_bounds(spec, SETTING, epsilon).attained
    # Two upper bounds that were rounded differently may differ in the last digits that are
    # computed.
    assert table >= curve * (1 - 1e-4) - 1e-13


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_below_zero_the_table_is_the_reflected_curve(spec: Mechanism) -> None:
    at = np.array([-3.0, -0.5, -0.01])
    table = certified_curve(Tabulated(spec), SETTING, spec.domain - 1, at)
    assert np.all(table >= -np.expm1(at))
    assert np.all(table <= 1.0)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_composition_costs_no_more_than_one_percent_for_the_table(spec: Mechanism) -> None:
    direct = compose_epsilon([Round(spec, SETTING, 4)], 1e-5)
    assert compose_epsilon([Round(Tabulated(spec), SETTING, 4)], 1e-5) == pytest.approx(
        direct, rel=0.01
    )
