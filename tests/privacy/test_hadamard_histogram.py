"""Hadamard histogram: two rows say all, bounds around all datasets of small rounds, and where it
beats k-RR (K13)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import hadamard

from shuffledp_core.mechanisms import HadamardHistogram
from shuffledp_core.mechanisms.hadamard import MOST_SYMBOLS
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.advice import advise
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.local.flags import HiddenFlags, blanket_of
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.mechanisms.hadamard import local_randomiser
from shuffledp_privacy.rounds.composition import Round, compose_bounds

Rows = tuple[tuple[Fraction, ...], ...]
Histogram = dict[tuple[int, ...], float]


def rows_of(spec: HadamardHistogram) -> Rows:
    """The chances of all indices for all values, by scipy's matrix."""
    order = spec.alphabet
    free, inside = spec.blanket / order, 2 * (1 - spec.blanket) / order
    matrix = hadamard(order)
    return tuple(
        tuple(free + inside * int(matrix[x + 1, y] == 1) for y in range(order))
        for x in range(spec.symbols)
    )


def histogram_law(rows: Sequence[Sequence[float]], held: Sequence[int]) -> Histogram:
    law: Histogram = {(0,) * len(rows[0]): 1.0}
    for value in held:
        after: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for counts, mass in law.items():
            for y, chance in enumerate(rows[value]):
                after[(*counts[:y], counts[y] + 1, *counts[y + 1 :])] += mass * chance
        law = after
    return law


def worst_delta(spec: HadamardHistogram, honest: int, epsilon: float) -> float:
    """Over all datasets of the others, all changes of a value, in both orders."""
    rows = [[float(chance) for chance in row] for row in rows_of(spec)]
    found = 0.0
    for others in itertools.combinations_with_replacement(range(spec.symbols), honest - 1):
        laws = [histogram_law(rows, (*others, value)) for value in range(spec.symbols)]
        for p, q in itertools.permutations(laws, 2):
            found = max(
                found,
                sum(max(mass - math.exp(epsilon) * q[counts], 0.0) for counts, mass in p.items()),
            )
    return found


@pytest.mark.parametrize(
    ("symbols", "honest"), [(2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (3, 4), (4, 2), (5, 2), (7, 2)]
)
@pytest.mark.parametrize("blanket", [Fraction(1, 5), Fraction(3, 4), Fraction(1)])
def test_both_sides_hold_the_truth_between_them(
    symbols: int, honest: int, blanket: Fraction
) -> None:
    spec, setting = HadamardHistogram(symbols=symbols, blanket=blanket), Setting(honest, honest)
    for epsilon in (0.0, 0.2, 1.0):
        truth = worst_delta(spec, honest, epsilon)
        found = delta_bounds(spec, setting, epsilon)
        assert found.attained * (1 - 1e-9) <= truth <= found.certified * (1 + 1e-9) + 1e-12
        curve = float(certified_curve(spec, setting, 1, np.array([epsilon]))[0])
        assert truth <= curve * (1 + 1e-9) + 1e-12
        if honest == 1:
            assert found.certified == pytest.approx(truth, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("symbols", [2, 3, 4, 5, 7, 11])
def test_all_pairs_of_values_are_one_pair(symbols: int) -> None:
    """K13, by the whole matrix: one kind of change in each order, and a blanket that all values
    share."""
    spec = HadamardHistogram(symbols=symbols, blanket=Fraction(1, 3))
    rows = rows_of(spec)
    least = blanket_of(rows)
    outside = spec.blanket / spec.alphabet
    assert least == (
        (2 - spec.blanket) / spec.alphabet,
        *(outside for _ in range(spec.alphabet - 1)),
    )
    whole, pair = HiddenFlags(rows), HiddenFlags(rows[:2], least)
    assert len(whole.changes) <= 2
    for epsilon in (0.0, 0.3):
        wanted = whole.delta(500, epsilon)
        assert pair.delta(500, epsilon) == pytest.approx(wanted, rel=1e-6)
        assert delta_bounds(spec, Setting(500, 500), epsilon).certified == pytest.approx(
            wanted, rel=1e-6
        )


@pytest.mark.parametrize("symbols", [2, 3, 5, 1000, MOST_SYMBOLS])
def test_what_is_left_without_a_shuffle_is_the_ratio_of_two_chances(symbols: int) -> None:
    spec = HadamardHistogram(symbols=symbols, blanket=Fraction(1, 3))
    left = corrupted_bounds(spec, Setting(10, 10), 1e-6)
    assert left.epsilon >= math.log(5)
    assert left.epsilon == pytest.approx(math.log(5), rel=1e-12)
    assert left.delta == 0.0


@pytest.mark.parametrize("symbols", [7, 1000, MOST_SYMBOLS])
def test_the_guarantee_hardly_depends_on_the_number_of_symbols(symbols: int) -> None:
    few, many = (HadamardHistogram(symbols=k, blanket=Fraction(1, 50)) for k in (4, symbols))
    setting = Setting(10_000, 10_000)
    wanted = epsilon_bounds(few, setting, 1e-6)
    found = epsilon_bounds(many, setting, 1e-6)
    # The index of all halves tells nothing, and is one of K.
    assert wanted.certified <= found.certified * (1 + 1e-5) <= wanted.certified * 1.2
    assert 0.8 * found.certified <= found.attained <= found.certified


@pytest.mark.parametrize("honest", [2, 30, 10_000])
@pytest.mark.parametrize("blanket", [Fraction(1, 100), Fraction(1, 2)])
def test_the_product_of_two_rows_hides_their_symbols_least(blanket: Fraction, honest: int) -> None:
    """K13, by the whole matrix of order 8, with all others at any one value.

    Row 3 beside rows 1 and 2 gives the largest attained number.
    """
    spec, setting = HadamardHistogram(symbols=7, blanket=blanket), Setting(honest, honest)
    whole = epsilon_bounds(LocalMatrix(rows_of(spec)), setting, 1e-4)
    found = epsilon_bounds(spec, setting, 1e-4)
    assert found.attained == pytest.approx(whole.attained, rel=1e-4)
    assert found.certified == pytest.approx(whole.certified, rel=1e-4)


def test_small_numbers_of_large_crowds_are_nearly_exact() -> None:
    spec = calibrate("hadamard-histogram", Target(0.1, 1e-6, 10**6, 10**6, symbols=100))
    found = epsilon_bounds(spec, Setting(10**6, 10**6), 1e-6)
    assert found.certified <= 1.005 * found.attained


def test_a_large_domain_is_cheaper_than_with_randomised_response() -> None:
    """At 10,000 users, ε = 1, δ = 1e-6: k-RR below, Hadamard response above some hundreds of
    symbols."""
    errors = {
        symbols: {
            row.kind: row.error
            for row in advise(Target(1.0, 1e-6, 10_000, 10_000, symbols=symbols), nodes=3)
        }
        for symbols in (10, 2000)
    }
    assert errors[10]["krr-histogram"] < errors[10]["hadamard-histogram"]
    assert errors[2000]["hadamard-histogram"] < errors[2000]["krr-histogram"]
    # Hardly any blanket is needed: the error is that of n fair coins, about √n.
    assert errors[2000]["hadamard-histogram"] == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("rounds", [1, 3])
def test_calibration_meets_its_target_closely(rounds: int) -> None:
    target = Target(1.0, 1e-6, users=1000, honest=950, symbols=500, rounds=rounds)
    spec = calibrate("hadamard-histogram", target)
    found = compose_bounds([Round(spec, target.setting, rounds)], 1e-6).certified
    assert 0.985 <= found <= 1.0


def test_the_standard_error_is_that_of_a_symbol_that_nobody_holds() -> None:
    spec, users = HadamardHistogram(symbols=9, blanket=Fraction(1, 4)), 120
    errors = []
    for holders in range(users + 1):
        own = 1 - 1 / 8
        errors.append(math.sqrt(holders * own * (1 - own) + (users - holders) / 4) / (own - 1 / 2))
    assert standard_error(spec, users) == pytest.approx(max(errors))
    assert math.isinf(standard_error(HadamardHistogram(symbols=9, blanket=Fraction(1)), users))


def test_pure_noise_costs_nothing() -> None:
    spec = HadamardHistogram(symbols=9, blanket=Fraction(1))
    assert epsilon_bounds(spec, Setting(10, 10), 1e-6).certified == 0.0
    assert local_randomiser(spec).rows[0] == local_randomiser(spec).rows[1]
