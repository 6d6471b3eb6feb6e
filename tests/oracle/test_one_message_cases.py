"""The one-bit mean and the Hadamard histogram against the oracle: drawn cases, judged as `make fuzz` judges its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import shuffle_oracle as oracle
from fuzz_cases import Case, judge

from shuffledp_core.mechanisms import HadamardHistogram, OneBitShuffle
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
