"""Confidence intervals from counted bits: the exact laws of the counts, inverted. Pure.

A true value is outside an interval only if the observed count, or a more extreme one, has a
probability of at most 2.5% for all data with that true value. So an interval covers with
probability 95% or more, whatever the data are (docs/accounting.md, S21).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import COVERAGE, Dummies

if TYPE_CHECKING:
    from shuffledp_core.bounds.node_noise import NodeNoise

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

TAIL: Final = (1 - COVERAGE) / 2 - 1e-6
"""A tail of at most this is small: half of what may be missed, less an allowance for the error of
`lower_tail`.
"""

_NODES: Final = 32
"""Points of the upper half circle that are summed; the others add less than 1e-8."""

_TILT: Final = 1.5
"""Logarithm of the circle's radius, in standard deviations."""

_LEAST_DEVIATION: Final = 3.75
"""A smaller standard deviation is taken for this one: then all points of the circle are summed."""

_LONG: Final = 1000
"""Counts of a longer histogram are rounded, so that few are different; this widens their intervals.
"""

_ROUNDED: Final = 0.01
"""Standard deviations by which they are rounded."""

_MISSING: Final = 2
"""So far below its mean, or further, a count has its largest tail where the bits are most alike."""

_OFFSETS: Final = np.concatenate((np.arange(0.0, 0.04, 0.002), np.geomspace(0.04, 1.0, 14)))
"""Edges of the blocks of `composition_laws`, as shares of the rounded bits, from where the variance
is largest.
"""


class Bits(NamedTuple):
    """Independent bits that are 1 with the same probability.

    Attributes:
        number: number of bits; shape () or (laws,).
        one: the probability of a 1.
        zero: the probability of a 0, given apart so that small ones keep their digits.
    """

    number: Integers | int
    one: Floats | float
    zero: Floats | float


def lower_tail(ones: Integers, bits: Sequence[Bits]) -> Floats:
    """P(C <= ones), where C is the number of ones.

    1 instead of at least 1/2 if `ones` is at least the mean.

    A contour integral by the trapezoidal rule, wrong by at most 1e-7 (docs/accounting.md, S21).

    Args:
        ones: c, shape (laws,).
        bits: bits of each law; their sum is C.
    """
    counts = [np.asarray(group.number, dtype=np.float64) for group in bits]
    pairs = list(zip(counts, bits, strict=True))
    mean = sum(count * group.one for count, group in pairs)
    variance = sum(count * group.one * group.zero for count, group in pairs)
    deviation = np.maximum(np.sqrt(variance), _LEAST_DEVIATION)
    points = np.ceil(2 * _NODES * deviation / _LEAST_DEVIATION)
    nodes = np.arange(_NODES + 1)[:, np.newaxis]
    s = -_TILT / deviation + 2j * math.pi * nodes / points
    left = np.array(ones, dtype=np.int64)
    exponent = np.zeros_like(s)
    for count, group in pairs:
        # By the rarer outcome: the other one shifts the law, in whole numbers.
        swapped = np.asarray(group.one > 0.5)
        left = left - np.where(swapped, group.number, 0)
        exponent += count * _log1p(
            np.where(swapped, group.zero, group.one) * np.expm1(np.where(swapped, -s, s))
        )
    weights = np.where((nodes == 0) | ((nodes == _NODES) & (points == 2 * _NODES)), 1.0, 2.0)
    with np.errstate(over="ignore", invalid="ignore"):  # only where the mean is exceeded
        summed = (weights * (np.exp(exponent - s * left) / -np.expm1(s)).real).sum(axis=0) / points
    # The median is one of the two whole numbers around the mean (Jogdeo and Samuels 1968).
    return np.where(np.asarray(ones) < mean, np.clip(summed, 0.0, 1.0), 1.0)


def _log1p(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """ln(1 + z) with all digits for small z, which numpy lacks for complex numbers."""
    real = 0.5 * np.log1p(2 * values.real + np.abs(values) ** 2)
    return np.asarray(real + 1j * np.arctan2(values.imag, 1 + values.real))


def _find_largest(holds: Callable[[Integers], NDArray[np.bool_]], top: int, size: int) -> Integers:
    """The largest number from 0 to `top` for which a condition holds, by bisection.

    0 if there is none.
    """
    low = np.zeros(size, dtype=np.int64)
    high = np.full(size, top, dtype=np.int64)
    while np.any(low < high):
        middle = low + (high - low + 1) // 2
        is_met = holds(middle)
        low, high = np.where(is_met, middle, low), np.where(is_met, high, middle - 1)
    return low


def count_intervals(
    observed: Integers,
    users: int,
    true_rate: Fraction,
    false_rate: Fraction,
    added: Dummies | NodeNoise | None = None,
) -> tuple[Floats, Floats]:
    """95% intervals for x, from counts with the law Bin(x, p) + Bin(n - x, q) + added noise.

    Args:
        observed: counts, shape (counts,); each has an interval of its own.
        users: n.
        true_rate: p, above q.
        false_rate: q, above 0.
        added: noise in each count besides the reports.

    Returns:
        Low and high ends, whole numbers from 0 to n, each of shape (counts,).
    """
    spread = math.sqrt(users * min(true_rate * (1 - true_rate), false_rate * (1 - false_rate)))
    step = max(1, int(_ROUNDED * spread)) if observed.size > _LONG else 1
    down = observed // step * step
    up = -(-observed // step) * step
    forward, backward = _noises(added)
    if added is None:
        up = np.minimum(up, users)
    slots = sum(int(bits.number) for bits in forward.bits)
    lows = users - _largest_counts(
        users + slots - down, users, 1 - false_rate, 1 - true_rate, backward
    )
    highs = _largest_counts(up, users, true_rate, false_rate, forward)
    return lows.astype(np.float64), highs.astype(np.float64)


class _Noise(NamedTuple):
    """Noise in a count besides the reports: the number of ones of some bits, plus a random number.

    Attributes:
        bits: independent bits.
        values: whole numbers, one of which is added.
        masses: their probabilities.
    """

    bits: tuple[Bits, ...] = ()
    values: tuple[int, ...] = (0,)
    masses: tuple[float, ...] = (1.0,)


def _noises(added: Dummies | NodeNoise | None) -> tuple[_Noise, _Noise]:
    """The noise in a symbol's count, and the noise in the number of all other messages."""
    if added is None:
        return _Noise(), _Noise()
    if isinstance(added, Dummies):
        rate, rest = float(added.rate), float(1 - added.rate)
        return _Noise((Bits(added.slots, rate, rest),)), _Noise((Bits(added.slots, rest, rate),))
    forward, backward = (
        _Noise(values=tuple(values.tolist()), masses=tuple(masses.tolist()))
        for values, masses in (added.blocks(1), added.blocks(-1))
    )
    return forward, backward


def _largest_counts(
    observed: Integers, users: int, true_rate: Fraction, false_rate: Fraction, noise: _Noise
) -> Integers:
    """The largest x at which a count of at most `observed` has probability above 2.5%.

    Computed once for each count.
    """
    computed = _computed_ends(users, true_rate, false_rate, noise)
    different, inverse = np.unique(observed, return_inverse=True)
    new = np.array([count for count in different.tolist() if count not in computed], dtype=np.int64)
    values = np.array(noise.values, dtype=np.int64)
    masses = np.array(noise.masses)

    def holds(holding: Integers) -> NDArray[np.bool_]:
        # All counts with each value of the noise, then their mean over it.
        holders = np.repeat(holding, values.size)
        laws = [
            Bits(holders, float(true_rate), float(1 - true_rate)),
            Bits(users - holders, float(false_rate), float(1 - false_rate)),
            *noise.bits,
        ]
        tails = lower_tail(np.subtract.outer(new, values).ravel(), laws)
        return np.asarray(tails.reshape(new.size, values.size) @ masses > TAIL)

    if new.size:
        computed.update(
            zip(new.tolist(), _find_largest(holds, users, new.size).tolist(), strict=True)
        )
    return np.array([computed[count] for count in different.tolist()], dtype=np.int64)[
        inverse.reshape(-1)
    ]


@lru_cache(maxsize=64)
def binomial_interval(trials: int, chance: Fraction) -> tuple[int, int]:
    """Numbers (low, high) between which Bin(trials, chance) lies with probability 95% or more.

    It exceeds each of them with probability 2.5% at most.
    """
    low = _fewest(trials, float(chance), float(1 - chance))
    high = trials - _fewest(trials, float(1 - chance), float(chance))
    return low, high


def _fewest(trials: int, chance: float, rest: float) -> int:
    """The largest number that Bin(trials, chance) falls below with probability 2.5% at most."""

    def holds(ones: Integers) -> NDArray[np.bool_]:
        is_rare = lower_tail(ones - 1, [Bits(trials, chance, rest)]) <= TAIL
        return np.asarray(is_rare | (ones == 0))

    return int(_find_largest(holds, trials, 1)[0])


@lru_cache(maxsize=16)
def _computed_ends(
    users: int, true_rate: Fraction, false_rate: Fraction, noise: _Noise
) -> dict[int, int]:
    """Cache of interval ends by count, one per argument list; simulations repeat counts."""
    del users, true_rate, false_rate, noise
    return {}


def rounded_sum_interval(
    ones: int, bits: int, users: int, unit: Fraction, flip: Fraction
) -> tuple[int, int]:
    """Interval for the sum of values in unary code, each rounded at random to whole bits.

    Args:
        ones: number of bits that are 1.
        bits: number of bits of all reports.
        users: number of reports, each with one bit that may have been rounded.
        unit: units of value that a bit stands for.
        flip: f, the probability that a bit was flipped, from 0 to below 1/2.

    Returns:
        Low and high end in units of value, whole numbers from 0 to unit * bits.
    """
    most = unit * bits
    top = math.ceil(most)
    high = _largest_sum(ones, bits, users, unit, flip)
    low = top - _largest_sum(bits - ones, bits, users, unit, flip)
    return max(low, 0), min(high, math.floor(most))


@lru_cache(maxsize=4096)
def _largest_sum(ones: int, bits: int, users: int, unit: Fraction, flip: Fraction) -> int:
    """The largest sum of values under which at most `ones` ones have probability above 2.5%.

    The result is never below the truth.
    """
    f = float(flip)
    slope = float(1 - 2 * flip)
    counted = np.array([ones], dtype=np.int64)

    def holds(total: Integers) -> NDArray[np.bool_]:
        steps = min(Fraction(int(total[0])) / unit, Fraction(bits))
        if bits * flip + (1 - 2 * flip) * steps < ones + _MISSING:
            return np.array([True])
        worst = lower_tail(counted, composition_laws(steps, bits, users, f, slope))
        return np.array([bool(worst.max() > TAIL)])

    return int(_find_largest(holds, math.ceil(unit * bits), 1)[0])


def composition_laws(
    steps: Fraction, bits: int, users: int, flip: float, slope: float
) -> list[Bits]:
    """Laws of the number of ones; one has the largest tail of all values that sum to `steps`.

    `steps` is in bits.

    Values add up to A sure bits and m = `users` rounded ones. For a given A the tail is largest
    where all rounded bits have the same chance. All A are covered by blocks of neighbouring ones: a
    block from A1 to A2 has one law, more even than any in it (docs/accounting.md, S21). Here A =
    whole - d, and the rounded bits add up to d + rest.
    """
    floor = math.floor(steps)
    rest = float(steps - floor)
    some = int(steps != floor)
    least = max(0, floor - (bits - users))
    most = min(floor, users - some)
    middle = min(max(round(users / 2 - rest), least), most)
    offsets = np.floor(_OFFSETS * users).astype(np.int64)
    edges = np.unique(
        np.clip(np.concatenate((middle - offsets, middle + offsets, [least, most])), least, most)
    )
    low, high = edges, np.append(edges[1:] - 1, most)
    more, less = users - high - some, low
    chance_more = (high + rest) / users
    chance_less = (low + rest) / users
    between = 2 * (high - low) + some
    left = high + rest - more * chance_more - less * chance_less
    chance_between = np.clip(
        np.divide(left, between, out=np.zeros_like(left), where=between > 0), 0.0, 1.0
    )
    groups = (
        (floor - high, 1.0), (more, chance_more), (between, chance_between), (less, chance_less),
        (bits - users - floor + low, 0.0),
    )  # fmt: skip
    return [
        Bits(count, flip + slope * chance, flip + slope * (1 - chance)) for count, chance in groups
    ]
