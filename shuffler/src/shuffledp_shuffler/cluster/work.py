"""The work of a cluster's machines: pure functions of a job, so that repetition is safe.

If a machine is lost, an engine runs its tasks again, even if other machines have read part of their
results. Every label and order is therefore drawn from ChaCha20 under the job's secret and the
number of the block or bucket, never fresh in a task: with fresh ones some records of a round would
be lost and others doubled. docs/protocol.md, "Mixing", under "Several machines".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_shuffler.bucket_shuffle import WORKING
from shuffledp_shuffler.duplicates import WIDE_BYTES, find_repeated, wide_tagger
from shuffledp_shuffler.layout import layout
from shuffledp_shuffler.peel_worker import Layer, PeeledChunk, peel_chunk
from shuffledp_shuffler.permutation import Records, uniform_labels, uniform_permutation

SECRET_BYTES: Final = 32

Sealed = NDArray[np.uint8]
"""Rows encrypted with AES-256-GCM: an engine may write what a machine keeps for others to its disk,
and does not encrypt it.
"""

ENTRY: Final = np.dtype(
    [("tag", np.uint64, (2,)), ("place", np.uint64), ("slot", np.uint32), ("bucket", np.uint16)]
)
"""Entry of a record: the tag that equal records share, its position in the batch, and its slot in
the part of its bucket.
"""

_ENTRY_WORKING: Final = 64
"""Working memory per entry while equal tags are looked for, in bytes, besides the entry."""

_BLOCK_SHARE: Final = 4
"""A block's units take one part in this many of a task's memory; its records, their sorted copy and
the tags need the rest.
"""

_MOST_PARTS: Final = 2**21
"""Most parts of a job. The driver holds a reference of about a kilobyte to each."""

_LABELS, _ORDERS, _PARTS, _ENTRIES, _BUCKETS, _MEETING, _RECORDS, _REPEATED = range(8)
"""The uses of a job's keys."""


@dataclass(frozen=True)
class Job:
    """The mixing of `units` packed units, in blocks of `block`; the last block may be shorter.

    `secret` are fresh uniform bytes, for one mixing only. `memory` is about the most bytes that a
    task takes.
    """

    layer: Layer
    units: int
    memory: int
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise ValueError(f"a job's secret has {SECRET_BYTES} bytes, not {len(self.secret)}")
        if self.blocks * (self.buckets + self.groups) > _MOST_PARTS:
            raise NodeFault(
                f"{self.records} records make {self.blocks * (self.buckets + self.groups)} "
                "parts, more than one process can direct: raise `[engine] task_memory`"
            )

    @property
    def records(self) -> int:
        """Number of records before any is dropped."""
        return self.units * self.layer.records_per_unit

    @property
    def record_bytes(self) -> int:
        """Length in bytes of an outgoing record."""
        return self.layer.geometry.record_bytes(self.layer.position + 1)

    @property
    def block(self) -> int:
        """Number of units in a block."""
        return max(1, self.memory // _BLOCK_SHARE // self.layer.unit_bytes)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.units // self.block)

    @property
    def buckets(self) -> int:
        """Number of buckets of records, a power of two."""
        return layout(self.records, self.record_bytes, WORKING, self.memory).buckets

    @property
    def groups(self) -> int:
        """Number of groups in which equal records are found; a single block needs none."""
        return (
            layout(self.records, ENTRY.itemsize, _ENTRY_WORKING, self.memory).buckets
            if self.blocks > 1
            else 0
        )

    @property
    def capacity(self) -> int:
        """Largest number of rows of a bucket, exceeded with probability below 2^-64."""
        return layout(self.records, self.record_bytes, WORKING, self.memory).capacity


@dataclass(frozen=True)
class Sum:
    """A multiset of records: their number, and the sum of their tags under the job's key.

    The sum has two words, each modulo 2^64.

    If tags come from a random function, different multisets have equal sums with probability at
    most (d / 2^64)^2, d the largest power of two that divides every difference of multiplicities
    (Clarke et al. 2003); `wide_tagger` is such a function up to the bound of CBC-MAC. A count alone
    would not show that one record was lost and another duplicated.
    """

    records: int = 0
    low: int = 0
    high: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.records + other.records,
            (self.low + other.low) % 2**64,
            (self.high + other.high) % 2**64,
        )


def sum_of(job: Job, records: Records) -> Sum:
    """The multiset of these records."""
    tags = wide_tagger(_key(job.secret, _RECORDS)[:WIDE_BYTES])(records)
    low, high = np.add.reduce(tags, axis=0, dtype=np.uint64).tolist() if len(tags) else (0, 0)
    return Sum(len(records), low, high)


def split_block(
    job: Job, block: int, packed: bytes, peel: Callable[[Layer, bytes], PeeledChunk] = peel_chunk
) -> tuple[Sum, list[Sealed], list[Sealed]]:
    """Open a block, drop duplicates and failures, and assign records to random buckets.

    `peel` is replaced only to measure the transport of records without decryption.

    Returns:
        The multiset of its records; its part of every group of tags; and its part of every bucket.

    Raises:
        NodeFault: see `peel_chunk`.
    """
    layer = job.layer
    per_unit = layer.records_per_unit
    entry = layer.position == 1
    units = np.frombuffer(packed, dtype=np.uint8).reshape(-1, layer.unit_bytes)
    remaining: NDArray[np.intp] = np.arange(len(units))
    # As on one machine: before peeling where units can be equal, after it where only what is inside
    # them can.
    if not entry:
        remaining = np.delete(remaining, find_repeated(units, _stream(job, _REPEATED, block)))
    peeled = peel(layer, units[remaining].tobytes())
    records = np.frombuffer(peeled.data, dtype=np.uint8).reshape(-1, job.record_bytes)
    rows = np.delete(
        (remaining[:, np.newaxis] * per_unit + np.arange(per_unit)).ravel(), list(peeled.closed)
    )
    if entry:
        twice = find_repeated(records, _stream(job, _REPEATED, block))
        records = np.delete(records, twice, axis=0)
        rows = np.delete(rows, twice)
    labels = uniform_labels(len(records), job.buckets, _stream(job, _LABELS, block))
    order, ends = _sorted_by(labels, job.buckets)
    parts = [
        _seal(job, (_PARTS, block, bucket), records[order[start:end]])
        for bucket, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
    ]
    entries = np.empty(len(records) if job.groups else 0, dtype=ENTRY)
    if job.groups:
        entries["tag"] = wide_tagger(_key(job.secret, _MEETING)[:WIDE_BYTES])(
            records if entry else units[rows]
        )
        entries["place"] = block * job.block * per_unit + rows
        entries["slot"][order] = np.arange(len(order)) - np.repeat(
            [0, *ends[:-1]], np.diff([0, *ends])
        )
        entries["bucket"] = labels
    return sum_of(job, records), _group_entries(job, block, entries), parts


def again(job: Job, group: int, parts: list[Sealed]) -> NDArray[np.void]:
    """Entries of one group whose record equals a record at an earlier position.

    `parts` are the group's parts from all blocks.

    Raises:
        NodeFault: a part was changed.
    """
    entries = np.concatenate(
        [
            _unseal(job, (_ENTRIES, block, group), part, ENTRY.itemsize)
            for block, part in enumerate(parts)
        ]
    )
    rows: NDArray[np.void] = np.ascontiguousarray(entries).view(ENTRY).ravel()
    order = np.lexsort((rows["place"], rows["tag"][:, 0], rows["tag"][:, 1]))
    ranked = rows["tag"][order]
    same = (ranked[1:] == ranked[:-1]).all(axis=1)
    repeats: NDArray[np.void] = rows[order[1:][same]]
    return repeats


def by_buckets(job: Job, entries: NDArray[np.void]) -> list[NDArray[np.void]]:
    """The entries of each bucket, for all buckets."""
    order, ends = _sorted_by(entries["bucket"], job.buckets)
    return np.split(entries[order], ends[:-1])


def order_bucket(
    job: Job, bucket: int, left_out: NDArray[np.void], parts: list[Sealed]
) -> tuple[Sum, Sealed]:
    """The records of one bucket except those of `left_out`, in a uniformly random order.

    Returns:
        The multiset of the records that were left out; and the records that go out.

    Raises:
        NodeFault: a part was changed, or there is a bucket that does not fit into memory
            (probability below 2^-64).
    """
    opened = [
        _unseal(job, (_PARTS, block, bucket), part, job.record_bytes)
        for block, part in enumerate(parts)
    ]
    starts = np.cumsum([0, *map(len, opened)])
    if starts[-1] > job.capacity:
        raise NodeFault(
            "the random labels of a batch fill its buckets unevenly: mix again, or raise "
            "`[engine] task_memory`"
        )
    records = np.concatenate([np.empty((0, job.record_bytes), dtype=np.uint8), *opened])
    blocks = left_out["place"] // np.uint64(job.block * job.layer.records_per_unit)
    rows = starts[blocks.astype(np.intp)] + left_out["slot"].astype(np.intp)
    remaining = np.delete(np.arange(len(records)), rows)
    order = remaining[uniform_permutation(len(remaining), _stream(job, _ORDERS, bucket))]
    return sum_of(job, records[rows]), _seal(job, (_BUCKETS, 0, bucket), records[order])


def opened_bucket(job: Job, bucket: int, sealed: Sealed) -> Records:
    """Decrypt the records of a bucket that `order_bucket` returned.

    Raises `NodeFault` if the bucket was changed.
    """
    return _unseal(job, (_BUCKETS, 0, bucket), sealed, job.record_bytes)


def _group_entries(job: Job, block: int, entries: NDArray[np.void]) -> list[Sealed]:
    """The entries of a block by group; equal records have equal tags, and so one group."""
    if not job.groups:
        return []
    labels = entries["tag"][:, 0].astype(np.uint16) & np.uint16(job.groups - 1)
    order, ends = _sorted_by(labels, job.groups)
    packed = entries[order].view(np.uint8).reshape(len(entries), ENTRY.itemsize)
    return [
        _seal(job, (_ENTRIES, block, group), packed[start:end])
        for group, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
    ]


def _sorted_by(labels: NDArray[np.uint16], count: int) -> tuple[NDArray[np.intp], list[int]]:
    """A stable order that puts rows with equal labels together, and where each label ends."""
    return np.argsort(labels, kind="stable"), np.cumsum(
        np.bincount(labels, minlength=count)
    ).tolist()


@lru_cache(maxsize=16)
def _key(secret: bytes, use: int) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"shuffledp cluster %d" % use).derive(secret)


def _stream(job: Job, use: int, number: int) -> RandomBytes:
    """The ChaCha20 key stream for one block or bucket, from its beginning.

    The IV is a counter of 8 bytes, followed by the nonce.
    """
    cipher = Cipher(
        algorithms.ChaCha20(_key(job.secret, use), bytes(8) + number.to_bytes(8, "little")), None
    )
    stream = cipher.encryptor()
    return lambda size: stream.update(bytes(size))


def _nonce(name: tuple[int, int, int]) -> bytes:
    # Sealed twice only by a task that ran twice, and then with the same rows: see the module.
    use, block, number = name
    return use.to_bytes(1, "big") + block.to_bytes(7, "big") + number.to_bytes(4, "big")


def _seal(job: Job, name: tuple[int, int, int], rows: Records) -> Sealed:
    sealed = AESGCM(_key(job.secret, name[0])).encrypt(
        _nonce(name), np.ascontiguousarray(rows).tobytes(), None
    )
    return np.frombuffer(sealed, dtype=np.uint8)


def _unseal(job: Job, name: tuple[int, int, int], sealed: Sealed, width: int) -> Records:
    try:
        rows = AESGCM(_key(job.secret, name[0])).decrypt(_nonce(name), sealed.tobytes(), None)
    except InvalidTag as error:
        raise NodeFault(
            "data that a machine of this node's cluster held was altered: check its memory and "
            "disk, and mix again"
        ) from error
    return np.frombuffer(rows, dtype=np.uint8).reshape(-1, width)
