"""Repeated onions are found exactly: none missed, none imagined."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_shuffler.duplicates import repeated
from shuffledp_shuffler.permutation import Records


def packed(records: list[bytes]) -> Records:
    return np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(records), -1)


@given(st.integers(1, 19).flatmap(lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1)))
def test_all_but_the_first_of_equal_records_are_found(records: list[bytes]) -> None:
    again = [place for place, record in enumerate(records) if record in records[:place]]
    assert repeated(packed(records), os.urandom).tolist() == again


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_colliding_hashes_are_compared_byte_by_byte(values: list[int]) -> None:
    """With multipliers forced to 1, swapped words collide; the answer must still be exact."""
    records = [bytes([value, 0, 0, 0, 0, 0, 0, 0, 3 - value, 0, 0, 0, 0, 0, 0, 0]) for value in values]
    assert len(repeated(packed(records), bytes)) == len(records) - len(set(records))


def test_a_copy_far_away_in_a_large_batch_is_found() -> None:
    records = np.frombuffer(bytearray(os.urandom(200_000 * 113)), dtype=np.uint8).reshape(-1, 113)
    assert not len(repeated(records, os.urandom))
    records[199_999] = records[3]
    assert repeated(records, os.urandom).tolist() == [199_999]
