"""RAPPOR in the shuffle against enumeration from its definition: one round, all rounds of a
question, the ledger."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from composed_delta import compose_delta
from numpy.typing import NDArray

from shuffledp.guarantees import local_of
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import KRRHistogram, OneBitShuffle, RapporHistogram
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.adaptive import spent_adaptively
from shuffledp_privacy.analysis import Cost, alone, compose_costs
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.mechanisms.rappor import ALONE, kept_response, one_report
from shuffledp_privacy.rounds.composition import (
    Round,
    compose_bounds,
    compose_epsilon,
)

Floats = NDArray[np.float64]
TINY = RapporHistogram(
    symbols=2, fake=Fraction(1, 2), when_zero=Fraction(1, 4), when_one=Fraction(3, 4)
)
SHARP = RapporHistogram(
    symbols=2, fake=Fraction(3, 10), when_zero=Fraction(1, 1000), when_one=Fraction(3, 10)
)
THREE = RapporHistogram(
    symbols=3, fake=Fraction(2, 5), when_zero=Fraction(1, 5), when_one=Fraction(9, 10)
)
ONE = Fraction(1, 3)
ALMOST = Fraction(999, 1000)
EPSILONS = (0.0, 0.1, 0.5, 1.0, 1.5, 2.0)


def bits(chances: Sequence[Fraction]) -> Floats:
    """The law of independent bits as a number, bit s with the s-th chance."""
    law = []
    for number in range(2 ** len(chances)):
        each = (one if number >> s & 1 else 1 - one for s, one in enumerate(chances))
        law.append(float(math.prod(each, start=Fraction(1))))
    return np.array(law)


@cache
def kept_law(spec: RapporHistogram, value: int) -> Floats:
    return bits([1 - spec.fake / 2 if s == value else spec.fake / 2 for s in range(spec.symbols)])


@cache
def blurred_law(spec: RapporHistogram, kept: int) -> Floats:
    return bits([spec.when_one if kept >> s & 1 else spec.when_zero for s in range(spec.symbols)])


@cache
def view_law(spec: RapporHistogram, kept: tuple[int, ...]) -> Floats:
    """The multiset of reports of devices that hold these responses."""
    law: dict[tuple[int, ...], float] = defaultdict(float)
    laws = [blurred_law(spec, one) for one in kept]
    for reports in itertools.product(range(2**spec.symbols), repeat=len(kept)):
        law[tuple(sorted(reports))] += math.prod(
            float(one[r]) for one, r in zip(laws, reports, strict=True)
        )
    return np.array([law[key] for key in sorted(law)])


def rounds_law(spec: RapporHistogram, values: Sequence[int], rounds: int) -> Floats:
    """The views of so many rounds of the same devices, which keep their responses: a sum over all
    responses."""
    total: Floats = np.zeros(1)
    laws = [kept_law(spec, value) for value in values]
    for kept in itertools.product(range(2**spec.symbols), repeat=len(values)):
        weight = math.prod(float(law[one]) for law, one in zip(laws, kept, strict=True))
        view = view_law(spec, tuple(sorted(kept)))
        seen = np.ones(1)
        for _ in range(rounds):
            seen = np.multiply.outer(seen, view).ravel()
        total = total + weight * seen
    return total


def delta_between(one: Floats, other: Floats, epsilon: float) -> float:
    return max(
        float(np.maximum(a - math.exp(epsilon) * b, 0).sum())
        for a, b in ((one, other), (other, one))
    )


def worst(spec: RapporHistogram, honest: int, rounds: int, epsilon: float) -> float:
    """Over all datasets, and all changes of a value."""
    found = 0.0
    for others in itertools.combinations_with_replacement(range(spec.symbols), honest - 1):
        for one, other in itertools.combinations(range(spec.symbols), 2):
            first, second = (rounds_law(spec, (value, *others), rounds) for value in (one, other))
            found = max(found, delta_between(first, second, epsilon))
    return found


@pytest.mark.parametrize(
    ("spec", "honest"),
    [(TINY, 1), (TINY, 3), (SHARP, 1), (SHARP, 4), (THREE, 2), (THREE, 3)],
    ids=str,
)
def test_one_round_is_between_its_sides_on_every_dataset(
    spec: RapporHistogram, honest: int
) -> None:
    setting = Setting(honest, honest)
    for epsilon in EPSILONS:
        found, exact = delta_bounds(spec, setting, epsilon), worst(spec, honest, 1, epsilon)
        assert found.attained <= exact * (1 + 1e-9) + 1e-15
        assert exact <= found.certified * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(
    ("spec", "honest", "rounds"), [(TINY, 1, 3), (TINY, 3, 2), (SHARP, 3, 2), (THREE, 2, 2)]
)
def test_all_rounds_cost_no_more_than_the_kept_response(
    spec: RapporHistogram, honest: int, rounds: int
) -> None:
    setting = Setting(honest, honest)
    local = corrupted_bounds(spec, setting, 0.0)
    assert local.delta == 0.0
    half = float(spec.fake) / 2
    assert local.epsilon == pytest.approx(2 * math.log((1 - half) / half), rel=1e-12)
    for epsilon in EPSILONS:
        exact = worst(spec, honest, rounds, epsilon)
        # K14 (b), by composition; and (c), by one shuffled round of permanent responses.
        assert exact <= compose_delta([Round(spec, setting, rounds)], epsilon) * (1 + 1e-9)
        assert (
            exact
            <= delta_bounds(kept_response(spec), setting, epsilon).certified * (1 + 1e-9) + 1e-15
        )
        assert (
            exact
            <= float(certified_curve(spec, setting, 1, np.array([epsilon]))[0]) * (1 + 1e-9) + 1e-15
        )
    assert worst(spec, honest, rounds, local.epsilon) <= 1e-15


def test_rounds_of_one_question_are_no_composition() -> None:
    """Two rounds of kept responses tell more than two of fresh ones: single rounds' curves must not
    be composed."""
    rarely = RapporHistogram(
        symbols=2, fake=Fraction(1, 10), when_zero=SHARP.when_zero, when_one=SHARP.when_one
    )
    for spec, others, epsilon in ((SHARP, (), 2.0), (rarely, (1, 1), 1.8)):
        single = [rounds_law(spec, (value, *others), 1) for value in (0, 1)]
        fresh = [np.multiply.outer(law, law).ravel() for law in single]
        shared = [rounds_law(spec, (value, *others), 2) for value in (0, 1)]
        assert delta_between(shared[0], shared[1], epsilon) > 1.05 * delta_between(
            fresh[0], fresh[1], epsilon
        )
    # What would be certified if it were one is false, what is certified is not.
    exact = worst(SHARP, 1, 2, 2.0)
    assert compose_delta([Round(one_report(SHARP), ALONE, 2)], 2.0) < 0.8 * exact
    assert compose_delta([Round(SHARP, ALONE, 2)], 2.0) >= exact


def test_however_many_rounds_are_charged_once() -> None:
    setting = Setting(1000, 1000)
    limit = corrupted_bounds(TINY, setting, 0.0).epsilon
    once = compose_bounds([Round(TINY, setting, 2)], 1e-6)
    assert once.certified <= limit * (1 + 1e-9)
    assert once.attained == epsilon_bounds(TINY, setting, 1e-6).attained
    assert compose_epsilon([Round(TINY, setting, 10**6)], 1e-6) == once.certified
    # Also with other users, with other p and q, and on a random subset.
    later = RapporHistogram(
        symbols=2, fake=TINY.fake, when_zero=Fraction(1, 3), when_one=Fraction(2, 3)
    )
    mixed = [
        Round(TINY, setting, 3),
        Round(later, Setting(50, 40), 5),
        Round(TINY, setting, 2, Fraction(1, 10)),
    ]
    assert compose_epsilon(mixed, 1e-6) == once.certified
    # Another question, and another f, are another response.
    for other in (
        TINY.about(1),
        RapporHistogram(symbols=2, fake=Fraction(1, 4), when_zero=ONE, when_one=2 * ONE),
    ):
        assert other.response_name != TINY.response_name
        assert compose_epsilon([Round(TINY, setting), Round(other, setting)], 1e-9) > 1.5 * limit


def test_each_population_of_each_deployment_has_a_response_of_its_own() -> None:
    """Somebody in two populations draws two, and both are seen: without noise in the reports, twice
    the ε of one."""
    setting = Setting(1, 1)
    open_response = RapporHistogram(
        symbols=2, fake=Fraction(1, 2), when_zero=Fraction(1, 1000), when_one=ALMOST
    )
    limit = corrupted_bounds(open_response, setting, 0.0).epsilon
    here, there = (
        Round(open_response, setting, 3, scope=scope) for scope in ("demo young", "demo old")
    )
    assert compose_epsilon([here, here], 1e-6) <= limit * (1 + 1e-9)
    assert compose_epsilon([here, there], 1e-6) >= 1.9 * limit
    assert local_of([here, there], 1e-6).epsilon == pytest.approx(2 * limit)


def test_every_node_corrupt_is_charged_once_as_well() -> None:
    setting = Setting(100, 100)
    assert local_of([Round(TINY, setting, 52)], 1e-6) == corrupted_bounds(TINY, setting, 1e-6)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_round_stated_for_short_changes_hides_no_long_ones(order: tuple[int, ...]) -> None:
    """Two rounds of one question and one of another kind, alone in a crowd: a change by 7 shows all
    of both (C7).

    Without noise in the reports the kept response is seen: 2 ln 3 of it, and ln 3 of the bit's
    chances 1/4 and 3/4."""
    open_response = RapporHistogram(
        symbols=8, fake=Fraction(1, 2), when_zero=Fraction(1, 1000), when_one=ALMOST
    )
    bit = OneBitShuffle(max_value=7, randomise=Fraction(1, 2))
    rounds = [
        Round(open_response, Setting(1, 1, Adjacency.STANDARD, 7)),
        Round(open_response, Setting(1, 1, Adjacency.STANDARD, 1)),
        Round(bit, Setting(1, 1, Adjacency.STANDARD, 1)),
    ]
    mixed = [rounds[place] for place in order]
    assert compose_epsilon(mixed, 1e-6) >= 3.2958
    assert local_of(mixed, 1e-6).epsilon >= 3 * math.log(3)


def test_what_is_left_without_nodes_is_added_up_for_one_change() -> None:
    bit = OneBitShuffle(max_value=7, randomise=Fraction(1, 2))
    rounds = [Round(bit, Setting(1, 1, Adjacency.STANDARD, distance)) for distance in (7, 1)]
    assert local_of(rounds, 1e-6).epsilon == pytest.approx(2 * math.log(3), rel=1e-9)


def cost(spec: RapporHistogram | KRRHistogram, users: int = 1000) -> Cost:
    return Cost(spec, Setting(users, users, Adjacency.STANDARD, spec.domain - 1), 1e-8)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("budget", [3.0, 20.0])
def test_the_ledger_charges_a_question_once(budget: float, adjacency: Adjacency) -> None:
    def adaptively(*costs: Cost) -> float:
        return spent_adaptively(costs, adjacency, budget, 1e-6).certified

    def fixed(*costs: Cost) -> float:
        return compose_costs(costs, adjacency, 1e-6).certified

    limit = corrupted_bounds(TINY, ALONE, 0.0).epsilon
    for total in (adaptively, fixed):
        assert total(cost(TINY)) == pytest.approx(alone(cost(TINY), 1e-6).certified)
        twice = total(cost(TINY), cost(TINY))
        # Never the single round's ε again, which holds of the first round alone.
        assert limit * 0.9 <= twice <= limit * 1.2
        assert total(*[cost(TINY)] * 52, cost(TINY, users=900)) == pytest.approx(twice)
        assert total(cost(TINY), cost(TINY), cost(TINY.about(2))) >= 1.5 * limit
        other = cost(KRRHistogram(symbols=4, blanket=Fraction(1, 2)))
        assert total(cost(TINY), cost(TINY), other) > twice


def test_a_second_round_that_does_not_fit_is_refused() -> None:
    """The first round may use a small budget by its own ε.

    The second shows that it was only the first.
    """
    small = 1.0
    assert spent_adaptively([cost(TINY)], Adjacency.STANDARD, small, 1e-6).certified <= small
    assert (
        spent_adaptively([cost(TINY), cost(TINY)], Adjacency.STANDARD, small, 1e-6).certified
        > small
    )


@pytest.mark.parametrize(
    ("epsilon", "rounds"), [(0.05, 1), (0.1, 1), (1.0, 1), (1.0, 2), (3.0, 52), (8.0, 3)]
)
def test_plans_of_one_question_keep_one_response(epsilon: float, rounds: int) -> None:
    target = Target(epsilon, 1e-6, 1000, 1000, symbols=5, rounds=rounds)
    spec = calibrate("rappor-histogram", target)
    assert isinstance(spec, RapporHistogram)
    assert compose_epsilon([Round(spec, target.setting, rounds)], 1e-6) <= epsilon
    if rounds == 1:
        assert spec.fake == Fraction(
            1, 2
        )  # whatever the target is, or a second round would draw another response
    else:
        assert corrupted_bounds(spec, ALONE, 0.0).epsilon == pytest.approx(epsilon, rel=0.03)


def test_more_symbols_than_a_message_holds_are_refused_with_the_reason() -> None:
    with pytest.raises(CannotCertify, match="at most 31 symbols"):
        calibrate("rappor-histogram", Target(1.0, 1e-6, 100, 100, symbols=32))


def test_a_question_s_number_is_for_kept_responses_only() -> None:
    krr = KRRHistogram(symbols=2, blanket=Fraction(1, 2))
    assert krr.about(0) is krr
    with pytest.raises(UsageError, match="memoises no response"):
        krr.about(3)


def test_a_delta_at_which_nothing_need_be_hidden_is_answered() -> None:
    """The search for the least noise ends at a parameter that can be sampled from."""
    spec = calibrate("hadamard-histogram", Target(0.0113, 0.9, 1, 1, max_value=99))
    assert delta_bounds(spec, ALONE, 0.0113).certified <= 0.9
