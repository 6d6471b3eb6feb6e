"""The arithmetic behind docs/adr/0014: numbers taken apart into groups, and a bound on δ, against
enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import single_message
from scipy.stats import poisson


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A coarser grid of losses, rounded up as the fine one: looser, and quick."""
    monkeypatch.setattr(single_message, "_STEP", 1e-3)
    single_message._loss.cache_clear()
    yield
    single_message._loss.cache_clear()


@pytest.mark.parametrize("value", range(41))
def test_a_number_is_its_groups_and_ones_as_a_multiset(value: int) -> None:
    found = single_message.parts(value)
    total: Counter[int] = Counter()
    for number, times in found.triples.items():
        half = -(number // 2)
        for element in (number, half, -number - half):
            total[element] += times
        assert number + half + (-number - half) == 0
    total[1] += found.ones
    total[-1] -= found.minus_ones
    assert {element: times for element, times in total.items() if times} == (
        {value: 1} if value else {}
    )
    assert found.ones + found.minus_ones == value


def test_the_bound_on_delta_is_above_what_all_outcomes_give_and_not_far() -> None:
    """Values 0 to 2: ones and minus ones (geometric), pairs and triples {2, -1, -1} (Poisson), all
    enumerated."""
    epsilon, rates, most = 0.8, np.array([9.0, 5.0]), 60
    kinds = single_message.groups(2)
    assert kinds == [single_message.PAIR, 2]
    ratio = math.exp(-epsilon / 2)
    geometric = (1 - ratio) * ratio ** np.arange(most)
    pairs, triples = (poisson.pmf(np.arange(40), rate) for rate in rates)
    minus = np.convolve(geometric, [1.0])
    # What is seen: how many ones, minus ones and twos. A + P, B + P + 2 T, T, and the value's own
    # message.
    ones_and_minus = np.zeros((most + 40, most + 40))
    for count, chance in enumerate(pairs):
        ones_and_minus[count : count + most, count : count + most] += chance * np.outer(
            geometric, minus
        )
    seen = np.zeros((most + 40 + 2, most + 40 + 80 + 2, 42))
    for count, chance in enumerate(triples):
        seen[: most + 40, 2 * count : 2 * count + most + 40, count] += chance * ones_and_minus
    own = {0: seen, 1: np.roll(seen, 1, axis=0), 2: np.roll(seen, 1, axis=2)}
    for (first, law), (second, other) in itertools.permutations(own.items(), 2):
        for hiding in (0.5, 1.0):
            exact = float(np.maximum(law - math.exp(epsilon + hiding) * other, 0).sum())
            bound = single_message.delta_of(
                rates, 2, hiding, [(min(first, second), max(first, second))]
            )
            assert exact <= bound + 1e-9  # the geometric laws are cut off at e^-24
            assert bound < 0.7


def test_certified_rates_hide_every_change_and_fewer_would_not() -> None:
    rates = single_message.certified(1.0, largest=2, delta=1e-3)
    everything = [(0, 1), (0, 2), (1, 2)]
    assert single_message.delta_of(rates, 2, 1.0, everything) <= 1e-3
    assert single_message.delta_of(rates / 2, 2, 1.0, everything) > 1e-3


def test_published_rates_need_more_than_ours_and_both_more_where_less_of_epsilon_is_spent() -> None:
    ours = single_message.certified(0.5, largest=3, delta=1e-3)
    messages = float((single_message.weights(single_message.groups(3)) * ours).sum())
    assert messages < single_message.published(0.5, largest=3, delta=1e-3)
    assert single_message.published(0.5, largest=3) < single_message.published(0.1, largest=3)
