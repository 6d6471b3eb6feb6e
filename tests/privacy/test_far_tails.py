"""Totals of a thousand nats, where e^-E is no double, against sums in logarithms.

The worst distance of rr-shuffle.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from shuffledp_core.mechanisms import GeoShuffle, RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.primitives.noise import sum_noise

Floats = NDArray[np.float64]


def largest_event(below: Floats, below_far: Floats, total: float) -> float:
    """Largest P(Y <= t) - e^E Q(Y <= t), from both in logarithms."""
    return float(np.max(np.exp(below) - np.exp(np.minimum(total + below_far, 700.0))))


def bits_below(zeros: int, ones: int, flip: float, points: int) -> Floats:
    """ln P(Bin(zeros, a) + Bin(ones, 1 - a) <= t) for t = 0..points-1."""
    counts = np.arange(points)
    left, right = binom.logpmf(counts, zeros, flip), binom.logpmf(counts, ones, 1 - flip)
    mass = [logsumexp(left[: t + 1] + right[t::-1]) for t in range(points)]
    return np.logaddexp.accumulate(mass)


@pytest.mark.parametrize(
    ("randomise", "points"), [(Fraction(1, 50), 1100), (Fraction(1, 500), 200)]
)
def test_bits_at_a_distance_of_a_thousand(randomise: Fraction, points: int) -> None:
    spec, group = (
        RRShuffle(max_value=1000, randomise=randomise),
        Setting(100, 100, Adjacency.METRIC),
    )
    flip = float(randomise) / 2
    near, far = bits_below(100_000, 0, flip, points), bits_below(99_000, 1000, flip, points)
    found = epsilon_bounds(spec, group, 1e-4)
    assert found.certified < 1.001 * found.attained
    # All other bits 0: a dataset that bounds the truth from below.
    assert largest_event(near, far, 1000 * found.attained * (1 - 1e-7)) >= 1e-4
    assert largest_event(near, far, 1000 * found.certified) <= 1e-4
    delta = delta_bounds(spec, group, found.attained)
    assert delta.attained == pytest.approx(
        largest_event(near, far, 1000 * found.attained), rel=1e-3
    )
    assert delta.attained <= delta.certified <= 1.02 * delta.attained


def test_a_published_setting_of_geometric_noise_is_known_to_four_digits() -> None:
    spec = GeoShuffle(max_value=1000, epsilon_geo=Fraction(3, 10), padding=2000)
    found = epsilon_bounds(spec, Setting(100, 100, Adjacency.METRIC), 1e-4)
    assert found.certified == pytest.approx(0.17592, abs=1e-5)
    assert found.attained > 0.99999 * found.certified
    # NB(100) - NB(100) in logarithms, from its definition.
    terms = np.arange(4000.0)
    log_mass = (
        100 * math.log(-math.expm1(-0.3))
        - 0.3 * terms
        + gammaln(100 + terms)
        - gammaln(terms + 1)
        - gammaln(100)
    )
    reach = 2500
    right = np.array([logsumexp(log_mass[: 4000 - m] + log_mass[m:]) for m in range(reach + 1)])
    below = np.logaddexp.accumulate(np.concatenate([right[:0:-1], right]))
    near, far = below[1000:], below[:-1000]
    assert largest_event(near, far, 1000 * found.attained * (1 - 1e-6)) >= 1e-4
    assert largest_event(near, far, 1000 * found.certified * (1 + 1e-6)) <= 1e-4


def flipped_sum(zeros: int, ones: int, flip: float) -> Floats:
    return np.convolve(
        binom.pmf(np.arange(zeros + 1), zeros, flip), binom.pmf(np.arange(ones + 1), ones, 1 - flip)
    )


def test_a_larger_distance_is_worse_unless_all_other_bits_are_one() -> None:
    """S10 (f) by enumeration; at j = m it is not claimed."""
    for flip in (0.02, 0.2, 0.45):
        for others in (1, 2, 5, 12):
            for distance in (1, 2, 4, 9):
                for ones in range(others):
                    zeros = others - ones
                    near = flipped_sum(zeros + distance, ones, flip)
                    far, farther = (
                        flipped_sum(zeros - more, ones + distance + more, flip) for more in (0, 1)
                    )
                    for epsilon in (0.0, 0.05, 0.4, 1.0, 2.5):
                        here = np.maximum(near - math.exp(epsilon * distance) * far, 0.0).sum()
                        there = np.maximum(
                            near - math.exp(epsilon * (distance + 1)) * farther, 0.0
                        ).sum()
                        assert there >= here - 1e-14


def test_a_trillion_bits_of_which_few_are_flipped_lose_nothing() -> None:
    spec = RRShuffle(max_value=1000, randomise=Fraction(1, 10**6))
    for adjacency in Adjacency:
        found = epsilon_bounds(spec, Setting(10**9, 10**9, adjacency), 1e-6)
        assert 0 < found.attained <= found.certified < 1.001 * found.attained


@pytest.mark.parametrize("users", [1000, 10**5])
def test_the_largest_distance_decides_under_metric_adjacency(users: int) -> None:
    spec = RRShuffle(max_value=1000, randomise=Fraction(1, 10))
    found = epsilon_bounds(spec, Setting(users, users, Adjacency.METRIC), 1e-6)
    total = epsilon_bounds(spec, Setting(users, users), 1e-6)
    assert found.certified == pytest.approx(total.certified / 1000, rel=1e-4)
    assert found.certified < 1.001 * found.attained


def test_noise_as_wide_as_a_billion_keeps_its_digits() -> None:
    found = []
    for power in (4, 6, 8):
        # Ever finer steps of one law: all have nearly the same divergence.
        noise = sum_noise(Fraction(1000), Fraction(1, 10**power))
        distance = np.array([10 ** (power - 2)])
        certified, attained = (float(side[0]) for side in noise.least(distance, 1e-6, 0.0))
        assert 0 < attained <= certified <= attained * (1 + 1e-6)
        found.append(certified)
    assert found[1] == pytest.approx(found[0], rel=1e-3)
    assert found[2] == pytest.approx(found[1], rel=1e-4)


def test_noise_in_which_a_change_does_not_show_needs_no_epsilon() -> None:
    noise = sum_noise(Fraction(1000), Fraction(1, 10**9))
    certified, attained = noise.least(np.array([20, 10**8]), 1e-6, 1e-9)
    assert certified[0] == attained[0] == 0.0
    assert 0 < attained[1] <= certified[1] < 0.1
    assert noise.divergence(np.array([20]), np.array([0.0]))[0][0] <= 1.0001e-8
