"""Privacy filters: no analyst who chooses rounds by results gets past them, and what they cost is
about what it must.

The rounds here are small discrete pairs whose curves are exact, and the worst analyst is found by
trying everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, Mechanism
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.adaptive import spent_adaptively
from shuffledp_privacy.analysis import Cost, compose_costs
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.rounds.filters import (
    DeltaCurve,
    Filters,
    Price,
    gaussian_cost,
    gaussian_epsilon,
    pure_cost,
)
from shuffledp_privacy.tabulated import TABLES

EPSILONS = np.linspace(0.0, 6.0, 1201)


@dataclass(frozen=True, eq=False)
class Pair:
    """Laws of one round's result under two neighbours."""

    p: NDArray[np.float64]
    q: NDArray[np.float64]

    def divergences(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        u = np.exp(epsilons)[:, np.newaxis]
        one, other = (
            np.maximum(a - u * b, 0).sum(axis=1) for a, b in ((self.p, self.q), (self.q, self.p))
        )
        return np.asarray(np.maximum(one, other))

    def divergence(self, u: float) -> float:
        return float(self.divergences(np.log([u]))[0])

    @property
    def curve(self) -> DeltaCurve:
        return DeltaCurve(np.expm1(EPSILONS), self.divergences(EPSILONS))


def response(epsilon: float, leak: float = 0.0) -> Pair:
    """Randomised response that with chance `leak` shows everything."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    kept = 1 - leak
    return Pair(
        np.array([kept * truth, kept * (1 - truth), leak, 0.0]),
        np.array([kept * (1 - truth), kept * truth, 0.0, leak]),
    )


def count(others: int, epsilon: float) -> Pair:
    """The shuffled bits of users with ε each: how many say 1, all others hold 0, one user holds 1
    or 0."""
    lie = 1 / (1 + math.exp(epsilon))
    rest = binom.pmf(np.arange(others + 1), others, lie)
    p = (1 - lie) * np.append(0.0, rest) + lie * np.append(rest, 0.0)
    q = lie * np.append(0.0, rest) + (1 - lie) * np.append(rest, 0.0)
    return Pair(p, q)


Admits = Callable[[tuple[int, ...]], bool]


def worst(
    menu: Sequence[Pair], admits: Admits, u: float, rounds: int, so_far: tuple[int, ...] = ()
) -> float:
    """The largest divergence an analyst reaches who chooses each next round, or to stop, by the
    results so far."""
    best = max(0.0, 1.0 - u)
    if rounds == 0 or not math.isfinite(u):
        return best
    for choice, pair in enumerate(menu):
        chosen = tuple(sorted((*so_far, choice)))
        if not admits(chosen):
            continue
        total = 0.0
        for p, q in zip(pair.p, pair.q, strict=True):
            if p > 0:
                total += p * (worst(menu, admits, u * q / p, rounds - 1, chosen) if q > 0 else 1.0)
        best = max(best, total)
    return best


def test_to_admit_what_composes_to_less_than_the_budget_is_no_filter() -> None:
    """An answer, then the same again or a leaky round by what it was: each path fits, the choice
    does not."""
    first, epsilon = response(1.0), 1.5
    delta = Pair(np.outer(first.p, first.p).ravel(), np.outer(first.q, first.q).ravel()).divergence(
        math.exp(epsilon)
    )
    leaky = Pair(np.array([1 - delta, delta, 0.0]), np.array([1 - delta, 0.0, delta]))
    menu = [first, leaky]

    def composes(chosen: tuple[int, ...]) -> bool:
        p, q = np.ones(1), np.ones(1)
        for one in chosen:
            p, q = np.outer(p, menu[one].p).ravel(), np.outer(q, menu[one].q).ravel()
        return Pair(p, q).divergence(math.exp(epsilon)) <= delta * (1 + 1e-9)

    reached = worst(menu, composes, math.exp(epsilon), 2)
    assert reached > 1.25 * delta
    filters = Filters.of(epsilon, delta)
    prices = [filters.price(pair.curve) for pair in menu]
    assert (
        worst(
            menu,
            lambda chosen: admitted(filters, (epsilon, delta), prices, menu, chosen),
            math.exp(epsilon),
            2,
        )
        <= delta
    )


def admitted(
    filters: Filters,
    budget: tuple[float, float],
    prices: Sequence[Price],
    menu: Sequence[Pair],
    chosen: tuple[int, ...],
) -> bool:
    """The rule of `adaptive`: a filter has room for all, or it is the only round and fits
    exactly."""
    epsilon, delta = budget
    total = Price(0.0, 0.0)
    for one in chosen:
        total += prices[one]
    if filters.spent_epsilon(total)[0] <= epsilon:
        return True
    return len(chosen) == 1 and menu[chosen[0]].divergence(math.exp(epsilon)) <= delta


MENUS = [
    ([response(0.3), response(0.15, 0.004), count(3, 1.0)], 0.9, 0.05),
    ([response(0.6), response(1.0), count(5, 1.5)], 3.0, 0.12),
    ([count(3, 0.5), count(6, 0.7), response(0.1, 0.01)], 0.5, 0.1),
]


@pytest.mark.parametrize(("menu", "epsilon", "delta"), MENUS)
def test_no_adaptive_analyst_gets_past_the_filters(
    menu: list[Pair], epsilon: float, delta: float
) -> None:
    filters = Filters.of(epsilon, delta)
    prices = [filters.price(pair.curve) for pair in menu]
    allowed: set[tuple[int, ...]] = set()

    def admits(chosen: tuple[int, ...]) -> bool:
        right = admitted(filters, (epsilon, delta), prices, menu, chosen)
        if right:
            allowed.add(chosen)
        return right

    reached = worst(menu, admits, math.exp(epsilon), 3)
    turned = worst([Pair(pair.q, pair.p) for pair in menu], admits, math.exp(epsilon), 3)
    assert max(reached, turned) <= delta
    assert any(len(chosen) > 2 for chosen in allowed)  # there was something to choose


@pytest.mark.parametrize(
    "pair", [response(0.4), response(0.2, 0.01), count(8, 1.0), count(40, 2.0)]
)
def test_a_gaussian_cost_is_nowhere_below_the_curve_and_little_less_would_be(pair: Pair) -> None:
    leak = 0.05
    s = gaussian_cost(pair.curve, leak)

    finer = np.linspace(0.0, 5.0, 3337)

    def least_room(width: float) -> float:
        mu, leaked = math.sqrt(width), leak * width
        exact = norm.cdf(mu / 2 - finer / mu) - np.exp(finer + norm.logcdf(-mu / 2 - finer / mu))
        return float(np.min(leaked + (1 - leaked) * exact - pair.divergences(finer)))

    assert least_room(s) >= -1e-12
    assert least_room(0.98 * s) < 0


@pytest.mark.parametrize("s", [1e-3, 0.04, 1.0, 25.0])
def test_a_gaussian_mechanism_costs_its_own_variance(s: float) -> None:
    mu = math.sqrt(s)
    epsilons = np.linspace(0.0, s / 2 + 9 * mu, 800)
    deltas = norm.cdf(mu / 2 - epsilons / mu) - np.exp(
        epsilons + norm.logcdf(-mu / 2 - epsilons / mu)
    )
    cost = gaussian_cost(
        DeltaCurve(np.expm1(epsilons) * (1 + 2.0**-50), np.maximum(deltas, 0.0)), 1e-9 / s
    )
    assert s * (1 - 1e-9) <= cost <= 1.01 * s
    # and two of them are one of twice the variance, whose ε is the known closed form's
    epsilon = gaussian_epsilon(2 * s, 0.0, 1e-6)
    width = math.sqrt(2 * s)
    there = norm.cdf(width / 2 - epsilon / width) - math.exp(
        epsilon + norm.logcdf(-width / 2 - epsilon / width)
    )
    assert there == pytest.approx(1e-6, rel=1e-6)


def test_a_pure_round_costs_its_epsilon_and_a_leak_its_share() -> None:
    assert pure_cost(response(0.7).curve, 1e-12) == pytest.approx(0.7, abs=0.006)
    assert pure_cost(response(0.7).curve, 1e-12) >= 0.7 * (1 - 1e-9)
    leaky = DeltaCurve(np.array([0.0, 1.0]), np.array([1e-3, 1e-3]))
    assert pure_cost(leaky, 1e-3) == pytest.approx(1.0, rel=1e-9)
    assert gaussian_cost(leaky, 1e-3) == pytest.approx(1.0, rel=1e-9)


def test_a_round_that_shows_nothing_costs_nothing_and_one_that_shows_all_is_never_admitted() -> (
    None
):
    filters = Filters.of(1.0, 1e-6)
    nothing = DeltaCurve(np.array([0.0, 1.0]), np.zeros(2))
    everything = DeltaCurve(np.array([0.0, 1.0]), np.ones(2))
    assert filters.spent_epsilon(filters.price(nothing).times(10**6))[0] == 0.0
    assert filters.spent_epsilon(filters.price(everything))[0] > 1.0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1)]
)
def test_a_budget_outside_its_range_has_no_filter(epsilon: float, delta: float) -> None:
    with pytest.raises(UsageError):
        Filters.of(epsilon, delta)


HISTOGRAM = KRRHistogram(symbols=4, blanket=Fraction(1, 2))
SUM = GeoShuffle(max_value=6, epsilon_geo=Fraction(1, 2), padding=60)


def cost(
    mechanism: Mechanism = HISTOGRAM, honest: int = 200, adjacency: Adjacency = Adjacency.STANDARD
) -> Cost:
    return Cost(mechanism, Setting(honest, honest, adjacency, mechanism.domain - 1), 1e-8)


@pytest.mark.parametrize("rounds", [1, 2, 8])
def test_the_price_of_choosing_as_one_goes_is_below_a_tenth_and_never_negative(rounds: int) -> None:
    fixed = compose_costs({cost(): rounds}, Adjacency.STANDARD, 1e-6).certified
    assert (
        spent_adaptively({cost(): rounds}, Adjacency.STANDARD, 1.1 * fixed, 1e-6).certified
        <= 1.1 * fixed
    )
    if rounds > 1:
        assert spent_adaptively({cost(): rounds}, Adjacency.STANDARD, fixed, 1e-6).certified > fixed


def test_the_only_round_costs_exactly_what_it_costs_alone() -> None:
    exact = compose_costs([cost()], Adjacency.STANDARD, 1e-6).certified
    assert spent_adaptively([cost()], Adjacency.STANDARD, exact, 1e-6).certified == exact
    assert spent_adaptively([], Adjacency.STANDARD, 1.0, 1e-6).certified == 0.0


def test_under_metric_adjacency_every_distance_is_covered() -> None:
    rounds, epsilon, delta = 3, 0.2, 1e-5
    total = spent_adaptively(
        {cost(SUM, 300, Adjacency.METRIC): rounds}, Adjacency.METRIC, epsilon, delta
    ).certified
    each = []
    for distance in range(1, SUM.domain):
        filters = Filters.of(epsilon * distance, delta)
        price = filters.price(TABLES.of(SUM, Setting(300, 300, Adjacency.METRIC), distance))
        each.append(filters.spent_epsilon(price.times(rounds))[0] / distance)
    assert max(each) <= total <= 1.02 * max(each)
    assert math.isfinite(total)
