"""One-bit mean: exact in rationals over all datasets, certified and attained around it, both
adjacencies (S18)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram, OneBitShuffle, RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_bounds, compose_epsilon
from shuffledp_privacy.sums import one_bit

METRIC = Adjacency.METRIC
Law = list[Fraction]


def chance(spec: OneBitShuffle, value: int) -> Fraction:
    return spec.randomise / 2 + (1 - spec.randomise) * Fraction(value, spec.max_value)


def ones_of(spec: OneBitShuffle, values: Sequence[int]) -> Law:
    """The law of the number of ones, exactly."""
    law = [Fraction(1)]
    for value in values:
        one, before = chance(spec, value), [*law, Fraction(0)]
        law = [
            mass * (1 - one) + (before[at - 1] * one if at else 0) for at, mass in enumerate(before)
        ]
    return law


def divergence(p: Law, q: Law, growth: Fraction) -> Fraction:
    return sum((max(a - growth * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def changes(spec: OneBitShuffle, honest: int, distance: int) -> Iterator[tuple[Law, Law]]:
    """Every dataset of the others, and every change by exactly this distance, in both orders."""
    for others in itertools.combinations_with_replacement(range(spec.domain), honest - 1):
        laws = [ones_of(spec, (*others, value)) for value in range(spec.domain)]
        for low in range(spec.domain - distance):
            yield laws[low], laws[low + distance]
            yield laws[low + distance], laws[low]


def worst(spec: OneBitShuffle, honest: int, distance: int, growth: Fraction) -> Fraction:
    return max(divergence(p, q, growth) for p, q in changes(spec, honest, distance))


@pytest.mark.parametrize("largest", [1, 2, 3, 4])
@pytest.mark.parametrize("honest", [1, 2, 4])
@pytest.mark.parametrize("randomise", [Fraction(1, 9), Fraction(3, 4)])
def test_a_change_by_d_is_a_change_of_the_bit_with_chance_d_of_k(
    largest: int, honest: int, randomise: Fraction
) -> None:
    """The proposition itself, in rationals: the worst of all datasets and changes equals the
    diluted response's."""
    spec, binary = (OneBitShuffle(max_value=k, randomise=randomise) for k in (largest, 1))
    for distance, growth in itertools.product(
        range(1, largest + 1), (Fraction(1), Fraction(6, 5), Fraction(3))
    ):
        rate = Fraction(distance, largest)
        inner = 1 + (growth - 1) / rate
        assert worst(spec, honest, distance, growth) == rate * worst(binary, honest, 1, inner)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("reach", [None, 1, 2])
@pytest.mark.parametrize("honest", [1, 3, 6])
@pytest.mark.parametrize("randomise", [Fraction(1, 20), Fraction(1, 2), Fraction(1)])
def test_both_sides_hold_the_truth_between_them(
    adjacency: Adjacency, reach: int | None, honest: int, randomise: Fraction
) -> None:
    spec, setting = (
        OneBitShuffle(max_value=3, randomise=randomise),
        Setting(honest, honest, adjacency, reach),
    )
    distances = range(1, (reach or 3) + 1)
    for epsilon in (0.0, 0.05, 0.6, 2.0):
        units = [d if adjacency is METRIC else 1 for d in distances]
        growth = [Fraction(math.exp(epsilon * unit)) for unit in units]
        truth = float(
            max(worst(spec, honest, d, u) for d, u in zip(distances, growth, strict=True))
        )
        found = delta_bounds(spec, setting, epsilon)
        assert found.attained * (1 - 1e-9) <= truth <= found.certified * (1 + 1e-9) + 1e-15
        # Others at 0 and at k are among the datasets, and few users are looked at one composition
        # at a time.
        assert found.certified <= truth * (1 + 1e-6) + 1e-12
        assert found.attained >= truth * (1 - 1e-6) - 1e-12
    left = corrupted_bounds(spec, setting, 1e-6)
    alone = [
        float(
            worst(spec, 1, d, Fraction(math.exp(left.epsilon * (d if adjacency is METRIC else 1))))
        )
        for d in distances
    ]
    assert left.delta == 0.0
    assert max(alone) <= 1e-15
    if randomise < 1:
        short = [d if adjacency is METRIC else 1 for d in distances]
        tight = [
            worst(spec, 1, d, Fraction(math.exp(0.999 * left.epsilon * u)))
            for d, u in zip(distances, short, strict=True)
        ]
        assert max(tight) > 0


@settings(max_examples=12, deadline=None)
@given(
    largest=st.integers(1, 300),
    honest=st.integers(1, 400),
    share=st.integers(1, 1000),
    adjacency=st.sampled_from(list(Adjacency)),
    data=st.data(),
)
def test_epsilon_and_delta_answer_each_other(
    largest: int, honest: int, share: int, adjacency: Adjacency, data: st.DataObject
) -> None:
    reach = data.draw(st.none() | st.integers(1, largest))
    spec, setting = (
        OneBitShuffle(max_value=largest, randomise=Fraction(share, 1000)),
        Setting(honest, honest, adjacency, reach),
    )
    delta = data.draw(st.sampled_from([1e-9, 1e-4, 0.05]))
    found = epsilon_bounds(spec, setting, delta)
    assert 0 <= found.attained <= found.certified <= corrupted_bounds(spec, setting, delta).epsilon
    # Searches over distances stand on chords between points of a curve: a thousandth.
    assert found.attained >= found.certified * 0.995 - 1e-9 or adjacency is METRIC
    above = delta_bounds(spec, setting, found.certified * 1.003 + 1e-12)
    assert above.attained <= above.certified <= delta * 1.01
    if found.attained > 0:
        assert delta_bounds(spec, setting, found.attained * (1 - 1e-6)).certified >= delta * (
            1 - 1e-6
        )


@pytest.mark.parametrize("honest", [100, 5000])
def test_for_values_of_zero_and_one_it_is_randomised_response(honest: int) -> None:
    p, setting = Fraction(1, 5), Setting(honest, honest)
    same = [
        epsilon_bounds(spec, setting, 1e-6)
        for spec in (
            OneBitShuffle(max_value=1, randomise=p),
            KRRHistogram(symbols=2, blanket=p),
            RRShuffle(max_value=1, randomise=p),
        )
    ]
    for bounds in same[1:]:
        assert same[0].certified == pytest.approx(bounds.certified, rel=2e-3)
        assert same[0].attained == pytest.approx(bounds.attained, rel=2e-3)


@pytest.mark.parametrize(
    ("honest", "reach"), [(40, None), (40, 1), (300, None), (300, 7), (20_000, None)]
)
def test_per_unit_the_search_over_distances_loses_little(honest: int, reach: int | None) -> None:
    spec = OneBitShuffle(max_value=12, randomise=Fraction(1, 4))
    found = epsilon_bounds(spec, Setting(honest, honest, METRIC, reach), 1e-5)
    item = one_bit.one_bit_round(spec, Setting(honest, honest, METRIC, reach))
    each = [item.attained_epsilon(d, 1e-5) / d for d in range(1, item.d_max + 1)]
    assert max(each) * (1 - 1e-9) <= found.certified <= max(each) * 1.004


def test_a_cover_by_intervals_is_above_every_distance_and_hardly_above() -> None:
    last = 3 * one_bit.MOST_DISTANCES
    lows, highs = one_bit._intervals(last)
    assert lows[0] == 1
    assert highs[-1] == last
    assert np.all(lows[1:] == highs[:-1] + 1)
    spec, setting = (
        OneBitShuffle(max_value=last, randomise=Fraction(1, 10)),
        Setting(500, 500, METRIC),
    )
    exact = (
        epsilon_bounds(
            OneBitShuffle(max_value=200, randomise=Fraction(1, 10)), setting, 1e-6
        ).certified
        * 200
    )
    assert epsilon_bounds(spec, setting, 1e-6).certified * last == pytest.approx(exact, rel=0.01)


def test_the_curve_is_above_what_is_attained_at_every_point_of_either_sign() -> None:
    spec, setting = OneBitShuffle(max_value=6, randomise=Fraction(1, 3)), Setting(60, 60)
    epsilons = np.linspace(-1.5, 1.5, 61)
    for distance in (1, 3, 6):
        item = one_bit.one_bit_round(spec, Setting(60, 60, max_distance=distance))
        curve = certified_curve(spec, setting, distance, epsilons)
        for epsilon, value in zip(epsilons.tolist(), curve.tolist(), strict=True):
            known = item.attained_delta(distance, abs(epsilon))
            known = known if epsilon >= 0 else 1 - math.exp(epsilon) * (1 - known)
            assert known * (1 - 1e-9) <= value <= known * 1.01 + 1e-9
    with pytest.raises(UsageError, match="distance must be from 1 to 6"):
        certified_curve(spec, setting, 7, epsilons)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_rounds_compose_to_less_than_their_sum(adjacency: Adjacency) -> None:
    spec, setting = (
        OneBitShuffle(max_value=10, randomise=Fraction(1, 5)),
        Setting(800, 760, adjacency),
    )
    one = epsilon_bounds(spec, setting, 1e-6)
    many = compose_bounds([Round(spec, setting, 9)], 1e-6)
    assert one.certified < many.certified < 9 * one.certified


def test_the_accountant_of_two_users_under_any_share_of_honest_ones_counts_the_honest() -> None:
    spec = OneBitShuffle(max_value=9, randomise=Fraction(1, 5))
    half = epsilon_bounds(spec, Setting(1000, 500), 1e-6)
    assert half.certified == epsilon_bounds(spec, Setting(500, 500), 1e-6).certified


@pytest.mark.parametrize(
    ("adjacency", "rounds"),
    [(Adjacency.STANDARD, 1), (Adjacency.STANDARD, 5), (Adjacency.METRIC, 1)],
)
def test_calibration_meets_its_target_closely(adjacency: Adjacency, rounds: int) -> None:
    epsilon = 0.1 if adjacency is METRIC else 1.0
    target = Target(
        epsilon, 1e-6, users=900, honest=850, max_value=20, adjacency=adjacency, rounds=rounds
    )
    spec = calibrate("one-bit-mean", target)
    assert isinstance(spec, OneBitShuffle)
    found = compose_bounds([Round(spec, target.setting, rounds)], 1e-6).certified
    assert 0.985 * epsilon <= found <= epsilon


@pytest.mark.parametrize("largest", [1, 4, 7])
def test_the_standard_error_is_that_of_the_worst_value(largest: int) -> None:
    spec, users = OneBitShuffle(max_value=largest, randomise=Fraction(1, 3)), 90
    errors = [
        math.sqrt(users * chance(spec, value) * (1 - chance(spec, value))) * largest / (1 - 1 / 3)
        for value in range(largest + 1)
    ]
    assert standard_error(spec, users) == pytest.approx(max(errors))
    assert math.isinf(
        standard_error(OneBitShuffle(max_value=largest, randomise=Fraction(1)), users)
    )


def test_the_estimate_of_a_search_is_the_curve_of_the_datasets_at_the_ends() -> None:
    """Against the rational laws of all others at 0 and at k, both orders."""
    spec = OneBitShuffle(max_value=4, randomise=Fraction(1, 3))
    item = one_bit.one_bit_round(spec, Setting(6, 6, METRIC))
    epsilons = np.array([0.0, 0.05, 0.3, 0.9, 1.5])
    for distance in (1, 3, 4):
        estimate = item.ends_curve(distance, epsilons)
        for epsilon, found in zip(epsilons.tolist(), estimate.tolist(), strict=True):
            growth = Fraction(math.exp(epsilon))
            truth = max(
                float(divergence(first, second, growth))
                for others in (0, 4)
                for laws in [[ones_of(spec, [value] + 5 * [others]) for value in (0, distance)]]
                for first, second in (laws, laws[::-1])
            )
            assert found == pytest.approx(truth, rel=1e-9, abs=1e-12)


def test_a_search_over_rounds_certifies_only_what_it_proposes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """17 certificates, 19 s of a core, when every candidate was certified."""
    certified: list[float] = []

    def count(rounds: Sequence[Round], delta: float, *arguments: int) -> float:
        certified.append(compose_epsilon(rounds, delta, *arguments))
        return certified[-1]

    monkeypatch.setattr("shuffledp_privacy.calibration.target.compose_epsilon", count)
    target = Target(1.0, 1e-6, 300, 300, METRIC, max_value=10, rounds=10)
    calibrate("one-bit-mean", target)
    assert len(certified) <= 3
    assert max(epsilon for epsilon in certified if epsilon <= 1.0) > 0.98
