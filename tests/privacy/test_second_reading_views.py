"""Second reading of C18 to C20 and of drawn users: exact laws of small rounds, over every dataset
and in both orders.

Only enumeration here: mechanisms of several distances, rounds that repeat, groups whose reports
move apart."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

import shuffledp as sdp
from shuffledp_core.mechanisms import HadamardHistogram, KRRHistogram, OneBitShuffle
from shuffledp_privacy import views
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.rounds.composition import Round
from shuffledp_privacy.rounds.filters import DeltaCurve

Law = dict[tuple[int, ...], Fraction]
Pair = tuple[Law, Law]
Floats = NDArray[np.float64]

HONEST = 3
ALL = Setting(HONEST, HONEST)

BITS = OneBitShuffle(max_value=2, randomise=Fraction(1, 3))
SYMBOLS = KRRHistogram(symbols=3, blanket=Fraction(2, 5))
HALVES = HadamardHistogram(symbols=3, blanket=Fraction(1, 2))
SPECS = {"bits": BITS, "symbols": SYMBOLS, "halves": HALVES}


def chances(name: str, value: int) -> list[Fraction]:
    """One user's report, from the definitions."""
    if name == "bits":
        one = Fraction(1, 6) + Fraction(2, 3) * Fraction(value, 2)
        return [1 - one, one]
    if name == "symbols":
        return [Fraction(2, 15) + (Fraction(3, 5) if value == x else 0) for x in range(3)]
    return [
        Fraction(1, 8) + (Fraction(1, 4) if ((value + 1) & y).bit_count() % 2 == 0 else 0)
        for y in range(4)
    ]


@cache
def law(name: str, values: tuple[int, ...]) -> Law:
    found: Law = {}
    for reports in itertools.product(range(len(chances(name, 0))), repeat=len(values)):
        chance = math.prod(
            (chances(name, v)[r] for v, r in zip(values, reports, strict=True)), start=Fraction(1)
        )
        key = tuple(sorted(reports))
        found[key] = found.get(key, Fraction(0)) + chance
    return found


def neighbours(name: str, size: int = 1, honest: int = HONEST) -> list[Pair]:
    """The laws of all ordered pairs of datasets that differ in `size` reports at most."""
    found = []
    for rest in itertools.combinations_with_replacement(range(3), honest - size):
        for one, two in itertools.permutations(
            itertools.combinations_with_replacement(range(3), size), 2
        ):
            found.append((law(name, one + rest), law(name, two + rest)))
    return found


def hockey_stick(p: Law, q: Law, growth: Fraction) -> Fraction:
    return sum(
        (max(Fraction(0), chance - growth * q.get(at, Fraction(0))) for at, chance in p.items()),
        Fraction(0),
    )


def twice(one: Law) -> Law:
    return {a + b: p * q for (a, p), (b, q) in itertools.product(one.items(), one.items())}


def renyi(p: Law, q: Law, order: float) -> float:
    if order == math.inf:
        return max(math.log(p[at] / q[at]) for at in p)
    floats = [
        (mpmath.mpf(p[at].numerator) / p[at].denominator, q[at].numerator, q[at].denominator)
        for at in p
    ]
    pairs = [(a, mpmath.mpf(n) / d) for a, n, d in floats]
    if order == 1:
        return float(mpmath.fsum(a * mpmath.log(a / b) for a, b in pairs))
    power = mpmath.mpf(order)
    return float(
        mpmath.log(mpmath.fsum(a**power * b ** (1 - power) for a, b in pairs)) / (power - 1)
    )


ORDERS = [1.0, 1.0 + 1e-9, 1.1, 2.0, 2.0 + 1e-9, 3.5, 20.0, 300.0, 9999.0, math.inf]


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("rounds", [1, 2])
def test_no_dataset_s_renyi_divergence_is_above_the_view(name: str, rounds: int) -> None:
    found = sdp.renyi(SPECS[name], ALL, ORDERS, rounds=rounds).columns["divergence"]
    with mpmath.workdps(60):
        for order, stated in zip(ORDERS, found.tolist(), strict=True):
            truth = max(renyi(p, q, order) for p, q in neighbours(name))
            # Independent rounds add up exactly.
            assert rounds * truth <= stated * (1 + 1e-12)
            assert stated <= 3 * rounds * truth


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 2.5, 40.0, 1000.0])
@pytest.mark.parametrize("nodes", [3, 5, 30])
def test_a_coarse_table_s_renyi_divergence_is_above_that_of_a_pair_below_it(
    alpha: float, nodes: int
) -> None:
    """Randomised response of ε0 = 2 has the chord from (1, δ) to (e^2, 0) for its curve, and few
    nodes are above it."""
    true = mpmath.e**2 / (1 + mpmath.e**2)
    excess = np.linspace(0.0, math.expm1(2.0), nodes)
    deltas = float(2 * true - 1) * (1 - excess / excess[-1])
    stated = views.renyi_divergence(DeltaCurve(excess, deltas), alpha)
    if alpha == 1:
        exact = (2 * true - 1) * 2
    else:
        moment = true ** mpmath.mpf(alpha) * (1 - true) ** (1 - mpmath.mpf(alpha))
        moment += (1 - true) ** mpmath.mpf(alpha) * true ** (1 - mpmath.mpf(alpha))
        exact = mpmath.log(moment) / (mpmath.mpf(alpha) - 1)
    assert float(exact) * (1 - 1e-12) <= stated <= 2.0 * (1 + 1e-9)


def best_tests(p: Law, q: Law) -> list[tuple[float, float]]:
    """False positives and negatives of Neyman and Pearson's tests, each one's corner."""
    order = sorted(p, key=lambda at: q[at] / p[at], reverse=True)
    found, alpha, beta = [(0.0, 1.0)], Fraction(0), Fraction(1)
    for at in order:
        alpha, beta = alpha + p[at], beta - q[at]
        found.append((float(alpha), float(beta)))
    return found


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("rounds", [1, 2])
def test_no_test_errs_less_often_than_either_view_says(name: str, rounds: int) -> None:
    leak = 1e-3
    plan = sdp.trade_off(SPECS[name], ALL, np.linspace(0, 1, 33), delta=leak, rounds=rounds)
    low, mu = plan.columns["false_negative"], plan.numbers["mu_certified"]
    assert mu is not None
    pairs = neighbours(name)
    if rounds == 2:
        pairs = [(twice(p), twice(q)) for p, q in pairs[::3]]
    least = np.ones(33)
    for p, q in pairs:
        corners = np.array(best_tests(p, q))
        exact = np.interp(plan.columns["false_positive"], corners[:, 0], corners[:, 1])
        assert np.all(low <= exact + 1e-12)
        least = np.minimum(least, exact)
        # With chance `leak` all is shown; else no test is better than against a shift by μ.
        for alpha, beta in corners[1:-1].tolist():
            inner = min(alpha / (1 - leak), 1.0)
            shown = (
                (1 - leak) * float(mpmath.ncdf(gaussian_quantile(1 - inner) - mu))
                if inner < 1
                else 0.0
            )
            assert shown <= beta + 1e-9
    if rounds == 1 and name != "halves":
        assert np.all(least[1:-1] <= low[1:-1] * 1.5 + 0.02)


def gaussian_quantile(chance: float) -> mpmath.mpf:
    return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(chance) - 1)


@pytest.mark.parametrize("name", SPECS)
def test_no_smaller_shift_than_the_attained_one_does(name: str) -> None:
    """Some dataset breaks each Gaussian guarantee below it."""
    leak = 1e-3
    numbers = sdp.trade_off(SPECS[name], ALL, [0.5], delta=leak).numbers
    attained, certified = numbers["mu_attained"], numbers["mu_certified"]
    assert attained is not None
    assert certified is not None
    assert 0 < attained <= certified
    smaller = attained * (1 - 1e-6)
    broken = 0.0
    # Enough to look between e^0 and the pure ε: one point of the curve decides (C19).
    pairs = neighbours(name)
    for epsilon in np.linspace(0.0, 2.5, 60).tolist():
        growth = mpmath.exp(epsilon)
        gaussian = mpmath.ncdf(smaller / 2 - epsilon / smaller) - growth * mpmath.ncdf(
            -smaller / 2 - epsilon / smaller
        )
        truth = max(hockey_stick(p, q, Fraction(math.exp(epsilon))) for p, q in pairs)
        broken = max(broken, float(truth) - float(leak + (1 - leak) * gaussian))
    assert broken > -1e-6


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("size", [2, 3])
def test_a_group_covers_every_change_of_its_reports(name: str, size: int) -> None:
    """Also reports that move different ways, or not at all; and the δ that the stated ε is for."""
    table = views.group_table(views.table_of(Round(SPECS[name], ALL)), size)
    pairs = neighbours(name, size)
    for epsilon in (0.0, 0.2, 0.9, 2.0, 3.5):
        truth = max(hockey_stick(p, q, Fraction(math.exp(epsilon))) for p, q in pairs)
        assert float(truth) <= table.delta(epsilon) + 1e-14
    for delta in (0.3, 1e-2, 1e-6):
        stated = sdp.group(SPECS[name], size, ALL, delta=delta).numbers["epsilon"]
        assert stated is not None
        truth = max(hockey_stick(p, q, Fraction(math.exp(stated))) for p, q in pairs)
        assert float(truth) <= delta * (1 + 1e-9)


def test_a_group_in_two_rounds_covers_both() -> None:
    for delta in (0.2, 1e-4):
        stated = sdp.group(BITS, 2, ALL, delta=delta, rounds=2).numbers["epsilon"]
        assert stated is not None
        for p, q in neighbours("bits", 2):
            assert float(hockey_stick(twice(p), twice(q), Fraction(math.exp(stated)))) <= delta * (
                1 + 1e-9
            )


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("blanket", [Fraction(1, 10), Fraction(1, 2)])
def test_a_group_in_a_crowd_is_covered_with_little_to_spare(size: int, blanket: Fraction) -> None:
    """Sixty coins, where a group's divergence is near its bound: a factor that is left out would
    show."""
    honest = 60
    flip = float(blanket) / 2
    single = views.table_of(
        Round(KRRHistogram(symbols=2, blanket=blanket), Setting(honest, honest))
    )
    table = views.group_table(single, size)
    ratios = []
    for epsilon in np.linspace(0.0, 0.9 * size * math.log((1 - flip) / flip), 12).tolist():
        truth = 0.0
        for ones in range(0, honest - size + 1, 2):
            rest = np.convolve(binomial(ones, 1 - flip), binomial(honest - size - ones, flip))
            p, q = (np.convolve(rest, binomial(size, chance)) for chance in (flip, 1 - flip))
            truth = max(truth, sticks(p, q, math.exp(epsilon)), sticks(q, p, math.exp(epsilon)))
        stated = table.delta(epsilon)
        assert truth <= stated * (1 + 1e-9) + 1e-13
        if 1e-9 < truth < 0.5:
            ratios.append(stated / truth)
    assert 1 <= min(ratios) <= 1.3


def binomial(users: int, chance: float) -> Floats:
    found = np.ones(1)
    for _ in range(users):
        found = np.convolve(found, [1 - chance, chance])
    return found


def sticks(p: Floats, q: Floats, growth: float) -> float:
    return float(np.maximum(p - growth * q, 0.0).sum())


@pytest.mark.parametrize("name", ["bits", "symbols"])
@pytest.mark.parametrize("delta", [0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("rounds", [1, 2])
def test_drawn_users_are_covered_for_every_dataset(name: str, delta: float, rounds: int) -> None:
    """Two of four are drawn, unseen; the other three hold anything."""
    stated = sdp.subsampled(
        SPECS[name], Fraction(1, 2), Setting(2, 2), delta=delta, rounds=rounds
    ).numbers["epsilon"]
    assert stated is not None
    growth = Fraction(math.exp(stated))
    for rest in itertools.combinations_with_replacement(range(3), 3):
        for one, two in itertools.permutations(range(3), 2):
            p, q = drawn(name, (one, *rest)), drawn(name, (two, *rest))
            if rounds == 2:
                p, q = twice(p), twice(q)
            assert float(hockey_stick(p, q, growth)) <= delta * (1 + 1e-9)


@cache
def drawn(name: str, values: tuple[int, ...]) -> Law:
    found: Law = {}
    for chosen in itertools.combinations(values, 2):
        for at, p in law(name, tuple(sorted(chosen))).items():
            found[at] = found.get(at, Fraction(0)) + p / 6
    return found
