"""Estimates from one message a user: unbiased in rationals, intervals that cover whatever the
values are."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.stats import binom

from shuffledp_core.answering.estimates import sum_of_one_bit_reports
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import HadamardHistogram, OneBitShuffle
from shuffledp_core.mechanisms.hadamard import in_halves


@pytest.mark.parametrize("order", [2, 4, 8, 64, 1024])
def test_the_fast_transform_counts_what_lies_in_each_half(order: int) -> None:
    counts = np.random.default_rng(7).integers(0, 100, order)
    wanted = [int(counts[row == 1].sum()) for row in hadamard(order)]
    assert in_halves(counts).tolist() == wanted


@pytest.mark.parametrize("symbols", [2, 3, 4, 6, 7, 8])
def test_a_hadamard_histogram_is_unbiased_exactly(symbols: int) -> None:
    """Over the law of one report, in rationals; the estimate is linear in the counts."""
    spec = HadamardHistogram(symbols=symbols, blanket=Fraction(2, 7))
    order = spec.alphabet
    matrix = hadamard(order)
    slope = (1 - spec.blanket) / 2
    for value, index in itertools.product(range(symbols), range(order)):
        counts = [int(at == index) for at in range(order)]
        inside = in_halves(np.array(counts))[1 : symbols + 1].tolist()
        assert inside == [int(matrix[s + 1, index] == 1) for s in range(symbols)]
        exact = [float((Fraction(held) - Fraction(1, 2)) / slope) for held in inside]
        assert estimate(spec, counts, 1).values == pytest.approx(exact, rel=1e-12)
        del value
    for value, symbol in itertools.product(range(symbols), repeat=2):
        chances = [
            spec.blanket / order
            + (1 - spec.blanket) * Fraction(2, order) * int(matrix[value + 1, y] == 1)
            for y in range(order)
        ]
        mean = sum(
            (
                chance * (int(matrix[symbol + 1, y] == 1) - Fraction(1, 2)) / slope
                for y, chance in enumerate(chances)
            ),
            Fraction(0),
        )
        assert mean == int(value == symbol)


@pytest.mark.parametrize("users", [10, 60, 300])
@pytest.mark.parametrize("blanket", [Fraction(1, 100), Fraction(1, 2)])
def test_intervals_of_a_hadamard_histogram_cover(users: int, blanket: Fraction) -> None:
    """Exact: a symbol's half holds Bin(n_s, 1 - γ/2) + Bin(n - n_s, 1/2) indices."""
    own = 1 - float(blanket) / 2
    spec = HadamardHistogram(symbols=3, blanket=blanket)
    for holders in {0, 1, users // 10, users // 2, users}:
        law = np.convolve(
            binom.pmf(np.arange(holders + 1), holders, own),
            binom.pmf(np.arange(users - holders + 1), users - holders, 0.5),
        )
        covered = 0.0
        for inside, chance in enumerate(law.tolist()):
            # Row 1 of the matrix of order 4 is 1 at the indices 0 and 2.
            answer = estimate(spec, [0, users - inside, inside, 0], users)
            covered += chance * (answer.lows[0] - 1e-9 <= holders <= answer.highs[0] + 1e-9)
        assert covered >= 0.95


@pytest.mark.parametrize("largest", [1, 5, 12])
@pytest.mark.parametrize("randomise", [Fraction(1, 9), Fraction(4, 5)])
def test_a_one_bit_sum_is_unbiased_exactly(largest: int, randomise: Fraction) -> None:
    for value in range(largest + 1):
        one = randomise / 2 + (1 - randomise) * Fraction(value, largest)
        said = [(bit - randomise / 2) / (1 - randomise) * largest for bit in (0, 1)]
        assert (1 - one) * said[0] + one * said[1] == value
        spec = OneBitShuffle(max_value=largest, randomise=randomise)
        for bit in (0, 1):
            assert estimate(spec, [1 - bit, bit], 1).values == pytest.approx([float(said[bit])])


def ones_law(chances: list[float]) -> list[float]:
    law = np.ones(1)
    for one in chances:
        law = np.convolve(law, [1 - one, one])
    return law.tolist()


@pytest.mark.parametrize("users", [1, 2, 7, 40, 200])
@pytest.mark.parametrize("randomise", [Fraction(1, 1000), Fraction(1, 10), Fraction(9, 10)])
@pytest.mark.parametrize("shape", ["equal", "at the ends", "spread"])
def test_intervals_of_a_one_bit_sum_cover_whatever_the_values_are(
    users: int, randomise: Fraction, shape: str
) -> None:
    """Exact coverage: equal values have the widest law, values at the ends the narrowest."""
    largest = 20
    spec = OneBitShuffle(max_value=largest, randomise=randomise)
    answers = [estimate(spec, [users - ones, ones], users) for ones in range(users + 1)]
    for level in (0, 1, 7, 10, 20):
        if shape == "equal":
            values = [level] * users
        elif shape == "at the ends":
            values = [largest if place * largest < level * users else 0 for place in range(users)]
        else:
            values = [min(largest, 2 * level * place // users) for place in range(users)]
        truth = sum(values)
        law = ones_law(
            [float(randomise) / 2 + float(1 - randomise) * value / largest for value in values]
        )
        covered = math.fsum(
            chance
            for chance, answer in zip(law, answers, strict=True)
            if answer.lows[0] - 1e-9 <= truth <= answer.highs[0] + 1e-9
        )
        assert covered >= 0.95


def test_the_stated_error_of_a_one_bit_sum_has_the_rounding_in_it() -> None:
    """Half of the bits are ones: n coins, though no bit was ever replaced by one."""
    answer = sum_of_one_bit_reports(50, Fraction(100), 10, Fraction(1, 10**9))
    assert answer.standard_errors[0] == pytest.approx(10 * math.sqrt(25))
    assert answer.mean == pytest.approx(5)
    assert answer.lows[0] < 500 < answer.highs[0]


def test_one_bit_answers_of_all_users_stay_inside_what_is_possible() -> None:
    for ones in (0, 6):
        answer = sum_of_one_bit_reports(ones, Fraction(6), 9, Fraction(1, 2))
        assert 0 <= answer.lows[0] <= answer.highs[0] <= 54


def test_parameters_outside_their_range_are_refused() -> None:
    for symbols in (1, 2**20):
        with pytest.raises(ValueError, match="symbols"):
            HadamardHistogram(symbols=symbols, blanket=Fraction(1, 2))
    with pytest.raises(ValueError, match="max_value"):
        OneBitShuffle(max_value=0, randomise=Fraction(1, 2))
    with pytest.raises(ValueError, match="index"):
        HadamardHistogram(symbols=3, blanket=Fraction(1, 2)).encode(4)
    with pytest.raises(UsageError, match="pure noise"):
        OneBitShuffle(max_value=3, randomise=Fraction(1)).check_informative()
