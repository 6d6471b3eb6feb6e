"""`make fuzz-rechecks SECONDS=60 SEED=1`: hostile numbers for which a recheck takes long.

Draws certificates' numbers over all of their ranges, recomputes them under the limit of
`shuffledp verify`, and prints the dearest of each kind in processor time: it is to stay below one
second on an idle machine. Exits with 1 if one is above `--most` seconds.
"""

from __future__ import annotations

import argparse
import math
import secrets
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import (
    BloomRappor,
    DummyHistogram,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    NodeColumns,
    NodeHistogram,
    NodeSum,
    NodeTree,
    OneBitShuffle,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting, certified_epsilon, corrupted_bounds
from shuffledp_privacy.primitives.work import limited_work
from shuffledp_privacy.rechecking import MOST_WORK

Numbers = np.random.Generator


def chance(numbers: Numbers) -> Fraction:
    """A probability near 0, near 1, or between them."""
    halvings = int(numbers.uniform(0, numbers.choice([3, 20, 50])))
    value = Fraction(int(numbers.integers(2**30, 2**31)), 2 ** (31 + halvings))
    return 1 - value if numbers.random() < 0.15 else value


def blanket(numbers: Numbers) -> Fraction:
    """Values in the open, or any blanket."""
    return chance(numbers) if numbers.random() < 0.5 else Fraction(0)


def count(numbers: Numbers, most: int = 10**9) -> int:
    """A number of any size."""
    return int(10 ** numbers.uniform(0, np.log10(most)))


def symbols(numbers: Numbers, most: int) -> int:
    """A number of symbols, often a small one."""
    return min(most, int(numbers.choice([2, 3, 4, 7, 31, 1000, 10**5])))


def quantised(numbers: Numbers) -> QuantisedRR:
    """Any number of steps, up to the largest value."""
    bits = count(numbers, 10**6)
    largest = max(bits, count(numbers, 10**6))
    return QuantisedRR(max_value=largest, bits=bits, randomise=chance(numbers))


def rappor(numbers: Numbers) -> RapporHistogram:
    """Reports that tell bits apart, hardly or nearly always."""
    low = chance(numbers) / 2
    high = low + (1 - low) * chance(numbers) * Fraction(4095, 4096)
    high = Fraction(int(high * 2**60), 2**60)
    return RapporHistogram(
        symbols=symbols(numbers, 31), fake=chance(numbers), when_zero=low, when_one=high
    )


def node_histogram(numbers: Numbers) -> NodeHistogram:
    """Any noise of the nodes, its total cut off anywhere."""
    spread, mean = symbols(numbers, 1000), count(numbers, 10**5)
    dummies = int(spread * mean * numbers.uniform(1, 2))
    return NodeHistogram(
        symbols=spread,
        noise_epsilon=10 * chance(numbers),
        mean=mean,
        dummies=dummies,
        blanket=blanket(numbers),
    )


def node_sum(numbers: Numbers) -> NodeSum:
    """Digits of any base, often plain unary code."""
    largest = count(numbers, 10**6)
    base = min(largest + 1, int(numbers.choice([2, 3, 10, 1000, 10**7])))
    return NodeSum(
        max_value=largest, noise_epsilon=10 * chance(numbers), base=base, mean=count(numbers, 10**6)
    )


def node_tree(numbers: Numbers) -> NodeTree:
    """Any noise of the nodes in bins and groups of any width."""
    bins, mean = symbols(numbers, 1000), count(numbers, 10**4)
    return NodeTree(
        symbols=bins,
        noise_epsilon=10 * chance(numbers),
        mean=mean,
        spare=int(bins * mean * numbers.uniform(0, 1)),
        width=int(numbers.integers(1, bins)),
    )


def node_columns(numbers: Numbers) -> NodeColumns:
    """Any noise of the nodes in up to 16 columns."""
    number = int(numbers.choice([1, 2, 3, 5, 16]))
    sizes = tuple(int(size) for size in numbers.integers(2, 4 if number > 5 else 60, number))
    mean = count(numbers, 10**4)
    return NodeColumns(
        symbols=math.prod(sizes),
        noise_epsilon=10 * chance(numbers),
        mean=mean,
        spare=int(max(sizes) * mean * numbers.uniform(0, 1)),
        columns=sizes,
    )


def split_mix(numbers: Numbers) -> SplitMix:
    """Any noise, also such as wraps around the modulus; few pieces hide little."""
    largest = count(numbers, 10**6)
    return SplitMix(
        max_value=largest,
        noise_epsilon=10 * chance(numbers),
        shares=count(numbers),
        modulus=largest + int(2 ** numbers.uniform(10, 31)),
        pieces=2 + int(numbers.choice([0, 1, 5, 100])),
    )


DRAWN: Final[dict[str, Callable[[Numbers], Any]]] = {
    "krr-histogram": lambda n: KRRHistogram(symbols=symbols(n, 10**5), blanket=chance(n)),
    "hadamard-histogram": lambda n: HadamardHistogram(symbols=symbols(n, 10**5), blanket=chance(n)),
    "rappor-histogram": rappor,
    "dummy-histogram": lambda n: DummyHistogram(
        symbols=symbols(n, 1000),
        slots=count(n, 60),
        fill=chance(n),
        blanket=blanket(n),
    ),
    "rr-shuffle": lambda n: RRShuffle(max_value=count(n, 10**6), randomise=chance(n)),
    "bloom-rappor": lambda n: BloomRappor(
        symbols=symbols(n, 512),
        bits=int(n.integers(2, 23)),
        hashes=int(n.integers(1, 9)),
        cohorts=min(count(n, 256), 256),
        fake=chance(n),
    ),
    "local-laplace": lambda n: LocalLaplace(max_value=count(n, 10**6), epsilon_geo=10 * chance(n)),
    "one-bit-mean": lambda n: OneBitShuffle(max_value=count(n, 10**6), randomise=chance(n)),
    "quantised-rr": quantised,
    "geo-shuffle": lambda n: GeoShuffle(
        max_value=count(n, 10**6), epsilon_geo=10 * chance(n), padding=count(n, 10**5)
    ),
    "sgdl-shuffle": lambda n: SGDLShuffle(
        max_value=count(n, 10**6),
        noise_epsilon=10 * chance(n),
        shares=count(n),
        padding=count(n, 10**5),
    ),
    "split-mix": split_mix,
    "node-histogram": node_histogram,
    "node-columns": node_columns,
    "node-sum": node_sum,
    "node-tree": node_tree,
}


def recheck(spec: Any, setting: Setting, delta: float) -> tuple[float, str]:
    """Processor seconds of what a recheck computes, and how it ended."""
    ended = "answered"
    began = time.process_time()
    try:
        with limited_work(MOST_WORK):
            certified_epsilon(spec, setting, delta)
            corrupted_bounds(spec, setting, delta)
    except (CannotCertify, UsageError) as refusal:
        ended = f"refused: {refusal}"
    except Exception:
        sys.stdout.write(f"crashed: {spec} {setting} {delta!r}\n")
        raise
    return time.process_time() - began, ended


def dearest(kind: str, seed: int, seconds: float) -> tuple[float, str, int]:
    """The dearest recheck of a kind that so many processor seconds of drawing find."""
    numbers, worst, tried = np.random.default_rng([seed, list(DRAWN).index(kind)]), (0.0, ""), 0
    end = time.process_time() + seconds
    while time.process_time() < end:
        honest = count(numbers)
        setting = Setting(
            max(honest, count(numbers)), honest, list(Adjacency)[int(numbers.integers(2))]
        )
        delta = float(10 ** numbers.uniform(-12, -0.05))
        try:
            spec = DRAWN[kind](numbers)
        except (UsageError, ValueError):  # no such spec can be written down
            continue
        took, ended = recheck(spec, setting, delta)
        worst, tried = max(worst, (took, f"{spec} {setting} {delta!r} {ended}")), tried + 1
    return (*worst, tried)


def main() -> None:
    """Reads the options, prints a line for each kind, exits with 1 above `--most`."""
    parser = argparse.ArgumentParser(description="Hostile numbers whose recheck takes long.")
    parser.add_argument("--seconds", type=float, default=90.0, help="processor time in all")
    parser.add_argument("--seed", type=int, default=None, help="the same numbers again")
    parser.add_argument("--most", type=float, default=1.0, help="processor seconds of one recheck")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    sys.stdout.write(f"seed {seed}\n")
    worst = 0.0
    for kind in DRAWN:
        took, case, tried = dearest(kind, seed, options.seconds / len(DRAWN))
        sys.stdout.write(f"{kind}: {tried} rechecks, the dearest {took:.2f} s: {case}\n")
        sys.stdout.flush()
        worst = max(worst, took)
    sys.exit(worst > options.most)


if __name__ == "__main__":
    main()
