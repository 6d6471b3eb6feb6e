from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.primitives.noise import sum_noise
from shuffledp_privacy.sums import geo
from shuffledp_privacy.sums.clamping import least_padding_geo

Law = NDArray[np.float64]


@cache
def _report(spec: GeoShuffle, value: int) -> tuple[float, ...]:
    """Law of one clamped report from the definition."""
    q, top = math.exp(-float(spec.epsilon_geo)), spec.max_value + 2 * spec.padding
    law = np.zeros(top + 1)
    for noise in range(-400, 401):
        law[min(max(value + noise + spec.padding, 0), top)] += (1 - q) / (1 + q) * q ** abs(noise)
    return tuple(law)


def _sum(spec: GeoShuffle, values: tuple[int, ...]) -> Law:
    law = np.ones(1)
    for value in values:
        law = np.convolve(law, np.array(_report(spec, value)))
    return law


def _true_delta(spec: GeoShuffle, users: int, epsilon: float, *, metric: bool) -> float:
    """Worst hockey-stick divergence over all pairs of neighbouring datasets and both directions."""
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(spec.max_value + 1), users - 1):
        laws = [_sum(spec, (*others, value)) for value in range(spec.max_value + 1)]
        for x, y in itertools.permutations(range(spec.max_value + 1), 2):
            total = epsilon * (abs(x - y) if metric else 1)
            worst = max(worst, float(np.maximum(laws[x] - math.exp(total) * laws[y], 0).sum()))
    return worst


@pytest.mark.parametrize("users", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 3, 14])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_certified_truth_and_attained_are_in_order_on_all_datasets(
    users: int, padding: int, adjacency: Adjacency
) -> None:
    spec = GeoShuffle(max_value=3, epsilon_geo=Fraction(1), padding=padding)
    for epsilon in (0.1, 0.4, 0.8):
        truth = _true_delta(spec, users, epsilon, metric=adjacency is Adjacency.METRIC)
        found = delta_bounds(spec, Setting(users, users, adjacency), epsilon)
        assert found.attained <= truth * (1 + 1e-9)
        assert found.certified >= truth * (1 - 1e-9)


def test_with_enough_padding_the_certificate_is_tight() -> None:
    spec = GeoShuffle(max_value=3, epsilon_geo=Fraction(1), padding=25)
    truth = _true_delta(spec, 3, 0.5, metric=True)
    found = delta_bounds(spec, Setting(3, 3, Adjacency.METRIC), 0.5)
    assert found.certified <= truth * 1.001
    assert found.attained >= truth * 0.999


@pytest.mark.parametrize(
    ("d_max", "epsilon"), [(1, 0.0290), (10, 0.0396), (100, 0.0542), (1000, 0.1033)]
)
def test_the_exact_epsilon_grows_with_the_largest_distance(d_max: int, epsilon: float) -> None:
    padding = least_padding_geo(Fraction(1, 5), 100, 1e-9, 0.11 * d_max)
    spec = GeoShuffle(max_value=1000, epsilon_geo=Fraction(1, 5), padding=padding)
    found = epsilon_bounds(spec, Setting(100, 100, Adjacency.METRIC, d_max), 1e-4)
    assert found.certified == pytest.approx(epsilon, abs=6e-5)
    assert found.attained <= found.certified <= found.attained * 1.002


def test_theorem_4_1_as_printed_first_fails_at_distance_246() -> None:
    published = geo.published_epsilon(Fraction(1, 5), 100, 1e-4)
    assert published == pytest.approx(0.0665, abs=5e-5)
    law = sum_noise(Fraction(100), Fraction(1, 5))
    distances = np.array([245, 246])
    upper, lower = law.divergence(distances, published * distances)
    assert upper[0] <= 1e-4 < lower[1]


def test_theorem_4_1_is_refuted_by_the_attained_number_too() -> None:
    padding = least_padding_geo(Fraction(1, 5), 100, 1e-9, 50.0)
    spec = GeoShuffle(max_value=500, epsilon_geo=Fraction(1, 5), padding=padding)
    found = epsilon_bounds(spec, Setting(100, 100, Adjacency.METRIC), 1e-4)
    assert found.published is not None
    assert found.attained > found.published
    assert any("no guarantee" in line for line in found.lines())


def test_epsilon_and_delta_answer_each_other() -> None:
    spec = GeoShuffle(max_value=50, epsilon_geo=Fraction(1, 2), padding=90)
    for adjacency in Adjacency:
        setting = Setting(500, 400, adjacency)
        epsilon = epsilon_bounds(spec, setting, 1e-6).certified
        found = delta_bounds(spec, setting, epsilon)
        assert found.attained <= 1e-6 * (1 + 1e-6)
        assert found.certified <= 1.02e-6


def test_a_billion_users_are_certified_from_both_sides() -> None:
    spec = GeoShuffle(max_value=20, epsilon_geo=Fraction(1), padding=60)
    found = epsilon_bounds(spec, Setting(10**9, 10**9), 1e-6)
    assert found.attained <= found.certified <= found.attained * 1.0001


def test_small_padding_is_never_certified_below_what_the_reports_show() -> None:
    spec = GeoShuffle(max_value=100, epsilon_geo=Fraction(1, 5), padding=0)
    found = epsilon_bounds(spec, Setting(50, 50, Adjacency.METRIC), 1e-4)
    assert found.attained <= found.certified
    assert found.certified == pytest.approx(0.2)


def test_pure_privacy_is_that_of_one_report() -> None:
    spec = GeoShuffle(max_value=7, epsilon_geo=Fraction(1, 2), padding=4)
    assert epsilon_bounds(spec, Setting(9, 9), 0.0).certified == pytest.approx(3.5)
    assert epsilon_bounds(spec, Setting(9, 9, Adjacency.METRIC), 0.0).certified == pytest.approx(
        0.5
    )
    assert corrupted_bounds(spec, Setting(9, 9), 1e-6).epsilon == pytest.approx(3.5)
    one, other = (np.array(_report(spec, value)) for value in (0, 7))
    assert float(np.abs(np.log(one / other)).max()) <= 3.5 + 1e-9


def test_the_curve_bounds_the_truth_at_any_sign() -> None:
    spec = GeoShuffle(max_value=3, epsilon_geo=Fraction(1), padding=20)
    epsilons = np.linspace(-4, 4, 41)
    curve = certified_curve(spec, Setting(2, 2), 3, epsilons)
    near, far = _sum(spec, (0, 0)), _sum(spec, (0, 3))
    for epsilon, value in zip(epsilons, curve, strict=True):
        for first, second in ((near, far), (far, near)):
            assert value >= float(np.maximum(first - math.exp(epsilon) * second, 0).sum()) * (
                1 - 1e-9
            )


def test_a_long_curve_lies_above_a_short_one_by_little() -> None:
    spec = GeoShuffle(max_value=20, epsilon_geo=Fraction(1, 2), padding=120)
    grid = np.linspace(-3, 3, 4001)
    long = certified_curve(spec, Setting(400, 400), 20, grid)
    short = certified_curve(spec, Setting(400, 400), 20, grid[::100])
    assert (long[::100] >= short * (1 - 1e-9)).all()
    assert np.allclose(long[::100], short, rtol=0.05, atol=1e-15)


def test_the_standard_error_is_that_of_simulated_noise() -> None:
    """1e6 draws.

    A variance estimate of this law is off by 2% with probability below 1e-12 (Chebyshev of order
    12).
    """
    spec = GeoShuffle(max_value=5, epsilon_geo=Fraction(1, 2), padding=80)
    generator = np.random.default_rng(3)
    q = 1 - math.exp(-0.5)
    sample = generator.geometric(q, 10**6) - generator.geometric(q, 10**6)
    assert standard_error(spec, 64) == pytest.approx(8 * float(sample.std()), rel=0.02)


@settings(deadline=None, max_examples=15)
@given(
    honest=st.integers(1, 300),
    more=st.integers(0, 100),
    k=st.integers(1, 60),
    exponent=st.floats(-9, -2),
    metric=st.booleans(),
)
def test_epsilon_moves_the_right_way(
    honest: int,
    more: int,
    k: int,
    exponent: float,
    metric: bool,  # noqa: FBT001
) -> None:
    spec = GeoShuffle(max_value=60, epsilon_geo=Fraction(2, 5), padding=300)
    adjacency = Adjacency.METRIC if metric else Adjacency.STANDARD
    delta = 10.0**exponent
    base = epsilon_bounds(spec, Setting(honest, honest, adjacency, k), delta)
    noisier = epsilon_bounds(spec, Setting(honest + more, honest + more, adjacency, k), delta)
    looser = epsilon_bounds(spec, Setting(honest, honest, adjacency, k), 2 * delta)
    farther = epsilon_bounds(spec, Setting(honest, honest, adjacency, 60), delta)
    assert base.attained <= base.certified
    assert noisier.attained <= base.certified
    assert looser.attained <= base.certified
    assert base.attained <= farther.certified


def test_a_distance_beyond_the_domain_is_refused() -> None:
    spec = GeoShuffle(max_value=5, epsilon_geo=Fraction(1), padding=9)
    with pytest.raises(UsageError, match="max-distance"):
        delta_bounds(spec, Setting(3, 3, Adjacency.METRIC, 6), 0.5)
    with pytest.raises(UsageError, match="distance"):
        certified_curve(spec, Setting(3, 3), 6, np.zeros(1))
    with pytest.raises(UsageError, match="delta"):
        epsilon_bounds(spec, Setting(3, 3), 1e-13)
