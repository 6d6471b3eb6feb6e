"""split-mix at the client and at the analyst: pieces are uniform, sums come back, and a loss gives
no number at all."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import nbinom

from shuffledp_client.encoding import encode, symbols
from shuffledp_core.answering.decoding import decode
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import CountMismatchError, LostMessagesError, RoundFailed, UsageError
from shuffledp_core.mechanisms import SplitMix
from shuffledp_core.mechanisms.split import least_modulus
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.sampling.randomisers import randomise
from shuffledp_core.sampling.randomness import RandomIntegers, system_random

SMALL = SplitMix(max_value=3, noise_epsilon=Fraction(2), shares=4, modulus=2**7, pieces=5)


class Recorded(RandomIntegers):
    """Gives the numbers that it was made with."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__()
        self._numbers = iter(numbers)

    def below(self, bound: int) -> int:
        number = next(self._numbers)
        assert 0 <= number < bound
        return number


@pytest.mark.parametrize("answer", [0, 3, 4])
def test_the_pieces_are_uniform_on_all_that_add_up_to_the_answer(answer: int) -> None:
    """Over all draws: each such row once, so that any but all of the pieces are uniform and
    independent."""
    spec = SplitMix(max_value=1, noise_epsilon=Fraction(1), shares=1, modulus=5, pieces=3)
    said = Counter(
        tuple(spec.say(answer, Recorded(drawn))) for drawn in itertools.product(range(5), repeat=2)
    )
    rows = [row for row in itertools.product(range(5), repeat=3) if sum(row) % 5 == answer]
    assert said == Counter(rows)


def test_an_answer_is_split_anew_each_time() -> None:
    """Two equal splits of 2^28 have a chance below 4e-9."""
    assert symbols(SMALL, 17) != symbols(SMALL, 17)
    with pytest.raises(ValueError, match="from 0 to 127"):
        symbols(SMALL, 128)


@pytest.mark.parametrize("modulus", [2**7, 2**17, 2**24, 2**31])
def test_pieces_of_any_width_travel_and_come_back_as_their_sum(modulus: int) -> None:
    spec = SplitMix(max_value=3, noise_epsilon=Fraction(2), shares=4, modulus=modulus, pieces=5)
    geometry = Geometry.of(spec, "sealed-box", 3)
    assert geometry.symbol_bytes == math.ceil(math.log2(modulus) / 8)
    answers = [modulus - 1, modulus - 2, 3, 0]
    messages = [
        message for answer in answers for message in encode(geometry, spec, answer, system_random)
    ]
    board = decode(b"".join(messages), geometry, spec.alphabet, len(answers), 0, spec.counts_of)
    assert board.counts == (20, sum(answers) % modulus)
    assert spec.count(np.array([answers])).tolist() == [list(board.counts)]
    assert estimate(spec, board.counts, 4).values == (0.0,)


def test_a_sum_below_zero_is_told_from_a_large_one() -> None:
    assert estimate(SMALL, (10, 2**7 - 5), 2).values == (-5.0,)
    assert estimate(SMALL, (10, 6), 2).values == (6.0,)
    assert estimate(SMALL, (10, 40), 2).values == (40.0,)


@pytest.mark.parametrize("lost", [1, 4, 5, 10])
def test_any_loss_is_an_error_and_not_a_number(lost: int) -> None:
    """Even of as many messages as a report has: nobody can tell whether they are one user's."""
    with pytest.raises(
        LostMessagesError, match=f"{lost} messages are lost or invalid.*Run the round again"
    ) as caught:
        estimate(SMALL, (50 - lost, 6), 10, lost)
    assert isinstance(caught.value, CountMismatchError)
    assert isinstance(caught.value, RoundFailed)


def test_counts_of_another_number_of_reports_are_refused() -> None:
    with pytest.raises(CountMismatchError):
        estimate(SMALL, (49, 6), 10)
    with pytest.raises(ValueError, match="expected 2 counts"):
        estimate(SMALL, (1, 2, 3), 10)


def test_more_users_than_the_modulus_has_room_for_are_refused() -> None:
    most = max(users for users in range(1, 100) if least_modulus(3, Fraction(2), 4, users) <= 2**7)
    assert estimate(SMALL, (5 * most, 0), most).values
    with pytest.raises(UsageError, match="too small for the sum"):
        estimate(SMALL, (5 * (most + 1), 0), most + 1)


def test_the_estimate_is_unbiased_and_its_interval_covers() -> None:
    """Exactly, over the law of the sum modulo q, at both ends of what values may add up to."""
    spec, users, reach = (
        SplitMix(max_value=3, noise_epsilon=Fraction(1, 2), shares=9, modulus=2**9, pieces=4),
        10,
        700,
    )
    half = nbinom.pmf(np.arange(reach + 1), users / 9, -math.expm1(-0.5))
    law = np.convolve(half, half[::-1])
    for truth in (0, 30):
        mean = covered = 0.0
        for noise, chance in zip(range(-reach, reach + 1), law, strict=True):
            if chance > 1e-15:
                answer = estimate(spec, (40, (truth + noise) % 2**9), users)
                mean += chance * answer.values[0]
                covered += chance * (answer.lows[0] <= truth <= answer.highs[0])
        assert mean == pytest.approx(truth, abs=1e-9)
        assert 0.95 <= covered < 0.985


def test_users_noise_and_pieces_add_up_to_the_truth_but_for_one_noise() -> None:
    """2,000 users by the client's own code.

    Nine standard errors of a two-sided geometric are off below 1e-5.

    So the test looks at twenty-five: below e^-35.
    """
    spec = SplitMix(
        max_value=20, noise_epsilon=Fraction(1, 20), shares=2000, modulus=2**16, pieces=10
    )
    integers, values = RandomIntegers(), [user % 21 for user in range(2000)]
    board = np.array(
        [
            symbol
            for value in values
            for symbol in symbols(spec, randomise(spec, value, integers), integers)
        ]
    )
    answer = estimate(spec, spec.counts_of(board), 2000)
    assert abs(answer.values[0] - sum(values)) <= 25 * answer.standard_errors[0]
    assert answer.standard_errors[0] < 29


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"modulus": 3}, "modulus must be a whole number from 4"),
        ({"modulus": 2**31 + 1}, "modulus must be"),
        ({"pieces": 1}, "pieces must be a whole number from 2"),
        ({"shares": 0}, "shares must be"),
        ({"max_value": 0}, "max_value must be"),
    ],
)
def test_parameters_out_of_range_are_refused(changes: dict[str, int], words: str) -> None:
    fields = {"max_value": 3, "shares": 4, "modulus": 2**7, "pieces": 5} | changes
    with pytest.raises(ValueError, match=words):
        SplitMix(noise_epsilon=Fraction(2), **fields)
