"""Repeated onions are found exactly: none missed, none imagined."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import BadBatchError
from shuffledp_shuffler.duplicates import count_repeated, refuse_repeated
from shuffledp_shuffler.permutation import Records


def packed(records: list[bytes]) -> Records:
    return np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(records), -1)


@given(st.integers(1, 19).flatmap(lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1)))
def test_the_count_is_that_of_a_set(records: list[bytes]) -> None:
    assert count_repeated(packed(records), os.urandom) == len(records) - len(set(records))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_colliding_hashes_are_compared_byte_by_byte(values: list[int]) -> None:
    """With multipliers forced to 1, swapped words collide; the answer must still be exact."""
    records = [bytes([value, 0, 0, 0, 0, 0, 0, 0, 3 - value, 0, 0, 0, 0, 0, 0, 0]) for value in values]
    assert count_repeated(packed(records), bytes) == len(records) - len(set(records))


def test_a_copy_far_away_in_a_large_batch_is_found() -> None:
    records = np.frombuffer(bytearray(os.urandom(200_000 * 113)), dtype=np.uint8).reshape(-1, 113)
    refuse_repeated(records, os.urandom)
    records[199_999] = records[3]
    with pytest.raises(BadBatchError, match="1 of 200000 onions repeat"):
        refuse_repeated(records, os.urandom)
