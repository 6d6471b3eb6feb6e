"""Possible histograms: projection and maximum likelihood, each against brute force of this file's
own."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffledp_core.answering.estimation import Estimator, estimate
from shuffledp_core.answering.postprocessing import (
    iterative_bayesian_update,
    most_likely_histogram,
    project,
)
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram

Floats = NDArray[np.float64]


@given(
    values=st.lists(st.floats(-100, 100), min_size=1, max_size=6),
    total=st.floats(0, 200),
)
@settings(deadline=None, max_examples=40)
def test_the_projection_is_the_nearest_possible_histogram(
    values: list[float], total: float
) -> None:
    """Against brute force: for every set of symbols that may be positive, the nearest point with
    that support."""
    found = project(values, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, abs=1e-9)
    vector = np.array(values)
    nearest = math.inf
    for support in itertools.product([False, True], repeat=len(vector)):
        inside = np.array(support)
        if inside.any():
            candidate = np.where(
                inside, vector - (vector[inside].sum() - total) / inside.sum(), 0.0
            )
            if (candidate >= -1e-12).all():
                nearest = min(nearest, float(((candidate - vector) ** 2).sum()))
    assert ((found - vector) ** 2).sum() == pytest.approx(nearest, abs=1e-6)


def test_the_projection_leaves_a_possible_histogram_alone() -> None:
    assert project([3.0, 0.0, 7.0], 10).tolist() == [3.0, 0.0, 7.0]
    assert project([5.0, -5.0], 0).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="finite"):
        project([math.nan], 1)


def krr(symbols: int, blanket: float) -> tuple[float, float, Floats]:
    q, slope = blanket / symbols, 1 - blanket
    return q, slope, np.full((symbols, symbols), q) + slope * np.eye(symbols)


def log_likelihood(counts: Floats, shares: Floats, channel: Floats) -> Floats:
    """Of each row of shares."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = counts * np.log(shares @ channel)
    return np.asarray(np.where(counts > 0, terms, 0.0).sum(axis=-1))


def simplex(symbols: int, steps: int) -> Floats:
    """All histograms of so many users, as shares."""
    bars = np.array(list(itertools.combinations(range(steps + symbols - 1), symbols - 1)))
    walls = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), steps + symbols - 1)])
    return (np.diff(walls, axis=1) - 1) / steps


@pytest.mark.parametrize(
    ("counts", "blanket"),
    [
        ((5, 3, 2), 0.5),
        ((9, 1, 0), 0.7),
        ((4, 4, 4), 0.9),
        ((12, 0, 0), 0.3),
        ((3, 9), 0.6),
        ((7, 2, 5, 0), 0.8),
    ],
)
def test_no_histogram_is_more_likely_than_the_most_likely_one(
    counts: tuple[int, ...], blanket: float
) -> None:
    q, slope, channel = krr(len(counts), blanket)
    observed = np.array(counts, dtype=np.float64)
    found = most_likely_histogram(observed, q, slope)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(observed.sum())
    every = log_likelihood(observed, simplex(len(counts), 240 if len(counts) < 4 else 60), channel)
    best = log_likelihood(observed, found[np.newaxis] / observed.sum(), channel)[0]
    assert best >= every.max() - 1e-12


@given(
    counts=st.lists(st.integers(0, 50), min_size=2, max_size=7).filter(
        lambda counts: sum(counts) > 0
    ),
    blanket=st.floats(0.05, 0.9),
)
@settings(deadline=None, max_examples=60)
def test_the_iterative_bayesian_update_tends_to_the_most_likely_histogram(
    counts: list[int], blanket: float
) -> None:
    """Where both are, the likelihood is the same to the tolerance that is promised."""
    q, slope, channel = krr(len(counts), blanket)
    observed = np.array(counts, dtype=np.float64)
    direct, iterated = (
        most_likely_histogram(observed, q, slope),
        iterative_bayesian_update(counts, channel),
    )
    assert iterated.sum() == pytest.approx(sum(counts))
    likely = log_likelihood(observed, np.stack([direct, iterated]) / sum(counts), channel)
    assert -1e-9 <= likely[0] - likely[1] <= 1.01e-6


def test_a_step_is_bayes_rule_and_any_channel_will_do() -> None:
    """Two values, three reports: the root of the likelihood's derivative, found by bisection."""
    channel = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    counts = np.array([30, 25, 45])
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        slope = float(
            (
                counts * (channel[0] - channel[1]) / (share * channel[0] + (1 - share) * channel[1])
            ).sum()
        )
        low, high = (share, high) if slope > 0 else (low, share)
    found = iterative_bayesian_update(counts, channel, tolerance=1e-12)
    assert found.tolist() == pytest.approx([100 * low, 100 * (1 - low)], abs=1e-4)


def test_many_rounds_at_once_are_each_by_itself() -> None:
    rounds = np.array([[5, 3, 2], [9, 1, 0], [2, 2, 6]])
    q, slope, channel = krr(3, 0.5)
    assert most_likely_histogram(rounds, q, slope).tolist() == [
        most_likely_histogram(counts, q, slope).tolist() for counts in rounds
    ]
    inverted = (rounds - 10 * q) / slope
    assert project(inverted, 10).tolist() == [project(values, 10).tolist() for values in inverted]
    together = iterative_bayesian_update(rounds, channel, tolerance=1e-10)
    for counts, row in zip(rounds, together, strict=True):
        assert row.tolist() == pytest.approx(
            iterative_bayesian_update(counts, channel, tolerance=1e-10), abs=1e-3
        )


def test_inside_the_simplex_all_three_estimators_are_the_inversion() -> None:
    spec = KRRHistogram(symbols=3, blanket=Fraction(1, 4))
    inverted, projected, likely = (
        estimate(spec, [50, 30, 20], 100, estimator=each).values for each in Estimator
    )
    assert projected == pytest.approx(inverted)
    assert likely == pytest.approx(inverted)


def test_outside_of_it_two_of_them_are_possible_and_intervals_stay() -> None:
    spec, counts = KRRHistogram(symbols=3, blanket=Fraction(9, 10)), [60, 20, 20]
    inverted, projected, likely = (
        estimate(spec, counts, 100, estimator=each) for each in Estimator
    )
    assert min(inverted.values) < 0
    for found in (projected, likely):
        assert min(found.values) >= 0
        assert sum(found.values) == pytest.approx(100)
        assert (found.lows, found.highs, found.standard_errors) == (
            inverted.lows,
            inverted.highs,
            inverted.standard_errors,
        )


def test_where_messages_hardly_depend_on_values_the_most_likely_histogram_still_adds_up() -> None:
    found = most_likely_histogram([40, 30, 40], 1 / 3, 1e-18)
    assert found.tolist() == pytest.approx([55, 0, 55])


def test_a_sum_has_one_estimator() -> None:
    spec = GeoShuffle(max_value=2, epsilon_geo=Fraction(1), padding=1)
    with pytest.raises(UsageError, match="ibu is for histograms"):
        estimate(spec, [20, 20], 10, estimator=Estimator.IBU)


def test_the_update_says_when_it_cannot_end() -> None:
    channel = np.array([[0.51, 0.49], [0.49, 0.51]])
    with pytest.raises(UsageError, match="did not converge to 1e-09 nats within 3 steps"):
        iterative_bayesian_update([90, 10], channel, tolerance=1e-9, most_steps=3)
    with pytest.raises(UsageError, match="never sends"):
        iterative_bayesian_update([1, 1], [[1.0, 0.0], [1.0, 0.0]])
