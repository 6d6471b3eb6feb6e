"""What the machines of a cluster compute, without a cluster: any task may run again, and nothing is
readable."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from shuffledp_core.errors import NodeFault
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import binding, seal_envelope
from shuffledp_core.onion.suites import suite_named
from shuffledp_shuffler.cluster import work
from shuffledp_shuffler.cluster.work import (
    Job,
    Sum,
    again,
    by_buckets,
    opened_bucket,
    order_bucket,
    split_block,
    sum_of,
)
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk

RECORDS = 6000
EACH = 20
SUITE = suite_named("sealed-box")


def bare(layer: Layer, packed: bytes) -> PeeledChunk:
    """Opens onions whose layer is 48 bytes in front, of which none is sealed."""
    units = np.frombuffer(packed, dtype=np.uint8).reshape(-1, layer.unit_bytes)
    return PeeledChunk(units[:, 48:].tobytes(), ())


split_bare = partial(split_block, peel=bare)


def job_of(position: int, units: int, memory: int, private: bytes = b"") -> Job:
    each = EACH if position == 1 else 1
    geometry = Geometry(suite="sealed-box", hops=3, messages_per_user=each, symbol_bytes=1)
    return Job(Layer(geometry, "r", position, private), units, memory, os.urandom(32))


def batch_of(job: Job, records: list[bytes]) -> bytes:
    """Packed units that `bare` opens; equal records are in equal units."""
    each = job.layer.records_per_unit
    inner = [b"".join(records[start : start + each]) for start in range(0, len(records), each)]
    return b"".join(unit[:48].ljust(48, b"-") + unit for unit in inner)


def fresh(job: Job, count: int = RECORDS) -> list[bytes]:
    return [os.urandom(job.record_bytes) for _ in range(count)]


def result(
    job: Job, packed: bytes, times: int = 1, split: Any = split_bare
) -> tuple[list[bytes], Sum, Sum]:
    """Records that go out, and multisets of what came and of what was left out.

    Parts are of several runs of a task.
    """
    width = job.layer.unit_bytes
    pieces = [
        packed[start : start + job.block * width]
        for start in range(0, len(packed), job.block * width)
    ]
    blocks = [
        [split(job, block, piece) for block, piece in enumerate(pieces)] for _ in range(times)
    ]
    came = sum((summed for summed, _, _ in blocks[0]), Sum())
    found = [
        again(
            job,
            group,
            [blocks[(group + number) % times][number][1][group] for number in range(job.blocks)],
        )
        for group in range(job.groups)
    ]
    entries = np.concatenate([np.empty(0, dtype=work.ENTRY), *found])
    out, sent, left_out = Sum(), [], by_buckets(job, entries)
    assert all((part["bucket"] == bucket).all() for bucket, part in enumerate(left_out))
    assert sum(map(len, left_out)) == len(entries)
    for bucket in range(job.buckets):
        # As after the loss of a machine: parts of one block from different runs of its task.
        mine = [
            blocks[(bucket + number) % times][number][2][bucket] for number in range(job.blocks)
        ]
        left, sealed = order_bucket(job, bucket, left_out[bucket], mine)
        records = opened_bucket(job, bucket, sealed)
        out += left
        sent += [row.tobytes() for row in records]
        assert sum_of(job, records).records == len(records)
    return sent, came, out


@pytest.mark.parametrize("position", [1, 2])
@pytest.mark.parametrize("memory", [2**18, 2**30])
def test_every_record_goes_out_once_whatever_ran_again(position: int, memory: int) -> None:
    job = job_of(position, RECORDS // (EACH if position == 1 else 1), memory)
    assert (job.blocks > 4) == (job.buckets > 1) == (memory == 2**18)
    records = fresh(job)
    sent, came, out = result(job, batch_of(job, records), times=2)
    assert Counter(sent) == Counter(records)
    packed = np.frombuffer(b"".join(sent), dtype=np.uint8).reshape(-1, job.record_bytes)
    assert sum_of(job, packed) == came
    assert out == Sum()


@pytest.mark.parametrize("position", [1, 2])
def test_of_equal_onions_one_is_kept_wherever_they_lie(position: int) -> None:
    job = job_of(position, RECORDS // (EACH if position == 1 else 1), 2**18)
    records = fresh(job)
    for place, copied in [(1, 0), (RECORDS - 1, 2), *((place, 50) for place in range(60, 5000, 3))]:
        records[place] = records[copied]
    sent, came, out = result(job, batch_of(job, records))
    assert Counter(sent) == Counter(set(records))
    packed = np.frombuffer(b"".join(sent), dtype=np.uint8).reshape(-1, job.record_bytes)
    assert sum_of(job, packed) + out == came


@pytest.mark.parametrize("position", [1, 2])
def test_a_task_gives_the_same_bytes_again_and_others_for_another_mixing(position: int) -> None:
    job = job_of(position, RECORDS // (EACH if position == 1 else 1), 2**18)
    packed = batch_of(job, fresh(job))[: job.block * job.layer.unit_bytes]
    first, second = split_bare(job, 0, packed), split_bare(job, 0, packed)
    other = split_bare(replace(job, secret=os.urandom(32)), 0, packed)
    assert first[0] == second[0]
    assert len(first[2]) == job.buckets
    for one, same, fresh_ in zip(
        [*first[1], *first[2]], [*second[1], *second[2]], [*other[1], *other[2]], strict=True
    ):
        assert one.tobytes() == same.tobytes() != fresh_.tobytes()
    sealed = [part for _, _, parts in (first,) for part in parts[:1]]
    one_block = replace(job, units=job.block)
    runs = [
        order_bucket(one_block, 0, np.empty(0, dtype=work.ENTRY), sealed)[1].tobytes()
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_what_machines_keep_for_each_other_holds_no_record() -> None:
    job = job_of(2, RECORDS, 2**18)
    records = fresh(job)
    packed = batch_of(job, records)[: job.block * job.layer.unit_bytes]
    _, groups, parts = split_bare(job, 0, packed)
    _, sealed = order_bucket(
        replace(job, units=job.block), 0, np.empty(0, dtype=work.ENTRY), parts[:1]
    )
    kept = b"".join(part.tobytes() for part in [*groups, *parts, sealed])
    # 16 bytes of 2,000 random records occur by chance in half a megabyte with probability below
    # 2^-95.
    assert not any(
        record[start : start + 16] in kept for record in records[: job.block] for start in (0, 40)
    )
    changed = parts[0].copy()
    changed[20] ^= 1
    with pytest.raises(NodeFault, match="was altered"):
        order_bucket(replace(job, units=job.block), 0, np.empty(0, dtype=work.ENTRY), [changed])
    with pytest.raises(NodeFault, match="was altered"):
        order_bucket(replace(job, units=job.block), 0, np.empty(0, dtype=work.ENTRY), [parts[1]])


def test_a_sum_sees_one_lost_and_another_doubled() -> None:
    job = job_of(2, 100, 2**20)
    records = np.frombuffer(os.urandom(100 * job.record_bytes), dtype=np.uint8).reshape(100, -1)
    whole = sum_of(job, records)
    assert (
        whole == sum_of(job, records[::-1]) == sum_of(job, records[:40]) + sum_of(job, records[40:])
    )
    doubled = records.copy()
    doubled[7] = doubled[8]
    assert sum_of(job, doubled).records == whole.records
    assert sum_of(job, doubled) != whole
    assert sum_of(replace(job, secret=os.urandom(32)), records) != whole


def test_all_orders_are_equally_likely() -> None:
    """Chi-square over the 24 orders of 4 records in 6,000 mixings; false alarm 1e-9."""
    job, counts = job_of(2, 4, 2**20), Counter[tuple[bytes, ...]]()
    records = fresh(job, 4)
    packed, trials = batch_of(job, records), 6000
    for _ in range(trials):
        counts[tuple(result(replace(job, secret=os.urandom(32)), packed)[0])] += 1
    statistic = sum((seen - trials / 24) ** 2 / (trials / 24) for seen in counts.values())
    assert len(counts) == 24
    assert statistic < chi2.isf(1e-9, 23)


def test_real_onions_are_opened_and_those_that_do_not_open_are_dropped() -> None:
    private, public = SUITE.generate()
    job = job_of(2, 3000, 2**18, private)
    seal, records = SUITE.sealer(public, binding("r", 2)), fresh(job, 3000)
    onions = [seal(record) for record in records]
    onions[5] = onions[2999] = os.urandom(job.layer.unit_bytes)
    onions[1500] = onions[700]
    sent, came, out = result(job, b"".join(onions), split=split_block)
    assert Counter(sent) == Counter(
        record for place, record in enumerate(records) if place not in (5, 2999, 1500)
    )
    assert (came.records, out.records) in {(2998, 1), (2997, 0)}


def test_an_accepted_envelope_that_does_not_open_is_the_nodes_own_damage() -> None:
    private, _ = SUITE.generate()
    job = job_of(1, 2, 2**20, private)
    with pytest.raises(NodeFault, match="disk"):
        split_block(job, 0, os.urandom(2 * job.layer.unit_bytes))


def test_real_envelopes_become_the_records_of_all_users() -> None:
    keys = [SUITE.generate() for _ in range(3)]
    job = job_of(1, 30, 2**16, keys[0][0])
    messages = [
        [os.urandom(job.layer.geometry.plain_bytes) for _ in range(EACH)] for _ in range(30)
    ]
    envelopes = [
        seal_envelope(job.layer.geometry, "r", [public for _, public in keys], messages[user])
        for user in range(30)
    ]
    sent, came, _ = result(job, b"".join(envelopes), split=split_block)
    assert job.blocks > 1
    assert len(set(sent)) == came.records == 30 * EACH


def test_an_empty_batch_stays_empty() -> None:
    assert result(job_of(2, 0, 2**20), b"") == ([], Sum(), Sum())


def test_a_job_of_too_many_parts_says_what_to_raise() -> None:
    with pytest.raises(NodeFault, match=r"`\[engine\] task_memory`"):
        job_of(2, 10**10, 2**28)
    job_of(2, 10**10, 2**32)
