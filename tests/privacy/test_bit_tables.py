"""Tables of flipped bits against the contour sums, which share no code with them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shuffledp_privacy.primitives.bit_tables import bit_divergence, bits_are_few
from shuffledp_privacy.primitives.bits import BitPair
from shuffledp_privacy.primitives.pairs import hockey_stick


@pytest.mark.parametrize("seed", range(40))
def test_a_table_has_the_divergence_of_the_contour_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    zeros, ones = (int(bits) for bits in rng.integers(0, 3000, 2))
    distance = int(rng.integers(1, 60))
    flip = float(10 ** rng.uniform(-3, -0.31))
    largest = min(distance * math.log((1 - flip) / flip), 30.0)
    epsilon = np.linspace(0.0, 0.99 * largest, 40)
    table = bit_divergence(zeros, ones, distance, flip, epsilon)
    rows = np.ones(epsilon.size)
    exact = hockey_stick(BitPair(zeros * rows, ones * rows, distance * rows, flip), epsilon)
    assert (table >= exact.lower * (1 - 1e-12)).all()
    assert (table <= exact.upper * (1 + 1e-6) + 1e-17).all()


def test_every_dataset_of_two_users_is_covered_exactly() -> None:
    """All laws of four bits, written out."""
    flip, distance = 0.2, 2
    for ones in range(3):
        first = np.ones(1)
        second = np.ones(1)
        bits = [0] * (2 - ones) + [1] * ones
        for before, after in zip(bits + [0] * distance, bits + [1] * distance, strict=True):
            chances = [np.array([1 - flip, flip]), np.array([flip, 1 - flip])]
            first = np.convolve(first, chances[before])
            second = np.convolve(second, chances[after])
        for epsilon in (0.0, 0.5, 1.5, 2.7):
            exact = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
            table = float(bit_divergence(2 - ones, ones, distance, flip, np.array([epsilon]))[0])
            assert table == pytest.approx(exact, rel=1e-9)
            assert table >= exact * (1 - 1e-14)


def test_only_short_sums_are_tabulated() -> None:
    assert bits_are_few(10**6, 0.01)
    assert not bits_are_few(10**7, 0.01)
