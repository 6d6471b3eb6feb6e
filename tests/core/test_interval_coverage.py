"""Intervals cover at least what they state: exact coverage, and a search for the data that are
covered least."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import binom, nbinom

from shuffledp_core.answering.estimates import COVERAGE
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.answering.intervals import Bits, composition_laws, count_intervals, lower_tail
from shuffledp_core.bounds import noise
from shuffledp_core.mechanisms import (
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
)

Law = NDArray[np.float64]

UnarySum = OneBitShuffle | QuantisedRR


def two_binomials(first: int, p: float, second: int, q: float) -> Law:
    """Law of Bin(first, p) + Bin(second, q), by convolution."""
    return np.convolve(
        binom.pmf(np.arange(first + 1), first, p), binom.pmf(np.arange(second + 1), second, q)
    )


def least_coverage(users: int, own: Fraction, other: Fraction) -> float:
    """The exact coverage of the worst number of holders."""
    lows, highs = count_intervals(np.arange(users + 1), users, own, other)
    found = 1.0
    for holding in range(users + 1):
        law = two_binomials(holding, float(own), users - holding, float(other))
        found = min(found, float(law[(lows <= holding) & (holding <= highs)].sum()))
    return found


NAMED: dict[str, tuple[int, Fraction, Fraction]] = {
    "rr-shuffle, n = 2, k = 20": (40, 1 - Fraction(16, 10_000), Fraction(16, 10_000)),
    "k-RR, n = 5, k = 5": (
        5,
        1 - Fraction(395, 10_000) * Fraction(4, 5),
        Fraction(395, 10_000) / 5,
    ),
    "k-RR, n = 100, k = 100": (
        100,
        1 - Fraction(395, 10_000) * Fraction(99, 100),
        Fraction(395, 10**6),
    ),
    "Hadamard": (60, 1 - Fraction(1, 200), Fraction(1, 2)),
    "RAPPOR": (80, Fraction(9, 10), Fraction(1, 50)),
}
"""Cases whose intervals once covered as little as 0.939, and alike ones."""


@pytest.mark.parametrize("name", NAMED)
def test_every_number_of_holders_is_covered(name: str) -> None:
    assert least_coverage(*NAMED[name]) >= COVERAGE


@pytest.mark.parametrize("seed", range(60))
def test_no_chances_are_found_whose_worst_holders_are_covered_less(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311  (seeded cases of a test)
    users = round(10 ** draw.uniform(0, 2.2))
    blanket = Fraction(round(10 ** draw.uniform(0, 6)), 10**6 + 1)
    symbols = round(10 ** draw.uniform(0.31, 3))
    own, other = 1 - blanket + blanket / symbols, blanket / symbols
    if seed % 3 == 1:
        own, other = 1 - blanket / 2, Fraction(1, 2)
    elif seed % 3 == 2:
        own, other = 1 - blanket / 2, blanket / 2
    assert least_coverage(users, own, other) >= COVERAGE


def test_the_worst_data_of_the_mechanisms_themselves_are_covered() -> None:
    """Through the public estimator: two users at 10 of 20, and one holder among five."""
    spec = RRShuffle(max_value=20, randomise=Fraction(32, 10_000))
    law = two_binomials(20, 1 - 0.0016, 20, 0.0016)
    answers = [estimate(spec, [40 - ones, ones], 2) for ones in range(41)]
    assert (
        sum(
            p
            for p, found in zip(law, answers, strict=True)
            if found.lows[0] <= 20 <= found.highs[0]
        )
        >= COVERAGE
    )
    histogram = KRRHistogram(symbols=5, blanket=Fraction(395, 10_000))
    law = two_binomials(1, 1 - 0.0395 * 0.8, 4, 0.0395 / 5)
    answers = [estimate(histogram, [seen, 5 - seen, 0, 0, 0], 5) for seen in range(6)]
    assert (
        sum(
            p for p, found in zip(law, answers, strict=True) if found.lows[0] <= 1 <= found.highs[0]
        )
        >= COVERAGE
    )


def report_law(spec: UnarySum, value: int) -> Law:
    """Law of the ones of one report, bit by bit: whole bits, then the one that is rounded at
    random."""
    bits, flip = spec.messages_per_user, float(spec.randomise) / 2
    steps, rest = divmod(value * bits, spec.max_value)
    law = np.ones(1)
    for place in range(bits):
        share = 1.0 if place < steps else rest / spec.max_value if place == steps else 0.0
        one = flip + (1 - 2 * flip) * share
        law = np.convolve(law, [1 - one, one])
    return law


class Search:
    """Exact coverage of a mechanism's intervals for any values of its users, and a descent to the
    least."""

    def __init__(self, spec: UnarySum, users: int) -> None:
        self.spec, self.users = spec, users
        self.laws = [report_law(spec, value) for value in range(spec.domain)]
        bits = users * spec.messages_per_user
        found = [estimate(spec, [bits - ones, ones], users) for ones in range(bits + 1)]
        self.lows = np.array([each.lows[0] for each in found])
        self.highs = np.array([each.highs[0] for each in found])

    def coverage(self, values: Sequence[int]) -> float:
        law = np.ones(1)
        for value in values:
            law = np.convolve(law, self.laws[value])
        total = sum(values)
        return float(law[(self.lows <= total) & (total <= self.highs)].sum())

    def least(self, draw: random.Random, starts: int = 4, steps: int = 60) -> float:
        """The least coverage that is found by changing the value of one user, or of two so that the
        sum stays."""
        top = self.spec.max_value
        alike = [[value] * self.users for value in range(top + 1)]
        lowest = min(self.coverage(values) for values in alike)
        for _ in range(starts):
            values = [draw.randint(0, top) for _ in range(self.users)]
            reached = self.coverage(values)
            for _ in range(steps):
                changed = list(values)
                first, second = draw.randrange(self.users), draw.randrange(self.users)
                changed[first] = draw.randint(0, top)
                if draw.random() < 0.5 and first != second:
                    changed[second] = min(
                        max(values[second] + values[first] - changed[first], 0), top
                    )
                if (covered := self.coverage(changed)) <= reached:
                    values, reached = changed, covered
            lowest = min(lowest, reached)
        return lowest


UNARY: list[tuple[int, int, int, Fraction]] = [
    (11, 5, 4, Fraction(11, 20)),
    (9, 11, 3, Fraction(3, 4)),
    (13, 6, 1, Fraction(1, 3)),
    (8, 4, 2, Fraction(1, 1000)),
    (12, 2, 1, Fraction(1, 200)),
    (6, 12, 8, Fraction(1, 10)),
    (3, 7, 2, Fraction(1, 10**6)),
    (1, 9, 3, Fraction(1, 5)),
]
"""Users, largest value, bits of a report (1: also the one-bit mean), and the chance of a coin."""


@pytest.mark.parametrize(("users", "largest", "bits", "randomise"), UNARY)
def test_no_values_are_found_whose_sum_is_covered_less(
    users: int, largest: int, bits: int, randomise: Fraction
) -> None:
    draw = random.Random(users * largest)  # noqa: S311  (seeded cases of a test)
    assert (
        Search(QuantisedRR(max_value=largest, bits=bits, randomise=randomise), users).least(draw)
        >= COVERAGE
    )
    if bits == 1:
        assert (
            Search(OneBitShuffle(max_value=largest, randomise=randomise), users).least(draw)
            >= COVERAGE
        )


def test_a_crowd_of_equal_or_split_values_is_covered() -> None:
    """Compositions of 120 users that give the widest laws: equal values, two neighbouring ones, and
    both ends."""
    spec, users = QuantisedRR(max_value=6, bits=3, randomise=Fraction(1, 100)), 120
    search = Search(spec, users)
    for low, high in itertools.combinations_with_replacement(range(7), 2):
        for part in (0, 30, 60, 90):
            assert search.coverage([low] * part + [high] * (users - part)) >= COVERAGE


def test_the_tail_of_a_count_is_that_of_the_convolved_law() -> None:
    """Three binomials of every size, against a convolution of scipy's laws."""
    draw = np.random.default_rng(8)
    for _ in range(300):
        numbers = (10 ** draw.uniform(0, 2.7, 3)).astype(int) - 1
        small = 10 ** draw.uniform(-6, 0, 3)
        ones = np.where(draw.random(3) < 0.5, small, 1 - small)
        law = np.ones(1)
        for number, one in zip(numbers.tolist(), ones.tolist(), strict=True):
            law = np.convolve(law, binom.pmf(np.arange(number + 1), number, one))
        counts = np.arange(law.size)
        found = lower_tail(
            counts,
            [Bits(n, one, 1 - one) for n, one in zip(numbers.tolist(), ones.tolist(), strict=True)],
        )
        below = counts < float(numbers @ ones) - 1e-9
        assert np.abs(found - np.cumsum(law))[below].max(initial=0.0) <= 1e-9
        assert np.all(found[counts > float(numbers @ ones) + 1e-9] == 1.0)


@pytest.mark.parametrize("users", [10**6, 10**9, 10**12])
def test_a_huge_crowd_has_the_normal_tail_with_its_skewness(users: int) -> None:
    """Edgeworth's expansion to the second order; what it leaves out is below 1e-6 here."""
    one = 0.25
    mean, deviation = users * one, math.sqrt(users * one * (1 - one))
    count = math.floor(mean - 1.96 * deviation)
    z = (count + 0.5 - mean) / deviation
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    wanted = (
        0.5 * math.erfc(-z / math.sqrt(2)) - (1 - 2 * one) / (6 * deviation) * (z * z - 1) * density
    )
    assert lower_tail(np.array([count]), [Bits(users, one, 1 - one)])[0] == pytest.approx(
        wanted, abs=1e-6
    )


def test_counts_of_a_long_histogram_are_rounded_to_the_wider_side() -> None:
    """Many counts of a large crowd share an interval, which is less than 2% wider than that of each
    count."""
    users, own, other = 10**6, Fraction(3, 4), Fraction(1, 2)
    observed = np.arange(500_000, 501_001)
    lows, highs = count_intervals(observed, users, own, other)
    assert np.unique(highs).size < 300
    for count, low, high in zip(
        observed.tolist()[::37], lows.tolist()[::37], highs.tolist()[::37], strict=True
    ):
        for edge, side in ((high + 1, 1), (low - 1, -1)):
            # By the normal law, whose skewness is below 1e-4 here: the next numbers outside have
            # small tails.
            deviation = math.sqrt(users / 4 - edge / 16)
            distance = (users / 2 + edge / 4 - count) * side - 0.5
            if edge >= 0:
                assert (
                    0.5 * math.erfc(distance / deviation / math.sqrt(2))
                    <= (1 - COVERAGE) / 2 + 1e-4
                )
                assert distance / deviation <= 1.96 * 1.02


def test_all_mechanisms_that_count_use_the_same_intervals() -> None:
    """Each by its own p and q."""
    users, seen = 50, 21
    blanket = Fraction(1, 4)
    krr = estimate(KRRHistogram(symbols=4, blanket=blanket), [seen, users - seen, 0, 0], users)
    wanted = count_intervals(np.array([seen]), users, 1 - blanket * Fraction(3, 4), blanket / 4)
    assert (krr.lows[0], krr.highs[0]) == (wanted[0][0], wanted[1][0])
    rappor = RapporHistogram(
        symbols=2, fake=Fraction(1, 5), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
    )
    kept = estimate(rappor, [users, seen, 0], users)
    low, high = rappor.report_chances
    wanted = count_intervals(np.array([seen]), users, high, low)
    assert (kept.lows[0], kept.highs[0]) == (wanted[0][0], wanted[1][0])
    hadamard = estimate(
        HadamardHistogram(symbols=3, blanket=blanket), [0, users - seen, seen, 0], users
    )
    wanted = count_intervals(np.array([seen]), users, 1 - blanket / 2, Fraction(1, 2))
    assert (hadamard.lows[0], hadamard.highs[0]) == (wanted[0][0], wanted[1][0])


PADDED: list[GeoShuffle | SGDLShuffle] = [
    GeoShuffle(max_value=4, epsilon_geo=Fraction(457, 1000), padding=40),
    GeoShuffle(max_value=41, epsilon_geo=Fraction(1, 2), padding=0),
    GeoShuffle(max_value=20, epsilon_geo=Fraction(1, 4), padding=5),
    SGDLShuffle(max_value=17, noise_epsilon=Fraction(157, 1000), shares=5, padding=40),
    SGDLShuffle(max_value=3, noise_epsilon=Fraction(2, 5), shares=2, padding=40),
    SGDLShuffle(max_value=29, noise_epsilon=Fraction(1, 4), shares=3, padding=2),
]


@pytest.mark.parametrize("users", [1, 2, 9])
@pytest.mark.parametrize("spec", PADDED, ids=range(len(PADDED)))
def test_sums_with_clamped_noise_are_covered(spec: GeoShuffle | SGDLShuffle, users: int) -> None:
    """Exact laws; values at the ends, where clamping has its bias, in the middle, and mixed."""
    reach, top = 600, spec.max_value
    one = nbinom.pmf(
        np.arange(reach + 1), 1 / spec.noise_shares, -math.expm1(-float(spec.noise_rate))
    )
    noise_law, places = np.convolve(one, one[::-1]), np.arange(-reach, reach + 1)
    reports = {
        value: np.bincount(
            np.clip(value + places + spec.padding, 0, spec.messages_per_user),
            weights=noise_law,
            minlength=spec.messages_per_user + 1,
        )
        for value in (0, top // 2, top)
    }
    bits = users * spec.messages_per_user
    found = [estimate(spec, [bits - ones, ones], users) for ones in range(bits + 1)]
    for low, high in itertools.combinations_with_replacement(reports, 2):
        for part in {0, users // 4, users // 2}:
            values = [low] * part + [high] * (users - part)
            law = np.ones(1)
            for value in values:
                law = np.convolve(law, reports[value])
            covered = [answer.lows[0] <= sum(values) <= answer.highs[0] for answer in found]
            assert law[covered].sum() >= COVERAGE


def test_summed_noise_too_large_for_a_table_is_covered() -> None:
    """By Gil-Pelaez's formula for the limit of small ε, a difference of gamma variables."""
    shape, epsilon = 3100.0, 1e-6
    assert noise.probabilities(shape, epsilon) is None
    reach = noise.half_width(shape, epsilon, COVERAGE) * epsilon
    inside, _ = quad(
        lambda t: math.sin(reach * t) / t * (1 + t * t) ** -shape, 0, 0.5, limit=2000, epsabs=1e-12
    )
    assert 2 / math.pi * inside >= COVERAGE


@pytest.mark.parametrize(
    ("users", "bits"), [(40, 80), (3000, 9000), (3000, 3000), (100_000, 400_000)]
)
def test_blocks_have_at_least_the_tail_of_every_composition(users: int, bits: int) -> None:
    """Every number of sure bits, or many of them, with the rounded bits equal: as S21 bounds their
    tails."""
    draw = random.Random(users + bits)  # noqa: S311  (seeded cases of a test)
    for _ in range(4):
        steps, flip = Fraction(draw.randint(0, 7 * bits), 7), 10 ** draw.uniform(-6, -0.5)
        slope, total = 1 - 2 * flip, float(steps)
        sure = np.arange(max(0, math.ceil(steps) - users), min(bits - users, math.floor(steps)) + 1)
        share = (total - sure) / users
        assert np.all((share >= 0) & (share <= 1))
        mean = bits * flip + slope * total
        spread = math.sqrt(bits * flip * (1 - flip) + users / 4)
        ones = np.array([max(0, math.floor(mean - draw.uniform(1.7, 2.2) * spread))])
        if ones[0] > mean - 2:
            continue
        equal = [
            Bits(sure, 1 - flip, flip),
            Bits(users, flip + slope * share, flip + slope * (1 - share)),
            Bits(bits - users - sure, flip, 1 - flip),
        ]
        tails = lower_tail(ones, equal)
        found = lower_tail(ones, composition_laws(steps, bits, users, flip, slope))
        # Bounded, and by little where it matters: the width of an interval hardly changes.
        assert tails.max() - 1e-9 <= found.max() <= tails.max() + 5e-4
