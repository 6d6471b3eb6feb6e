"""Batches of sealed boxes with and without the accelerator, against the library's bare operation.

Processor time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING
from unittest.mock import patch

from nacl import bindings

from shuffledp_core.onion import suites
from shuffledp_core.onion.acceleration import engine
from shuffledp_core.onion.suites import SealedBox

if TYPE_CHECKING:
    from collections.abc import Iterator

BOXES = 1024
WIDTH = 65
TRIALS = 9


def _microseconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return (time.thread_time() - began) / BOXES * 1e6


@contextmanager
def _without() -> Iterator[None]:
    with patch.object(suites, "engine", lambda: None):
        yield


def run() -> None:
    """Print the ratios, measured with one thread as medians of interleaved turns."""
    suite = SealedBox()
    private, public = suite.generate()
    plain = [os.urandom(WIDTH) for _ in range(BOXES)]
    packed = b"".join(suite.seal_batch(public, b"", plain, [os.urandom] * BOXES))
    points = [packed[start : start + 32] for start in range(0, len(packed), WIDTH + suite.overhead)]

    def bare() -> None:
        for point in points:
            bindings.crypto_scalarmult(private, point)

    def bare_seal() -> None:
        for text in plain:
            bindings.crypto_box_seal(text, public)

    def seal() -> None:
        suite.seal_batch(public, b"", plain, [os.urandom] * BOXES)

    def peel() -> None:
        suite.open_batch(private, b"", packed, WIDTH + suite.overhead)

    used = engine()
    print(f"  accelerator: {used.path if used else 'none (make accel)'}")
    turns = []
    for _ in range(TRIALS):
        with _without():
            slow = _microseconds(peel), _microseconds(seal)
        turns.append(
            (
                _microseconds(bare),
                _microseconds(bare_seal),
                *slow,
                _microseconds(peel),
                _microseconds(seal),
            )
        )
    print(
        "                      without    with   (rate of a batch / bare operation of libsodium, "
        "median)"
    )
    print(
        "  peel / X25519        "
        f"{median(t[0] / t[2] for t in turns):8.2f}{median(t[0] / t[4] for t in turns):8.2f}"
    )
    print(
        "  seal / its own seal  "
        f"{median(t[1] / t[3] for t in turns):8.2f}{median(t[1] / t[5] for t in turns):8.2f}"
    )
