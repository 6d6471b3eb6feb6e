"""An answer with its error and its interval, and the estimators that several mechanisms share. Pure.

`shuffledp_core.estimation` says what every estimate promises; a mechanism's own file says which of these is its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Counts: TypeAlias = "Sequence[int] | NDArray[np.int64]"
"""Counts of the symbols 0..alphabet-1 on the board."""

COVERAGE: Final = 0.95
"""Of every interval; a histogram's intervals hold for each symbol by itself, not for all at once."""

Z: Final = NormalDist().inv_cdf((1 + COVERAGE) / 2)
"""Standard deviations on either side of a normal interval."""

Present: TypeAlias = Fraction
"""n: reports that count, a lost message being the m-th part of one. At least one message counts."""


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A debiased answer: a sum with its mean, or a histogram; intervals cover with probability 0.95.

    `values`, `standard_errors`, `lows` and `highs` have one entry for a sum, k for a histogram.
    """

    quantity: str
    values: tuple[float, ...]
    standard_errors: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    mean: float | None = None
    mean_standard_error: float | None = None


def histogram_of(counts: Counts, users: Present, q: float, slope: float) -> Estimate:
    """A histogram by matrix inversion: (c_s - n q) / (p - q), unbiased for every symbol.

    For every mechanism whose report names its user's symbol with probability p, and any other with probability q. A
    count is then Bin(n_s, p) + Bin(n - n_s, q); its variance n_s p(1-p) + (n - n_s) q(1-q) is taken at the estimate for
    the standard error, and at each candidate n_s for the interval (a score interval, with continuity correction),
    which stays honest where counts are small.

    Args:
        counts: c_s, how many reports name each symbol; shape (k,).
        users: n, rounded down to whole reports.
        q: at least 0.
        slope: p - q, above 0; p itself would lose its digits where it is small.
    """
    import numpy as np

    n, p = int(users), q + slope
    observed = np.asarray(counts, dtype=np.float64)
    values = (observed - n * q) / slope
    variance_p, variance_q = p * (1 - p), q * (1 - q)
    # An estimate outside of 0..n would have a variance that no dataset has, perhaps a negative one.
    plug_in = np.clip(values, 0, n)
    errors = np.sqrt(np.maximum(plug_in * variance_p + (n - plug_in) * variance_q, 0)) / slope
    lows = _score_end(observed - 0.5, n, slope, q, (variance_p, variance_q), -1)
    highs = _score_end(observed + 0.5, n, slope, q, (variance_p, variance_q), 1)
    # What is expected of nobody, or of all, is no contradiction to less, or more: there the root is on the other side.
    lows = np.where(observed - 0.5 <= n * q, 0.0, lows)
    highs = np.where(observed + 0.5 >= n * p, float(n), highs)
    return Estimate(
        quantity="histogram",
        values=tuple(values.tolist()),
        standard_errors=tuple(errors.tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
    )


def _score_end(
    observed: NDArray[np.float64], users: int, slope: float, q: float, variances: tuple[float, float], side: int
) -> NDArray[np.float64]:
    """The root, on one side, of (observed - E(x))² = z² Var(x) in the true count x, cut to [0, users].

    E(x) = users q + slope x and Var(x) = users v_q + x (v_p - v_q) are linear, so it is a quadratic in x.
    """
    import numpy as np

    variance_p, variance_q = variances
    centre = (observed - users * q) / slope
    growth = Z**2 * (variance_p - variance_q) / slope**2
    base = Z**2 * users * variance_q / slope**2
    middle = centre + growth / 2
    # Outside of 0..n the linear variance may be negative: there is no root then, and the vertex is taken.
    spread = np.sqrt(np.maximum(middle**2 - centre**2 + base, 0))
    ends: NDArray[np.float64] = np.clip(middle + side * spread, 0, users)
    return ends


def sum_of_bits(ones: int, users: Present, max_value: int, flip: Fraction) -> Estimate:
    """A sum from unary bits, each flipped with probability `flip`: (ones - n k f) / (1 - 2 f).

    With f = p/2 it is Algorithm 2 of Athanasiou et al. 2025, with its λ = p n k. Every bit is flipped with the same
    probability whatever its value, so that the variance n k f (1 - f) is known exactly; the interval is normal with
    continuity correction.
    """
    # Nothing is cut off: a report of rr-shuffle has max_value messages, and users is counted in such parts.
    bits = int(users * max_value)
    # In rationals: two numbers of the size n k are subtracted, and all that counts is their difference.
    value = (Fraction(ones) - bits * flip) / (1 - 2 * flip)
    chance, slope = float(flip), float(1 - 2 * flip)
    deviation = math.sqrt(bits * chance * (1 - chance))
    return _sum(float(value), deviation / slope, (Z * deviation + 0.5) / slope, users, max_value)


def sum_of_quantised_bits(
    ones: int, users: Present, max_value: int, bits: int, flip: Fraction, rounding: Fraction
) -> Estimate:
    """A sum from unary codes in steps of Q = k/r, each bit flipped with probability f: Q (ones - n r f)/(1 - 2 f).

    Unbiased for all values. Bits that were 0 or 1 before they were flipped have the variance f (1 - f), and the one
    bit of a report that was rounded at random with chance s has (1 - 2 f)² s (1 - s) more: it depends on the value, and
    is taken at its worst for everybody. The interval is normal with continuity correction.

    Args:
        ones: how many bits are 1.
        users: n, rounded down to whole bits.
        max_value: k.
        bits: r, of a report.
        flip: f, below 1/2.
        rounding: largest s (1 - s) over all values.
    """
    total = int(users * bits)
    step, slope = Fraction(max_value, bits), 1 - 2 * flip
    value = (Fraction(ones) - total * flip) / slope * step
    deviation = math.sqrt(total * float(flip * (1 - flip)) + float(users) * float(slope**2 * rounding))
    unit = float(step / slope)
    return _sum(float(value), deviation * unit, (Z * deviation + 0.5) * unit, users, max_value)


def sum_of_one_bit_reports(ones: int, users: Present, max_value: int, randomise: Fraction) -> Estimate:
    """A sum from one bit a user, 1 with probability p/2 + (1 - p) x/k: k (ones - n p/2)/(1 - p).

    The variance of the ones, Σ r_i (1 - r_i), depends on the values through their random rounding: it is largest where
    all are equal to their mean, and so taken there. Of all laws of `ones` with this mean that of equal values, a
    binomial law, has the widest tails (Hoeffding 1956), so that an interval for it (score, with continuity correction)
    is one for any values.

    Args:
        ones: how many bits are 1.
        users: n, rounded down to whole reports.
        max_value: k.
        randomise: p, below 1.
    """
    n, slope = int(users), float((1 - randomise) / max_value)
    value = (Fraction(ones) - n * randomise / 2) / (1 - randomise) * max_value
    # A share outside of these has no values.
    fewest, most = float(randomise / 2), float(1 - randomise / 2)
    share = min(max(ones / n, fewest), most)
    low, high = (min(max(_score_share(ones, n, side), fewest), most) for side in (-1, 1))
    largest, error = float(n * max_value), math.sqrt(n * share * (1 - share)) / slope
    return Estimate(
        quantity="sum",
        values=(float(value),),
        standard_errors=(error,),
        lows=(max((low - fewest) / slope * n, 0.0),),
        highs=(min((high - fewest) / slope * n, largest),),
        mean=float(value) / n,
        mean_standard_error=error / n,
    )


def _score_share(ones: int, users: int, side: int) -> float:
    """The root r, on one side, of (|ones - n r| - 1/2)² = z² n r (1 - r); 0 or 1 where there is none."""
    moved = ones + side * 0.5
    if not 0 < moved < users:
        return float(side > 0)
    square = Z**2
    spread = Z * math.sqrt(square / 4 + moved * (users - moved) / users)
    return (moved + square / 2 + side * spread) / (users + square)


def sum_with_noise(
    total: Fraction, users: Present, max_value: int, shape: float, epsilon: float, bias: float = 0.0
) -> Estimate:
    """A sum to which noise of the law `noise` was added: A - B with A, B ~ NB(shape, 1 - exp(-epsilon)).

    `bias` is the most by which clamping may move the mean. It depends on the values, so it is not taken off: the
    standard error is the root of the mean squared error at worst, and the interval reaches so much farther.
    """
    from shuffledp_core import noise

    error, width = noise.standard_deviation(shape, epsilon), noise.half_width(shape, epsilon, COVERAGE)
    return _sum(float(total), math.hypot(error, bias), width + bias, users, max_value)


def _sum(value: float, error: float, half_width: float, users: Present, max_value: int) -> Estimate:
    largest, n = float(users * max_value), float(users)
    return Estimate(
        quantity="sum",
        values=(value,),
        standard_errors=(error,),
        lows=(min(max(value - half_width, 0.0), largest),),
        highs=(min(max(value + half_width, 0.0), largest),),
        mean=value / n,
        mean_standard_error=error / n,
    )
