"""Under metric adjacency the largest distance is the worst for log-concave noise, in one round and
in several.

Checked against enumerated laws: the statement itself, and the certificates on concrete datasets at
every distance."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from composed_delta import compose_delta
from dp_accounting.pld import privacy_loss_distribution
from numpy.typing import NDArray

from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, corrupted_bounds, delta_bounds, epsilon_bounds
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

Floats = NDArray[np.float64]

REACH = 120
"""Noise laws are enumerated on -REACH..REACH; the rest is far below every number that is compared.
"""


def share(shares: int, epsilon: float) -> Floats:
    """SGDL(1/shares, e^-epsilon) by convolving two negative binomial laws, from their
    definition."""
    size = np.arange(REACH + 1)
    log_weights = np.array(
        [math.lgamma(j + 1 / shares) - math.lgamma(1 / shares) - math.lgamma(j + 1) for j in size]
    )
    law = np.exp(log_weights - epsilon * size) * (-math.expm1(-epsilon)) ** (1 / shares)
    return np.convolve(law, law[::-1])


def repeated(law: Floats, times: int) -> Floats:
    total = np.array([1.0])
    for _ in range(times):
        total = np.convolve(total, law)
    return total


def hockey_stick(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def shifted(law: Floats, distance: int, width: int) -> tuple[Floats, Floats]:
    """A law and the same moved up, on a common window."""
    left, right = np.zeros(width), np.zeros(width)
    left[: law.size] = law
    right[distance : distance + law.size] = law
    return left, right


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.9])
@pytest.mark.parametrize(
    ("shares", "rate", "users"), [(1, 1.0, 1), (1, 0.7, 4), (3, 0.6, 3), (4, 1.0, 11)]
)
def test_log_concave_noise_protects_the_largest_distance_least(
    shares: int, rate: float, users: int, epsilon: float
) -> None:
    law = repeated(share(shares, rate), users)
    found = [hockey_stick(*shifted(law, d, law.size + 12), epsilon * d) for d in range(1, 13)]
    assert all(near <= far * (1 + 1e-9) + 1e-14 for near, far in itertools.pairwise(found))


@pytest.mark.parametrize("epsilon", [0.2, 0.8, 1.6])
def test_two_rounds_of_different_noise_protect_the_largest_distance_least(epsilon: float) -> None:
    first, second = repeated(share(1, 1.0), 2)[180:301], repeated(share(2, 0.9), 5)[540:661]
    found = []
    for d in range(1, 9):
        (p1, q1), (p2, q2) = (shifted(law, d, 130) for law in (first, second))
        found.append(hockey_stick(np.outer(p1, p2).ravel(), np.outer(q1, q2).ravel(), epsilon * d))
    assert all(near <= far * (1 + 1e-9) + 1e-14 for near, far in itertools.pairwise(found))


def clamped_sum(spec: GeoShuffle | SGDLShuffle, users: int, value: int) -> Floats:
    """The law of the reports' sum where one user holds `value` and all others 0, shifted by their
    padding."""
    if isinstance(spec, GeoShuffle):
        noise = share(1, float(spec.epsilon_geo))
    else:
        noise = share(spec.shares, float(spec.noise_epsilon))

    def report(x: int) -> Floats:
        law = np.zeros(spec.max_value + 2 * spec.padding + 1)
        place = np.clip(x + np.arange(-REACH, REACH + 1) + spec.padding, 0, law.size - 1)
        np.add.at(law, place, noise)
        return law

    return np.convolve(repeated(report(0), users - 1), report(value))


GEO = GeoShuffle(max_value=4, epsilon_geo=Fraction(4, 5), padding=9)
SGDL = SGDLShuffle(max_value=4, noise_epsilon=Fraction(7, 10), shares=3, padding=12)


@pytest.mark.parametrize("spec", [GEO, SGDL])
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 0.65, 0.75])
def test_one_round_is_certified_at_every_distance(
    spec: GeoShuffle | SGDLShuffle, epsilon: float
) -> None:
    users = 4
    near = clamped_sum(spec, users, 0)
    far = [clamped_sum(spec, users, d) for d in range(1, 5)]
    exact = [
        max(hockey_stick(near, other, epsilon * d), hockey_stick(other, near, epsilon * d))
        for d, other in enumerate(far, 1)
    ]
    bounds = delta_bounds(spec, Setting(users, users, Adjacency.METRIC), epsilon)
    assert bounds.certified >= max(exact) * (1 - 1e-12)
    if max(exact) > 1e-9:
        back = epsilon_bounds(spec, Setting(users, users, Adjacency.METRIC), max(exact))
        assert back.attained <= back.certified
        assert back.certified >= epsilon * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 0.6, 1.1])
@pytest.mark.parametrize("specs", [(GEO, GEO), (SGDL, SGDL), (GEO, SGDL)])
def test_two_rounds_are_certified_at_every_distance(
    specs: tuple[GeoShuffle | SGDLShuffle, GeoShuffle | SGDLShuffle], epsilon: float
) -> None:
    users = 3
    near = [clamped_sum(spec, users, 0) for spec in specs]
    exact = []
    for d in range(1, 5):
        far = [clamped_sum(spec, users, d) for spec in specs]
        p, q = np.outer(near[0], near[1]).ravel(), np.outer(far[0], far[1]).ravel()
        exact += [hockey_stick(p, q, epsilon * d), hockey_stick(q, p, epsilon * d)]
    rounds = [Round(spec, Setting(users, users, Adjacency.METRIC)) for spec in specs]
    certified = compose_delta(rounds, epsilon)
    assert certified >= max(exact)
    if max(exact) > 1e-6:
        assert compose_epsilon(rounds, max(exact)) >= epsilon * (1 - 1e-9)


def test_many_rounds_agree_with_another_library_where_clamping_is_negligible() -> None:
    spec, users, distance, times = (
        GeoShuffle(max_value=6, epsilon_geo=Fraction(3, 5), padding=200),
        6,
        6,
        10,
    )
    law = repeated(share(1, 0.6), users)
    middle = law[law.size // 2 - 150 : law.size // 2 + 151]
    near, far = shifted(middle / middle.sum(), distance, middle.size + distance)
    keep = (near > 0) & (far > 0)
    masses = [
        {i: float(v) for i, v in enumerate(side[keep] / side[keep].sum())} for side in (near, far)
    ]
    found = compose_epsilon([Round(spec, Setting(users, users, Adjacency.METRIC), times)], 1e-5)
    for pessimistic in (False, True):
        loss = privacy_loss_distribution.from_two_probability_mass_functions(
            {k: math.log(v) for k, v in masses[1].items()},
            {k: math.log(v) for k, v in masses[0].items()},
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-3,
        )
        other = loss.self_compose(times).get_epsilon_for_delta(1e-5) / distance
        if pessimistic:
            assert found <= other * 1.005
        else:
            assert found >= other * (1 - 1e-6)


def test_padding_that_costs_more_than_delta_leaves_the_local_guarantee() -> None:
    spec = SGDLShuffle(max_value=50, noise_epsilon=Fraction(1, 10), shares=10, padding=3)
    setting = Setting(10, 10, Adjacency.METRIC)
    alone = corrupted_bounds(spec, setting, 0.0).epsilon
    assert compose_epsilon([Round(spec, setting, 2)], 1e-6) == pytest.approx(2 * alone, rel=1e-9)


def test_rounds_of_other_kinds_still_compose_under_metric_adjacency() -> None:
    setting = Setting(50, 50, Adjacency.METRIC)
    mixed = [Round(GEO, setting), Round(KRRHistogram(symbols=5, blanket=Fraction(1, 2)), setting)]
    assert compose_epsilon(mixed, 1e-5) >= epsilon_bounds(GEO, setting, 1e-5).attained
