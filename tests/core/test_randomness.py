"""Uniform integers are exact: every byte of a small source is tried."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.sampling.randomness import RandomIntegers


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 10, 128, 200, 255, 256])
def test_every_integer_below_the_bound_comes_from_equally_many_bytes(bound: int) -> None:
    every_byte = iter([bytes(range(256)) * 16])
    integers = RandomIntegers(lambda _: next(every_byte))
    counts: Counter[int] = Counter()
    try:
        while True:
            counts[integers.below(bound)] += 1
            if bound == 1 and counts[0] == 10:
                break
    except StopIteration:
        pass
    assert set(counts) == set(range(bound))
    assert len(set(counts.values())) == 1


@given(st.integers(1, 2**80))
def test_draws_stay_below_the_bound(bound: int) -> None:
    assert 0 <= RandomIntegers().below(bound) < bound


def test_a_bound_of_nothing_is_our_own_mistake() -> None:
    with pytest.raises(ValueError, match="positive"):
        RandomIntegers().below(0)
