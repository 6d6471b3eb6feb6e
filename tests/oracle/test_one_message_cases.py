"""The one-bit mean, the Hadamard histogram and RAPPOR against the oracle: drawn cases, judged as
`make fuzz` does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import shuffle_oracle as oracle
from fuzz_cases import Case, judge

from shuffledp_core.mechanisms import (
    DummyHistogram,
    HadamardHistogram,
    OneBitShuffle,
    RapporHistogram,
    SplitMix,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting

CASES = 10


def drawn(number: int) -> tuple[np.random.Generator, Setting, float, Fraction]:
    numbers = np.random.default_rng([20261123, number])
    users = round(float(np.exp(numbers.uniform(0, np.log(70)))))
    honest = int(numbers.integers(1, users + 1))
    adjacency = list(Adjacency)[number % 2]
    delta = float(10 ** numbers.uniform(-10, -1))
    noise = Fraction(max(1, round(4096 * float(np.exp(numbers.uniform(np.log(0.002), 0))))), 4096)
    return numbers, Setting(users, honest, adjacency), delta, noise


@pytest.mark.parametrize("number", range(CASES))
def test_a_one_bit_round_costs_what_is_between_its_sides(number: int) -> None:
    numbers, setting, delta, noise = drawn(number)
    top = int(numbers.integers(1, 13))
    reach = int(numbers.integers(1, top + 1)) if number % 3 == 0 else None
    setting = Setting(setting.users, setting.honest, setting.adjacency, reach)
    spec, rest = OneBitShuffle(max_value=top, randomise=noise), setting.honest - 1

    # Every number of others at k, the others at 0; and some who hold what is between.
    held: list[oracle.Others] = [{0: rest - ones, top: ones} for ones in range(rest + 1)]
    held += [{top // 2: rest}, {0: rest // 2, top // 2: rest - rest // 2}]
    changes = [change for d in range(1, (reach or top) + 1) for change in {(0, d), (top - d, top)}]
    pairs = oracle.sum_pairs(oracle.one_bit_report(top, noise), held, changes)
    found = judge(Case(spec.kind, spec, setting, delta, None, pairs, complete=True))
    assert found.violations == ()
    assert found.ratio is None or found.ratio <= 1.005


@pytest.mark.parametrize("number", range(CASES))
def test_a_hadamard_round_costs_what_is_between_its_sides(number: int) -> None:
    numbers, setting, delta, noise = drawn(100 + number)
    symbols = int(numbers.choice([2, 3, 4, 7, 12]))
    spec, rest = HadamardHistogram(symbols=symbols, blanket=noise), setting.honest - 1
    rows = oracle.hadamard_rows(symbols, noise)
    others = [{value: rest} for value in range(len(rows))]
    pairs = oracle.local_pairs(rows, setting.honest, [(0, 1)], others)
    if not pairs:
        pytest.skip("too many users for the oracle")
    found = judge(Case(spec.kind, spec, setting, delta, None, pairs, complete=True))
    assert found.violations == ()
    assert found.ratio is None or found.ratio <= 2.5


@pytest.mark.parametrize("number", range(CASES))
def test_a_round_with_dummies_costs_what_is_certified(number: int) -> None:
    numbers, setting, delta, fill = drawn(300 + number)
    symbols = int(numbers.choice([2, 3, 4, 7, 12]))
    slots = 1 + number % 3
    spec = DummyHistogram(symbols=symbols, slots=slots, fill=fill)
    pairs = oracle.dummy_pairs(symbols, slots, fill, setting.honest)
    if not pairs:
        pytest.skip("too many users for the oracle")
    verdict = judge(Case(spec.kind, spec, setting, delta, None, pairs, complete=True))
    assert verdict.violations == ()
    assert verdict.ratio is None or verdict.ratio <= 1 + 2e-6


@pytest.mark.parametrize("number", range(CASES))
def test_a_rappor_round_costs_what_is_between_its_sides(number: int) -> None:
    numbers, setting, delta, noise = drawn(200 + number)
    symbols, rest = int(numbers.choice([2, 3, 4, 31])), setting.honest - 1
    chances = (
        Fraction(1, int(numbers.integers(3, 20))),
        Fraction(int(numbers.integers(10, 20)), 20 + number),
    )
    spec = RapporHistogram(symbols=symbols, fake=noise, when_zero=chances[0], when_one=chances[1])
    rows = oracle.rappor_rows(symbols, noise, *chances)
    others = [{value: rest} for value in range(len(rows))]
    pairs = oracle.local_pairs(rows, setting.honest, [(0, 1)], others)
    if not pairs:
        pytest.skip("too many users for the oracle")
    complete = len(pairs) == len(others)
    found = judge(Case(spec.kind, spec, setting, delta, None, pairs, complete))
    assert found.violations == ()
    assert found.ratio is None or not complete or found.ratio <= 2.5


@pytest.mark.parametrize("symbols", [2, 3, 9])
def test_every_report_of_rappor_is_counted_once(symbols: int) -> None:
    for row in oracle.rappor_rows(symbols, Fraction(1, 3), Fraction(1, 5), Fraction(3, 4)):
        assert sum(row) == 1


def test_beyond_what_the_oracle_knows_nothing_is_compared() -> None:
    """Chances below 1e-250 are none to the oracle: to it a change that costs 612 nats can be seen
    with certainty."""
    noise = oracle.share_noise(Fraction(2505, 4096), 3, 1000)
    pairs = oracle.modular_pairs(noise, 3, 4096, [1000])
    spec = SplitMix(
        max_value=1000, noise_epsilon=Fraction(2505, 4096), shares=3, modulus=4096, pieces=12
    )
    found = judge(
        Case(
            spec.kind, spec, Setting(3, 3, Adjacency.STANDARD), 3.7e-10, None, pairs, complete=True
        )
    )
    assert oracle.worst_epsilon(pairs, 3.7e-10, metric=False) == float("inf")
    assert found.violations == ()
    assert found.ratio is None
