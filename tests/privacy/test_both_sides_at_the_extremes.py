"""Attained <= truth <= certified where little is left of δ, against 60 digits: few users, large ε0,
ε next to ε0."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, RRShuffle, SGDLShuffle
from shuffledp_privacy.bounds import Setting, certified_curve, delta_bounds, epsilon_bounds
from shuffledp_privacy.histogram.krr import epsilon0_to_blanket
from shuffledp_privacy.local.clones import LocalRandomiser
from shuffledp_privacy.local.lecture import LaplaceMean, OneBitMean
from shuffledp_privacy.local.rappor import RapporPermanent

Numbers = list[mpmath.mpf]
LOCAL_ONLY = 20.0
"""ε0 beyond which nothing is claimed to be amplified."""


def krr(symbols: int, epsilon0: float) -> KRRHistogram:
    with mpmath.workdps(60):
        blanket = symbols / (mpmath.exp(mpmath.mpf(epsilon0)) + symbols - 1)
        return KRRHistogram(symbols=symbols, blanket=Fraction(int(blanket * 2**62) + 1, 2**62))


def exactly(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def chances(spec: KRRHistogram) -> tuple[mpmath.mpf, mpmath.mpf]:
    """p and q."""
    q = spec.blanket / spec.symbols
    return exactly(1 - spec.blanket + q), exactly(q)


def plus_one(law: Numbers, chance: mpmath.mpf) -> Numbers:
    grown = [mass * (1 - chance) for mass in law] + [mpmath.mpf(0)]
    for index, mass in enumerate(law):
        grown[index + 1] += mass * chance
    return grown


@lru_cache(maxsize=64)
def other_reports(p: mpmath.mpf, q: mpmath.mpf, others: int) -> list[Numbers]:
    """For each number of the others at x0: the law of how many of their reports are x0, k = 2."""
    laws, start = [], [mpmath.mpf(1)]
    for at_x0 in range(others + 1):
        law = start
        for _ in range(others - at_x0):
            law = plus_one(law, q)
        laws.append(law)
        start = plus_one(start, p)
    return laws


def positive(first: Numbers, second: Numbers, epsilon: float) -> mpmath.mpf:
    growth = mpmath.exp(mpmath.mpf(epsilon))
    return mpmath.fsum(a - growth * b for a, b in zip(first, second, strict=True) if a > growth * b)


def binary_truth(spec: KRRHistogram, honest: int, epsilon: float) -> mpmath.mpf:
    """δ over all datasets of 2-RR: the histogram is a sum, and all compositions of the others are
    tried."""
    p, q = chances(spec)
    return max(
        positive(plus_one(law, p), plus_one(law, q), epsilon)
        for law in other_reports(p, q, honest - 1)
    )


def third_symbol(spec: KRRHistogram, honest: int, epsilon: float) -> mpmath.mpf:
    """δ of the dataset whose others all hold one third symbol.

    The symbols after it count together.
    """
    p, q = chances(spec)
    laws: list[dict[tuple[int, int, int, int], mpmath.mpf]] = [{(0, 0, 0, 0): mpmath.mpf(1)}]
    rest = (spec.symbols - 3) * q
    for user in range(honest):
        last = user == honest - 1
        grown = []
        for shares in [(p, q, q, rest), (q, p, q, rest)] if last else [(q, q, p, rest)]:
            law: dict[tuple[int, int, int, int], mpmath.mpf] = {}
            for counts, mass in laws[0].items():
                for place, share in enumerate(shares):
                    after = tuple(count + (index == place) for index, count in enumerate(counts))
                    law[after] = law.get(after, mpmath.mpf(0)) + mass * share  # type: ignore[index, arg-type]
            grown.append(law)
        laws = grown
    first, second = laws
    return positive(list(first.values()), [second[counts] for counts in first], epsilon)


def ternary(epsilon0: float, honest: int, epsilon: float) -> mpmath.mpf:
    """δ of 3-RR where all others hold the third symbol, by how many of their reports are x0 and
    x1."""
    q = 1 / (2 + mpmath.exp(mpmath.mpf(epsilon0)))
    p, others = 1 - 2 * q, honest - 1

    def chance(a: int, b: int) -> mpmath.mpf:
        if min(a, b) < 0 or a + b > others:
            return mpmath.mpf(0)
        return (
            mpmath.binomial(others, a)
            * mpmath.binomial(others - a, b)
            * q ** (a + b)
            * p ** (others - a - b)
        )

    counts = [(a, b) for a in range(honest + 1) for b in range(honest + 1 - a)]
    first = [p * chance(a - 1, b) + q * chance(a, b - 1) + q * chance(a, b) for a, b in counts]
    second = [q * chance(a - 1, b) + p * chance(a, b - 1) + q * chance(a, b) for a, b in counts]
    return positive(first, second, epsilon)


def near(spec: KRRHistogram, left: float) -> float:
    """The ε at which one report alone has δ of about 10^-left."""
    p, q = chances(spec)
    return max(0.0, float(mpmath.log(p / q)) + math.log1p(-(10.0**-left))) if left > 1e-3 else 0.0


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 40.0), st.integers(1, 50), st.floats(0.0, 15.0))
@example(19.506, 5, 12.0)
@example(19.506, 5, 7.5)
@example(1.0, 1, 11.9)
@example(40.0, 1, 0.0)
@example(36.0, 50, 0.0)
def test_binary_histograms_bracket_the_worst_of_all_datasets(
    epsilon0: float, honest: int, left: float
) -> None:
    spec = krr(2, epsilon0)
    epsilon = near(spec, left)
    with mpmath.workdps(60):
        truth = binary_truth(spec, honest, epsilon)
        bounds = delta_bounds(spec, Setting(honest, honest), epsilon)
        curve = float(certified_curve(spec, Setting(honest, honest), 1, np.array([epsilon]))[0])
        assert bounds.attained <= truth <= bounds.certified <= 1
        assert truth <= curve <= 1
        if honest == 1 or epsilon0 <= LOCAL_ONLY:
            # Far from loose, too: the only slack is relative, and the windows' tails.
            assert bounds.certified <= truth * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-27")
            assert bounds.attained >= truth * (1 - mpmath.mpf("1e-6")) - mpmath.mpf("1e-15")


def test_the_rounding_of_two_large_numbers_is_not_attained() -> None:
    """At ε0 = 19.506 e^ε is 3e8 and its last digit 6e-8: once what was attained, 3e-8 above what
    was certified."""
    spec, setting = KRRHistogram(symbols=2, blanket=epsilon0_to_blanket(19.506, 2)), Setting(5, 5)
    for left in np.linspace(6, 12.5, 150):
        bounds = delta_bounds(spec, setting, near(spec, float(left)))
        assert bounds.attained <= bounds.certified
        assert bounds.certified == pytest.approx(10.0**-left, rel=1e-2)


@settings(max_examples=20, deadline=None)
@given(
    st.floats(0.01, 40.0),
    st.integers(1, 9),
    st.sampled_from([3, 4, 10, 1000]),
    st.floats(0.0, 15.0),
)
@example(19.506, 5, 3, 12.0)
@example(39.0, 1, 3, 0.0)
@example(1.0, 1, 10, 12.0)
def test_histograms_bracket_the_dataset_that_is_said_to_attain(
    epsilon0: float, honest: int, symbols: int, left: float
) -> None:
    spec = krr(symbols, epsilon0)
    epsilon = near(spec, left)
    with mpmath.workdps(60):
        concrete = third_symbol(spec, honest, epsilon)
        bounds = delta_bounds(spec, Setting(honest, honest), epsilon)
        assert bounds.attained <= concrete <= bounds.certified <= 1


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 20.0), st.integers(1, 40), st.floats(0.0, 15.0))
@example(19.506, 5, 12.0)
def test_any_randomiser_brackets_the_worst_of_all_binary_ones(
    epsilon0: float, honest: int, left: float
) -> None:
    epsilon = max(0.0, epsilon0 + math.log1p(-(10.0**-left))) if left > 1e-3 else 0.0
    with mpmath.workdps(60):
        q = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon0)))
        laws = other_reports(1 - q, q, honest - 1)
        truth = max(positive(plus_one(law, 1 - q), plus_one(law, q), epsilon) for law in laws)
        bounds = delta_bounds(LocalRandomiser(epsilon0), Setting(honest, honest), epsilon)
        # At ε = ε0 both are 0, and 60 digits leave a rest of about 1e-60.
        certified = bounds.certified + mpmath.mpf(10) ** -58
        assert truth <= certified
        assert bounds.certified <= 1
        assert bounds.attained <= max(truth, ternary(epsilon0, honest, epsilon)) <= certified


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 20.0), st.integers(1, 30), st.floats(-11.9, -2.0))
@example(19.506, 5, -11.6)
@example(1.0, 1, -11.97)
def test_an_epsilon_holds_and_another_is_attained_at_tiny_deltas(
    epsilon0: float, honest: int, exponent: float
) -> None:
    spec, delta = krr(2, epsilon0), 10.0**exponent
    bounds = epsilon_bounds(spec, Setting(honest, honest), delta)
    with mpmath.workdps(60):
        assert binary_truth(spec, honest, bounds.certified) <= delta
        assert bounds.attained == 0 or binary_truth(spec, honest, bounds.attained) >= delta


@pytest.mark.parametrize(
    "spec",
    [
        *(krr(k, e) for k in (2, 10) for e in (0.5, 19.9, 20.5, 40.0)),
        LocalRandomiser(20.0),
        RRShuffle(max_value=3, randomise=Fraction(1, 10**9)),
        GeoShuffle(max_value=3, epsilon_geo=Fraction(40), padding=3),
        SGDLShuffle(max_value=3, noise_epsilon=Fraction(40), shares=5, padding=3),
        OneBitMean(40.0, 3),
        LaplaceMean(90.0, 3),
        RapporPermanent(hashes=4, fake=1e-9),
    ],
    ids=repr,
)
@pytest.mark.parametrize("honest", [1, 2, 5, 5000])
def test_no_delta_is_above_one_or_below_zero(spec: object, honest: int) -> None:
    for epsilon in (0.0, 1e-9, 1e-3, 0.5, 5.0):
        bounds = delta_bounds(spec, Setting(honest, honest), epsilon)
        assert 0 <= bounds.attained <= bounds.certified <= 1
        for sign in (1, -1):
            value = float(
                certified_curve(spec, Setting(honest, honest), 1, np.array([sign * epsilon]))[0]
            )
            assert 0 <= value <= 1
