"""Repeated onions are found exactly: none missed, none imagined, in memory and beyond it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_shuffler.duplicates import DuplicateIndex, find_repeated, tagger
from shuffledp_shuffler.permutation import Records

MEMORY = 2**14
"""Bytes; room for an index of some 200 records, so that thousands of them go to the disk."""

Tags = Callable[[Records], NDArray[np.uint64]]


def packed(records: list[bytes]) -> Records:
    return np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(records), -1)


def indexed(
    folder: Path, records: Records, tags: Tags, memory: int = MEMORY, step: int = 300
) -> list[int]:
    """Places of repeated records, ascending, as an index finds them to which they are added by
    pieces."""
    places = np.arange(len(records), dtype=np.uint64)
    with DuplicateIndex(folder / "tags", len(records), memory, tags) as index:
        for start in range(0, len(records), step):
            index.add(records[start : start + step], places[start : start + step])
        spilled = bool(list(folder.iterdir()))
        assert spilled == (len(records) * 80 > memory)
        found = [
            int(place)
            for part in index.find_repeated(lambda at: records[at.astype(np.intp)])
            for place in part
        ]
    assert not list(folder.iterdir())
    return sorted(found)


@given(
    st.integers(1, 40).flatmap(
        lambda width: st.lists(st.binary(min_size=width, max_size=width), min_size=1)
    )
)
def test_all_but_the_first_of_equal_records_are_found(records: list[bytes]) -> None:
    again = [place for place, record in enumerate(records) if record in records[:place]]
    assert find_repeated(packed(records), os.urandom).tolist() == again


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_colliding_tags_are_compared_byte_by_byte(
    tmp_path_factory: pytest.TempPathFactory, values: list[int]
) -> None:
    """With tags that say nothing, everything meets; the answer must still be exact."""
    records = [bytes([value] * 19) for value in values]
    again = [place for place, record in enumerate(records) if record in records[:place]]
    folder = tmp_path_factory.mktemp("index")
    found = indexed(
        folder, packed(records), lambda rows: np.zeros(len(rows), dtype=np.uint64), 2**20
    )
    assert found == again


def test_a_copy_far_away_in_a_large_batch_is_found() -> None:
    records = np.frombuffer(bytearray(os.urandom(200_000 * 113)), dtype=np.uint8).reshape(-1, 113)
    assert not len(find_repeated(records, os.urandom))
    records[199_999] = records[3]
    assert find_repeated(records, os.urandom).tolist() == [199_999]


def test_an_index_on_disk_finds_what_one_in_memory_finds(tmp_path: Path) -> None:
    """Copies near and far, in pairs and in crowds; the first of equal ones is kept each time."""
    records = np.frombuffer(bytearray(os.urandom(6000 * 113)), dtype=np.uint8).reshape(-1, 113)
    for place, copied in [
        (5, 4),
        (5999, 0),
        (3000, 17),
        *((place, 100) for place in range(101, 5000, 7)),
    ]:
        records[place] = records[copied]
    wanted = find_repeated(records, os.urandom).tolist()
    assert len(wanted) == 3 + 700
    for _ in range(2):  # another key, other buckets
        assert indexed(tmp_path, records, tagger(os.urandom)) == wanted


def test_a_batch_of_one_onion_only_is_gone_through_in_parts(tmp_path: Path) -> None:
    """All of it falls into one bucket, which has no room for it."""
    records = np.tile(np.frombuffer(os.urandom(113), dtype=np.uint8), (5000, 1))
    assert indexed(tmp_path, records, tagger(os.urandom)) == list(range(1, 5000))


def test_different_records_that_crowd_one_bucket_are_refused(tmp_path: Path) -> None:
    """Which no key lets happen.

    A broken function that does not spread them must not take all memory.
    """
    records = np.frombuffer(os.urandom(5000 * 113), dtype=np.uint8).reshape(-1, 113)

    def crowding(rows: Records) -> NDArray[np.uint64]:
        return tagger(os.urandom)(rows) >> np.uint64(32)

    with pytest.raises(NodeFault, match="unevenly"):
        indexed(tmp_path, records, crowding)
    assert not list(tmp_path.iterdir())


def test_tags_are_the_cbc_mac_of_the_padded_record() -> None:
    """Against the library's own CBC mode, record by record: the last block's first eight bytes."""

    key = os.urandom(16)
    for width in (1, 16, 17, 113):
        records = np.frombuffer(os.urandom(50 * width), dtype=np.uint8).reshape(50, width)
        tags = tagger(lambda _: key)(records)
        for record, tag in zip(records, tags, strict=True):
            encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
            chain = encryptor.update(record.tobytes() + bytes(-width % 16))
            assert int.from_bytes(chain[-16:-8], "little") == int(tag)
