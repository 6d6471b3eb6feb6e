"""The permutation: a bijection, exactly uniform, and never decided by the sorting algorithm."""

from __future__ import annotations

import itertools
import os
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from shuffledp_shuffler.permutation import permuted_pieces, uniform_permutation

FALSE_ALARM = 1e-9


@given(st.integers(0, 3000))
def test_it_is_a_bijection(count: int) -> None:
    assert sorted(uniform_permutation(count, os.urandom)) == list(range(count))


def test_all_orders_of_four_records_are_equally_likely() -> None:
    """Chi-square over the 24 orders; false alarm rate 1e-9."""
    draws = 48_000
    seen = Counter(tuple(uniform_permutation(4, os.urandom).tolist()) for _ in range(draws))
    expected = draws / 24
    statistic = sum(
        (seen[order] - expected) ** 2 / expected for order in itertools.permutations(range(4))
    )
    assert statistic < chi2.isf(FALSE_ALARM, 23)


def test_every_record_lands_everywhere_equally_often() -> None:
    """Chi-square over the 16 x 16 table of (from, to): (16-1)^2 degrees of freedom.

    False alarm rate 1e-9.
    """
    draws, count = 8_000, 16
    table = np.zeros((count, count))
    for _ in range(draws):
        table[np.arange(count), uniform_permutation(count, os.urandom)] += 1
    expected = draws / count
    # Rows and columns of a permutation matrix sum to one, which scales the statistic by (n-1)/n.
    statistic = float(((table - expected) ** 2 / expected).sum()) * (count - 1) / count
    assert statistic < chi2.isf(FALSE_ALARM, (count - 1) ** 2)


def test_keys_that_tie_are_all_drawn_again() -> None:
    draws = [
        np.array([7, 3, 7], dtype=np.uint64).tobytes(),
        np.array([9, 1, 5], dtype=np.uint64).tobytes(),
    ]
    order = uniform_permutation(3, lambda _: draws.pop(0))
    assert order.tolist() == [1, 2, 0]
    assert not draws


@given(st.integers(1, 50), st.integers(1, 9), st.integers(1, 64))
def test_pieces_hold_the_records_in_the_permuted_order(
    count: int, width: int, piece_bytes: int
) -> None:
    records = np.frombuffer(os.urandom(count * width), dtype=np.uint8).reshape(count, width)
    order = uniform_permutation(count, os.urandom)
    packed = b"".join(permuted_pieces(records, order, piece_bytes))
    assert packed == b"".join(records[index].tobytes() for index in order)
