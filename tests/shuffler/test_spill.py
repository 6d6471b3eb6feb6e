"""Rows in buckets: all of them come back, and on disk nobody can read, change or exchange them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import NodeFault
from shuffledp_shuffler.layout import Layout
from shuffledp_shuffler.permutation import Records
from shuffledp_shuffler.spill import Buckets

WIDTH = 24
LAYOUT = Layout(buckets=4, capacity=100, segment=3)


def rows(count: int) -> Records:
    return np.frombuffer(os.urandom(count * WIDTH), dtype=np.uint8).reshape(count, WIDTH)


def labels(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    return np.array(values, dtype=np.uint16)


@given(st.lists(st.lists(st.integers(0, 3), max_size=40), max_size=4), st.integers(1, 9))
def test_rows_come_back_from_their_bucket_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, adds: list[list[int]], segment: int
) -> None:
    folder = tmp_path_factory.mktemp("spill")
    kept: list[list[bytes]] = [[] for _ in range(4)]
    with Buckets(folder / "rows", Layout(4, 1000, segment), WIDTH) as buckets:
        for values in adds:
            added = rows(len(values))
            addresses = buckets.add(labels(values), added)
            assert np.array_equal(buckets.rows_at(addresses), added)
            for label, row in zip(values, added, strict=True):
                kept[label].append(row.tobytes())
        assert buckets.sizes.tolist() == [len(bucket) for bucket in kept]
        for bucket in range(4):
            parts = list(buckets.parts(bucket, 5))
            assert [row.tobytes() for part in parts for row in part] == kept[bucket]
            assert max(map(len, parts)) <= max(5, segment) + segment
            assert [row.tobytes() for row in buckets.take(bucket)] == kept[bucket]
        assert not list(folder.iterdir()), "what is taken is gone"


def test_files_are_for_their_owner_hold_no_row_and_do_not_outlive_the_buckets(
    tmp_path: Path,
) -> None:
    added = rows(50)
    with Buckets(tmp_path / "rows", LAYOUT, WIDTH) as buckets:
        buckets.add(labels([place % 4 for place in range(50)]), added)
        files = list(tmp_path.iterdir())
        assert sorted(file.name for file in files) == [
            f"rows-{bucket}.spill" for bucket in range(4)
        ]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        written = b"".join(file.read_bytes() for file in files)
        assert len(written) == 14 * (3 * WIDTH + 16), (
            "of 13, 13, 12 and 12 rows the last 1 to 3 are in memory"
        )
        # Twelve bytes of 50 random rows occur by chance with probability below 2^-70.
        assert not any(
            row.tobytes()[start : start + 12] in written for row in added for start in (0, 12)
        )
    assert not list(tmp_path.iterdir())


def test_equal_rows_are_different_on_disk_also_under_another_key(tmp_path: Path) -> None:
    zeros = np.zeros((48, WIDTH), dtype=np.uint8)
    sealed: set[bytes] = set()
    for name in ("one", "other"):
        with Buckets(tmp_path / name, LAYOUT, WIDTH) as buckets:
            buckets.add(labels([place % 4 for place in range(48)]), zeros)
            for file in tmp_path.iterdir():
                data = file.read_bytes()
                sealed |= {data[start : start + 16] for start in range(0, len(data), 16)}
    # 4 buckets x 3 segments x 88 bytes, in blocks of 16: no block twice.
    assert len(sealed) == 2 * 4 * -(-3 * 88 // 16)


def test_a_batch_that_fits_writes_nothing(tmp_path: Path) -> None:
    with Buckets(tmp_path / "rows", Layout(1, 50, 50), WIDTH) as buckets:
        added = rows(50)
        buckets.add(labels([0] * 20), added[:20])
        buckets.add(labels([0] * 30), added[20:])
        assert not list(tmp_path.iterdir())
        assert np.array_equal(buckets.take(0), added)


def test_a_closed_set_of_buckets_opens_nothing_any_more(tmp_path: Path) -> None:
    buckets = Buckets(tmp_path / "rows", LAYOUT, WIDTH)
    buckets.add(labels([0] * 10), rows(10))
    buckets.close()
    buckets.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="closed"):
        buckets.add(labels([0] * 10), rows(10))


def flipped(first: Path, _: Path) -> None:
    data = bytearray(first.read_bytes())
    data[20] ^= 1
    first.write_bytes(data)


def cut_off(first: Path, _: Path) -> None:
    os.truncate(first, first.stat().st_size - 1)


def exchanged(first: Path, second: Path) -> None:
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def turned(first: Path, _: Path) -> None:
    data = first.read_bytes()
    first.write_bytes(data[88:176] + data[:88] + data[176:])


def gone(first: Path, _: Path) -> None:
    first.unlink()


@pytest.mark.parametrize("damage", [flipped, cut_off, exchanged, turned, gone])
def test_damage_on_disk_is_noticed(tmp_path: Path, damage: Callable[[Path, Path], None]) -> None:
    with Buckets(tmp_path / "rows", LAYOUT, WIDTH) as buckets:
        buckets.add(labels([0, 1] * 10), rows(20))
        damage(tmp_path / "rows-0.spill", tmp_path / "rows-1.spill")
        with pytest.raises(NodeFault, match=r"rows-0\.spill .* damaged"):
            buckets.take(0)
    assert not list(tmp_path.iterdir())
