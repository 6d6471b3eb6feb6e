"""Any ε0-LDP randomiser: enumeration of the definition and of real randomisers, published values,
closed forms."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from counted_work import counted
from hypothesis import given, settings
from hypothesis import strategies as st
from shuffle_oracle import local_pairs, worst_delta

from shuffledp_core.errors import UsageError
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.local.clones import LocalRandomiser, erlingsson_2019, feldman_2021


def enumerated(epsilon0: float, honest: int, epsilon: float) -> float:
    """Σ (P - e^ε Q)_+ over (A + D, C - A + 1 - D), straight from the definition."""
    clone, keep = 2 / (1 + math.exp(epsilon0)), 1 / (1 + math.exp(-epsilon0))
    p = np.zeros((honest + 1, honest + 1))
    q = np.zeros_like(p)
    for c in range(honest):
        chance = math.comb(honest - 1, c) * clone**c * (1 - clone) ** (honest - 1 - c)
        for a in range(c + 1):
            mass = chance * math.comb(c, a) / 2**c
            p[a + 1, c - a] += mass * keep
            p[a, c - a + 1] += mass * (1 - keep)
            q[a + 1, c - a] += mass * (1 - keep)
            q[a, c - a + 1] += mass * keep
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())


@pytest.mark.parametrize("honest", [1, 2, 7, 60])
@pytest.mark.parametrize("epsilon0", [0.01, 0.7, 3.0])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.95])
def test_delta_is_that_of_the_definition(honest: int, epsilon0: float, part: float) -> None:
    epsilon = part * epsilon0
    exact = enumerated(epsilon0, honest, epsilon)
    bounds = delta_bounds(LocalRandomiser(epsilon0), Setting(honest, honest), epsilon)
    assert bounds.certified == pytest.approx(exact, rel=1e-6, abs=1e-13)
    assert bounds.certified >= exact * (1 - 1e-12)
    assert bounds.attained <= exact * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [-2.0, -0.3, -0.05, 0.05, 0.3, 2.0])
def test_the_curve_covers_both_signs(epsilon: float) -> None:
    curve = certified_curve(LocalRandomiser(1.0), Setting(50, 50), 1, np.array([[epsilon]]))
    assert curve.shape == (1, 1)
    exact = enumerated(1.0, 50, epsilon)
    assert curve[0, 0] >= exact * (1 - 1e-12)
    assert curve[0, 0] == pytest.approx(exact, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize(
    ("epsilon0", "users", "expected"),
    [(1, 10**3, 0.1487), (1, 10**4, 0.04321), (4, 10**4, 0.4108), (1, 10**6, 0.003514)],
)
def test_the_numeric_anchors_are_met(epsilon0: float, users: int, expected: float) -> None:
    """The blanket of 2-RR, computed apart.

    With the clones of 2021 it was .1824, .05301, .6009 and .004335.
    """
    bounds = epsilon_bounds(LocalRandomiser(epsilon0), Setting(users, users), 1e-6)
    half = 0.5 * 10.0 ** (math.floor(math.log10(expected)) - 3)
    assert expected - half <= bounds.certified <= expected + half
    assert bounds.attained < bounds.certified


def test_fewer_clones_than_of_2021_are_needed() -> None:
    """The bracket that the authors of Feldman et al. 2021 print for their theorem starts at
    .16753856.
    """
    assert epsilon_bounds(LocalRandomiser(4), Setting(10**5, 10**5), 1e-6).certified < 0.16753856


def test_a_large_local_epsilon_costs_little_more_than_is_attained() -> None:
    bounds = epsilon_bounds(LocalRandomiser(6), Setting(10_000, 10_000), 1e-6)
    assert 1.46 < bounds.attained <= bounds.certified < 1.48


def test_no_dataset_of_a_random_randomiser_costs_more() -> None:
    """Every dataset of up to four users, exactly.

    Ratios of rows at the ends of the range and between them.
    """
    numbers, closest = np.random.default_rng(20261124), 0.0
    for _ in range(150):
        inputs, outputs, honest = (
            int(numbers.integers(low, high)) for low, high in ((2, 4), (2, 5), (1, 5))
        )
        growth = int(numbers.choice([2, 3, 8, 50]))
        inner = numbers.integers(1, growth + 1, (inputs, outputs))
        ratios = numbers.choice([1, growth], (inputs, outputs)) if numbers.random() < 0.7 else inner
        weights = numbers.integers(1, 30, outputs) * ratios
        rows = [tuple(Fraction(int(value), int(row.sum())) for value in row) for row in weights]
        epsilon0 = max(math.log(max(column) / min(column)) for column in zip(*rows, strict=True))
        if epsilon0 < 1e-3:
            continue
        held = [
            dict(enumerate(counts))
            for counts in itertools.product(range(honest), repeat=inputs)
            if sum(counts) == honest - 1
        ]
        pairs = local_pairs(rows, honest, list(itertools.combinations(range(inputs), 2)), held)
        randomiser, setting = LocalRandomiser(epsilon0 * (1 + 1e-12)), Setting(honest, honest)
        for part in (0.0, 0.2, 0.5, 0.9):
            exact = worst_delta(pairs, part * epsilon0, metric=False)
            certified = delta_bounds(randomiser, setting, part * epsilon0).certified
            assert exact <= certified * (1 + 1e-9)
            closest = max(closest, exact / certified)
    assert closest > 0.99


def test_reports_that_depend_on_earlier_ones_cost_no_more() -> None:
    """Two users; the second report's randomiser is chosen by the first report.

    Positions are shuffled.
    """
    epsilon0, honest = math.log(4), 2
    first = np.array([[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])
    second = {
        0: np.array([[0.8, 0.2], [0.2, 0.8], [0.2, 0.8]]),
        1: np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4]]) / 6,
    }
    for other in range(3):
        views = []
        for changed in (0, 1):
            view: dict[tuple[int, int], float] = {}
            for one, two in ((changed, other), (other, changed)):
                for y, z in itertools.product(range(2), range(3)):
                    if z < second[y].shape[1]:
                        view[y, z] = view.get((y, z), 0.0) + 0.5 * first[one, y] * second[y][two, z]
            views.append(np.array([view[key] for key in sorted(view)]))
        for epsilon in (0.0, 0.3, 0.8, 1.2):
            certified = delta_bounds(
                LocalRandomiser(epsilon0), Setting(honest, honest), epsilon
            ).certified
            for near, far in (views, views[::-1]):
                assert np.maximum(near - math.exp(epsilon) * far, 0.0).sum() <= certified


@given(st.floats(0.001, 20.0), st.sampled_from([1, 5, 300, 40_000, 10**9]), st.floats(1e-12, 0.5))
@settings(deadline=None, max_examples=30)
def test_epsilon_falls_in_delta_and_in_honest_users_and_stays_below_the_local_one(
    epsilon0: float, honest: int, delta: float
) -> None:
    local = LocalRandomiser(epsilon0)
    bounds = epsilon_bounds(local, Setting(honest, honest), delta)
    assert 0.0 <= bounds.attained <= bounds.certified <= epsilon0
    half = epsilon_bounds(local, Setting(honest, (honest + 1) // 2), delta)
    assert half.certified >= bounds.certified * (1 - 2e-6)
    assert epsilon_bounds(
        local, Setting(honest, honest), delta / 2 + 0.5e-12
    ).certified >= bounds.certified * (1 - 2e-6)


def test_the_closed_forms_are_above_the_numeric_bound_and_silent_outside_their_range() -> None:
    for epsilon0 in (0.1, 0.4):
        numeric = epsilon_bounds(LocalRandomiser(epsilon0), Setting(10**5, 10**5), 1e-6).certified
        for printed in (
            erlingsson_2019(epsilon0, 10**5, 1e-6),
            feldman_2021(epsilon0, 10**5, 1e-6),
        ):
            assert printed is not None
            assert printed > numeric
    assert erlingsson_2019(0.6, 10**5, 1e-6) is None
    assert erlingsson_2019(0.1, 999, 1e-6) is None
    assert feldman_2021(8.0, 10**4, 1e-6) is None


def test_the_local_guarantee_is_what_corruption_leaves_and_bad_arguments_are_refused() -> None:
    assert corrupted_bounds(LocalRandomiser(2.0), Setting(10, 10), 1e-6).epsilon == 2.0
    for epsilon0 in (0.0, 1e-4, 20.5, math.nan):
        with pytest.raises(UsageError, match="epsilon0"):
            LocalRandomiser(epsilon0)
    with pytest.raises(UsageError, match="epsilon"):
        delta_bounds(LocalRandomiser(1.0), Setting(10, 10), -1.0)


@pytest.mark.parametrize(
    ("epsilon0", "users"), [(1, 10**6), (1, 10**9), (20, 10**9), (0.001, 10**9)]
)
def test_no_certificate_computes_more_than_some_million_numbers(
    epsilon0: float, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make bench` says how long that takes; here it is counted."""
    work = counted(monkeypatch)
    epsilon_bounds(LocalRandomiser(epsilon0), Setting(users, users), 1e-6)
    assert 0 < work.probabilities < 5_000_000
    assert 0 < work.cells < 500_000
