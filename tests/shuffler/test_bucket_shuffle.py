"""The shuffle by buckets: exactly uniform, by enumeration of everything that can be drawn, and no
bucket too full."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from shuffledp_core.errors import NodeFault
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_shuffler.bucket_shuffle import BucketShuffle
from shuffledp_shuffler.layout import SEGMENT_BYTES, Layout, fullest, layout
from shuffledp_shuffler.permutation import uniform_labels

FALSE_ALARM = 1e-9
RECORDS = 4
BUCKETS = 4
TINY = Layout(buckets=BUCKETS, capacity=RECORDS, segment=1)
"""Every second record of a bucket goes to the disk."""


def shuffled(folder: Path, random: RandomBytes, left_out: list[int]) -> tuple[int, ...]:
    """The numbers of the records, in the order in which they come out."""
    records = np.arange(RECORDS, dtype=np.uint8).reshape(-1, 1)
    with (
        BucketShuffle(folder / "order", TINY, 1, random) as shuffle,
        shuffle.left_out(folder / "out", 2**10) as out,
    ):
        addresses = shuffle.add(records)
        out.add([addresses[left_out]])
        found = [
            int(bucket.records[place, 0])
            for bucket in shuffle.permute(out)
            for place in bucket.order
        ]
    assert not list(folder.iterdir())
    return tuple(found)


def scripted(labels: tuple[int, ...], orders: tuple[tuple[int, ...], ...]) -> RandomBytes:
    """Randomness by which records get these labels, and buckets these orders."""
    keys = [np.argsort(order).astype(np.uint64).tobytes() for order in orders]
    answers = [np.array(labels, dtype=np.uint16).tobytes(), *keys]

    def draw(size: int) -> bytes:
        answer = answers.pop(0)
        assert len(answer) == size
        return answer

    return draw


def all_draws(
    left_out: list[int],
) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, ...], ...], Fraction]]:
    """Everything that can be drawn, with its probability: labels, then an order of what is kept of
    each bucket."""
    for labels in itertools.product(range(BUCKETS), repeat=RECORDS):
        kept = Counter(label for place, label in enumerate(labels) if place not in left_out)
        sizes = [kept[bucket] for bucket in range(BUCKETS)]
        weight = Fraction(1, BUCKETS**RECORDS * math.prod(map(math.factorial, sizes)))
        for orders in itertools.product(*(itertools.permutations(range(size)) for size in sizes)):
            yield labels, orders, weight


@pytest.mark.parametrize("left_out", [[], [1]])
def test_every_order_is_equally_likely_also_for_who_knows_how_full_the_buckets_were(
    tmp_path: Path, left_out: list[int]
) -> None:
    """Exact: all 4^4 labels and all orders inside the buckets, through the disk. No statistics."""
    law: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    joint: defaultdict[tuple[int, ...], defaultdict[tuple[int, ...], Fraction]] = defaultdict(
        lambda: defaultdict(Fraction)
    )
    for labels, orders, weight in all_draws(left_out):
        order = shuffled(tmp_path, scripted(labels, orders), left_out)
        law[order] += weight
        joint[tuple(labels.count(bucket) for bucket in range(BUCKETS))][order] += weight
    kept = [place for place in range(RECORDS) if place not in left_out]
    wanted = set(itertools.permutations(kept))
    assert dict(law) == dict.fromkeys(wanted, Fraction(1, len(wanted)))
    for sizes, orders_then in joint.items():
        assert set(orders_then) == wanted, sizes
        assert len(set(orders_then.values())) == 1, sizes


def test_all_orders_are_equally_frequent_with_the_systems_randomness(tmp_path: Path) -> None:
    """Chi-square over the 24 orders; false alarm rate 1e-9."""
    draws = 1200
    seen = Counter(shuffled(tmp_path, os.urandom, []) for _ in range(draws))
    expected = draws / 24
    statistic = sum(
        (seen[order] - expected) ** 2 / expected for order in itertools.permutations(range(RECORDS))
    )
    assert statistic < chi2.isf(FALSE_ALARM, 23)


def test_labels_of_two_bytes_are_exactly_uniform() -> None:
    every = np.arange(2**16, dtype=np.uint16).tobytes()
    for buckets in (2, 8, 2**16):
        counts = np.bincount(uniform_labels(2**16, buckets, lambda _: every), minlength=buckets)
        assert counts.tolist() == [2**16 // buckets] * buckets
    for wrong in (0, 3, 2**17):
        with pytest.raises(ValueError, match="power of two"):
            uniform_labels(1, wrong, os.urandom)


@given(st.integers(0, 10**11), st.integers(1, 1200), st.integers(0, 64), st.integers(2**20, 2**31))
def test_a_layout_keeps_to_its_memory(rows: int, width: int, working: int, memory: int) -> None:
    half = memory // 2
    fits = [
        buckets
        for buckets in (2**power for power in range(1, 17))
        if buckets * width <= half and fullest(rows, buckets) * (width + working) <= half
    ]
    if not fits and rows * (width + working) > memory:
        with pytest.raises(NodeFault, match=r"\[mixing\] memory"):
            layout(rows, width, working, memory)
        return
    found = layout(rows, width, working, memory)
    bucket, segments = found.capacity * (width + working), found.buckets * found.segment * width
    if found.buckets == 1:
        assert found.capacity == found.segment >= rows
        assert rows == 0 or bucket <= memory
    else:
        assert bucket + segments <= memory
        assert found.segment * width <= SEGMENT_BYTES
        assert found.capacity >= fullest(rows, found.buckets)
        assert rows * (width + working) > memory


@pytest.mark.parametrize("rows", [100, 10**4, 10**7, 10**9])
@pytest.mark.parametrize("buckets", [2, 16, 1024])
def test_a_bucket_overflows_with_probability_below_2_to_the_minus_64(
    rows: int, buckets: int
) -> None:
    """Against the exact binomial tail, as scipy sums it, times the number of buckets."""
    log_tail = float(binom.logsf(fullest(rows, buckets), rows, 1 / buckets))
    assert log_tail + math.log(buckets) <= -64 * math.log(2)


def test_a_bucket_that_overflows_all_the_same_is_refused(tmp_path: Path) -> None:
    full = Layout(buckets=2, capacity=5, segment=2)
    with (
        BucketShuffle(tmp_path / "order", full, 1, bytes) as shuffle,
        shuffle.left_out(tmp_path / "out", 64) as out,
    ):
        shuffle.add(np.zeros((6, 1), dtype=np.uint8))
        with pytest.raises(NodeFault, match="unevenly"):
            next(shuffle.permute(out))
    assert not list(tmp_path.iterdir())
