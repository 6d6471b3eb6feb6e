"""quantised-rr: exact in rationals over all datasets, certified and attained around it, both
adjacencies (S20)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import OneBitShuffle, QuantisedRR, RRShuffle
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
from shuffledp_privacy.rounds.composition import Round, compose_bounds
from shuffledp_privacy.sums import quantised
from shuffledp_privacy.sums.quantised_attained import attained_delta

METRIC = Adjacency.METRIC
Law = list[Fraction]


def convolved(p: Law, q: Law) -> Law:
    law = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            law[i + j] += a * b
    return law


def report(spec: QuantisedRR, value: int) -> Law:
    """The law of one report's ones: of q sure ones, one bit that is rounded at random, and zeros,
    all flipped."""
    steps, law = Fraction(value * spec.bits, spec.max_value), [Fraction(1)]
    for place in range(spec.bits):
        one = spec.randomise / 2 + (1 - spec.randomise) * min(
            max(steps - place, Fraction(0)), Fraction(1)
        )
        law = convolved(law, [1 - one, one])
    return law


def divergence(p: Law, q: Law, growth: Fraction) -> Fraction:
    return sum((max(a - growth * b, Fraction(0)) for a, b in zip(p, q, strict=True)), Fraction(0))


def views(spec: QuantisedRR, honest: int) -> Iterator[list[Law]]:
    """The law of the board for each value of one user, for every dataset of the others."""
    reports = [report(spec, value) for value in range(spec.domain)]
    for others in itertools.combinations_with_replacement(range(spec.domain), honest - 1):
        rest = [Fraction(1)]
        for value in others:
            rest = convolved(rest, reports[value])
        yield [convolved(rest, law) for law in reports]


def worst(spec: QuantisedRR, honest: int, distance: int, growth: Fraction) -> Fraction:
    return max(
        max(
            divergence(laws[low], laws[low + distance], growth),
            divergence(laws[low + distance], laws[low], growth),
        )
        for laws in views(spec, honest)
        for low in range(spec.domain - distance)
    )


@pytest.mark.parametrize(("largest", "bits"), [(1, 1), (3, 2), (4, 2), (4, 3), (5, 1), (3, 3)])
@pytest.mark.parametrize("honest", [1, 3])
@pytest.mark.parametrize("randomise", [Fraction(1, 9), Fraction(3, 4)])
def test_a_change_is_one_by_steps_with_what_is_left_as_a_chance(
    largest: int, bits: int, honest: int, randomise: Fraction
) -> None:
    """The proposition itself, in rationals: at any λ and λ', for every dataset, change and
    order."""
    spec, code = (
        QuantisedRR(max_value=largest, bits=bits, randomise=randomise),
        QuantisedRR(max_value=bits, bits=bits, randomise=randomise),
    )
    for distance in range(1, largest + 1):
        whole, rest = divmod(distance * bits, largest)
        share = Fraction(rest, largest)
        for low, gap in itertools.product(
            (Fraction(1), Fraction(5, 4), Fraction(3)), (Fraction(0), Fraction(1, 2))
        ):
            high = low + gap
            of_low = worst(code, honest, whole, low) if whole else Fraction(0)
            of_high = worst(code, honest, whole + 1, high) if share else Fraction(0)
            bound = (1 - share) * of_low + share * of_high
            assert worst(spec, honest, distance, (1 - share) * low + share * high) <= bound


@pytest.mark.parametrize(
    ("largest", "bits", "honest"), [(4, 2, 3), (6, 2, 2), (6, 3, 2), (5, 1, 4), (3, 1, 1)]
)
@pytest.mark.parametrize("randomise", [Fraction(1, 20), Fraction(1, 3)])
def test_the_worst_dataset_has_a_value_on_a_step_and_all_others_on_steps(
    largest: int, bits: int, honest: int, randomise: Fraction
) -> None:
    """S20 (f): where steps are whole numbers, exactly the worst of these, for every distance, in
    rationals."""
    spec = QuantisedRR(max_value=largest, bits=bits, randomise=randomise)
    flipped, kept = [1 - randomise / 2, randomise / 2], [randomise / 2, 1 - randomise / 2]

    def law(ones: int) -> Law:
        found = [Fraction(1)]
        for place in range(honest * bits):
            found = convolved(found, kept if place < ones else flipped)
        return found

    for distance in range(1, largest + 1):
        whole, rest = divmod(distance * bits, largest)
        share = Fraction(rest, largest)
        for growth in (Fraction(1), Fraction(11, 10), Fraction(2), Fraction(15)):
            found = Fraction(0)
            for others in range(honest * bits - whole - bool(rest) + 1):
                low, near, far = law(others), law(others + whole), law(others + whole + bool(rest))
                mixed = [(1 - share) * p + share * q for p, q in zip(near, far, strict=True)]
                found = max(found, divergence(mixed, low, growth), divergence(low, mixed, growth))
            assert worst(spec, honest, distance, growth) == found


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("reach", [None, 1, 2])
@pytest.mark.parametrize(
    ("largest", "bits", "honest"), [(4, 2, 3), (3, 2, 4), (4, 1, 3), (5, 4, 1), (4, 3, 2)]
)
@pytest.mark.parametrize("randomise", [Fraction(1, 12), Fraction(1, 2), Fraction(1)])
def test_both_sides_hold_the_truth_between_them(
    adjacency: Adjacency,
    reach: int | None,
    largest: int,
    bits: int,
    honest: int,
    randomise: Fraction,
) -> None:
    spec = QuantisedRR(max_value=largest, bits=bits, randomise=randomise)
    setting = Setting(honest, honest, adjacency, reach)
    distances = range(1, (reach or largest) + 1)
    units = [d if adjacency is METRIC else 1 for d in distances]
    left = corrupted_bounds(spec, setting, 1e-6)
    for epsilon in (0.0, 0.07, 0.6, 0.97 * left.epsilon):
        growth = [Fraction(math.exp(epsilon * unit)) for unit in units]
        truth = float(
            max(worst(spec, honest, d, u) for d, u in zip(distances, growth, strict=True))
        )
        found = delta_bounds(spec, setting, epsilon)
        assert found.attained * (1 - 1e-9) <= truth <= found.certified * (1 + 1e-9) + 1e-15
    limits = [Fraction(math.exp(left.epsilon * unit)) for unit in units]
    assert left.delta == 0.0
    assert max(float(worst(spec, 1, d, u)) for d, u in zip(distances, limits, strict=True)) <= 1e-15


@pytest.mark.parametrize(("largest", "bits"), [(6, 6), (6, 3), (6, 2), (6, 1)])
@pytest.mark.parametrize("honest", [2, 40])
def test_by_the_whole_range_it_costs_what_rr_shuffle_of_the_bits_does(
    largest: int, bits: int, honest: int
) -> None:
    p, setting = Fraction(1, 3), Setting(honest, honest)
    mine = epsilon_bounds(QuantisedRR(max_value=largest, bits=bits, randomise=p), setting, 1e-5)
    code = epsilon_bounds(RRShuffle(max_value=bits, randomise=p), setting, 1e-5)
    assert (mine.certified, mine.attained) == pytest.approx(
        (code.certified, code.attained), rel=1e-6
    )


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("reach", [None, 3])
def test_with_one_bit_it_is_the_one_bit_mean(adjacency: Adjacency, reach: int | None) -> None:
    setting, p = Setting(60, 60, adjacency, reach), Fraction(1, 4)
    mine = epsilon_bounds(QuantisedRR(max_value=9, bits=1, randomise=p), setting, 1e-4)
    theirs = epsilon_bounds(OneBitShuffle(max_value=9, randomise=p), setting, 1e-4)
    assert mine.certified == pytest.approx(theirs.certified, rel=0.01)
    assert mine.attained == pytest.approx(theirs.attained, rel=0.01)


@settings(max_examples=6, deadline=None)
@given(
    largest=st.integers(1, 200),
    honest=st.integers(1, 400),
    share=st.integers(1, 1000),
    adjacency=st.sampled_from(list(Adjacency)),
    data=st.data(),
)
def test_epsilon_and_delta_answer_each_other(
    largest: int, honest: int, share: int, adjacency: Adjacency, data: st.DataObject
) -> None:
    reach = data.draw(st.none() | st.integers(1, largest))
    spec = QuantisedRR(
        max_value=largest,
        bits=data.draw(st.integers(1, min(largest, 30))),
        randomise=Fraction(share, 1000),
    )
    setting = Setting(honest, honest, adjacency, reach)
    delta = data.draw(st.sampled_from([1e-9, 1e-4, 0.05]))
    found = epsilon_bounds(spec, setting, delta)
    assert 0 <= found.attained <= found.certified <= corrupted_bounds(spec, setting, delta).epsilon
    assert delta_bounds(spec, setting, found.certified).attained <= delta * (1 + 1e-6)
    if found.attained > 0:
        assert delta_bounds(spec, setting, found.attained * (1 - 1e-6)).certified >= delta * (
            1 - 1e-6
        )


@pytest.mark.parametrize(("largest", "bits"), [(63, 7), (6, 3), (12, 2)])
def test_below_a_step_that_is_a_whole_number_both_sides_are_exact_in_small_crowds(
    largest: int, bits: int
) -> None:
    """Who holds one step is lowered, all others hold 0: no bit of anybody else is 1."""
    spec = QuantisedRR(max_value=largest, bits=bits, randomise=Fraction(1, 10))
    for honest in (1, 3, 6):
        found = epsilon_bounds(
            spec, Setting(honest, honest, max_distance=largest // bits - 1), 0.05
        )
        assert 0.999 * found.certified <= found.attained <= found.certified


def test_per_unit_the_sides_are_near() -> None:
    for largest, bits, users in ((100, 30, 400), (1000, 80, 3000)):
        spec = QuantisedRR(max_value=largest, bits=bits, randomise=Fraction(1, 9))
        found = epsilon_bounds(spec, Setting(users, users, METRIC), 1e-5)
        assert 0.98 * found.certified <= found.attained <= found.certified


def test_the_curve_is_above_what_is_attained_at_every_point_of_either_sign() -> None:
    spec, setting = QuantisedRR(max_value=10, bits=4, randomise=Fraction(1, 3)), Setting(60, 60)
    epsilons = np.linspace(-1.2, 1.2, 9)
    for distance in (1, 2, 4, 5, 10):
        item = quantised.quantised_round(spec, Setting(60, 60, max_distance=distance))
        curve = certified_curve(spec, setting, distance, epsilons)
        for epsilon, value in zip(epsilons.tolist(), curve.tolist(), strict=True):
            known = attained_delta(item, abs(epsilon))
            known = known if epsilon >= 0 else 1 - math.exp(epsilon) * (1 - known)
            assert known * (1 - 1e-9) <= value
            if distance in {
                1,
                2,
                5,
                10,
            }:  # below a step, or steps without a rest: attained is exact there
                assert value <= known * 1.2 + 1e-9  # a fixed cover of the numbers of ones
    with pytest.raises(UsageError, match="distance must be from 1 to 10"):
        certified_curve(spec, setting, 11, epsilons)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_rounds_compose_to_less_than_their_sum(adjacency: Adjacency) -> None:
    spec, setting = (
        QuantisedRR(max_value=10, bits=4, randomise=Fraction(1, 5)),
        Setting(800, 760, adjacency),
    )
    one = epsilon_bounds(spec, setting, 1e-6)
    many = compose_bounds([Round(spec, setting, 4)], 1e-6)
    assert one.certified < many.certified < 4 * one.certified


@pytest.mark.parametrize(
    ("adjacency", "rounds"),
    [(Adjacency.STANDARD, 1), (Adjacency.STANDARD, 2), (Adjacency.METRIC, 1)],
)
def test_calibration_meets_its_target_closely_with_few_bits(
    adjacency: Adjacency, rounds: int
) -> None:
    epsilon = 0.02 if adjacency is METRIC else 1.0
    target = Target(
        epsilon, 1e-6, users=900, honest=850, max_value=200, adjacency=adjacency, rounds=rounds
    )
    spec = calibrate("quantised-rr", target)
    assert isinstance(spec, QuantisedRR)
    assert spec.bits < 40
    found = compose_bounds([Round(spec, target.setting, rounds)], 1e-6).certified
    assert 0.98 * epsilon <= found <= epsilon
    whole = calibrate("rr-shuffle", target)
    assert standard_error(spec, 900) <= 1.15 * standard_error(whole, 900)


@pytest.mark.parametrize(("largest", "bits"), [(1, 1), (4, 1), (7, 3), (10, 5), (9, 6)])
def test_the_standard_error_is_that_of_the_worst_values(largest: int, bits: int) -> None:
    spec, users = QuantisedRR(max_value=largest, bits=bits, randomise=Fraction(1, 3)), 90
    variances = []
    for value in range(largest + 1):
        law = [float(chance) for chance in report(spec, value)]
        mean = sum(ones * chance for ones, chance in enumerate(law))
        variances.append(sum((ones - mean) ** 2 * chance for ones, chance in enumerate(law)))
    step = largest / bits / (1 - 1 / 3)
    wanted = math.sqrt(users * max(variances)) * step
    assert standard_error(spec, users) == pytest.approx(wanted)
    said = estimate(spec, [users * bits - 40, 40], users)
    assert said.standard_errors == pytest.approx((wanted,))
    assert math.isinf(
        standard_error(QuantisedRR(max_value=largest, bits=bits, randomise=Fraction(1)), users)
    )


@pytest.mark.parametrize(("largest", "bits"), [(1, 1), (5, 2), (6, 6), (7, 3)])
def test_the_estimate_is_unbiased_exactly(largest: int, bits: int) -> None:
    spec = QuantisedRR(max_value=largest, bits=bits, randomise=Fraction(2, 7))
    for value in range(largest + 1):
        mean = sum(
            float(chance) * estimate(spec, [bits - ones, ones], 1).values[0]
            for ones, chance in enumerate(report(spec, value))
        )
        assert mean == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("users", [1, 5, 60])
@pytest.mark.parametrize("randomise", [Fraction(1, 1000), Fraction(1, 10), Fraction(9, 10)])
@pytest.mark.parametrize("values", [[0], [20], [3], [10], [0, 20], list(range(21))], ids=str)
def test_its_intervals_cover_whatever_the_values_are(
    users: int, randomise: Fraction, values: Sequence[int]
) -> None:
    """Exact coverage, by the law of all ones."""
    spec = QuantisedRR(max_value=20, bits=3, randomise=randomise)
    held = [values[at % len(values)] for at in range(users)]
    law = np.ones(1)
    for value in held:
        law = np.convolve(law, [float(chance) for chance in report(spec, value)])
    covered = 0.0
    for ones, chance in enumerate(law.tolist()):
        answer = estimate(spec, [users * 3 - ones, ones], users)
        covered += chance * (answer.lows[0] - 1e-9 <= sum(held) <= answer.highs[0] + 1e-9)
    assert covered >= 0.95


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="bits must be a whole number from 1 to 4"):
        QuantisedRR(max_value=4, bits=5, randomise=Fraction(1, 2))
    with pytest.raises(ValueError, match="bits must be"):
        QuantisedRR(max_value=4, bits=0, randomise=Fraction(1, 2))
    with pytest.raises(ValueError, match="randomise must be"):
        QuantisedRR(max_value=4, bits=2, randomise=Fraction(3, 2))
