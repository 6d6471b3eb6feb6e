"""Rounds stated for different distances, and random subsets: what a change costs, against exact
enumeration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from composed_delta import compose_delta
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle, RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.local.lecture import OneBitMean
from shuffledp_privacy.rounds.composition import (
    Round,
    compose_bounds,
    compose_epsilon,
)

Floats = NDArray[np.float64]


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def flipped_sum(zeros: int, ones: int, flip: float) -> Floats:
    """The law of a sum of bits, each flipped with the given probability."""
    law = np.array([1.0])
    for chance in [flip] * zeros + [1 - flip] * ones:
        law = np.convolve(law, [1 - chance, chance])
    return law


def two_noisy_sums(users: int, rate: float, distance: int) -> tuple[Floats, Floats]:
    """The joint laws of two sums of `users` discrete Laplace noises, and of the same moved by
    `distance` each."""
    reach = math.ceil(40 / rate)
    one = np.exp(-rate * np.abs(np.arange(-reach, reach + 1))) * math.tanh(rate / 2)
    law = np.array([1.0])
    for _ in range(users):
        law = np.convolve(law, one)
        # Sums of positive terms only; what is cut away adds up to less than 1e-15.
        keep = np.flatnonzero((np.cumsum(law) > 1e-18) & (np.cumsum(law[::-1])[::-1] > 1e-18))
        law = law[keep[0] : keep[-1] + 1]
    here, moved = np.append(law, np.zeros(distance)), np.append(np.zeros(distance), law)
    return np.outer(here, here).ravel(), np.outer(moved, moved).ravel()


def test_rounds_stated_for_distances_1_and_200_cost_what_200_costs_in_both() -> None:
    spec = GeoShuffle(max_value=200, epsilon_geo=Fraction(1, 5), padding=600)
    rounds = [Round(spec, Setting(100, 100, Adjacency.METRIC, distance)) for distance in (1, 200)]
    here, moved = two_noisy_sums(100, 0.2, 200)
    low, high = 0.05, 0.2
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if hockey_stick(here, moved, 200 * middle) > 1e-4 else (low, middle)
        )
    found = compose_bounds(rounds, 1e-4)
    assert low == pytest.approx(0.10363, abs=1e-5)
    assert low <= found.certified <= low * 1.01
    assert found.attained <= found.certified
    assert compose_delta(rounds, low) >= hockey_stick(here, moved, 200 * low)


def test_pure_rounds_stated_for_distances_1_and_2_cost_4_ln_3() -> None:
    spec = RRShuffle(max_value=2, randomise=Fraction(1, 2))
    rounds = [Round(spec, Setting(1, 1, Adjacency.STANDARD, distance)) for distance in (1, 2)]
    here, moved = flipped_sum(2, 0, 0.25), flipped_sum(0, 2, 0.25)
    ratios = list(zip(here, moved, strict=True))
    truth = max(
        math.log(a / b) + math.log(c / d) for (a, b), (c, d) in itertools.product(ratios, repeat=2)
    )
    assert truth == pytest.approx(4 * math.log(3))
    assert truth <= compose_epsilon(rounds, 0.0) <= truth * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_no_mixture_of_stated_distances_is_below_the_exact_joint_law(adjacency: Adjacency) -> None:
    specs, delta = [RRShuffle(max_value=k, randomise=Fraction(1, 2)) for k in (2, 3, 4)], 1e-3
    for distances in [(1, 3, 2), (1, 1, 1)]:
        rounds = [
            Round(s, Setting(2, 2, adjacency, d)) for s, d in zip(specs, distances, strict=True)
        ]
        epsilon = compose_epsilon(rounds, delta)
        for moved in range(1, max(distances) + 1):
            # The other user holds 0; the changed one moves from 0 by the same distance wherever it
            # fits.
            steps = [min(moved, s.max_value) for s in specs]
            here, there = np.array([1.0]), np.array([1.0])
            for s, step in zip(specs, steps, strict=True):
                bits = 2 * s.max_value
                here = np.outer(here, flipped_sum(bits, 0, 0.25)).ravel()
                there = np.outer(there, flipped_sum(bits - step, step, 0.25)).ravel()
            total = epsilon * (moved if adjacency is Adjacency.METRIC else 1)
            for first, second in ((here, there), (there, here)):
                assert hockey_stick(first, second, total * (1 + 1e-9)) <= delta


def drawn_from_two(flip: float, largest: int, changed: int, other: int) -> Floats:
    """One of two users is drawn and sends the bits of a unary code: the law of their sum."""
    parts = [flipped_sum(largest - value, value, flip) for value in (changed, other)]
    return np.asarray((parts[0] + parts[1]) / 2)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_whoever_is_drawn_instead_may_hold_a_value_far_away(
    adjacency: Adjacency, epsilon: float
) -> None:
    largest = 8
    spec = RRShuffle(max_value=largest, randomise=Fraction(1, 10))
    rounds = [Round(spec, Setting(1, 1, adjacency, 1), 2, Fraction(1, 2))]
    found, worst = compose_delta(rounds, epsilon), 0.0
    for changed, other in itertools.product(range(largest), range(largest + 1)):
        one, two = (drawn_from_two(0.05, largest, value, other) for value in (changed, changed + 1))
        for first, second in ((one, two), (two, one)):
            worst = max(
                worst,
                hockey_stick(
                    np.outer(first, first).ravel(), np.outer(second, second).ravel(), epsilon
                ),
            )
    assert worst > 0.01
    assert found >= worst


def test_a_pure_round_on_a_random_subset_counts_every_value_that_may_take_its_place() -> None:
    spec = RRShuffle(max_value=8, randomise=Fraction(1, 2))
    rounds = [Round(spec, Setting(1, 1, Adjacency.STANDARD, 1), 1, Fraction(1, 2))]
    worst = 0.0
    for changed, other in itertools.product(range(8), range(9)):
        one, two = (drawn_from_two(0.25, 8, value, other) for value in (changed, changed + 1))
        worst = max(worst, float(np.abs(np.log(one / two)).max()))
    assert worst <= compose_epsilon(rounds, 0.0) <= math.log(3) * (1 + 1e-9)


def test_a_smaller_domain_is_covered_for_every_change_that_fits_it() -> None:
    """Where nothing is known about the curves' order, a change larger than the domain is any change
    in it."""
    small, large = OneBitMean(2.0, 1), OneBitMean(2.0, 4)
    setting = Setting(1, 1, Adjacency.STANDARD)
    epsilon = compose_epsilon([Round(small, setting), Round(large, setting)], 1e-2)
    truthful = 1 / (1 + math.exp(-2.0))
    first = np.array([truthful, 1 - truthful])
    here, there = np.outer(first, first).ravel(), np.outer(first[::-1], first[::-1]).ravel()
    assert hockey_stick(here, there, epsilon) <= 1e-2
