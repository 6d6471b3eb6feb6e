"""Matrices, k-RR at the ends of its range and rr-shuffle (K11, K12, S10 (f)), against all datasets
in 60 digits.

Written apart from the other tests, from the statements alone: every dataset of a small case, every
change of a value, both orders of each pair. Many cases are where floats end: chances of 1e-200, ε
next to ε0, one flip in 1e15."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import KRRHistogram, RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Bounds, Setting, corrupted_bounds, delta_bounds, epsilon_bounds
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.primitives.excess import Draw, mean_excess

Law = dict[tuple[int, ...], mpmath.mpf]

DIGITS = 60

# Between 1e-300 and 0 a float has fewer digits, or none.
LEAST = 1e-300


def exact(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def group(honest: int) -> Setting:
    return Setting(honest, honest)


def histogram_law(rows: Iterable[Sequence[mpmath.mpf]], outputs: int) -> Law:
    law: Law = {(0,) * outputs: mpmath.mpf(1)}
    for row in rows:
        after: Law = {}
        for counts, mass in law.items():
            for y, chance in enumerate(row):
                if chance:
                    key = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                    after[key] = after.get(key, mpmath.mpf(0)) + mass * chance
        law = after
    return law


def divergence(p: Law, q: Law, epsilon: float) -> mpmath.mpf:
    growth = mpmath.e ** mpmath.mpf(epsilon)
    return mpmath.fsum(max(mpmath.mpf(0), mass - growth * q.get(key, 0)) for key, mass in p.items())


def worst_delta(
    rows: Sequence[Sequence[Fraction]], honest: int, epsilons: Sequence[float]
) -> list[mpmath.mpf]:
    """The largest divergence at each ε: over all datasets of the others, all changes of a value, in
    both orders."""
    chances = [[exact(value) for value in row] for row in rows]
    worst = [mpmath.mpf(0)] * len(epsilons)
    for others in itertools.combinations_with_replacement(chances, honest - 1):
        laws = [histogram_law((*others, row), len(rows[0])) for row in chances]
        for p, q in itertools.permutations(laws, 2):
            worst = [
                max(old, divergence(p, q, epsilon))
                for old, epsilon in zip(worst, epsilons, strict=True)
            ]
    return worst


def check(found: Bounds, truth: mpmath.mpf, about: object) -> None:
    if truth > LEAST:
        assert found.certified >= truth * (1 - mpmath.mpf(2) ** -52), about
    assert found.attained <= truth * (1 + mpmath.mpf(2) ** -52), about


def weight_of(kind: str, draw: random.Random) -> Fraction:
    if kind == "even":
        return Fraction(draw.randint(1, 20))
    if kind == "empty cells":
        return Fraction(draw.choice([0, 0, 1, 2, 7]))
    if kind == "close":
        return 500 + Fraction(draw.randint(-9, 9), 10 ** draw.choice([3, 6, 12]))
    if kind == "skew":
        return Fraction(draw.randint(1, 9), 10 ** draw.randint(0, 6))
    return Fraction(1, 10 ** draw.choice([0, 0, 1, 30, 100, 140, 200]))


def random_rows(kind: str, draw: random.Random) -> tuple[tuple[Fraction, ...], ...]:
    values, outputs, rows = draw.choice([2, 3]), draw.choice([2, 3, 4]), []
    for _ in range(values):
        weights = [weight_of(kind, draw) for _ in range(outputs)]
        weights[0] += 0 if sum(weights) else 1
        rows.append(tuple(weight / sum(weights) for weight in weights))
    return tuple(rows)


@pytest.mark.parametrize("kind", ["even", "empty cells", "close", "skew", "tiny"])
def test_matrices_are_between_their_sides_on_all_datasets(kind: str) -> None:
    draw = random.Random(f"matrices {kind}")  # noqa: S311  (fixed cases of a test)
    with mpmath.workdps(DIGITS):
        for _ in range(12):
            rows, honest = random_rows(kind, draw), draw.choice([1, 2, 3, 4])
            ratios = [
                a / b for column in zip(*rows, strict=True) for a in column for b in column if b
            ]
            largest = float(mpmath.log(exact(max(ratios))))
            near = largest * (1 - 10 ** -draw.uniform(1, 14))
            epsilons = [
                0.0,
                largest * draw.random(),
                near,
                draw.choice([1e-9, 0.1, 3.0, 50.0, 120.0, 710.0, 900.0]),
            ]
            for epsilon, truth in zip(epsilons, worst_delta(rows, honest, epsilons), strict=True):
                found = delta_bounds(LocalMatrix(rows), group(honest), epsilon)
                check(found, truth, (rows, honest, epsilon))


@pytest.mark.parametrize("symbols", [2, 3, 4])
@pytest.mark.parametrize("strong", [True, False])
def test_krr_outside_its_tables_is_between_its_sides_on_all_datasets(
    symbols: int,
    strong: bool,  # noqa: FBT001
) -> None:
    draw = random.Random(f"krr {symbols} {strong}")  # noqa: S311
    with mpmath.workdps(DIGITS):
        for _ in range(8):
            least = Fraction(1, int(10 ** draw.uniform(9.5, 18.5)))
            blanket = least if strong else 1 - Fraction(int(10 ** draw.uniform(0, 13)), 2**62)
            honest, noise = draw.choice([1, 2, 3, 4]), blanket / symbols
            truthful = 1 - blanket + noise
            rows = [[truthful if x == y else noise for y in range(symbols)] for x in range(symbols)]
            largest = float(mpmath.log(exact(truthful) / exact(noise)))
            assert not 1e-3 <= largest <= 20
            epsilons = [
                0.0,
                largest * draw.random(),
                largest * (1 - 10 ** -draw.uniform(1, 15)),
                largest * 1e-6,
            ]
            for epsilon, truth in zip(epsilons, worst_delta(rows, honest, epsilons), strict=True):
                found = delta_bounds(
                    KRRHistogram(symbols=symbols, blanket=blanket), group(honest), epsilon
                )
                check(found, truth, (symbols, blanket, honest, epsilon))


def bits_law(bits: int, ones: int, flip: mpmath.mpf) -> list[mpmath.mpf]:
    law = [mpmath.mpf(1)]
    for index in range(bits):
        one = 1 - flip if index < ones else flip
        law = [
            a * (1 - one) + b * one
            for a, b in zip([*law, mpmath.mpf(0)], [mpmath.mpf(0), *law], strict=True)
        ]
    return law


def bits_delta(p: list[mpmath.mpf], q: list[mpmath.mpf], epsilon: mpmath.mpf) -> mpmath.mpf:
    growth = mpmath.e**epsilon
    return mpmath.fsum(max(mpmath.mpf(0), a - growth * b) for a, b in zip(p, q, strict=True))


FLIPS = [
    Fraction(1, 3),
    Fraction(1, 10**6),
    Fraction(1, 10**15),
    1 - Fraction(1, 10**9),
    Fraction(999, 1000),
    Fraction(1),
]


@pytest.mark.parametrize("randomise", FLIPS, ids=str)
def test_rr_shuffle_is_between_its_sides_on_all_datasets(randomise: Fraction) -> None:
    draw = random.Random(f"rr {randomise}")  # noqa: S311
    with mpmath.workdps(DIGITS):
        for honest, k, d_max in ((1, 5, 5), (1, 6, 2), (2, 4, 4), (3, 3, 3), (4, 2, 1)):
            local = float(mpmath.log(exact((2 - randomise) / randomise)))
            laws = [
                bits_law(honest * k, ones, exact(randomise) / 2) for ones in range(honest * k + 1)
            ]
            for epsilon in (0.0, local * draw.random(), local * (1 - 10 ** -draw.uniform(1, 12))):
                truth = max(
                    bits_delta(p, q, mpmath.mpf(epsilon) * d)
                    for d in range(1, d_max + 1)
                    for low in range(honest * k - d + 1)
                    for p, q in itertools.permutations((laws[low], laws[low + d]))
                )
                setting = Setting(honest, honest, Adjacency.METRIC, d_max)
                spec = RRShuffle(max_value=k, randomise=randomise)
                check(delta_bounds(spec, setting, epsilon), truth, (honest, k, d_max, epsilon))


def test_a_larger_distance_is_worse_unless_all_other_bits_are_ones() -> None:
    """S10 (f) as it stands: the pair (d, j) at εd is at most (d + 1, j) at ε (d + 1), for j < m."""
    bits = 9
    with mpmath.workdps(DIGITS):
        for flip in (mpmath.mpf(1) / 20, mpmath.mpf(3) / 10, mpmath.mpf(499) / 1000):
            laws = [bits_law(bits, ones, flip) for ones in range(bits + 1)]
            local = mpmath.log((1 - flip) / flip)
            for d in range(1, bits):
                for j in range(bits - d):
                    for part in (0, 0.02, 0.3, 0.9, 0.999):
                        near = bits_delta(laws[j], laws[j + d], part * local * d)
                        far = bits_delta(laws[j], laws[j + d + 1], part * local * (d + 1))
                        assert near <= far + mpmath.mpf(10) ** -50


@pytest.mark.parametrize("trials", [2, 101])
@pytest.mark.parametrize("mass", [0.5, 1e-9])
@pytest.mark.parametrize("loss", [3.0, 60.0, 1e8, 1e20])
def test_the_mean_excess_holds_where_one_value_is_far_larger(
    trials: int, mass: float, loss: float
) -> None:
    masses = [mass, 0.999 - mass]
    below, above = mean_excess(Draw(np.array(masses), np.array([1.0, -loss])), trials)
    with mpmath.workdps(DIGITS):
        gain, lose = (mpmath.mpf(value) for value in masses)
        rest = 1 - gain - lose
        truth = mpmath.mpf(0)
        for a in range(1, trials + 1):
            term = mpmath.binomial(trials, a) * gain**a
            for b in range(min(trials - a, math.floor(a / loss)) + 1):
                part = term * mpmath.binomial(trials - a, b) * lose**b * rest ** (trials - a - b)
                truth += part * (a - b * mpmath.mpf(loss))
                if b > trials * 0.999 and part < term * LEAST:
                    break
            if term < LEAST * 1e-60:
                break
        assert below <= truth / trials * (1 + mpmath.mpf(10) ** -14)
        if truth > LEAST:
            assert above >= truth / trials * (1 - mpmath.mpf(10) ** -14)


@pytest.mark.parametrize("honest", [101, 1000, 10**9])
@pytest.mark.parametrize("odds", [18.0, 20.0])
@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_next_to_epsilon0_many_users_get_a_close_answer(
    honest: int, odds: float, gap: float
) -> None:
    """There α is far below β, so that one draw of -β undoes any number of α: the blanket has δ = α
    (1-q)^(h-1)."""
    noise = Fraction(1, round(math.exp(odds)))
    matrix = LocalMatrix(((1 - noise, noise), (noise, 1 - noise)))
    with mpmath.workdps(DIGITS):
        epsilon = float(mpmath.log(exact((1 - noise) / noise))) * (1 - gap)
        alpha = exact(1 - noise) - mpmath.e ** mpmath.mpf(epsilon) * exact(noise)
        truth = alpha * (1 - exact(noise)) ** (honest - 1)
        certified = delta_bounds(matrix, group(honest), epsilon).certified
        assert truth <= certified <= 1.01 * truth


def test_a_chance_below_all_floats_is_not_taken_for_none() -> None:
    """Of the outputs 2 and 3 the first has the ratio 1e329, the second has none: no ε is enough,
    and δ is 0.1."""
    tiny, tenth = Fraction(1, 10**330), Fraction(1, 10)
    matrix = LocalMatrix(((8 * tenth, tenth, tenth), (1 - tiny, tiny, Fraction(0))))
    for honest in (1, 5):
        assert delta_bounds(matrix, group(honest), 800.0).certified >= 0.1
        with pytest.raises(CannotCertify, match="no epsilon"):
            epsilon_bounds(matrix, group(honest), 1e-6)


def test_long_chances_leave_epsilon0_rounded_up() -> None:
    for digits in (1790, 2030, 4260):
        ratio = Fraction(2 * 10**digits + 7, 10**digits)
        low = Fraction(1, 4)
        matrix = LocalMatrix(((low * ratio, 1 - low * ratio), (low, 1 - low)))
        with mpmath.workdps(DIGITS):
            odds = max(exact(ratio), exact((1 - low) / (1 - low * ratio)))
            assert corrupted_bounds(matrix, group(3), 0.0).epsilon >= mpmath.log(odds)


@pytest.mark.parametrize(("least", "more"), [(140, 99), (260, 217)])
def test_attained_does_not_count_what_the_others_hardly_ever_send(least: int, more: int) -> None:
    """δ of 1e-101 and less, where e^ε times a chance of 1e-140 matters."""
    rare, seldom = Fraction(1, 10**least), Fraction(1, 10**more)
    rows = ((rare, 1 - rare), (seldom, 1 - seldom))
    with mpmath.workdps(DIGITS * 6):
        for epsilon in (80.0, 92.0, 94.0, 97.0, 98.0):
            check(
                delta_bounds(LocalMatrix(rows), group(3), epsilon),
                worst_delta(rows, 3, [epsilon])[0],
                epsilon,
            )
