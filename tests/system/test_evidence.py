"""What counts prove: every statement here is computed by summing probabilities or on counts made up
for it."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special
from scipy.stats import binom

from shuffledp_adversary import evidence
from shuffledp_adversary.evidence import clopper_pearson, epsilon_bound, number_outcomes

STRICT = 1 - 1e-9


def repeated(pattern: list[int], times: int) -> NDArray[np.int64]:
    """The pattern again and again, so that both halves hold the same shares."""
    return np.tile(np.array(pattern, dtype=np.int64), 2 * times)


@pytest.mark.parametrize("largest", [0, 5, 90, 10**6], ids=lambda largest: f"up to {largest}")
def test_different_outcomes_are_numbered_in_rising_order(largest: int) -> None:
    outcomes = np.random.default_rng(1).integers(-largest, largest + 1, size=500)
    present, place = number_outcomes(outcomes)
    assert present.tolist() == sorted(set(outcomes.tolist()))
    assert np.array_equal(present[place], outcomes)


@pytest.mark.parametrize("confidence", [0.5, 0.95, STRICT])
@pytest.mark.parametrize("chance", [0.0, 1e-3, 0.1, 0.5, 0.77, 1.0])
def test_an_interval_covers_every_probability_as_often_as_it_says(
    chance: float, confidence: float
) -> None:
    trials = 25
    covered = [
        low <= chance <= high
        for low, high in (clopper_pearson(s, trials, confidence) for s in range(trials + 1))
    ]
    missed = math.fsum(binom.pmf(s, trials, chance) for s in range(trials + 1) if not covered[s])
    assert missed <= (1 - confidence) * (1 + 1e-9)


def test_the_ends_of_an_interval_are_where_the_tail_has_its_share() -> None:
    low, high = clopper_pearson(7, 40, 0.9)
    assert binom.sf(6, 40, low) == pytest.approx(0.05, rel=1e-9)
    assert binom.cdf(7, 40, high) == pytest.approx(0.05, rel=1e-9)
    assert clopper_pearson(0, 5)[0] == 0.0
    assert clopper_pearson(5, 5)[1] == 1.0


@pytest.mark.parametrize(
    ("chance", "other", "delta"),
    [(0.5, 0.5, 0.0), (0.7, 0.5, 0.1), (0.9, 0.4, 0.0), (0.99, 0.6, 0.1)],
)
def test_a_true_guarantee_is_refuted_no_more_often_than_it_may(
    chance: float, other: float, delta: float
) -> None:
    """Every possible pair of samples of a coin, with its probability: nothing here is random."""
    confidence, trials = 0.6, 5
    truth = max(
        math.log((p - delta) / q)
        for p, q in (
            (chance, other),
            (1 - chance, 1 - other),
            (other, chance),
            (1 - other, 1 - chance),
        )
        if p > delta
    )
    truth = max(0.0, truth)
    # A bound depends on how often the coin shows 1 in each half; see the next test.
    samples = {
        (few, many): np.array([1] * few + [0] * (2 - few) + [1] * many + [0] * (3 - many))
        for few, many in itertools.product(range(3), range(4))
    }

    def likelihood(chance: float, few: int, many: int) -> float:
        heads = few + many
        ways = math.comb(2, few) * math.comb(3, many)
        return ways * chance**heads * (1 - chance) ** (trials - heads)

    assert math.fsum(likelihood(chance, *counts) for counts in samples) == pytest.approx(1)
    refuted = math.fsum(
        likelihood(chance, *counts) * likelihood(other, *rival)
        for (counts, first), (rival, second) in itertools.product(samples.items(), repeat=2)
        if epsilon_bound(first, second, delta, confidence).lower > truth
    )
    assert refuted <= 1 - confidence
    assert (
        epsilon_bound(
            np.ones(5, dtype=np.int64), np.zeros(5, dtype=np.int64), delta, confidence
        ).lower
        > 0
    )


def test_a_bound_does_not_depend_on_the_order_within_a_half() -> None:
    other = np.array([0, 1, 1, 0, 0])
    for one in itertools.product((0, 1), repeat=5):
        given = np.array(one)
        ordered = np.array(sorted(one[:2]) + sorted(one[2:]))
        assert epsilon_bound(given, other, 0.0, 0.6) == epsilon_bound(ordered, other, 0.0, 0.6)
        assert epsilon_bound(other, given, 0.0, 0.6) == epsilon_bound(other, ordered, 0.0, 0.6)


def test_a_bound_approaches_the_truth_from_below() -> None:
    """Randomised response with 3 : 1, at its exact shares."""
    lowers = []
    for times in (100, 1000, 10_000):
        bound = epsilon_bound(
            repeated([1, 1, 1, 0], times), repeated([0, 0, 0, 1], times), 0.0, STRICT
        )
        assert bound.estimate == pytest.approx(math.log(3))
        lowers.append(bound.lower)
    assert lowers == sorted(lowers)
    assert 0.9 * math.log(3) < lowers[-1] < math.log(3)


def test_delta_is_taken_off() -> None:
    bound = epsilon_bound(repeated([1, 1, 1, 0], 500), repeated([0, 0, 0, 1], 500), 0.25, 0.95)
    assert bound.estimate == pytest.approx(math.log(2))
    assert (
        epsilon_bound(repeated([1, 1, 1, 0], 500), repeated([0, 0, 0, 1], 500), 0.8, 0.95).lower
        == 0.0
    )


def test_equal_samples_prove_nothing() -> None:
    same = repeated([3, 1, 4, 1, 5, 9, 2, 6], 200)
    assert epsilon_bound(same, same, 0.0, 0.95).lower == 0.0


@pytest.mark.parametrize("event", [0, 1, 2])
def test_the_telling_outcome_is_found_wherever_it_is_and_in_both_directions(event: int) -> None:
    """An outcome in the middle is no tail: only the order by likelihood ratio finds it."""
    plain, marked = repeated([0, 1, 2], 600), repeated([0, 1, 2], 600)
    marked[(event + 1) % 3 :: 3] = event
    there, back = epsilon_bound(plain, marked, 0.0), epsilon_bound(marked, plain, 0.0)
    assert there.lower == back.lower
    assert there.hits == back.hits
    assert there.lower > 0.2


def test_a_rare_outcome_that_was_lucky_in_the_first_half_is_not_what_is_measured() -> None:
    first, second = repeated([1, 1, 1, 0], 500), repeated([0, 0, 0, 1], 500)
    first[:3] = 7
    assert epsilon_bound(first, second, 0.0).hits[0] > 1000


def test_misuse_is_refused() -> None:
    some = np.arange(10)
    for call in (
        lambda: clopper_pearson(3, 2),
        lambda: clopper_pearson(1, 2, 1.0),
        lambda: epsilon_bound(some, some[:5], 0.0),
        lambda: epsilon_bound(some[:1], some[:1], 0.0),
        lambda: epsilon_bound(some, some, 1.0),
        lambda: epsilon_bound(some, some, 0.0, 0.0),
    ):
        with pytest.raises(ValueError, match=r"must|make|needed|no interval"):
            call()


@pytest.mark.parametrize("side", [0.4, 0.01, 1e-9, 1e-40])
@pytest.mark.parametrize("trials", [1, 2, 30, 5000, 10**6])
def test_the_ends_of_intervals_agree_with_scipy_from_outside(trials: int, side: float) -> None:
    successes = np.unique(np.linspace(0, trials, 201).astype(np.int64))
    low, high = evidence._ends(successes, successes, trials, side)
    failures = trials - successes
    true_low = special.betaincinv(np.maximum(successes, 1), failures + 1, side)
    true_high = special.betainccinv(successes + 1, np.maximum(failures, 1), side)
    true_low[0], true_high[-1] = 0.0, 1.0
    assert np.all(low <= true_low)
    assert np.all(high >= true_high)
    assert np.allclose(low, true_low, rtol=1e-6)
    assert np.allclose(high, true_high, rtol=1e-6)
