"""What an adversary computes from an answer: the laws against independent computations, and the
guess.

Two seconds.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.linalg import hadamard

from shuffledp_adversary.attacks.trace import local_claim, local_epsilon
from shuffledp_adversary.tracing.likelihood import guess_values, log_likelihood
from shuffledp_core.mechanisms import (
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
    SumSpec,
)

CERTAIN = 1 - 1e-9

KRR = KRRHistogram(symbols=4, blanket=Fraction(1, 3))
RR = RRShuffle(max_value=4, randomise=Fraction(2, 5))
GEO = GeoShuffle(max_value=3, epsilon_geo=Fraction(3, 4), padding=2)
SGDL = SGDLShuffle(max_value=3, noise_epsilon=Fraction(1, 2), shares=5, padding=4)
HADAMARD = HadamardHistogram(symbols=4, blanket=Fraction(1, 3))
DUMMIES = DummyHistogram(symbols=4, slots=2, fill=Fraction(1, 3))
RAPPOR = RapporHistogram(
    symbols=4, fake=Fraction(1, 2), when_zero=Fraction(1, 5), when_one=Fraction(3, 4)
)
ONE_BIT = OneBitShuffle(max_value=4, randomise=Fraction(2, 5))
QUANTISED = QuantisedRR(max_value=4, bits=3, randomise=Fraction(2, 5))
SPLIT = SplitMix(max_value=3, noise_epsilon=Fraction(1, 2), shares=5, modulus=29, pieces=3)
SPECS: list[Mechanism] = [DUMMIES, KRR, HADAMARD, RAPPOR, ONE_BIT, QUANTISED, RR, GEO, SGDL, SPLIT]


def answers_of(spec: Mechanism) -> int:
    if isinstance(spec, DummyHistogram):  # "empty" is a symbol and no answer
        return spec.symbols
    return spec.largest_answer + 1 if isinstance(spec, SumSpec) else spec.alphabet


def table(spec: Mechanism) -> list[list[float]]:
    """P(answer | x) by answer and value."""
    found: list[list[float]] = np.exp(log_likelihood(spec, np.arange(answers_of(spec)))).tolist()
    return found


def clamped(spec: GeoShuffle | SGDLShuffle, law: dict[int, mpmath.mpf]) -> list[list[float]]:
    rows = [[mpmath.mpf(0)] * spec.domain for _ in range(answers_of(spec))]
    for value in range(spec.domain):
        for noise, chance in law.items():
            rows[min(max(value + spec.padding + noise, 0), spec.messages_per_user)][value] += chance
    return [[float(cell) for cell in row] for row in rows]


def negative_binomial(shape: mpmath.mpf, ratio: mpmath.mpf, last: int) -> list[mpmath.mpf]:
    return [
        mpmath.gamma(shape + j)
        / mpmath.gamma(shape)
        / mpmath.factorial(j)
        * (1 - ratio) ** shape
        * ratio**j
        for j in range(last)
    ]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_answers_of_each_value_have_probability_one_together(spec: Mechanism) -> None:
    assert np.sum(table(spec), axis=0) == pytest.approx(np.ones(spec.domain), abs=1e-9)


def test_randomised_response_is_the_sum_over_all_flips() -> None:
    flip = RR.randomise / 2
    rows: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for value, flips in itertools.product(range(5), itertools.product((0, 1), repeat=4)):
        bits = [(place < value) ^ one for place, one in enumerate(flips)]
        rows[sum(bits), value] += flip ** sum(flips) * (1 - flip) ** (4 - sum(flips))
    assert table(RR) == [
        [pytest.approx(float(rows[answer, value])) for value in range(5)] for answer in range(5)
    ]


def test_k_ary_randomised_response_keeps_the_symbol_or_draws_any() -> None:
    same, other = float(Fraction(2, 3) + Fraction(1, 12)), float(Fraction(1, 12))
    assert table(KRR) == [
        [pytest.approx(same if a == x else other) for x in range(4)] for a in range(4)
    ]


def test_a_hadamard_index_is_in_the_half_of_its_row_or_anywhere() -> None:
    outside = Fraction(1, 3) / 8
    inside = outside + Fraction(2, 3) / 4
    rows = hadamard(8)
    wanted = [
        [float(inside if rows[x + 1, y] == 1 else outside) for x in range(4)] for y in range(8)
    ]
    assert np.array(table(HADAMARD)) == pytest.approx(np.array(wanted))


def test_quantised_bits_are_sure_or_rounded_and_flipped() -> None:
    wanted = [[0.0] * 5 for _ in range(4)]
    for value, flips in itertools.product(range(5), itertools.product((0, 1), repeat=3)):
        rounded = [
            min(max(Fraction(3 * value, 4) - place, Fraction(0)), Fraction(1)) for place in range(3)
        ]
        ones = [Fraction(1, 5) + Fraction(3, 5) * one for one in rounded]
        chance = math.prod(one if flip else 1 - one for one, flip in zip(ones, flips, strict=True))
        wanted[sum(flips)][value] += float(chance)
    assert np.array(table(QUANTISED)) == pytest.approx(np.array(wanted))


def test_one_bit_is_the_value_s_share_or_a_coin() -> None:
    ones = [Fraction(1, 5) + Fraction(3, 5) * Fraction(x, 4) for x in range(5)]
    wanted = [[float(1 - one) for one in ones], [float(one) for one in ones]]
    assert np.array(table(ONE_BIT)) == pytest.approx(np.array(wanted))


def test_discrete_laplace_noise_is_shifted_and_clamped() -> None:
    ratio = mpmath.exp(-mpmath.mpf(3) / 4)
    law = {noise: (1 - ratio) / (1 + ratio) * ratio ** abs(noise) for noise in range(-120, 121)}
    assert np.array(table(GEO)) == pytest.approx(np.array(clamped(GEO, law)), rel=1e-9)


def test_a_share_of_the_noise_is_a_difference_of_negative_binomials() -> None:
    ratio, last = mpmath.exp(-mpmath.mpf(1) / 2), 120
    half = negative_binomial(mpmath.mpf(1) / 5, ratio, last)
    law: dict[int, mpmath.mpf] = defaultdict(mpmath.mpf)
    for up, down in itertools.product(range(last), repeat=2):
        law[up - down] += half[up] * half[down]
    assert np.array(table(SGDL)) == pytest.approx(np.array(clamped(SGDL, law)), rel=1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_the_guess_is_the_likeliest_value_under_the_prior(spec: Mechanism) -> None:
    prior = np.array([5.0, 0.0, 2.0, 1.0, 1.0][: spec.domain])
    answers = np.arange(answers_of(spec)).repeat(3)
    scores = np.array(table(spec)) * prior
    found = guess_values(spec, answers, prior)
    assert found.tolist() == scores.argmax(axis=1).repeat(3).tolist()
    assert 1 not in found  # nobody holds it, so it is never guessed


@pytest.mark.parametrize(
    "spec",
    [
        RRShuffle(max_value=2, randomise=Fraction(1, 2)),
        GeoShuffle(max_value=2, epsilon_geo=Fraction(1), padding=4),
    ],
    ids=lambda spec: spec.kind,
)
def test_the_local_epsilon_that_is_measured_comes_close_to_the_certified_one_and_not_beyond(
    spec: Mechanism,
) -> None:
    """20,000 answers a value.

    The bound exceeds a true ε_L with probability at most 1e-9; the estimate's standard
    deviation is 0.023 at most, so that 15% are more than seven of them (below 1e-11)."""
    bound = local_epsilon(spec, 20_000, CERTAIN)
    assert bound.lower <= local_claim(spec)
    assert bound.estimate == pytest.approx(local_claim(spec), rel=0.15)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
def test_no_local_bound_exceeds_what_is_certified(spec: Mechanism) -> None:
    """Fails with probability at most 1e-9 if the certified number is true."""
    assert 0 < local_epsilon(spec, 5_000, CERTAIN).lower <= local_claim(spec)
