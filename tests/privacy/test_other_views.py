"""Rényi divergence, trade-off function, Gaussian shift and groups of reports, against closed forms
and enumeration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy import views
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.central import gaussian_delta
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean
from shuffledp_privacy.rounds.composition import Round
from shuffledp_privacy.rounds.filters import DeltaCurve

ORDERS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 8.0, 64.0)
ALONE = Setting(users=1, honest=1)
LAPLACE = views.table_of(Round(LaplaceMean(epsilon=1.5, max_value=1), ALONE))
RESPONSE = views.table_of(Round(OneBitMean(epsilon=1.5, max_value=1), ALONE))


def gaussian(mu: float, last: float = 0.0, nodes: int = 3000) -> DeltaCurve:
    """The exact curve of a Gaussian mechanism; from ε = 37 μ on it is taken for `last`."""
    epsilons = np.linspace(0.0, 37 * mu, nodes)
    deltas = np.array([gaussian_delta(1 / mu, 1.0, epsilon) for epsilon in epsilons.tolist()])
    deltas[-1] = last
    return DeltaCurve(np.expm1(epsilons), deltas)


def renyi(p: list[mpmath.mpf], q: list[mpmath.mpf], order: float) -> float:
    if order == 1:
        return float(sum(a * mpmath.log(a / b) for a, b in zip(p, q, strict=True)))
    moment = sum(a * (a / b) ** (mpmath.mpf(order) - 1) for a, b in zip(p, q, strict=True))
    return float(mpmath.log(moment) / (order - 1))


def hockey_stick(p: list[mpmath.mpf], q: list[mpmath.mpf], epsilon: float) -> float:
    return float(
        sum(max(a - mpmath.e**epsilon * b, mpmath.mpf(0)) for a, b in zip(p, q, strict=True))
    )


def histogram_law(spec: KRRHistogram, values: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The law of a small round's histogram, added up over all its reports."""
    other = spec.blanket / spec.symbols
    law: dict[tuple[int, ...], Fraction] = {}
    for reports in itertools.product(range(spec.symbols), repeat=len(values)):
        chance = Fraction(1)
        for value, report in zip(values, reports, strict=True):
            chance *= other + (1 - spec.blanket if value == report else 0)
        key = tuple(reports.count(symbol) for symbol in range(spec.symbols))
        law[key] = law.get(key, Fraction(0)) + chance
    return law


def pair(
    spec: KRRHistogram, one: tuple[int, ...], two: tuple[int, ...]
) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    p, q = histogram_law(spec, one), histogram_law(spec, two)
    keys = sorted(p)
    laws = ([law[key] for key in keys] for law in (p, q))
    first, second = ([mpmath.mpf(x.numerator) / x.denominator for x in law] for law in laws)
    return first, second


SMALL = KRRHistogram(symbols=3, blanket=Fraction(1, 2))


@cache
def pairs() -> list[tuple[list[mpmath.mpf], list[mpmath.mpf]]]:
    """All neighbouring datasets of four users, up to names of symbols."""
    return [
        pair(SMALL, (first, *others), (second, *others))
        for first, second in ((0, 1), (1, 2))
        for others in itertools.product(range(3), repeat=3)
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_the_renyi_divergence_of_laplace_noise_is_its_closed_form(order: float) -> None:
    # A report's noise has scale m/ε: Mironov 2017, Table II; order 1 is its limit.
    shift = 1.5
    if order == 1:
        exact = shift + math.expm1(-shift)
    else:
        share = order / (2 * order - 1)
        exact = float(
            mpmath.log(
                share * mpmath.exp((order - 1) * shift) + (1 - share) * mpmath.exp(-order * shift)
            )
            / (order - 1)
        )
    found = views.renyi_divergence(LAPLACE, order)
    assert exact <= found <= exact * 1.002


@pytest.mark.parametrize("order", ORDERS)
def test_the_renyi_divergence_of_randomised_response_is_its_closed_form(order: float) -> None:
    true = mpmath.e**1.5 / (mpmath.e**1.5 + 1)
    exact = renyi([true, 1 - true], [1 - true, true], order)
    assert exact * (1 - 1e-12) <= views.renyi_divergence(RESPONSE, order) <= exact * 1.002


@pytest.mark.parametrize("order", [order for order in ORDERS if order < 20])
def test_the_renyi_divergence_of_gaussian_noise_is_its_closed_form(order: float) -> None:
    # What lies beyond 37 standard deviations is below 1e-250 for these orders.
    exact = order * 0.5**2 / 2
    assert exact * (1 - 1e-9) <= views.renyi_divergence(gaussian(0.5), order) <= exact * 1.002


@pytest.mark.parametrize("order", ORDERS)
def test_the_renyi_divergence_covers_every_dataset_of_a_small_round(order: float) -> None:
    table = views.table_of(Round(SMALL, Setting(users=4, honest=4)))
    found = views.renyi_divergence(table, order)
    worst = max(max(renyi(p, q, order), renyi(q, p, order)) for p, q in pairs())
    assert worst <= found <= 1.5 * worst


def test_the_renyi_divergence_rises_with_its_order_to_the_pure_epsilon_and_without_one_is_infinite() -> (  # noqa: E501
    None
):
    found = [views.renyi_divergence(LAPLACE, order) for order in (*ORDERS, 1e4, math.inf)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(1.5, rel=1e-9)
    assert views.renyi_divergence(gaussian(0.5, last=1e-12), 2.0) == math.inf
    for order in (0.5, 1e5, math.nan):
        with pytest.raises(UsageError, match="order must be from 1"):
            views.renyi_divergence(LAPLACE, order)


def test_the_trade_off_of_gaussian_noise_is_its_closed_form_from_below() -> None:
    alphas = np.linspace(0.0, 1.0, 41)
    exact = [
        float(mpmath.ncdf(-mpmath.sqrt(2) * mpmath.erfinv(2 * a - 1) - 1))
        for a in alphas[1:-1].tolist()
    ]
    found = views.trade_off_bound(gaussian(1.0), alphas)
    assert found[0] <= 1
    assert found[-1] == 0
    assert np.all(found[1:-1] <= np.array(exact) * (1 + 1e-9))
    assert np.all(found[1:-1] >= np.array(exact) * 0.999)
    with pytest.raises(UsageError, match="from 0 to 1"):
        views.trade_off_bound(gaussian(1.0), np.array([1.5]))


def test_no_test_of_a_small_round_errs_less_often_than_the_trade_off_says() -> None:
    table = views.table_of(Round(SMALL, Setting(users=4, honest=4)))
    for p, q in pairs():
        # Neyman and Pearson: the best tests reject the outcomes of largest ratio first.
        ordered = sorted(zip(p, q, strict=True), key=lambda both: both[1] / both[0], reverse=True)
        alphas = np.minimum(np.cumsum([float(a) for a, _ in ordered]), 1.0)
        betas = 1 - np.cumsum([float(b) for _, b in ordered])
        assert np.all(views.trade_off_bound(table, alphas) <= betas + 1e-12)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_noise_is_the_gaussian_mechanism_that_it_is(mu: float) -> None:
    # A leak takes the place of the far tail, where the chords of the table are coarse.
    found = views.gaussian_shift(gaussian(mu), 1e-9)
    assert mu * (1 - 1e-4) <= found <= 1.01 * mu
    assert views.gaussian_shift(gaussian(mu), 0.0) >= mu
    attained = views.gaussian_shift_attained(1.0, gaussian_delta(1 / mu, 1.0, 1.0), 0.0)
    assert mu * (1 - 1e-4) <= attained <= mu


@pytest.mark.parametrize("leak", [0.0, 1e-6])
def test_the_gaussian_mechanism_is_nowhere_better_than_the_round(leak: float) -> None:
    table = views.table_of(Round(SMALL, Setting(users=200, honest=200)))
    mu = views.gaussian_shift(table, leak)
    assert 0 < mu < math.inf
    slopes, intercepts = table.lines()
    for excess in table.excess[::7].tolist():
        leaky = leak + (1 - leak) * gaussian_delta(1 / mu, 1.0, math.log1p(excess))
        # The table's own curve: everything under all of its lines (C3).
        assert float(np.max(intercepts - slopes * (1 + excess))) <= leaky * (1 + 1e-6) + 1e-14


def test_without_a_guarantee_no_gaussian_mechanism_is_as_bad() -> None:
    assert views.gaussian_shift(gaussian(0.5, last=1e-12), 0.0) == math.inf
    assert views.gaussian_shift(DeltaCurve(np.array([0.0, 1.0]), np.zeros(2)), 0.0) == 0.0
    with pytest.raises(UsageError, match="leak"):
        views.gaussian_shift(LAPLACE, 1.0)


@pytest.mark.parametrize("size", [2, 3])
def test_a_group_of_reports_is_covered_for_every_dataset_of_a_small_round(size: int) -> None:
    table = views.group_table(views.table_of(Round(SMALL, Setting(users=4, honest=4))), size)
    for other in itertools.product(range(3), repeat=4 - size):
        p, q = pair(SMALL, (0,) * size + other, (1,) * size + other)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= table.delta(
                epsilon
            )


def test_a_group_under_gaussian_noise_is_a_shift_as_many_times_as_large() -> None:
    table = views.group_table(gaussian(0.25, nodes=500), 3)
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        exact = gaussian_delta(4 / 3, 1.0, epsilon)
        assert exact <= table.delta(epsilon) <= 1.05 * exact


def test_a_group_never_costs_more_than_equal_parts_and_one_report_is_no_group() -> None:
    assert views.group_table(LAPLACE, 1) is LAPLACE
    table = views.group_table(LAPLACE, 3)
    for part in (0.1, 0.7, 1.4):
        equal = LAPLACE.delta(part) * (1 + math.exp(part) + math.exp(2 * part))
        assert table.delta(3 * part) <= equal * 1.02
    assert table.delta(4.5 * (1 + 1e-9)) == 0
    for size in (0, 101):
        with pytest.raises(UsageError, match="1 to 100 reports"):
            views.group_table(LAPLACE, size)


def test_repeated_rounds_are_composed_and_metric_adjacency_is_refused() -> None:
    setting = Setting(users=200, honest=200)
    once, thrice = (views.table_of(Round(SMALL, setting, times)) for times in (1, 3))
    assert once.delta(0.5) < thrice.delta(0.5) < 1
    assert thrice.deltas[-1] == 0
    with pytest.raises(UsageError, match="standard adjacency"):
        views.table_of(Round(SMALL, Setting(9, 9, Adjacency.METRIC)))
