"""Views in the terms of the papers, against counting every outcome of small rounds."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp_core.errors import UsageError
from shuffledp_privacy.bounds import corrupted_bounds, delta_bounds
from shuffledp_privacy.central import classical_gaussian_sigma, gaussian_delta

KRR = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
GROUP = sdp.Setting(users=100, honest=100)
RR = sdp.RRShuffle(max_value=2, randomise=Fraction(1, 2))
METRIC = sdp.Setting(users=3, honest=3, adjacency=sdp.Adjacency.METRIC)


def law_of_sum(chances: list[float]) -> np.ndarray:
    """The law of a sum of independent bits, each one with its chance."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return law


def excess(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Hockey-stick divergence, the larger of both directions."""
    growth = math.exp(epsilon)
    return max(
        float(np.maximum(p - growth * q, 0).sum()), float(np.maximum(q - growth * p, 0).sum())
    )


def law_of_values(values: tuple[int, ...], randomise: float = 0.5) -> np.ndarray:
    """The law of the number of ones that rr-shuffle sends for these values of 0..2."""
    bits = [1 if place < value else 0 for value in values for place in range(2)]
    return law_of_sum([randomise / 2 + (1 - randomise) * bit for bit in bits])


def test_the_strong_adversary_is_never_better_off_for_users_than_the_weak_one() -> None:
    found = sdp.adversaries(KRR, GROUP, [0.1, 0.5, 1.0])
    certified = [delta_bounds(KRR, GROUP, epsilon).certified for epsilon in (0.1, 0.5, 1.0)]
    assert found.columns["weak"] == pytest.approx(certified, rel=1e-9)
    assert (found.columns["strong"] > found.columns["weak"]).all()


def test_one_bin_for_a_chosen_count_is_the_excess_of_that_dataset() -> None:
    """Two symbols: one bin is the whole histogram, so that counting outcomes gives the exact
    number."""
    spec, group = (
        sdp.KRRHistogram(symbols=2, blanket=Fraction(1, 2)),
        sdp.Setting(users=9, honest=9),
    )
    others = [0.75] * 6 + [0.25] * 2  # six hold the primary symbol
    with_primary, without = law_of_sum([*others, 0.75]), law_of_sum([*others, 0.25])
    epsilons = (0.2, 0.6)
    found = sdp.primary_count(spec, 6, group, epsilons)
    for epsilon, value in zip(epsilons, found.columns["one_bin"], strict=True):
        exact = float(np.maximum(with_primary - math.exp(epsilon) * without, 0).sum())
        assert value == pytest.approx(exact, rel=1e-9)
    assert (found.columns["certified"] >= found.columns["one_bin"]).all()


def test_the_classical_gaussian_is_sound_where_it_is_proved_and_refused_elsewhere() -> None:
    for epsilon, delta in product((0.01, 0.5, 0.99), (1e-9, 1e-3)):
        assert gaussian_delta(classical_gaussian_sigma(3.0, epsilon, delta), 3.0, epsilon) <= delta
    with pytest.raises(UsageError, match="below 1"):
        classical_gaussian_sigma(1.0, 1.0, 1e-6)


def test_a_central_gaussian_has_the_plans_guarantee() -> None:
    setting = sdp.Setting(users=1000, honest=1000)
    found, guarantee = (
        sdp.central_gaussian(KRR, setting, delta=1e-6).numbers,
        sdp.certify(KRR, setting, delta=1e-6),
    )
    optimal, classical = found["sigma_optimal"], found["sigma_classical"]
    assert optimal is not None
    assert classical is not None
    assert guarantee.certified is not None
    assert gaussian_delta(optimal, math.sqrt(2), guarantee.certified) <= 1e-6
    assert optimal < classical


def test_the_curve_of_corrupt_nodes_is_the_registrys() -> None:
    spec = sdp.RRShuffle(max_value=20, randomise=Fraction(1, 5))
    deltas, distances = [0.0, 1e-3, 0.1], [1, 5, 20]
    found = sdp.all_corrupt(spec, GROUP, deltas, distances)
    for distance in distances:
        setting = sdp.Setting(100, 100, max_distance=distance)
        expected = [corrupted_bounds(spec, setting, delta).epsilon for delta in deltas]
        assert found.columns[f"distance {distance}"] == pytest.approx(expected, rel=1e-6)
        assert (np.diff(found.columns[f"distance {distance}"]) <= 1e-12).all()


@pytest.mark.parametrize("delta", [1e-3, 0.05])
def test_datasets_that_differ_in_several_values_have_the_guarantee_of_the_view(
    delta: float,
) -> None:
    several: list[tuple[int, ...]] = [
        *((1,), (2,), (1, 1), (1, 2), (2, 2)),
        *((1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 2, 2)),
    ]
    views = {changes: sdp.datasets(RR, changes, METRIC, delta=delta).numbers for changes in several}
    for changes, numbers in views.items():
        # C20: each change is made from a dataset that those before it have led to.
        unit = numbers["epsilon_per_unit"]
        assert unit is not None
        grown = sum(delta * math.exp(unit * sum(changes[:at])) for at in range(len(changes)))
        assert numbers["delta"] == pytest.approx(min(1.0, grown), rel=1e-9)
    for before, after in product(product(range(3), repeat=3), repeat=2):
        changes = tuple(sorted(abs(a - b) for a, b in zip(before, after, strict=True) if a != b))
        if not changes:
            continue
        numbers = views[changes]
        assert numbers["epsilon"] is not None
        assert numbers["delta"] is not None
        truth = excess(law_of_values(before), law_of_values(after), numbers["epsilon"])
        assert truth <= numbers["delta"] * (1 + 1e-9)


def test_a_delta_that_grows_with_the_distance_holds_at_every_distance_and_costs_less() -> None:
    delta = 0.01
    numbers = sdp.growing_delta(RR, METRIC, delta=delta).numbers
    epsilon, constant = numbers["epsilon"], numbers["constant_delta"]
    assert epsilon is not None
    assert constant is not None
    assert epsilon < constant
    for value, other, rest in product(range(3), range(3), product(range(3), repeat=2)):
        distance = abs(value - other)
        if distance:
            truth = excess(
                law_of_values((value, *rest)), law_of_values((other, *rest)), epsilon * distance
            )
            assert truth <= delta * math.exp(distance) * (1 + 1e-9)


def test_views_refuse_what_they_are_not_about() -> None:
    with pytest.raises(UsageError, match="krr-histogram"):
        sdp.adversaries(RR, GROUP)
    with pytest.raises(UsageError, match="metric adjacency"):
        sdp.datasets(RR, [1], GROUP)
    with pytest.raises(UsageError, match="from 1 to 2"):
        sdp.datasets(RR, [3], METRIC)
    with pytest.raises(UsageError, match="1 to 3 changes"):
        sdp.datasets(RR, [1] * 4, METRIC)
    with pytest.raises(UsageError, match="standard adjacency"):
        sdp.central_gaussian(RR, METRIC)
    with pytest.raises(UsageError, match="delta above 0"):
        sdp.growing_delta(RR, METRIC, delta=0.0)
