"""Values per second of the exact samplers, single and bulk, relative to numpy's inexact ones."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from bench.numpy_laws import randomise_all
from shuffledp_core.mechanisms import (
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    OneBitShuffle,
    QuantisedRR,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.sampling.arrays import RandomArrays
from shuffledp_core.sampling.randomisers import randomise, randomise_in_bulk
from shuffledp_core.sampling.randomness import RandomIntegers

ONE_HALF: Final = Fraction(1, 2)

SPECS: Final[tuple[Mechanism, ...]] = (
    KRRHistogram(symbols=4, blanket=ONE_HALF),
    HadamardHistogram(symbols=4, blanket=ONE_HALF),
    OneBitShuffle(max_value=3, randomise=ONE_HALF),
    QuantisedRR(max_value=6, bits=2, randomise=ONE_HALF),
    RRShuffle(max_value=3, randomise=ONE_HALF),
    GeoShuffle(max_value=3, epsilon_geo=ONE_HALF, padding=18),
    SGDLShuffle(max_value=3, noise_epsilon=ONE_HALF, shares=8, padding=13),
    SplitMix(max_value=3, noise_epsilon=ONE_HALF, shares=8, modulus=256, pieces=22),
)
"""The small mechanisms that `shuffledp audit` takes by default."""

VALUES: Final = 200_000
"""Drawn in one turn; one by one a fiftieth of them."""

TURNS: Final = 5

WANTED: Final = Fraction(1, 8)
"""Of numpy's rate, in bulk, for k-RR and geo."""


def _rate(work: Callable[[], object], values: int) -> float:
    """Values per second of processor time, which other processes on the machine do not affect."""
    began = time.process_time()
    work()
    return values / (time.process_time() - began)


def compare(spec: Mechanism) -> None:
    """Prints the three rates and the ratios of bulk to both others; medians of turns."""
    values = np.arange(VALUES) % spec.domain
    generator = np.random.default_rng()
    few = values[: VALUES // 50].tolist()
    integers = RandomIntegers()
    arrays = RandomArrays()
    turns = [
        (
            _rate(lambda: [randomise(spec, value, integers) for value in few], len(few)),
            _rate(lambda: randomise_in_bulk(spec, values, arrays), VALUES),
            _rate(lambda: randomise_all(spec, values, generator), VALUES),
        )
        for _ in range(TURNS)
    ]
    single, bulk, numpy = (statistics.median(column) for column in zip(*turns, strict=True))
    of_numpy = statistics.median(turn[1] / turn[2] for turn in turns)
    of_single = statistics.median(turn[1] / turn[0] for turn in turns)
    print(
        f"  {spec.kind:<20} {single:>11,.0f} {bulk:>11,.0f} {numpy:>11,.0f} {of_numpy:>13.2f} "
        f"{of_single:>14.0f}"
    )


def run() -> None:
    """Compare the samplers of every mechanism."""
    print(
        f"  values a processor second; medians of {TURNS} turns; bulk / numpy wanted at least "
        f"{float(WANTED)}"
    )
    print(
        "                        one by one     in bulk       numpy  bulk / numpy  bulk / one by "
        "one"
    )
    for spec in SPECS:
        compare(spec)
