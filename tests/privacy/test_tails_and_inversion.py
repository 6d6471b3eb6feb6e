"""The shared primitives against exact rationals, mpmath at 50 digits and closed forms."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.tails import (
    binomial_range,
    binomial_window,
    cells,
    chords,
    convolve_window,
    inward,
    outward,
)


def exact_binomial(trials: int, probability: Fraction) -> list[Fraction]:
    rest = 1 - probability
    return [math.comb(trials, i) * probability**i * rest ** (trials - i) for i in range(trials + 1)]


@pytest.mark.parametrize(
    ("trials", "probability"),
    [(1, 0.5), (40, 0.25), (300, 0.015625), (300, 0.96875), (7, 0.0), (7, 1.0)],
)
def test_a_window_is_the_exact_law_and_misses_no_more_than_it_says(
    trials: int, probability: float
) -> None:
    exact = exact_binomial(trials, Fraction(probability))
    window = binomial_window(trials, probability, 1e-6)
    inside = exact[window.start : window.start + window.pmf.size]
    assert sum(exact[: window.start]) <= 1e-6
    assert sum(exact[window.start + window.pmf.size :]) <= 1e-6
    assert window.pmf == pytest.approx([float(p / sum(inside)) for p in inside], rel=1e-9, abs=0)


@pytest.mark.parametrize(("trials", "probability"), [(10**6, 0.0787), (10**9, 0.3), (10**9, 1e-8)])
def test_a_wide_window_agrees_with_mpmath_at_50_digits(trials: int, probability: float) -> None:
    window = binomial_window(trials, probability)
    with mpmath.workdps(50):
        p = mpmath.mpf(probability)
        for index in np.linspace(0, window.pmf.size - 1, 9).astype(int):
            x = window.start + int(index)
            log = (
                mpmath.loggamma(trials + 1)
                - mpmath.loggamma(x + 1)
                - mpmath.loggamma(trials - x + 1)
            )
            exact = mpmath.exp(log + x * mpmath.log(p) + (trials - x) * mpmath.log(1 - p))
            assert abs(window.pmf[index] / exact - 1) <= 3e-9


def test_tails_are_summed_from_their_small_end() -> None:
    exact = exact_binomial(200, Fraction(1, 8))
    window = binomial_window(200, 0.125)
    for index in range(0, window.pmf.size, 7):
        x = window.start + index
        assert window.at_least()[index] == pytest.approx(float(sum(exact[x:])), rel=1e-9)
        assert window.at_most()[index] == pytest.approx(float(sum(exact[: x + 1])), rel=1e-9)


@given(st.integers(0, 400), st.integers(0, 64), st.floats(1e-12, 0.4))
@settings(deadline=None, max_examples=60)
def test_the_range_of_a_binomial_leaves_out_at_most_the_tail(
    trials: int, parts: int, tail: float
) -> None:
    probability = Fraction(parts, 64)
    exact = exact_binomial(trials, probability)
    low, high = binomial_range(trials, float(probability), tail)
    assert sum(exact[:low]) <= tail
    assert sum(exact[high + 1 :]) <= tail


@given(st.integers(1, 300), st.floats(0.01, 0.99), st.integers(1, 40), st.floats(-50.0, 350.0))
@settings(deadline=None, max_examples=60)
def test_chords_are_above_and_cells_below_the_mean_of_a_convex_function(
    trials: int, probability: float, spacing: int, corner: float
) -> None:
    window = binomial_window(trials, probability)
    mean = float(window.pmf @ np.maximum(window.support - corner, 0.0))
    nodes, weights = chords(window, spacing)
    assert float(weights @ np.maximum(nodes - corner, 0.0)) >= mean * (1 - 1e-12)
    assert float(weights @ nodes) == pytest.approx(float(window.pmf @ window.support))
    means, masses = cells(window, spacing)
    assert float(masses @ np.maximum(means - corner, 0.0)) <= mean * (1 + 1e-12) + 1e-300


def test_the_fast_convolution_stays_inside_its_error_bound() -> None:
    together = binomial_window(5_000_000, 0.25)
    half, error = convolve_window(
        binomial_window(2_000_000, 0.25), binomial_window(3_000_000, 0.25)
    )
    assert 0.0 < error < 1e-12
    exact = np.concatenate([np.ones(1), together.at_least(), np.zeros(1)])
    place = np.clip(half.support.astype(int) - together.start + 1, 0, exact.size - 1)
    assert np.abs(half.at_least() - exact[place]).max() <= error + half.error + together.error


def test_outward_rounding_goes_outward() -> None:
    assert outward(0.0) == 0.0
    assert inward(0.0) == 0.0
    assert inward(0.3) < 0.3 < outward(0.3)


def gaussian_tail(epsilon: float) -> float:
    return 0.5 * math.erfc(37 * epsilon / math.sqrt(2))


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("ceiling", [1.0, 20.0, math.inf])
def test_the_inverse_is_on_the_rigorous_side_and_tight(delta: float, ceiling: float) -> None:
    certified = certified_epsilon(gaussian_tail, delta, ceiling)
    attained = attained_epsilon(gaussian_tail, delta, ceiling)
    assert gaussian_tail(certified) <= delta <= gaussian_tail(attained)
    assert attained <= certified <= attained * (1 + 3e-6)


def test_a_curve_that_falls_to_nothing_only_at_the_ceiling_is_inverted_there() -> None:
    assert certified_epsilon(lambda epsilon: 0.5 if epsilon < 2 else 0.0, 1e-6, 2.0) == 2.0
    assert certified_epsilon(lambda _: 0.0, 1e-6, 2.0) == 0.0
    assert attained_epsilon(lambda _: 0.0, 1e-6, 2.0) == 0.0


def test_impossible_requests_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match="delta must be from 1e-12"):
        certified_epsilon(gaussian_tail, 1e-13, 1.0)
    with pytest.raises(CannotCertify, match="no epsilon up to"):
        certified_epsilon(lambda _: 0.5, 1e-6, math.inf)
    with pytest.raises(UsageError, match="probability"):
        binomial_window(3, 1.5)
