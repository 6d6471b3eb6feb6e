"""The laws of all samplers, computed independently of them, and every choice of a single sampler,
exhausted."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from typing import TypeVar

import mpmath
import numpy as np
from scipy.linalg import hadamard

from shuffledp_core.mechanisms import (
    BloomRappor,
    GeoShuffle,
    HadamardHistogram,
    KRRHistogram,
    LocalLaplace,
    Mechanism,
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
from shuffledp_core.sampling.randomness import RandomIntegers

T = TypeVar("T")


# Laws, by mpmath and convolution.


def geometric_law(epsilon: Fraction, top: int = 200) -> dict[int, float]:
    ratio = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    return {value: float((1 - ratio) * ratio**value) for value in range(top)}


def laplace_law(epsilon: Fraction, top: int = 200) -> dict[int, float]:
    ratio = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    return {
        value: float((1 - ratio) / (1 + ratio) * ratio ** abs(value))
        for value in range(-top, top + 1)
    }


def share_law(epsilon: Fraction, shares: int, top: int = 200) -> dict[int, float]:
    ratio = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    beta = mpmath.mpf(1) / shares
    return {
        value: float(mpmath.binomial(value + beta - 1, value) * (1 - ratio) ** beta * ratio**value)
        for value in range(top)
    }


def sgdl_law(epsilon: Fraction, shares: int, top: int = 200) -> dict[int, float]:
    share = share_law(epsilon, shares, top)
    return _convolved(share, {-value: chance for value, chance in share.items()})


def _convolved(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    law: defaultdict[int, float] = defaultdict(float)
    for (a, p), (b, q) in itertools.product(one.items(), other.items()):
        law[a + b] += p * q
    return law


def binomial_law(trials: int, chance: Fraction) -> dict[int, float]:
    return {
        ones: float(mpmath.binomial(trials, ones))
        * float(chance**ones * (1 - chance) ** (trials - ones))
        for ones in range(trials + 1)
    }


ONE = Fraction(1)


def response_law(spec: RapporHistogram, value: int) -> dict[int, Fraction]:
    """The kept response: each bit by itself a fair coin with chance f."""
    right, wrong = 1 - spec.fake / 2, spec.fake / 2
    return {
        kept: prod(
            (right if (kept >> s & 1) == (s == value) else wrong for s in range(spec.symbols)),
            start=ONE,
        )
        for kept in range(2**spec.symbols)
    }


def report_law(spec: RapporHistogram, value: int) -> dict[int, Fraction]:
    """One report: the sum over all kept responses of what each of them reports."""
    law: dict[int, Fraction] = defaultdict(Fraction)
    for kept, weight in response_law(spec, value).items():
        ones = [spec.when_one if kept >> s & 1 else spec.when_zero for s in range(spec.symbols)]
        for report in range(2**spec.symbols):
            law[report] += weight * prod(
                (one if report >> s & 1 else 1 - one for s, one in enumerate(ones)), start=ONE
            )
    return law


def filter_law(spec: BloomRappor, value: int) -> dict[int, float]:
    """Every cohort alike, and in it the bits of the value's positions, each flipped or not."""
    law = {}
    flip = float(spec.fake) / 2
    for cohort in range(spec.cohorts):
        places = set()
        for number in range(spec.hashes):
            name = f"shuffledp/v1/bloom/{cohort}/{number}/{value}".encode()
            places.add(int(hashlib.sha256(name).hexdigest()[:16], 16) % spec.bits)
        for bits in itertools.product((0, 1), repeat=spec.bits):
            chance = 1 / spec.cohorts
            for place, bit in enumerate(bits):
                chance *= 1 - flip if bit == (place in places) else flip
            number = sum(bit << place for place, bit in enumerate(bits))
            law[cohort * 2**spec.bits + number] = chance
    return law


def quantised_law(spec: QuantisedRR, value: int) -> dict[int, Fraction]:
    """The chance of each number of ones, bit by bit: sure ones, one that is rounded at random, sure
    zeros."""
    steps = Fraction(value * spec.bits, spec.max_value)
    law = {0: Fraction(1)}
    for place in range(spec.bits):
        rounded = min(max(steps - place, Fraction(0)), Fraction(1))
        one = spec.randomise / 2 + (1 - spec.randomise) * rounded
        after: defaultdict[int, Fraction] = defaultdict(Fraction)
        for ones, chance in law.items():
            after[ones] += chance * (1 - one)
            after[ones + 1] += chance * one
        law = after
    return law


def answer_law(spec: Mechanism, value: int) -> dict[int, float]:  # noqa: C901, PLR0911, PLR0912 - a law each
    """What `randomise` should give, from the papers' definitions."""
    if isinstance(spec, NodeColumns | NodeHistogram | NodeSum | NodeTree):
        return {value: 1.0}
    if isinstance(spec, KRRHistogram):
        other = float(spec.blanket) / spec.symbols
        return {
            symbol: other + (1 - float(spec.blanket)) * (symbol == value)
            for symbol in range(spec.symbols)
        }
    if isinstance(spec, HadamardHistogram):
        rows = hadamard(spec.alphabet)
        half = np.flatnonzero(rows[value + 1] == 1).tolist()
        other = float(spec.blanket) / spec.alphabet
        return {
            index: other + (1 - float(spec.blanket)) / len(half) * (index in half)
            for index in range(spec.alphabet)
        }
    if isinstance(spec, RapporHistogram):
        return {report: float(chance) for report, chance in report_law(spec, value).items()}
    if isinstance(spec, BloomRappor):
        return filter_law(spec, value)
    if isinstance(spec, OneBitShuffle):
        one = float(spec.randomise) / 2 + (1 - float(spec.randomise)) * value / spec.max_value
        return {0: 1 - one, 1: one}
    if isinstance(spec, QuantisedRR):
        return {ones: float(chance) for ones, chance in quantised_law(spec, value).items()}
    if isinstance(spec, RRShuffle):
        flip = spec.randomise / 2
        return _convolved(binomial_law(value, 1 - flip), binomial_law(spec.max_value - value, flip))
    law: defaultdict[int, float] = defaultdict(float)
    if isinstance(spec, SplitMix):
        for size, chance in sgdl_law(spec.noise_epsilon, spec.shares).items():
            law[(value + size) % spec.modulus] += chance
        return law
    if isinstance(spec, LocalLaplace):
        for size, chance in laplace_law(spec.epsilon_geo).items():
            law[min(max(value + size, 0), spec.max_value)] += chance
        return law
    assert isinstance(spec, GeoShuffle | SGDLShuffle)
    noise = (
        laplace_law(spec.epsilon_geo)
        if isinstance(spec, GeoShuffle)
        else sgdl_law(spec.noise_epsilon, spec.shares)
    )
    for size, chance in noise.items():
        law[min(max(value + size + spec.padding, 0), spec.max_value + 2 * spec.padding)] += chance
    return law


# Exhausting all choices: a source of integers that walks the whole tree of outcomes.


class _NeedsMoreError(Exception):
    """The path asks for more than it holds."""

    def __init__(self, bound: int) -> None:
        self.bound = bound


class _Path(RandomIntegers):
    def __init__(self, choices: tuple[int, ...]) -> None:
        super().__init__()
        self._choices = iter(choices)

    def below(self, bound: int) -> int:
        if bound == 1:
            return 0
        for choice in self._choices:
            return choice
        raise _NeedsMoreError(bound)


def exhausted(
    sampler: Callable[[RandomIntegers], T], smallest: Fraction
) -> tuple[dict[T, Fraction], Fraction]:
    """Exact probability of each outcome over all paths, and the mass of paths cut because they are
    below `smallest`."""
    law: defaultdict[T, Fraction] = defaultdict(Fraction)
    cut = Fraction(0)
    waiting: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while waiting:
        choices, chance = waiting.pop()
        if chance < smallest:
            cut += chance
            continue
        try:
            law[sampler(_Path(choices))] += chance
        except _NeedsMoreError as more:
            waiting += [((*choices, choice), chance / more.bound) for choice in range(more.bound)]
    return law, cut


def assert_bracketed(
    sampler: Callable[[RandomIntegers], int],
    law: Mapping[int, float],
    *,
    smallest: Fraction,
    undecided: float,
) -> None:
    """Every probability lies between the mass that surely goes there and that plus what is
    undecided."""
    exact, cut = exhausted(sampler, smallest)
    assert float(cut) < undecided
    for outcome, chance in law.items():
        low = float(exact.get(outcome, Fraction(0)))
        assert low - 1e-12 <= chance <= low + float(cut) + 1e-12, outcome
