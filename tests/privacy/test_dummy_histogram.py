"""The histogram with users' dummies: exact on every dataset of small rounds, and as good as a
trusted party's answer in large ones (K15)."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from shuffledp_core.answering.estimation import estimate
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import DummyHistogram
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.rounds.composition import Round, compose_bounds

Board = dict[tuple[int, ...], Fraction]

DRAWS = 40_000


@cache
def slots_law(symbols: int, slots: int, fill: Fraction) -> Board:
    """The exact law of the counts of all symbols and of empty ones among so many slots."""
    law: Board = {(0,) * (symbols + 1): Fraction(1)}
    chances = [fill / symbols] * symbols + [1 - fill]
    for _ in range(slots):
        after: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for counts, mass in law.items():
            for place, chance in enumerate(chances):
                after[(*counts[:place], counts[place] + 1, *counts[place + 1 :])] += mass * chance
        law = dict(after)
    return law


def board_law(spec: DummyHistogram, values: tuple[int, ...]) -> Board:
    counted = Counter(values)
    true = [counted[symbol] for symbol in range(spec.symbols)] + [0]
    dummies = slots_law(spec.symbols, len(values) * spec.slots, spec.fill)
    return {
        tuple(map(sum, zip(counts, true, strict=True))): mass for counts, mass in dummies.items()
    }


def exact_delta(first: Board, second: Board, growth: Fraction) -> float:
    none = Fraction(0)
    excesses = (mass - growth * second.get(counts, none) for counts, mass in first.items())
    return float(sum((excess for excess in excesses if excess > 0), none))


@pytest.mark.parametrize(
    ("symbols", "slots", "users"),
    [(2, 1, 1), (2, 1, 3), (2, 3, 2), (3, 1, 1), (3, 1, 3), (3, 2, 2), (4, 1, 2)],
)
@pytest.mark.parametrize("fill", [Fraction(1, 7), Fraction(2, 3), Fraction(1)])
def test_both_sides_are_the_truth_on_every_dataset(
    symbols: int, slots: int, users: int, fill: Fraction
) -> None:
    spec = DummyHistogram(symbols=symbols, slots=slots, fill=fill)
    for epsilon in (0.0, 0.4, 1.7):
        bounds = delta_bounds(spec, Setting(users, users), epsilon)
        growth = Fraction(math.exp(epsilon))
        for others in itertools.combinations_with_replacement(range(symbols), users - 1):
            for old, new in itertools.permutations(range(symbols), 2):
                truth = exact_delta(
                    board_law(spec, (old, *others)), board_law(spec, (new, *others)), growth
                )
                assert bounds.attained * (1 - 1e-9) <= truth <= bounds.certified * (1 + 1e-9)
                assert bounds.certified == pytest.approx(truth, rel=1e-6, abs=1e-25)
                assert bounds.attained == pytest.approx(truth, rel=1e-6, abs=1e-25)


@settings(deadline=None, max_examples=40)
@given(
    symbols=st.integers(2, 50),
    slots=st.integers(1, 4),
    share=st.integers(1, 64),
    honest=st.integers(1, 200),
    epsilon=st.floats(0, 4),
)
def test_delta_is_the_sum_over_the_dummies_of_two_symbols(
    symbols: int, slots: int, share: int, honest: int, epsilon: float
) -> None:
    """Straight from the definition: all numbers M_a + M_b, and M_a a fair half of them."""
    spec = DummyHistogram(symbols=symbols, slots=slots, fill=Fraction(share, 64))
    trials = honest * slots
    both = np.arange(trials + 1)
    weights = binom.pmf(both, trials, 2 * share / 64 / symbols)
    truth = 0.0
    for total, weight in zip(both.tolist(), weights.tolist(), strict=True):
        if weight > 1e-18:
            u = np.arange(total + 2)
            before = binom.pmf(u - 1, total, 0.5)
            after = binom.pmf(u, total, 0.5)
            truth += weight * float(np.maximum(before - math.exp(epsilon) * after, 0.0).sum())
    bounds = delta_bounds(spec, Setting(honest, honest), epsilon)
    assert bounds.certified == pytest.approx(truth, rel=1e-6, abs=1e-13)
    assert bounds.attained == pytest.approx(truth, rel=1e-6, abs=1e-13)
    curve = certified_curve(spec, Setting(honest, honest), 1, np.array([epsilon]))
    assert curve[0] == pytest.approx(bounds.certified, rel=1e-9)


@pytest.mark.parametrize(
    ("people", "symbols", "messages"),
    [(1000, 21, 2), (10_000, 21, 2), (10_000, 1000, 6), (10**6, 1000, 2), (10**6, 10_000, 2)],
)
def test_few_messages_give_an_error_below_seven(people: int, symbols: int, messages: int) -> None:
    spec = calibrate("dummy-histogram", Target(1.0, 1e-6, people, people, symbols=symbols))
    assert spec.messages_per_user == messages
    assert standard_error(spec, people) <= 7
    bounds = epsilon_bounds(spec, Setting(people, people), 1e-6)
    assert 0.999 < bounds.attained <= bounds.certified <= 1.0
    assert bounds.certified <= bounds.attained * (1 + 1e-6)


def test_a_certificate_for_a_billion_people_is_quick_and_tight() -> None:
    spec = DummyHistogram(symbols=10**5, slots=1, fill=Fraction(43, 10_000))
    began = time.process_time()
    bounds = epsilon_bounds(spec, Setting(10**9, 10**9), 1e-6)
    assert time.process_time() - began < 5
    assert bounds.certified <= bounds.attained * (1 + 1e-6)


def test_both_adjacencies_and_all_distances_have_the_same_number() -> None:
    spec = DummyHistogram(symbols=9, slots=1, fill=Fraction(1, 2))
    settings_tried = [
        Setting(500, 450),
        Setting(500, 450, max_distance=1),
        Setting(450, 450),
        Setting(500, 450, adjacency="metric"),  # type: ignore[arg-type]
    ]
    assert len({epsilon_bounds(spec, setting, 1e-6).certified for setting in settings_tried}) == 1


def test_more_honest_people_never_cost_more() -> None:
    spec = DummyHistogram(symbols=5, slots=2, fill=Fraction(1, 3))
    deltas = [delta_bounds(spec, Setting(n, n), 1.0).certified for n in (1, 2, 5, 20, 100, 1000)]
    assert deltas == sorted(deltas, reverse=True)


def test_rounds_compose_and_cost_less_than_their_sum() -> None:
    spec = DummyHistogram(symbols=21, slots=1, fill=Fraction(1, 2))
    setting = Setting(5000, 5000)
    alone = epsilon_bounds(spec, setting, 1e-6)
    together = compose_bounds([Round(spec, setting, 30)], 1e-6)
    assert alone.certified < together.certified < 15 * alone.certified


def test_a_calibrated_series_of_rounds_meets_its_target() -> None:
    target = Target(1.0, 1e-6, 10_000, 10_000, symbols=21, rounds=10)
    spec = calibrate("dummy-histogram", target)
    bounds = compose_bounds([Round(spec, target.setting, 10)], 1e-6)
    assert 0.99 < bounds.certified <= 1.0


def test_nothing_is_left_if_every_node_is_corrupt() -> None:
    spec = DummyHistogram(symbols=3, slots=1, fill=Fraction(1))
    assert math.isinf(corrupted_bounds(spec, Setting(10, 10), 1e-6).epsilon)
    assert math.isinf(spec.local_epsilon(1))


def test_too_few_dummies_have_no_finite_epsilon() -> None:
    """No dummy of the old symbol is left with a chance above δ: no ε covers that."""
    spec = DummyHistogram(symbols=10, slots=1, fill=Fraction(1, 10))
    with pytest.raises(CannotCertify):
        epsilon_bounds(spec, Setting(100, 100), 1e-6)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("honest", [1, 7, 400])
@pytest.mark.parametrize("symbols", [2, 3, 40])
@pytest.mark.parametrize("fill", [Fraction(1, 9), Fraction(1)])
def test_a_device_finds_nearly_the_certified_delta_and_never_more(
    slots: int, honest: int, symbols: int, fill: Fraction
) -> None:
    spec = DummyHistogram(symbols=symbols, slots=slots, fill=fill)
    for epsilon in (0.0, 0.5, 2.0):
        bounds = delta_bounds(spec, Setting(honest, honest), epsilon)
        attained = spec.witness(honest, 1).attained_delta(epsilon)
        assert attained <= bounds.certified
        assert attained == pytest.approx(bounds.certified, rel=1e-6, abs=1e-12)


def test_a_round_that_is_too_large_for_a_device_has_no_bound_there() -> None:
    spec = DummyHistogram(symbols=2, slots=1, fill=Fraction(1, 2))
    assert spec.witness(10**6, 1).attained_delta(0.0) == 0.0


def test_both_samplers_draw_the_law_of_the_slots() -> None:
    """Chi-square at 1e-12 with 200 expected in every cell, off by a factor below 100: twice."""
    spec = DummyHistogram(symbols=3, slots=2, fill=Fraction(2, 3))
    law = board_law(spec, (1,))
    integers = RandomIntegers()
    single = Counter(
        tuple(np.bincount(spec.say(1, integers), minlength=4).tolist()) for _ in range(DRAWS)
    )
    bulk = spec.count_sent(np.ones((DRAWS, 1), dtype=np.int64), RandomArrays())
    for seen in (single, Counter(map(tuple, bulk.tolist()))):
        assert set(seen) <= set(law)
        expected = {board: float(mass) * DRAWS for board, mass in law.items()}
        assert min(expected.values()) >= 200
        statistic = sum((seen[board] - mean) ** 2 / mean for board, mean in expected.items())
        assert statistic <= chi2.isf(1e-12, len(law) - 1)


def test_users_of_one_round_draw_their_dummies_independently() -> None:
    """The number of empty slots of a round is binomial: chi-square at 1e-12, as above."""
    spec = DummyHistogram(symbols=4, slots=2, fill=Fraction(1, 3))
    counts = spec.count_sent(np.zeros((DRAWS, 3), dtype=np.int64), RandomArrays())
    assert (counts.sum(axis=1) == 9).all()
    seen = np.bincount(counts[:, 4], minlength=7)
    expected = binom.pmf(np.arange(7), 6, 2 / 3) * DRAWS
    large = expected >= 200
    observed = np.append(seen[large], seen[~large].sum())
    means = np.append(expected[large], expected[~large].sum())
    likely = means > 0
    statistic = float(((observed - means)[likely] ** 2 / means[likely]).sum())
    assert statistic <= chi2.isf(1e-11, int(likely.sum()) - 1)


def test_the_place_of_the_value_tells_nothing() -> None:
    """Where every slot is empty the value stands at each place as often; chi-square at 1e-12."""
    spec = DummyHistogram(symbols=4, slots=3, fill=Fraction(1, 2**40))
    integers = RandomIntegers()
    sent = np.array([spec.say(2, integers) for _ in range(DRAWS // 4)])
    places = np.bincount((sent == 2).argmax(axis=1), minlength=4)
    assert float(((places - DRAWS / 16) ** 2 / (DRAWS / 16)).sum()) <= chi2.isf(1e-12, 3)


@pytest.mark.parametrize("users", [1, 30, 400])
@pytest.mark.parametrize("fill", [Fraction(1, 50), Fraction(1, 2), Fraction(1)])
def test_estimates_are_unbiased_and_their_intervals_cover(users: int, fill: Fraction) -> None:
    """Exactly, over all numbers of dummies of one symbol, for any number of people who hold it."""
    spec = DummyHistogram(symbols=4, slots=2, fill=fill)
    slots = users * spec.slots
    dummies = np.arange(slots + 1)
    law = binom.pmf(dummies, slots, float(spec.dummy_rate))
    for holders in {0, users // 3, users}:
        mean = covered = 0.0
        for extra, mass in zip(dummies.tolist(), law.tolist(), strict=True):
            if mass < 1e-9:
                continue
            counts = [holders + extra, users - holders, 0, 0, slots - extra]
            answer = estimate(spec, counts, users)
            mean += mass * answer.values[0]
            covered += mass * (answer.lows[0] <= holders <= answer.highs[0])
        assert mean == pytest.approx(holders, abs=1e-5)
        assert covered >= 0.95
        assert answer.standard_errors[0] == pytest.approx(standard_error(spec, users))


def test_lost_messages_take_their_share_of_the_dummies() -> None:
    spec = DummyHistogram(symbols=2, slots=1, fill=Fraction(1))
    answer = estimate(spec, [80, 70, 0], users=100, lost=50)
    assert answer.values == (80 - 75 / 2, 70 - 75 / 2)


def test_linked_messages_give_the_value_away() -> None:
    spec = DummyHistogram(symbols=5, slots=3, fill=Fraction(1, 2))
    linked = np.array([[5, 5, 3, 5], [2, 4, 2, 1], [0, 5, 5, 0], [4, 1, 5, 5]])
    assert spec.read_answers(linked).tolist() == [3, 2, 0, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"symbols": 1, "slots": 1, "fill": Fraction(1, 2)},
        {"symbols": 2, "slots": 0, "fill": Fraction(1, 2)},
        {"symbols": 2, "slots": 10_000, "fill": Fraction(1, 2)},
        {"symbols": 2, "slots": 1, "fill": Fraction(0)},
        {"symbols": 2, "slots": 1, "fill": Fraction(3, 2)},
        {"symbols": 2**31 - 1, "slots": 1, "fill": Fraction(1, 2)},
        {"symbols": 2, "slots": True, "fill": Fraction(1, 2)},
    ],
)
def test_parameters_outside_their_range_are_refused(fields: dict[str, int | Fraction]) -> None:
    with pytest.raises(ValueError, match="must be"):
        DummyHistogram(**fields)  # type: ignore[arg-type]
