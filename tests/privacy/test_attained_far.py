"""What geo- and sgdl-shuffle are known to cost where the total ε is large (docs/accounting.md,
S9)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from shuffle_oracle import (
    Law,
    epsilon_of_laws,
    laplace_noise,
    modular_pairs,
    noisy_report,
    share_noise,
    sum_pairs,
    worst_epsilon,
)

from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle, SplitMix
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, delta_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.mechanisms import geo, sgdl

PAPER_DELTA = 1e-4
"""δ of table 2 of Athanasiou et al. 2025."""


def _orders(
    noise: Law, value: int, padding: int, users: int, held: int, delta: float
) -> list[float]:
    """Total ε of a change between 0 and the largest value, in both orders, all others at `held`:
    the oracle."""
    [pair] = sum_pairs(noisy_report(value, padding, noise), [{held: users - 1}], [(0, value)])
    return [
        epsilon_of_laws(one, other, delta)
        for one, other in ((pair.one, pair.other), (pair.other, pair.one))
    ]


@pytest.mark.parametrize("delta", [0.9991, 0.99998, 0.999999998])
def test_nothing_above_the_truth_is_attained_at_a_delta_near_one(delta: float) -> None:
    """Before: the ε of δ = 0.999 was stated for every larger δ."""
    rate, users = Fraction(7), 3
    spec = SGDLShuffle(max_value=3, noise_epsilon=rate, shares=users, padding=2)
    orders = _orders(share_noise(rate, users, 6), 3, 2, users, 0, delta)
    bounds = epsilon_bounds(spec, Setting(users, users), delta)
    assert bounds.attained <= max(orders) <= bounds.certified
    ring = SplitMix(max_value=7, noise_epsilon=rate, shares=users, modulus=256, pieces=17)
    pairs = modular_pairs(share_noise(rate, users, 7), users, 256, [7])
    exact = worst_epsilon(pairs, delta, metric=False)
    bounds = epsilon_bounds(ring, Setting(users, users), delta)
    assert bounds.attained <= exact * (1 + 1e-12) <= bounds.certified


@pytest.mark.parametrize(
    ("users", "value", "rate", "padding", "delta"),
    [
        (3, 40, "1", 3, 1e-4),
        (4, 60, "3", 2, 1e-9),
        (3, 40, "1/2", 30, 1e-2),
        (6, 30, "2", 0, 1e-4),
        (1, 9, "80", 4, 0.1),
    ],
)
def test_tilted_laws_show_what_a_large_change_costs(
    users: int, value: int, rate: str, padding: int, delta: float
) -> None:
    spec = GeoShuffle(max_value=value, epsilon_geo=Fraction(rate), padding=padding)
    noise = laplace_noise(spec.epsilon_geo, value + padding + 1)
    exact = [
        e for held in (0, value // 2) for e in _orders(noise, value, padding, users, held, delta)
    ]
    found = [pair.epsilon(delta) for pair in geo._compare_datasets(spec, users, value)]
    assert found == pytest.approx(exact, rel=1e-9)
    assert all(low <= high for low, high in zip(found, exact, strict=True))
    bounds = epsilon_bounds(spec, Setting(users, users), delta)
    assert max(exact) * (1 - 1e-7) <= bounds.attained <= max(exact) <= bounds.certified * (1 + 1e-9)
    assert delta_bounds(spec, Setting(users, users), max(exact)).attained == pytest.approx(
        delta, rel=1e-4
    )


@pytest.mark.parametrize(
    ("users", "value", "rate", "padding", "delta"), [(3, 30, 1, 4, 1e-4), (4, 24, 2, 2, 1e-6)]
)
def test_tilted_shares_show_what_a_large_change_costs(
    users: int, value: int, rate: int, padding: int, delta: float
) -> None:
    spec = SGDLShuffle(max_value=value, noise_epsilon=Fraction(rate), shares=users, padding=padding)
    noise = share_noise(spec.noise_epsilon, users, value + padding + 1)
    exact = [
        e for held in (0, value // 2) for e in _orders(noise, value, padding, users, held, delta)
    ]
    found = [pair.epsilon(delta) for pair in sgdl._compare_reports(spec, users, value)]
    assert found == pytest.approx(exact, rel=1e-9)
    assert all(low <= high for low, high in zip(found, exact, strict=True))


@pytest.mark.parametrize(
    ("users", "rate", "padding", "known"),
    [
        (100, "0.5925", 25, 0.4161),
        (100, "0.8715", 18, 0.6639),
        (200, "0.4", 39, 0.1929),
        (100, "0.5925", 600, 0.4161),
    ],
)
def test_attained_reaches_the_truth_of_table_2(
    users: int, rate: str, padding: int, known: float
) -> None:
    """Plans of Athanasiou et al. 2025, table 2, k = 1000: at least `known` is true, all others
    holding 500.
    """
    spec = GeoShuffle(max_value=1000, epsilon_geo=Fraction(rate), padding=padding)
    found = epsilon_bounds(spec, Setting(users, users, Adjacency.METRIC), PAPER_DELTA)
    assert known <= found.attained <= found.certified


def test_attained_is_close_to_the_certificate_of_a_calibrated_plan() -> None:
    target = Target(0.5, PAPER_DELTA, 50, 50, Adjacency.METRIC, None, 1000)
    found = epsilon_bounds(calibrate("geo-shuffle", target), target.setting, PAPER_DELTA)
    assert 0.4959 <= found.attained <= found.certified <= 0.5
