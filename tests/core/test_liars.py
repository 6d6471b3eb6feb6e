"""What lying devices can move: the bound, and reports that reach it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.answering.estimates import Present
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
from shuffledp_core.mechanisms.liars import largest_shift

QUARTER = Fraction(1, 4)
OTHERS = 40
NODES = 2
SPECS: list[Mechanism] = [
    BloomRappor(symbols=3, bits=4, hashes=2, cohorts=4, fake=QUARTER),
    KRRHistogram(symbols=5, blanket=QUARTER),
    DummyHistogram(symbols=5, slots=2, fill=QUARTER),
    DummyHistogram(symbols=5, slots=2, fill=QUARTER, blanket=QUARTER),
    HadamardHistogram(symbols=5, blanket=QUARTER),
    NodeColumns(symbols=6, noise_epsilon=Fraction(1), mean=30, spare=60, columns=(3, 2)),
    NodeHistogram(symbols=5, noise_epsilon=Fraction(1), mean=30, dummies=200),
    NodeHistogram(symbols=5, noise_epsilon=Fraction(1), mean=30, dummies=200, blanket=QUARTER),
    RapporHistogram(symbols=5, fake=QUARTER, when_zero=QUARTER, when_one=1 - QUARTER),
    RRShuffle(max_value=4, randomise=QUARTER),
    QuantisedRR(max_value=4, bits=2, randomise=QUARTER),
    LocalLaplace(max_value=4, epsilon_geo=Fraction(1)),
    OneBitShuffle(max_value=4, randomise=QUARTER),
    GeoShuffle(max_value=4, epsilon_geo=Fraction(1), padding=3),
    SGDLShuffle(max_value=4, noise_epsilon=Fraction(1), shares=100, padding=3),
    NodeSum(max_value=14, noise_epsilon=Fraction(1), base=4, mean=30),
    NodeTree(symbols=5, noise_epsilon=Fraction(1), mean=30, spare=60, width=2),
    NodeTree(symbols=9, noise_epsilon=Fraction(1), mean=30, spare=60, width=3),
    NodeTree(symbols=7, noise_epsilon=Fraction(1), mean=30, spare=60, width=4),
    NodeTree(symbols=5, noise_epsilon=Fraction(1), mean=30, spare=60, width=1),
    SplitMix(max_value=4, noise_epsilon=Fraction(5), shares=100, modulus=503, pieces=3),
]


def estimates(spec: Mechanism, symbols: list[int]) -> np.ndarray:
    """The estimates from these messages beside the reports of others."""
    others = [at % 2 for at in range(OTHERS * spec.messages_per_user)]
    counts = spec.counts_of(np.array(others + symbols, dtype=np.int64))
    reports = Fraction(OTHERS) + Fraction(len(symbols), spec.messages_per_user)
    return np.array(spec.estimate(counts.tolist(), Present(reports, NODES)).values)


def test_every_mechanism_is_here() -> None:
    assert {spec.kind for spec in SPECS} == set(MECHANISMS)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("liars", [1, 3])
def test_liars_reach_the_bound(spec: Mechanism, liars: int) -> None:
    number = liars * spec.messages_per_user
    answers = [estimates(spec, [symbol] * number) for symbol in range(spec.alphabet)]
    bound = largest_shift(spec, liars)
    assert bound is not None
    assert np.ptp(answers, axis=0).max() == pytest.approx(float(bound), rel=1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_messages_move_an_estimate_further(spec: Mechanism, data: st.DataObject) -> None:
    number = 2 * spec.messages_per_user
    messages = st.lists(st.integers(0, spec.alphabet - 1), min_size=number, max_size=number)
    difference = estimates(spec, data.draw(messages)) - estimates(spec, data.draw(messages))
    assert np.abs(difference).max() <= float(largest_shift(spec, 2) or 0) * (1 + 1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_liar_moves_any_report_by_half_the_bound(spec: Mechanism, data: st.DataObject) -> None:
    number = spec.messages_per_user
    messages = st.lists(st.integers(0, spec.alphabet - 1), min_size=number, max_size=number)
    honest = estimates(spec, data.draw(messages))
    lies = [estimates(spec, [symbol] * number) for symbol in range(spec.alphabet)]
    farthest = np.abs(np.array(lies) - honest).max()
    assert farthest >= float(largest_shift(spec, 1) or 0) / 2 * (1 - 1e-9) > 0


def test_pure_noise_has_no_bound() -> None:
    assert largest_shift(KRRHistogram(symbols=5, blanket=Fraction(1)), 1) is None
