"""A job's tasks as Ray runs them on a worker, with hardly any imports."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import NodeFault
from shuffledp_shuffler.cluster.work import Job, Sealed, Sum, again, order_bucket, split_block

DISTRIBUTION = "shuffledp-shuffler"


def read_range(source: str, start: int, end: int) -> NDArray[np.uint8]:
    """Bytes start..end-1 of the batch, read on the machine that has the file."""
    with Path(source).open("rb") as file:
        return np.frombuffer(os.pread(file.fileno(), end - start, start), dtype=np.uint8)


def open_block(
    release: str, job: Job, block: int, packed: NDArray[np.uint8]
) -> tuple[Sum | Sealed, ...]:
    """`work.split_block` with separate results, which Ray keeps in place until needed."""
    if (here := version(DISTRIBUTION)) != release:
        raise NodeFault(
            f"a worker has shuffledp-shuffler {here}, but its node has {release}: install the "
            "same version on all machines"
        )
    summed, groups, buckets = split_block(job, block, packed.tobytes())
    return (summed, *groups, *buckets)


def repeats(job: Job, group: int, *parts: Sealed) -> NDArray[np.void]:
    """`work.again` with its parts as separate arguments, which Ray then fetches."""
    return again(job, group, list(parts))


def bucketful(
    job: Job, bucket: int, left_out: NDArray[np.void], *parts: Sealed
) -> tuple[Sum, Sealed]:
    """`work.order_bucket` with its parts as separate arguments."""
    return order_bucket(job, bucket, left_out, list(parts))
