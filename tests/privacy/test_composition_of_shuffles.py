"""Composed shuffles against concrete datasets, enumerated, and against known values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from composed_delta import compose_delta
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.rounds.composition import Round, compose_bounds

Floats = NDArray[np.float64]


def flipped_sum(zeros: int, ones: int, flip: float) -> Floats:
    """The law of a sum of bits, each flipped with the given probability."""
    law = np.array([1.0])
    for chance in [flip] * zeros + [1 - flip] * ones:
        law = np.convolve(law, [1 - chance, chance])
    return law


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize("flip", [0.05, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
def test_the_worst_dataset_of_a_bit_shuffle_gets_worse_with_the_distance(
    flip: float, epsilon: float
) -> None:
    bits, worst = 9, []
    for distance in range(1, 8):
        pairs = [
            (flipped_sum(zeros + distance, ones, flip), flipped_sum(zeros, ones + distance, flip))
            for zeros in range(bits - distance + 1)
            for ones in [bits - distance - zeros]
        ]
        worst.append(
            max(max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) for p, q in pairs)
        )
    assert all(nearer <= farther * (1 + 1e-12) for nearer, farther in itertools.pairwise(worst))


@pytest.mark.parametrize("epsilon", [0.1, 0.6])
def test_two_rounds_of_each_shuffle_are_not_below_a_concrete_dataset(epsilon: float) -> None:
    setting = Setting(6, 6)
    # One bit a user, five others at 0; the sums of both rounds are all that is seen.
    flip = 0.2
    first, second = flipped_sum(6, 0, flip), flipped_sum(5, 1, flip)
    for p, q in ((first, second), (second, first)):
        exact = hockey_stick(np.outer(p, p).ravel(), np.outer(q, q).ravel(), epsilon)
        assert (
            compose_delta(
                [Round(RRShuffle(max_value=1, randomise=Fraction(2, 5)), setting, 2)], epsilon
            )
            >= exact
        )
        binary = KRRHistogram(symbols=2, blanket=Fraction(2, 5))
        assert compose_delta([Round(binary, setting, 2)], epsilon) >= exact
    # Unclamped discrete Laplace noise of six users: the sum.
    size = np.arange(-60, 61)
    one = np.exp(-0.8 * np.abs(size)) * math.tanh(0.4)
    law = one
    for _ in range(5):
        law = np.convolve(law, one)
    p, q = np.append(law, 0.0), np.append(0.0, law)
    exact = hockey_stick(np.outer(p, p).ravel(), np.outer(q, q).ravel(), epsilon)
    geo = GeoShuffle(max_value=1, epsilon_geo=Fraction(4, 5), padding=60)
    assert compose_delta([Round(geo, setting, 2)], epsilon) >= exact * (1 - 1e-9)


ANCHORS = {
    10: {1: 0.02325, 10: 0.08031, 100: 0.27516, 1000: 0.94448},
    2: {1: 0.04321, 10: 0.14847, 100: 0.50827, 1000: 1.75853},
}
"""The blanket's composed ε for ε0 = 1, n = 10,000, δ = 1e-6, from an independent prototype, five
digits.
"""


@pytest.mark.parametrize("symbols", [2, 10])
def test_composed_histograms_are_not_above_the_known_blanket_values(symbols: int) -> None:
    spec = KRRHistogram(symbols=symbols, blanket=epsilon0_to_blanket(1.0, symbols))
    for times, anchor in ANCHORS[symbols].items():
        found = compose_bounds([Round(spec, Setting(10_000, 10_000), times)], 1e-6)
        assert found.certified <= anchor + 5e-6
        assert found.attained <= found.certified
        if symbols == 10:
            assert found.certified >= anchor * 0.999
