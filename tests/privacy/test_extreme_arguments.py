"""Arguments at the ends of the double range: clean numbers on the right side, no warnings (which
are errors here)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.primitives.noise import SgdlLaw, ShiftedPair
from shuffledp_privacy.primitives.pairs import hockey_stick, least_epsilon

SHUFFLES = [
    RRShuffle(max_value=20, randomise=Fraction(1, 2)),
    RRShuffle(max_value=5, randomise=Fraction(1, 10**15)),
    GeoShuffle(max_value=1000, epsilon_geo=Fraction(5), padding=100),
    GeoShuffle(max_value=1000, epsilon_geo=Fraction(800), padding=0),
    SGDLShuffle(max_value=1000, noise_epsilon=Fraction(5), shares=100, padding=3000),
    SGDLShuffle(max_value=10**6, noise_epsilon=Fraction(1, 5), shares=900, padding=50),
]


@pytest.mark.parametrize(("symbols", "honest"), [(2, 1000), (3, 10), (10, 1000), (10, 10**6)])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 1e-306, 1e-300, 1e-17])
def test_delta_of_a_histogram_at_next_to_no_epsilon_is_that_at_none(
    symbols: int, honest: int, epsilon: float
) -> None:
    spec, setting = KRRHistogram(symbols=symbols, blanket=Fraction(1, 2)), Setting(honest, honest)
    at_none, near = delta_bounds(spec, setting, 0.0), delta_bounds(spec, setting, epsilon)
    assert near.certified == pytest.approx(at_none.certified, rel=1e-12)
    assert near.attained == pytest.approx(at_none.attained, rel=1e-12)
    assert near.attained <= near.certified


@pytest.mark.parametrize("spec", SHUFFLES)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [5e-324, 1e-306, 1e-20, 30.0, 700.0, 1e3, 1e300])
def test_delta_of_a_sum_is_a_probability_at_any_epsilon(
    spec: RRShuffle | GeoShuffle | SGDLShuffle, adjacency: Adjacency, epsilon: float
) -> None:
    bounds = delta_bounds(spec, Setting(1000, 1000, adjacency), epsilon)
    assert 0 <= bounds.attained <= bounds.certified <= 1


@pytest.mark.parametrize("spec", SHUFFLES)
def test_epsilon_of_a_sum_is_ordered_at_any_noise(
    spec: RRShuffle | GeoShuffle | SGDLShuffle,
) -> None:
    bounds = epsilon_bounds(spec, Setting(1000, 1000, Adjacency.METRIC), 1e-6)
    assert 0 <= bounds.attained <= bounds.certified


def test_divergences_far_out_are_clean_from_both_sides() -> None:
    pair = ShiftedPair(SgdlLaw(1e4, math.exp(-2.0)), np.array([1.0, 1e4, 1e8]))
    found = hockey_stick(pair, np.array([800.0, 1e5, 2e9]))
    assert np.isfinite(found.upper).all()
    assert (found.lower <= found.upper).all()
    certified, attained = least_epsilon(pair, 1e-6, 1e-9)
    assert (attained <= certified).all()
    assert certified[1:].tolist() == [math.inf, math.inf]  # clamping alone is too much there
