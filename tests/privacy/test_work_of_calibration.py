"""The work of calibrating wide noise of few users, counted: how much is computed, not how long."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.calibration.calibrate import Target, calibrate, certified_epsilon_of
from shuffledp_privacy.primitives import table, truncated
from shuffledp_privacy.primitives.table import build_table
from shuffledp_privacy.primitives.work import spend_work
from shuffledp_privacy.sums.kept import FEWEST, kept_noise


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The work of all computations, as `work` counts it."""
    parts: list[float] = []

    def spend(nodes: float) -> None:
        parts.append(nodes)
        spend_work(nodes)

    for name in ("contour", "pairs", "table", "truncated"):
        monkeypatch.setattr(f"shuffledp_privacy.primitives.{name}.spend_work", spend)
    table.build_table.cache_clear()
    kept_noise.cache_clear()
    yield parts
    assert parts, "nothing was counted"


@pytest.mark.parametrize(
    ("users", "largest", "epsilon", "delta", "most"),
    [
        (5, 240, 0.1, 1e-6, 4e7),
        (5, 240, 0.1, 5e-4, 4e7),
        (5, 298, 0.065, 1e-3, 4e7),
        (3, 687, 0.053, 1e-6, 4e7),
        (9, 889, 0.065, 1e-2, 1.5e8),
        (8, 1000, 0.05, 1e-3, 1.5e8),
    ],
)
def test_wide_noise_of_few_users_is_calibrated_with_bounded_work(
    users: int, largest: int, epsilon: float, delta: float, most: float, spent: list[float]
) -> None:
    target = Target(epsilon, delta, users, users, Adjacency.STANDARD, max_value=largest)
    spec = calibrate("geo-shuffle", target)
    assert certified_epsilon_of(spec, target) <= epsilon
    assert sum(spent) < most


@pytest.mark.parametrize("ratio", [0.3, 0.999, 1 - 2.0**-20])
def test_the_table_of_one_noise_is_the_discrete_laplace_law(ratio: float) -> None:
    single = build_table(1.0, ratio, 5000)
    points = np.array([0.0, 1.0, 17.0, 4999.0, 5000.0])
    mass, tail = single.mass(points), single.at_least(points)
    with mp.workdps(40):
        phi = mp.mpf(ratio)
        for index, point in enumerate(points.tolist()):
            exact = point * mp.log(phi) + mp.log((1 - phi) / (1 + phi))
            beyond = point * mp.log(phi) - mp.log(1 + phi)
            assert mass.low[index] <= exact <= mass.high[index]
            assert tail.low[index] <= beyond <= tail.high[index]
    assert single.margin < 1e-11


def test_the_table_of_one_noise_is_that_of_the_recurrence() -> None:
    closed = build_table(1.0, 0.99, 3000)
    ratios, tails, _ = table._recurrence(1.0, 0.99, 3000 + 4000, 3000)
    assert np.allclose(np.diff(closed.log_pmf), np.log(ratios[1:]), rtol=0, atol=1e-11)
    assert np.allclose(closed.log_tail - closed.log_pmf, np.log(tails), rtol=0, atol=1e-11)


@pytest.mark.parametrize("longest", [1e3, 1e4])
def test_cells_of_few_noises_are_tabulated_or_count_as_none(
    longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = GeoShuffle(max_value=50, epsilon_geo=Fraction(1, 100), padding=900)
    distances = np.full(3, 50)
    epsilons = np.array([0.05, 0.2, 0.35])
    kept_noise.cache_clear()
    whole = kept_noise(spec, 8)
    assert whole is not None
    exact = whole.divergence(distances, epsilons)[0]
    monkeypatch.setattr(truncated, "LONGEST_SHORT_LAW", 1e3)
    monkeypatch.setattr(truncated, "LONGEST_OF_FEW", longest)
    kept_noise.cache_clear()
    mixed = kept_noise(spec, 8)
    kept_noise.cache_clear()
    assert mixed is not None
    assert (whole.cells.counts <= FEWEST).any()
    assert (mixed.cells.counts <= FEWEST).any() == (longest == 1e4)
    assert mixed.cells.lost + mixed.cells.masses.sum() >= 1
    bound = mixed.divergence(distances, epsilons)[0]
    assert (bound >= exact * (1 - 1e-9)).all()
    assert (bound <= exact * (1 + 1e-6) + 1e-9).all()
