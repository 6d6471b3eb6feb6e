"""Consistent bins, quantiles and ranges: against linear algebra and exact laws written out here."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.answering.quantiles import BinDistribution, distribution_of, isotonic
from shuffledp_core.answering.trees import BinTree, query_errors, query_widths
from shuffledp_core.bounds.bounded_noise import bounded_laplace_law
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram, NodeTree

TREES = [BinTree(4, 2), BinTree(5, 2), BinTree(9, 3), BinTree(7, 4), BinTree(6, 1), BinTree(2, 1)]
SPEC = NodeTree(symbols=9, noise_epsilon=Fraction(1, 2), mean=12, spare=40, width=3)


def shape(tree: BinTree) -> NDArray[np.float64]:
    """Which bins every count adds up, shape (counts, bins)."""
    bins = np.eye(tree.bins)
    if tree.width == 1:
        return bins
    groups = [
        bins[start : start + tree.width].sum(axis=0) for start in range(0, tree.bins, tree.width)
    ]
    return np.concatenate([groups, bins])


def least_squares(tree: BinTree, counts: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The bins nearest to all counts that add up to the total, by its Lagrange equations."""
    summing = shape(tree)
    ones = np.ones((tree.bins, 1))
    equations = np.block([[summing.T @ summing, ones], [ones.T, np.zeros((1, 1))]])
    right = np.append(summing.T @ counts, total)
    return np.linalg.solve(equations, right)[:-1]


def columns_of(tree: BinTree, counts: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [counts] if tree.width == 1 else [counts[: -tree.bins], counts[-tree.bins :]]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_the_estimate_is_that_of_least_squares(tree: BinTree) -> None:
    counts = np.random.default_rng(5).normal(size=len(shape(tree)))
    expected = least_squares(tree, counts, 3.5)
    assert tree.consistent_bins(columns_of(tree, counts), 3.5) == pytest.approx(expected)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_coefficients_are_those_of_least_squares(tree: BinTree) -> None:
    number = len(shape(tree))
    rows = [least_squares(tree, unit, 0.0) for unit in np.eye(number)]
    queries = np.random.default_rng(6).random((4, tree.bins))
    assert tree.coefficients(queries) == pytest.approx((np.array(rows) @ queries.T).T)
    spreads = np.sqrt((np.array(rows) ** 2).sum(axis=0))
    assert tree.bin_spreads == pytest.approx(spreads)
    below = np.cumsum(np.array(rows), axis=1)[:, :-1]
    assert tree.largest_prefix_variance() == pytest.approx((below**2).sum(axis=0).max())


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_lost_message_moves_a_query_by_one_at_most(tree: BinTree) -> None:
    number = len(shape(tree))
    share = 1 / (1 if tree.width == 1 else 2)
    for first, last in itertools.combinations(range(tree.bins + 1), 2):
        query = np.zeros(tree.bins)
        query[first:last] = 1.0
        message = np.array([least_squares(tree, unit, share) @ query for unit in np.eye(number)])
        assert np.abs(message).max() <= 1 + 1e-9


def exact_law(
    weights: NDArray[np.float64], law: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and masses of the sum of these weights times independent noises, point by point."""
    unit = next(
        number
        for number in range(1, 5000)
        if np.abs(weights * number - np.round(weights * number)).max() < 1e-9
    )
    steps = np.round(weights * unit).astype(int)
    reach = law.size // 2
    masses = np.ones(1)
    for step in steps[steps != 0].tolist():
        spread = np.zeros(2 * reach * abs(step) + 1)
        spread[:: abs(step)] = law
        masses = np.convolve(masses, spread)
    return (np.arange(masses.size) - masses.size // 2) / unit, masses


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("tree", TREES[:5], ids=str)
def test_intervals_of_ranges_cover_by_the_exact_law_of_the_noise(tree: BinTree, nodes: int) -> None:
    """For all data at once: errors of linear estimates do not depend on what is counted."""
    spec = NodeTree(
        symbols=tree.bins, noise_epsilon=Fraction(1), mean=6, spare=4 * tree.bins, width=tree.width
    )
    law = bounded_laplace_law(spec.noise_epsilon, spec.mean)
    queries = tree.prefix_queries(np.arange(1, tree.bins))
    widths = query_widths(spec, tree, queries, Present(Fraction(1000), nodes))
    errors = query_errors(spec, tree, queries, nodes)
    for query, width, error in zip(queries, widths, errors, strict=True):
        weights = np.repeat(tree.coefficients(query[np.newaxis])[0], nodes)
        values, masses = exact_law(weights, law)
        assert error == pytest.approx(float(np.sqrt(masses @ values**2)))
        missed = float(masses[np.abs(values) > width + 1e-9].sum())
        assert missed <= 0.05 * spec.room_probability**nodes
        shorter = float(masses[np.abs(values) > 0.87 * width].sum())
        assert shorter > 0.04


def noisy(spec: NodeTree, bins: NDArray[np.int64], noise: NDArray[np.float64]) -> BinDistribution:
    tree = spec.tree
    values = tree.consistent_bins(columns_of(tree, shape(tree) @ bins + noise), float(bins.sum()))
    estimated = Estimate(
        quantity="histogram", values=tuple(values), standard_errors=(), lows=(), highs=()
    )
    return spec.distribution(estimated, Present(Fraction(int(bins.sum())), 1))


DATA = {
    "even": np.full(9, 100),
    "one bin": np.array([0, 0, 0, 0, 900, 0, 0, 0, 0]),
    "both ends": np.array([450, 0, 0, 0, 0, 0, 0, 0, 450]),
    "few": np.array([1, 0, 0, 2, 0, 0, 0, 0, 1]),
}


@pytest.mark.parametrize("bins", DATA.values(), ids=DATA)
def test_a_quantile_is_missed_only_where_the_interval_of_a_prefix_is(
    bins: NDArray[np.int64],
) -> None:
    """So it covers as they do, for all data: exactly, in every one of these draws of noise."""
    integers = np.random.default_rng(11)
    law = bounded_laplace_law(SPEC.noise_epsilon, SPEC.mean)
    true_sums = np.cumsum(bins)
    for _ in range(4):
        noise = integers.choice(np.arange(-12, 13), p=law, size=12).astype(float)
        distribution = noisy(SPEC, bins, noise)
        lows, highs = distribution.band(np.arange(10))
        for share in (0.0, 0.5, 0.9, 1.0):
            rank = share * bins.sum()
            true = min(int(np.searchsorted(true_sums, rank)), 8)
            found = distribution.quantile(share)
            assert 0 <= found.low <= found.bin <= found.high <= 8
            reached = np.flatnonzero(highs[1:] >= rank)
            needed = np.flatnonzero(lows[:-1] < rank)
            assert found.low <= (reached[0] if reached.size else 8)
            assert found.high >= (needed[-1] if needed.size else 0)
            if highs[true + 1] >= true_sums[true] and lows[true] <= true_sums[true] - bins[true]:
                assert found.low <= true <= found.high


@pytest.mark.parametrize("bins", DATA.values(), ids=DATA)
def test_quantiles_of_people_with_a_value_leave_the_others_out(bins: NDArray[np.int64]) -> None:
    """Missed only if a sum up to a bin, less its share of all, is: here for one draw of noise."""
    law = bounded_laplace_law(SPEC.noise_epsilon, SPEC.mean)
    noise = np.random.default_rng(12).choice(np.arange(-12, 13), p=law, size=12).astype(float)
    distribution = replace(noisy(SPEC, bins, noise), outside=1)
    exact = replace(noisy(SPEC, bins, np.zeros(12)), outside=1)
    true_sums = np.cumsum(bins[:8])
    everyone = np.append(np.ones(8), 0.0)
    for share in (0.1, 0.5, 0.75, 1.0):
        true = int(np.searchsorted(true_sums, share * true_sums[-1]))
        assert exact.quantile(share).bin == true
        found = distribution.quantile(share)
        assert 0 <= found.low <= found.bin <= found.high <= 7
        is_covered = True
        for end in (true, true + 1):
            query = (np.arange(9) < end) - share * everyone
            weights = SPEC.tree.coefficients(query[np.newaxis])[0]
            values, masses = exact_law(weights, law)
            reach = abs(float(weights @ noise))
            is_covered &= float(masses[np.abs(values) >= reach - 1e-9].sum()) > 0.05
        if is_covered:
            assert found.low <= true <= found.high


def test_without_noise_everything_is_exact() -> None:
    values = np.array([0, 1, 1, 4, 4, 4, 8, 2, 0, 5])
    counts = SPEC.count(values[np.newaxis])[0]
    answer = estimate(SPEC, counts.tolist(), values.size)
    assert answer.values == pytest.approx(np.bincount(values, minlength=9))
    found = distribution_of(SPEC, answer, values.size, nodes=0)
    assert found is not None
    assert [found.quantile(share).bin for share in (0, 0.2, 0.5, 0.8, 1)] == [0, 0, 2, 4, 8]
    assert list(found.count_range(1, 4)) == pytest.approx([6, 0, 6, 6])
    assert list(found.count_range(0, 8)) == pytest.approx([10, 0, 10, 10])


def test_ranges_and_quantiles_that_are_none_are_refused() -> None:
    found = noisy(SPEC, DATA["even"], np.zeros(12))
    for first, last in ((-1, 3), (3, 2), (0, 9)):
        with pytest.raises(UsageError, match="range of bins"):
            found.count_range(first, last)
    with pytest.raises(UsageError, match="quantile"):
        found.quantile(1.1)


def test_lost_messages_widen_every_interval_by_their_number() -> None:
    queries = SPEC.tree.prefix_queries(np.arange(1, 9))
    exact = query_widths(SPEC, SPEC.tree, queries, Present(Fraction(100), 2))
    less = query_widths(SPEC, SPEC.tree, queries, Present(Fraction(97), 2, 6))
    assert less == pytest.approx(exact + 6)


def test_a_mechanism_that_knows_no_error_of_ranges_has_no_distribution() -> None:
    krr = KRRHistogram(symbols=3, blanket=Fraction(1, 2))
    answer = estimate(krr, [1, 1, 1], 3)
    assert distribution_of(krr, answer, 3, nodes=0) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12))
def test_the_nearest_rising_sequence_is_the_best_of_all(values: list[float]) -> None:
    """Its conditions: rising, equal sums on each level, and no level could be split with gain."""
    given_values = np.array(values)
    rising = isotonic(given_values)
    assert (np.diff(rising) >= -1e-9).all()
    for level in np.unique(rising):
        members = given_values[rising == level]
        assert members.sum() == pytest.approx(level * members.size, abs=1e-6)
        means = np.cumsum(members) / np.arange(1, members.size + 1)
        assert (means >= level - 1e-6).all()
