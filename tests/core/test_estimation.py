"""Estimators against laws that are computed here, without them: exact expectations and exact
coverage."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray
from scipy.stats import binom, nbinom

from shuffledp_core.answering.answer import check_estimate
from shuffledp_core.answering.estimation import estimate
from shuffledp_core.bounds import noise
from shuffledp_core.errors import CountMismatchError, FalseResultError, UsageError
from shuffledp_core.mechanisms import (
    MECHANISMS,
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)

NEGLIGIBLE = 1e-12


def two_binomials(first: int, p: float, second: int, q: float) -> NDArray[np.float64]:
    """Law of Bin(first, p) + Bin(second, q), by convolution."""
    return np.convolve(
        binom.pmf(np.arange(first + 1), first, p), binom.pmf(np.arange(second + 1), second, q)
    )


def difference_of_negative_binomials(
    shape: float, epsilon: float, reach: int
) -> NDArray[np.float64]:
    """Law of A - B on -reach..reach, A, B ~ NB(shape, 1 - exp(-epsilon)), by convolution of scipy's
    own law."""
    one = nbinom.pmf(np.arange(reach + 1), shape, -math.expm1(-epsilon))
    return np.convolve(one, one[::-1])


def expectation_and_coverage(
    spec: Mechanism, users: int, law: NDArray[np.float64], counts_of: list[list[int]], truth: float
) -> tuple[float, float]:
    """Mean of the first estimate and probability that its interval holds the truth, over outcomes
    of a known law."""
    mean = covered = 0.0
    for probability, counts in zip(law, counts_of, strict=True):
        if probability > NEGLIGIBLE:
            answer = estimate(spec, counts, users)
            mean += probability * answer.values[0]
            covered += probability * (answer.lows[0] - 1e-9 <= truth <= answer.highs[0] + 1e-9)
    return mean, covered


def test_every_mechanism_has_an_estimator() -> None:
    examples: dict[str, Mechanism] = {
        "bloom-rappor": BloomRappor(symbols=3, bits=4, hashes=2, cohorts=4, fake=Fraction(1, 2)),
        "dummy-histogram": DummyHistogram(symbols=3, slots=2, fill=Fraction(1, 2)),
        "krr-histogram": KRRHistogram(symbols=3, blanket=Fraction(1, 2)),
        "hadamard-histogram": HadamardHistogram(symbols=3, blanket=Fraction(1, 2)),
        "node-columns": NodeColumns(
            symbols=6, noise_epsilon=Fraction(1), mean=2, spare=3, columns=(3, 2)
        ),
        "node-histogram": NodeHistogram(symbols=3, noise_epsilon=Fraction(1), mean=2, dummies=8),
        "node-sum": NodeSum(max_value=3, noise_epsilon=Fraction(1), base=4, mean=3),
        "node-tree": NodeTree(symbols=3, noise_epsilon=Fraction(1), mean=2, spare=3, width=2),
        "rappor-histogram": RapporHistogram(
            symbols=3, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
        ),
        "local-laplace": LocalLaplace(max_value=3, epsilon_geo=Fraction(1)),
        "one-bit-mean": OneBitShuffle(max_value=3, randomise=Fraction(1, 2)),
        "quantised-rr": QuantisedRR(max_value=3, bits=2, randomise=Fraction(1, 2)),
        "rr-shuffle": RRShuffle(max_value=3, randomise=Fraction(1, 2)),
        "geo-shuffle": GeoShuffle(max_value=3, epsilon_geo=Fraction(1), padding=5),
        "sgdl-shuffle": SGDLShuffle(max_value=3, noise_epsilon=Fraction(1), shares=2, padding=5),
        "split-mix": SplitMix(
            max_value=3, noise_epsilon=Fraction(1), shares=2, modulus=128, pieces=4
        ),
    }
    assert set(examples) == set(MECHANISMS)
    for spec in examples.values():
        last = np.full(2 * spec.messages_per_user, spec.alphabet - 1)
        assert estimate(spec, spec.counts_of(last).tolist(), 2).values


@pytest.mark.parametrize("users", [10, 50, 200])
@pytest.mark.parametrize("symbols", [2, 5, 30])
@pytest.mark.parametrize(
    "blanket", [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), Fraction(99, 100)]
)
def test_a_histogram_is_unbiased_and_its_intervals_cover(
    users: int, symbols: int, blanket: Fraction
) -> None:
    spec = KRRHistogram(symbols=symbols, blanket=blanket)
    q = float(blanket / symbols)
    p = 1 - float(blanket) + q
    outcomes = [[seen, users - seen] + [0] * (symbols - 2) for seen in range(users + 1)]
    for share in (0.0, 0.02, 0.1, 0.5, 1.0):
        holders = int(share * users)
        law = two_binomials(holders, p, users - holders, q)
        mean, covered = expectation_and_coverage(spec, users, law, outcomes, holders)
        assert mean == pytest.approx(holders, abs=1e-6 * users / (1 - float(blanket)))
        assert covered >= 0.95


def test_answers_of_several_rounds_are_counted_round_by_round() -> None:
    answers = np.random.default_rng(3).integers(0, 5, (4, 60))
    counts = KRRHistogram(symbols=5, blanket=Fraction(1, 2)).count(answers)
    assert counts.tolist() == [
        [int((row == symbol).sum()) for symbol in range(5)] for row in answers
    ]


def test_the_histogram_estimate_inverts_the_expected_counts() -> None:
    spec = KRRHistogram(symbols=4, blanket=Fraction(2, 5))
    truth = np.array([40, 10, 0, 50])
    matrix = np.full((4, 4), 0.1) + np.eye(4) * 0.6
    answer = estimate(spec, (matrix @ truth).round(9).astype(int).tolist(), 100)
    assert answer.values == pytest.approx(truth)
    assert answer.quantity == "histogram"
    assert answer.mean is None


@pytest.mark.parametrize(("users", "largest"), [(5, 1), (20, 1), (200, 1), (30, 10), (1000, 1)])
@pytest.mark.parametrize(
    "randomise", [Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2), Fraction(19, 20)]
)
def test_an_rr_sum_is_unbiased_and_its_intervals_cover(
    users: int, largest: int, randomise: Fraction
) -> None:
    spec = RRShuffle(max_value=largest, randomise=randomise)
    bits, flip = users * largest, float(randomise) / 2
    outcomes = [[bits - ones, ones] for ones in range(bits + 1)]
    for share in (0.0, 0.1, 0.5, 1.0):
        truth = int(share * bits)
        mean, covered = expectation_and_coverage(
            spec, users, two_binomials(truth, 1 - flip, bits - truth, flip), outcomes, truth
        )
        assert mean == pytest.approx(truth, abs=1e-6 * bits / (1 - float(randomise)))
        assert covered >= 0.95


def test_rr_debiasing_is_algorithm_2_of_athanasiou_et_al_2025() -> None:
    users, largest, randomise, ones = 100, 7, 0.25, 333
    bits, lam = users * largest, randomise * users * largest
    spec = RRShuffle(max_value=largest, randomise=Fraction(1, 4))
    answer = estimate(spec, [bits - ones, ones], users)
    assert answer.values[0] == pytest.approx(bits / (bits - lam) * (ones - lam / 2))
    assert answer.mean == pytest.approx(answer.values[0] / users)
    assert answer.standard_errors[0] == pytest.approx(math.sqrt(bits * 0.125 * 0.875) / 0.75)


@pytest.mark.parametrize(
    ("shape", "epsilon"),
    [(0.01, 0.5), (0.5, 0.05), (1.0, 0.1), (1.0, 2.0), (1.3, 0.02), (30.0, 0.2), (1000.0, 1.0)],
)
def test_the_noise_law_is_that_of_two_negative_binomials(shape: float, epsilon: float) -> None:
    table = noise.probabilities(shape, epsilon)
    assert table is not None
    reach = 2 * len(table)
    exact = difference_of_negative_binomials(shape, epsilon, reach)[reach:]
    assert table == pytest.approx(exact[: len(table)], abs=2e-12)
    width = noise.half_width(shape, epsilon)
    assert exact[0] + 2 * exact[1 : width + 1].sum() >= 0.95
    if width > 0:
        assert exact[0] + 2 * exact[1:width].sum() < 0.95 + 2 * noise.TABULATION_ERROR
    deviation = math.sqrt(2 * (np.arange(reach + 1) ** 2 * exact).sum())
    assert noise.standard_deviation(shape, epsilon) == pytest.approx(deviation, rel=1e-6)


def test_a_normal_interval_would_not_cover_near_one_share() -> None:
    shape, epsilon = 0.1, 0.05
    exact = noise.probabilities(shape, epsilon)
    assert exact is not None
    width = noise.half_width(shape, epsilon, 0.99)
    normal = int(2.5758 * noise.standard_deviation(shape, epsilon))
    assert exact[0] + 2 * exact[1 : width + 1].sum() >= 0.99
    assert exact[0] + 2 * exact[1 : normal + 1].sum() < 0.985


@given(
    shape=st.floats(1e-3, 1e4),
    epsilon=st.floats(0.01, 20.0),
    tail=st.sampled_from([0.3, 0.05, 1e-6]),
)
@settings(deadline=None, max_examples=60)
def test_chernoffs_half_width_is_never_below_the_exact_one(
    shape: float, epsilon: float, tail: float
) -> None:
    table = noise.probabilities(shape, epsilon)
    assert table is not None
    width = noise.chernoff_half_width(shape, epsilon, tail)
    assert 1 - table[0] - 2 * table[1 : width + 1].sum() <= tail + 1e-9


def test_huge_noise_falls_back_on_the_normal_law_and_then_on_chernoff() -> None:
    assert noise.probabilities(1e12, 0.1) is None
    deviation = noise.standard_deviation(1e12, 0.1)
    assert noise.half_width(1e12, 0.1) == pytest.approx(1.959964 * deviation, rel=2e-4)
    # Shape 1 and epsilon -> 0 is a Laplace law: P(|Y| > h) = exp(-epsilon h).
    assert noise.probabilities(1.0, 1e-6) is None
    assert noise.half_width(1.0, 1e-6) >= math.log(20) / 1e-6


def test_extreme_parameters_do_not_overflow() -> None:
    assert noise.half_width(1.0, 9e18) == 0
    assert noise.half_width(1.0, 2.0**-62) > 2.0**62
    assert noise.half_width(1e-9, 0.1) == 0


@pytest.mark.parametrize(
    "spec",
    [
        GeoShuffle(max_value=10, epsilon_geo=Fraction(1, 2), padding=60),
        SGDLShuffle(max_value=10, noise_epsilon=Fraction(1, 4), shares=12, padding=150),
    ],
)
def test_an_additive_sum_is_unbiased_and_its_intervals_cover(
    spec: GeoShuffle | SGDLShuffle,
) -> None:
    users, truth = 12, 57
    epsilon = spec.epsilon_geo if isinstance(spec, GeoShuffle) else spec.noise_epsilon
    shape = 12.0 if isinstance(spec, GeoShuffle) else 1.0
    reach = 400
    law = difference_of_negative_binomials(shape, float(epsilon), reach)
    bits, centre = users * spec.messages_per_user, truth + users * spec.padding
    outcomes = [[bits - ones, ones] for ones in range(centre - reach, centre + reach + 1)]
    mean, covered = expectation_and_coverage(spec, users, law, outcomes, truth)
    assert mean == pytest.approx(truth, abs=1e-6)
    assert 0.95 <= covered <= 0.99


LOSSY: list[Mechanism] = [
    RRShuffle(max_value=6, randomise=Fraction(1, 3)),
    GeoShuffle(max_value=2, epsilon_geo=Fraction(1, 2), padding=2),
    SGDLShuffle(max_value=2, noise_epsilon=Fraction(1, 2), shares=3, padding=2),
]
"""Six messages a user, so that every choice of lost ones can be gone through."""


def value_of(spec: Mechanism, ones: list[int], lost: int = 0) -> float:
    """The estimate where users send so many ones each, of whose messages `lost` do not count."""
    total = len(ones) * spec.messages_per_user - lost
    return estimate(spec, [total - sum(ones), sum(ones)], len(ones), lost).values[0]


@pytest.mark.parametrize("spec", LOSSY)
@pytest.mark.parametrize("lost", range(1, 7))
def test_a_report_counts_for_the_share_of_it_that_is_left(spec: Mechanism, lost: int) -> None:
    """Exactly, over all choices of the lost messages.

    For a report that is lost whole: as if it never was.
    """
    others = [3, 5]
    for ones in range(7):
        sent = [1] * ones + [0] * (6 - ones)
        left = [sum(sent) - sum(gone) for gone in itertools.combinations(sent, lost)]
        mean = math.fsum(value_of(spec, [*others, some], lost) for some in left) / len(left)
        alone = value_of(spec, [*others, ones]) - value_of(spec, others)
        assert mean == pytest.approx(value_of(spec, others) + (1 - lost / 6) * alone)


@pytest.mark.parametrize("spec", LOSSY)
def test_a_user_who_spoils_messages_moves_a_sum_no_further_than_one_who_sends_others(
    spec: Mechanism,
) -> None:
    others = [3, 5]
    reachable = [value_of(spec, [*others, ones]) for ones in range(7)]
    for lost in range(1, 7):
        for ones in range(7 - lost):
            assert min(reachable) <= value_of(spec, [*others, ones], lost) <= max(reachable)


def test_a_lost_report_of_a_histogram_is_one_user_fewer() -> None:
    spec = KRRHistogram(symbols=3, blanket=Fraction(1, 2))
    assert estimate(spec, [4, 3, 1], 10, 2) == estimate(spec, [4, 3, 1], 8)


def test_intervals_cover_where_some_messages_are_lost() -> None:
    """A user with 10 bits lost 3 of them, all zeros: exact coverage, of the sum over the messages
    that count."""
    users, largest = 20, 10
    spec = RRShuffle(max_value=largest, randomise=Fraction(1, 4))
    truth, bits = 60, users * largest - 3
    law = two_binomials(truth, 7 / 8, bits - truth, 1 / 8)
    covered = 0.0
    for ones, probability in enumerate(law):
        answer = estimate(spec, [bits - ones, ones], users, 3)
        covered += probability * (answer.lows[0] <= truth <= answer.highs[0])
        assert answer.mean == pytest.approx(answer.values[0] / 19.7)
    assert covered >= 0.95


def test_nothing_left_to_count_is_a_typed_error() -> None:
    with pytest.raises(CountMismatchError, match="less 6 lost"):
        estimate(RRShuffle(max_value=3, randomise=Fraction(1, 2)), [0, 0], 2, 6)


def test_a_whole_simulated_round_agrees_with_the_truth() -> None:
    """Monte Carlo of the clients themselves.

    The limit is Chernoff's for the summed noise: false alarms below 1e-9.
    """
    generator = np.random.default_rng(20240229)
    users, rounds = 400, 300
    spec = SGDLShuffle(max_value=5, noise_epsilon=Fraction(1, 2), shares=400, padding=40)
    success = -math.expm1(-0.5)
    errors = np.empty(rounds)
    for index in range(rounds):
        values = generator.integers(0, 6, users)
        draws = generator.negative_binomial(1 / 400, success, (2, users))
        ones = np.clip(values + draws[0] - draws[1] + spec.padding, 0, spec.messages_per_user)
        total = int(ones.sum())
        answer = estimate(spec, [users * spec.messages_per_user - total, total], users)
        errors[index] = answer.values[0] - values.sum()
    assert abs(errors.sum()) <= noise.chernoff_half_width(rounds * 1.0, 0.5, 1e-9)


def test_intervals_stay_within_what_is_possible() -> None:
    answer = estimate(RRShuffle(max_value=1, randomise=Fraction(1, 2)), [100, 0], 100)
    assert answer.values[0] < 0
    assert (answer.lows[0], answer.highs[0]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "spec",
    [
        BloomRappor(symbols=3, bits=4, hashes=2, cohorts=4, fake=Fraction(1)),
        KRRHistogram(symbols=3, blanket=Fraction(1)),
        HadamardHistogram(symbols=3, blanket=Fraction(1)),
        RapporHistogram(
            symbols=3, fake=Fraction(1), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
        ),
        RapporHistogram(
            symbols=3, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(1, 4)
        ),
        OneBitShuffle(max_value=3, randomise=Fraction(1)),
        QuantisedRR(max_value=3, bits=2, randomise=Fraction(1)),
        RRShuffle(max_value=1, randomise=Fraction(1)),
    ],
)
def test_a_mechanism_of_pure_noise_is_refused(spec: Mechanism) -> None:
    with pytest.raises(UsageError, match="pure noise"):
        estimate(spec, [0] * spec.alphabet, 1)


def test_another_interval_is_told_from_another_answer() -> None:
    """A result of an earlier build has the right answer and other ends.

    Its analyst is not accused of a false one.
    """
    spec, counts = RRShuffle(max_value=3, randomise=Fraction(1, 2)), [160, 140]
    own = estimate(spec, counts, 100)
    check_estimate(spec, counts, 100, own)
    with pytest.raises(
        FalseResultError, match="the answer is right, the interval is not this version's"
    ):
        check_estimate(spec, counts, 100, structs.replace(own, lows=(own.lows[0] - 2,)))
    with pytest.raises(FalseResultError, match="signed an answer that is not this round's"):
        check_estimate(spec, counts, 100, structs.replace(own, values=(own.values[0] + 2,)))


@pytest.mark.parametrize("off", [-1, 1])
def test_counts_that_are_off_by_one_are_refused(off: int) -> None:
    spec = RRShuffle(max_value=3, randomise=Fraction(1, 2))
    with pytest.raises(CountMismatchError, match="10 reports of 3"):
        estimate(spec, [10, 20 + off], 10)


def test_our_own_misuse_is_a_value_error() -> None:
    spec = RRShuffle(max_value=3, randomise=Fraction(1, 2))
    with pytest.raises(ValueError, match="2 counts"):
        estimate(spec, [30], 10)
    with pytest.raises(ValueError, match="must be above 0"):
        noise.half_width(0.0, 1.0)
