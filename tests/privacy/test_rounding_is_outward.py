"""Numbers that were read for the direction of their rounding, against mpmath at hostile ends."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import mpmath as mp
import numpy as np
import pytest

from shuffledp_core.mechanisms import HadamardHistogram, KRRHistogram
from shuffledp_privacy.bounds import Setting, corrupted_bounds, delta_bounds
from shuffledp_privacy.central import geometric_delta
from shuffledp_privacy.local.rappor import (
    RapporPermanent,
    RapporReport,
    rappor_epsilon,
)
from shuffledp_privacy.numerics.chords import falling_chord
from shuffledp_privacy.primitives.bit_tables import bit_divergence
from shuffledp_privacy.primitives.responses import response_bounds
from shuffledp_privacy.rounds.filters import DeltaCurve
from shuffledp_privacy.sums.common import chord

DIGITS = 60


def exact_chord(at: float, left: float, right: float, high: float, low: float) -> mp.mpf:
    """The chord from (left, high) to (right, low), of the floats as they are."""
    share = (mp.mpf(right) - mp.mpf(at)) / (mp.mpf(right) - mp.mpf(left))
    return mp.mpf(low) + share * (mp.mpf(high) - mp.mpf(low))


@pytest.mark.parametrize("low", [0.0, 1e-300, 1e-30, 1e-17, 1e-12, 0.3])
@pytest.mark.parametrize("gap", [1e-9, 0.7, 1e6])
def test_chords_of_a_steep_curve_are_never_below_the_exact_ones(low: float, gap: float) -> None:
    left, high = 0.1, 0.9
    right = left + gap
    nodes, values = np.array([left, right]), np.array([high, low])
    points = [left, right, *(right - gap * 2.0**-step for step in range(1, 53))]
    with mp.workdps(DIGITS):
        for point in points:
            exact = exact_chord(point, left, right, high, low)
            bound = mp.mpf(float(falling_chord(point, nodes, values)))
            assert exact <= bound <= exact * (1 + mp.mpf(2) ** -48)


@pytest.mark.parametrize("low", [0.0, 1e-30, 1e-17, 1e-12])
def test_chords_in_exponentials_are_never_below_the_exact_ones(low: float) -> None:
    left, right, high = 0.25, 3.5, 0.75
    totals = np.array([right - 3.25 * 2.0**-step for step in range(52)])
    bounds = chord(np.array([left, right]), np.array([high, low]), totals)
    with mp.workdps(DIGITS):
        ends = mp.exp(mp.mpf(left)), mp.exp(mp.mpf(right))
        for total, bound in zip(totals.tolist(), bounds.tolist(), strict=True):
            share = (ends[1] - mp.exp(mp.mpf(total))) / (ends[1] - ends[0])
            exact = mp.mpf(low) + share * (mp.mpf(high) - mp.mpf(low))
            assert exact <= bound <= exact * (1 + mp.mpf(10) ** -11)


def test_a_table_is_read_no_lower_than_its_chords() -> None:
    curve = DeltaCurve(np.array([0.0, 1.0, 10.0]), np.array([0.5, 1e-3, 1e-19]))
    with mp.workdps(DIGITS):
        for step in range(1, 50):
            epsilon = math.log1p(10 - 9 * 2.0**-step)
            exact = exact_chord(float(mp.expm1(epsilon)), 1.0, 10.0, 1e-3, 1e-19)
            # expm1 as a float is itself off by half a unit.
            assert curve.delta(epsilon) >= exact * (1 - mp.mpf(10) ** -3) - mp.mpf(10) ** -18
            excess = mp.expm1(mp.mpf(epsilon))
            if 1 <= excess <= 10:
                share = (10 - excess) / 9
                true = mp.mpf(1e-19) + share * (mp.mpf(1e-3) - mp.mpf(1e-19))
                assert curve.delta(epsilon) >= true


@pytest.mark.parametrize("bits", [1, 20, 50, 62])
def test_the_local_epsilon_of_responses_next_to_pure_noise_is_not_lost(bits: int) -> None:
    blanket = 1 - Fraction(1, 2**bits)
    spec = KRRHistogram(symbols=3, blanket=blanket)
    with mp.workdps(DIGITS):
        excess = (1 - blanket) / (blanket / 3)
        exact = mp.log1p(mp.mpf(excess.numerator) / excess.denominator)
        assert exact <= response_bounds(spec).epsilon <= exact * (1 + mp.mpf(2) ** -48)


@pytest.mark.parametrize("fake", [1e-15, 1e-3, 0.5, 1 - 2.0**-50])
def test_the_epsilon_of_rappor_is_rounded_up_at_both_ends(fake: float) -> None:
    with mp.workdps(DIGITS):
        low = mp.mpf(fake) / 2
        exact = 8 * mp.log((1 - low) / low)
        assert exact <= rappor_epsilon(RapporPermanent(4, fake)) <= exact * (1 + mp.mpf(10) ** -11)
        zero, one = 0.5, 0.5 + 2.0**-50
        middle = low * (mp.mpf(zero) + mp.mpf(one))
        first, second = (middle + (1 - mp.mpf(fake)) * mp.mpf(p) for p in (zero, one))
        exact = 4 * mp.log(second * (1 - first) / (first * (1 - second)))
        report = RapporReport(4, fake, zero, one)
        assert exact <= rappor_epsilon(report) <= exact * (1 + mp.mpf(10) ** -11)


def test_a_geometric_delta_is_zero_only_from_the_rounded_up_epsilon_on() -> None:
    rate, distance = 0.1, 5
    below = rate * distance
    assert Fraction(below) < Fraction(rate) * distance
    assert geometric_delta(rate, distance, below) > 0


@pytest.mark.parametrize("epsilon", [100.0, 600.0])
def test_flips_too_rare_for_a_double_hide_nothing(epsilon: float) -> None:
    zeros, ones, distance, flip = 100, 60, 40, 1e-8
    with mp.workdps(DIGITS):
        # No bit is flipped under P; under Q all d changed bits are, or as many others.
        unchanged = (1 - mp.mpf(flip)) ** (zeros + ones + distance)
        either = mp.binomial(zeros + ones + distance, distance) * mp.mpf(flip) ** distance
        least = unchanged - mp.exp(epsilon) * either
        bound = float(bit_divergence(zeros, ones, distance, flip, np.array([epsilon]))[0])
        assert bound >= min(least, 1)


def test_the_smallest_chance_of_flips_is_no_floor_of_what_hides() -> None:
    # All 40 changed bits flip with a chance of 1e-320, or e^-737: less than e^-700.
    bound = float(bit_divergence(0, 0, 40, 1e-8, np.array([700.0]))[0])
    assert bound >= 0.999


def exact_delta(rows: list[list[mp.mpf]], others: tuple[int, ...], epsilon: mp.mpf) -> mp.mpf:
    """δ of one user's change from value 0 to 1 among `others`, by all counts of all reports."""
    reports = range(len(rows[0]))

    def law(values: tuple[int, ...]) -> dict[tuple[int, ...], mp.mpf]:
        counts = {(0,) * len(rows[0]): mp.mpf(1)}
        for value in values:
            longer: dict[tuple[int, ...], mp.mpf] = {}
            for count, chance in counts.items():
                for report in reports:
                    key = (*count[:report], count[report] + 1, *count[report + 1 :])
                    longer[key] = longer.get(key, mp.mpf(0)) + chance * rows[value][report]
            counts = longer
        return counts

    first, second = law((*others, 0)), law((*others, 1))
    factor = mp.exp(epsilon)
    return sum(max(mp.mpf(0), chance - factor * second[count]) for count, chance in first.items())


@pytest.mark.parametrize("digits", [6, 9, 12, 15])
@pytest.mark.parametrize("kind", [KRRHistogram, HadamardHistogram])
@pytest.mark.parametrize("symbols", [2, 3])
def test_deltas_next_to_pure_noise_bracket_the_exact_ones(
    kind: type[KRRHistogram | HadamardHistogram], symbols: int, digits: int
) -> None:
    """On every dataset of four people."""
    spec = kind(symbols=symbols, blanket=1 - Fraction(1, 10**digits))
    setting = Setting(4, 4)
    local = corrupted_bounds(spec, setting, 0.0).epsilon
    with mp.workdps(DIGITS):
        blanket = mp.mpf(spec.blanket.numerator) / spec.blanket.denominator
        rows = [
            [
                blanket / spec.alphabet
                + (1 - blanket)
                * (mp.mpf(2) / spec.alphabet if kind is HadamardHistogram else 1)
                * inside
                for inside in reports_of(spec, value)
            ]
            for value in range(symbols)
        ]
        for share in (0.0, 0.5, 0.9, 0.9999):
            bounds = delta_bounds(spec, setting, share * local)
            exact = max(
                exact_delta(rows, others, mp.mpf(share * local))
                for others in combinations_with_replacement(range(symbols), 3)
            )
            assert bounds.attained <= exact <= bounds.certified


def reports_of(spec: KRRHistogram | HadamardHistogram, value: int) -> list[int]:
    """1 for the reports that are likelier with the value, 0 for the others."""
    if isinstance(spec, KRRHistogram):
        return [int(report == value) for report in range(spec.alphabet)]
    return [1 - (report & (value + 1)).bit_count() % 2 for report in range(spec.alphabet)]
