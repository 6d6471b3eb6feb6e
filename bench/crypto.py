"""The speed limit: the libraries' bare operations on all cores, in the same processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from nacl import bindings

from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.layers import open_envelope, peel, seal_envelope
from shuffledp_core.onion.suites import suite_named

ROUND = "00" * 16


@contextmanager
def all_cores() -> Iterator[ProcessPoolExecutor]:
    """Context with one warm process per core."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(_nothing, range(4 * (os.cpu_count() or 1))))
        yield pool


def _nothing(_: int) -> None:
    time.sleep(0.05)  # long enough that every worker takes part in the warm-up


def rate(pool: ProcessPoolExecutor, work: Callable[[int], int], count: int) -> float:
    """Operations per second if every core does `count` of them with `work(count)`."""
    began = time.perf_counter()
    done = sum(pool.map(work, [count] * (os.cpu_count() or 1)))
    return done / (time.perf_counter() - began)


def bare_x25519(count: int) -> int:
    """`count` Diffie-Hellman operations of libsodium."""
    public, private = bindings.crypto_box_keypair()
    for _ in range(count):
        bindings.crypto_scalarmult(private, public)
    return count


def bare_users(geometry: Geometry, count: int) -> int:
    """All seals and opens of `count` users, without network, disk or other Python code."""
    suite = suite_named(geometry.suite)
    keys = [suite.generate() for _ in range(geometry.hops)]
    messages = [bytes(geometry.plain_bytes)] * geometry.messages_per_user
    for _ in range(count):
        packed = seal_envelope(geometry, ROUND, [public for _, public in keys], messages)
        packed = open_envelope(geometry, ROUND, keys[0][0], packed)
        for position in range(2, geometry.hops + 1):
            packed = peel(geometry, ROUND, position, keys[position - 1][0], packed)
    return count
