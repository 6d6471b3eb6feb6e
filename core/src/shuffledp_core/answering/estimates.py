"""An answer with its error and its interval, and the estimators that several mechanisms share.

Pure.

`shuffledp_core.answering.estimation` says what every estimate promises; a mechanism's own file says
which of these is its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.bounds.node_noise import NodeNoise

Counts: TypeAlias = "Sequence[int] | NDArray[np.int64]"
"""Counts of the symbols 0..alphabet-1 on the board."""

COVERAGE: Final = 0.95
"""Of every interval; a histogram's intervals hold for each symbol by itself, not for all at once.
"""


class Present(NamedTuple):
    """The numbers of reports and of nodes whose messages are in the counts.

    Attributes:
        reports: n, users' reports; a lost message is the m-th part of one. At least one message of
            a user counts.
        nodes: nodes that added their dummies (`Spec.dummies_per_node`), all of which count.
        lost: messages of accepted reports that do not count.
    """

    reports: Fraction
    nodes: int = 0
    lost: int = 0


class Dummies(NamedTuple):
    """The binomial law of the number of users' dummies that carry one given symbol.

    Attributes:
        slots: messages that may be such dummies.
        rate: the probability that one is.
    """

    slots: int
    rate: Fraction

    @property
    def mean(self) -> float:
        """Expected number of dummies."""
        return float(self.slots * self.rate)

    @property
    def deviation(self) -> float:
        """Standard deviation of the number of dummies."""
        return math.sqrt(self.slots * float(self.rate * (1 - self.rate)))


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A debiased answer: a sum with its mean, or a histogram.

    Intervals cover with probability 0.95.

    `values`, `standard_errors`, `lows` and `highs` have one entry for a sum, k for a histogram.
    """

    quantity: str
    values: tuple[float, ...]
    standard_errors: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    mean: float | None = None
    mean_standard_error: float | None = None


def histogram_of(
    counts: Counts,
    users: Fraction,
    p: Fraction,
    q: Fraction,
    added: Dummies | NodeNoise | None = None,
) -> Estimate:
    """A histogram by matrix inversion: (c_s - n q) / (p - q), unbiased for every symbol.

    For every mechanism whose report names its user's symbol with probability p, and any other with
    probability q. A count is then Bin(n_s, p) + Bin(n - n_s, q); the standard error is that of its
    variance n_s p(1-p) + (n - n_s) q(1-q) at the estimate, and the interval inverts its exact law.

    Args:
        counts: c_s, how many reports name each symbol; shape (k,).
        users: n, rounded down to whole reports.
        p: above q, at most 1.
        q: above 0.
        added: noise in each count besides the reports; its mean is subtracted.
    """
    import numpy as np

    from shuffledp_core.answering.intervals import count_intervals

    n = int(users)
    slope = float(p - q)
    observed = np.asarray(counts, dtype=np.int64)
    mean = 0.0 if added is None else added.mean
    deviation = 0.0 if added is None else added.deviation
    values = (observed - mean - n * float(q)) / slope
    # An estimate outside of 0..n would have a variance that no dataset has, perhaps a negative one.
    plug_in = np.clip(values, 0, n)
    variances = plug_in * float(p * (1 - p)) + (n - plug_in) * float(q * (1 - q)) + deviation**2
    lows, highs = count_intervals(observed, n, p, q, added)
    return Estimate(
        quantity="histogram",
        values=tuple(values.tolist()),
        standard_errors=tuple((np.sqrt(variances) / slope).tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
    )


def histogram_with_dummies(
    counts: Counts, users: Fraction, slots: Fraction, rate: Fraction
) -> Estimate:
    """A histogram to which Bin(slots, rate) dummies of each symbol were added: c_s - slots rate.

    Unbiased; the standard error does not depend on the values, and the interval inverts the exact
    law.

    Args:
        counts: c_s, messages that carry each symbol; shape (k,).
        users: n, whose values are counted.
        slots: messages that may be dummies, rounded down to whole ones.
        rate: probability that a slot is a dummy of one given symbol.
    """
    import numpy as np

    from shuffledp_core.answering.intervals import binomial_interval

    trials = int(slots)
    most = float(users)
    observed = np.asarray(counts, dtype=np.int64)
    values = observed - float(trials * rate)
    error = math.sqrt(trials * float(rate * (1 - rate)))
    fewest, largest = binomial_interval(trials, rate)
    return Estimate(
        quantity="histogram",
        values=tuple(values.tolist()),
        standard_errors=(error,) * observed.size,
        lows=tuple(np.clip(observed - largest, 0.0, most).tolist()),
        highs=tuple(np.clip(observed - fewest, 0.0, most).tolist()),
    )


def sum_of_bits(ones: int, users: Fraction, max_value: int, flip: Fraction) -> Estimate:
    """A sum from unary bits, each flipped with probability `flip`: (ones - n k f) / (1 - 2 f).

    With f = p/2 it is Algorithm 2 of Athanasiou et al. 2025, with its λ = p n k. Every bit is
    flipped with the same probability whatever its value, so that the variance n k f (1 - f) is
    known exactly; the interval inverts the exact law of the ones.
    """
    import numpy as np

    from shuffledp_core.answering.intervals import count_intervals

    # Nothing is cut off: a report of rr-shuffle has max_value messages, and users is counted in
    # such parts.
    bits = int(users * max_value)
    # In rationals: two numbers of the size n k are subtracted, and all that counts is their
    # difference.
    value = (Fraction(ones) - bits * flip) / (1 - 2 * flip)
    chance = float(flip)
    slope = float(1 - 2 * flip)
    low, high = count_intervals(np.array([ones]), bits, 1 - flip, flip)
    error = math.sqrt(bits * chance * (1 - chance)) / slope
    return _sum(float(value), error, (float(low[0]), float(high[0])), users, max_value)


def sum_of_quantised_bits(
    ones: int, users: Fraction, max_value: int, bits: int, flip: Fraction, rounding: Fraction
) -> Estimate:
    """A sum from unary codes in steps of Q = k/r, each bit flipped with probability f.

    Estimate: Q (ones - n r f)/(1 - 2 f).

    Unbiased for all values. Bits that were 0 or 1 before they were flipped have the variance f (1 -
    f), and the one bit of a report that was rounded at random with chance s has (1 - 2 f)² s (1 -
    s) more: it depends on the value, and the standard error takes the worst case for every user.
    The interval holds for all values.

    Args:
        ones: how many bits are 1.
        users: n, rounded down to whole bits.
        max_value: k.
        bits: r, of a report.
        flip: f, below 1/2.
        rounding: largest s (1 - s) over all values.
    """
    from shuffledp_core.answering.intervals import rounded_sum_interval

    if rounding == 0:
        return sum_of_bits(ones, users, max_value, flip)
    total = int(users * bits)
    step = Fraction(max_value, bits)
    slope = 1 - 2 * flip
    value = (Fraction(ones) - total * flip) / slope * step
    deviation = math.sqrt(
        total * float(flip * (1 - flip)) + float(users) * float(slope**2 * rounding)
    )
    ends = rounded_sum_interval(ones, total, math.ceil(users), step, flip)
    return _sum(float(value), deviation * float(step / slope), ends, users, max_value)


def sum_of_one_bit_reports(
    ones: int, users: Fraction, max_value: int, randomise: Fraction
) -> Estimate:
    """A sum from one bit a user, 1 with probability p/2 + (1 - p) x/k: k (ones - n p/2)/(1 - p).

    The variance of the ones, Σ r_i (1 - r_i), depends on the values through their random rounding:
    it is largest where all are equal to their mean, and the standard error is taken there. The
    interval holds for all values.

    Args:
        ones: how many bits are 1.
        users: n, rounded down to whole reports.
        max_value: k.
        randomise: p, below 1.
    """
    from shuffledp_core.answering.intervals import rounded_sum_interval

    n = int(users)
    slope = float((1 - randomise) / max_value)
    value = (Fraction(ones) - n * randomise / 2) / (1 - randomise) * max_value
    # A share outside of these has no values.
    share = min(max(ones / n, float(randomise / 2)), float(1 - randomise / 2))
    error = math.sqrt(n * share * (1 - share)) / slope
    ends = rounded_sum_interval(ones, n, n, Fraction(max_value), randomise / 2)
    return _sum(float(value), error, ends, users, max_value)


def sum_of_clamped_reports(
    total: int, lowest: int, highest: int, users: Fraction, max_value: int, epsilon: float
) -> Estimate:
    """A sum from numbers with discrete Laplace noise that were clamped to 0..k.

    What a report of 0 or k hides is geometric with mean φ/(1-φ), whatever the value is, so that
    total + (highest - lowest) φ/(1-φ) is unbiased for all values. Its variance is the mean of
    (2 n - lowest - highest) φ/(1-φ)², whatever the values are. The error is a
    conditional mean of the noise without clamping, so it is beyond the mean of that noise's
    largest 2.5% with probability 2.5% at most (docs/accounting.md, S24).

    Args:
        total: sum of the reports.
        lowest: number of reports that are 0.
        highest: number of reports that are k.
        users: n, reports.
        max_value: k.
        epsilon: rate of the noise, nats per unit.
    """
    from shuffledp_core.bounds import noise

    n = float(users)
    beyond = math.exp(-epsilon) / -math.expm1(-epsilon)
    value = total + (highest - lowest) * beyond
    error = math.sqrt((2 * n - lowest - highest) * beyond / -math.expm1(-epsilon))
    width = noise.mean_of_tail(n, epsilon, (1 - COVERAGE) / 2)
    return _sum(value, error, (value - width, value + width), users, max_value)


def sum_with_noise(
    total: Fraction,
    users: Fraction,
    max_value: int,
    shape: float,
    epsilon: float,
    bias: float = 0.0,
) -> Estimate:
    """A sum to which noise of the law `noise` was added.

    The noise is A - B with A, B ~ NB(shape, 1 - exp(-epsilon)).

    `bias` is the most by which clamping may move the mean. It depends on the values, so it is not
    taken off: the standard error is the root of the mean squared error at worst, and the interval
    reaches so much farther.
    """
    from shuffledp_core.bounds import noise

    error = noise.standard_deviation(shape, epsilon)
    width = noise.half_width(shape, epsilon, COVERAGE)
    value = float(total)
    ends = (value - width - bias, value + width + bias)
    return _sum(value, math.hypot(error, bias), ends, users, max_value)


def _sum(
    value: float, error: float, ends: tuple[float, float], users: Fraction, max_value: int
) -> Estimate:
    largest = float(users * max_value)
    n = float(users)
    return Estimate(
        quantity="sum",
        values=(value,),
        standard_errors=(error,),
        lows=(min(max(ends[0], 0.0), largest),),
        highs=(min(max(ends[1], 0.0), largest),),
        mean=value / n,
        mean_standard_error=error / n,
    )
