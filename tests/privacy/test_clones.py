"""FMT21's clones against enumeration of their definition, published values and the closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from counted_work import counted
from hypothesis import given, settings
from hypothesis import strategies as st

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
    clone, keep = math.exp(-epsilon0), 1 / (1 + math.exp(-epsilon0))
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
    [(1, 10**3, 0.1824), (1, 10**4, 0.05301), (4, 10**4, 0.6009), (1, 10**6, 0.004335)],
)
def test_the_numeric_anchors_are_met(epsilon0: float, users: int, expected: float) -> None:
    bounds = epsilon_bounds(LocalRandomiser(epsilon0), Setting(users, users), 1e-6)
    half = 0.5 * 10.0 ** (math.floor(math.log10(expected)) - 3)
    assert expected - half <= bounds.certified <= expected + half
    assert bounds.attained < bounds.certified


def test_the_authors_own_bracket_contains_the_answer() -> None:
    bounds = epsilon_bounds(LocalRandomiser(4), Setting(10**5, 10**5), 1e-6)
    assert 0.16753856 <= bounds.certified <= 0.17279056


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
    assert epsilon_bounds(local, Setting(honest, honest), delta / 2 + 0.5e-12).certified >= bounds.certified * (
        1 - 2e-6
    )


def test_the_closed_forms_are_above_the_numeric_bound_and_silent_outside_their_range() -> None:
    for epsilon0 in (0.1, 0.4):
        numeric = epsilon_bounds(LocalRandomiser(epsilon0), Setting(10**5, 10**5), 1e-6).certified
        for printed in (erlingsson_2019(epsilon0, 10**5, 1e-6), feldman_2021(epsilon0, 10**5, 1e-6)):
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


@pytest.mark.parametrize(("epsilon0", "users"), [(1, 10**6), (1, 10**9), (20, 10**9), (0.001, 10**9)])
def test_no_certificate_computes_more_than_some_million_numbers(
    epsilon0: float, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make bench` says how long that takes; here it is counted."""
    work = counted(monkeypatch)
    epsilon_bounds(LocalRandomiser(epsilon0), Setting(users, users), 1e-6)
    assert 0 < work.probabilities < 5_000_000
    assert 0 < work.cells < 500_000
