"""Tables of sums of a few flipped bits, for whole curves: convolutions of binomial windows.

docs/accounting.md, Propositions K0 (windows) and S10 (the pair).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.losses import tabulated_divergence
from shuffledp_privacy.primitives.tails import TAIL, binomial_window

LARGEST_VARIANCE: Final = 15_000.0
"""Largest variance of a sum that is tabulated: its windows then have about 3,000 points."""

LEAST_LOG: Final = -667.0
"""Least ln Q that counts, about 1e-290: a smaller product of chances loses digits as a double."""


def bits_are_few(bits: int, flip: float) -> bool:
    """True if the sum of `bits` flipped bits is short enough for a table."""
    return bits * flip * (1.0 - flip) <= LARGEST_VARIANCE


def bit_divergence(zeros: int, ones: int, distance: int, flip: float, epsilon: Floats) -> Floats:
    """HS_E at each E >= 0 of the pair of `BitPair`, never below the truth: d bits change to ones.

    Args:
        zeros: other bits that are 0.
        ones: other bits that are 1.
        distance: d.
        flip: probability that a bit is flipped, in (0, 1/2].
        epsilon: E, nats.
    """
    start, first, first_error = _law(zeros + distance, ones, flip)
    other, second, second_error = _law(zeros, ones + distance, flip)
    other += distance
    # Q on the points of P; elsewhere nothing is subtracted.
    moved = np.full(first.size, -np.inf)
    low = max(start, other)
    high = min(start + first.size, other + second.size)
    if low < high:
        # Too small a chance keeps no digits: then nothing is subtracted.
        known = np.where(second > LEAST_LOG, second, -np.inf)
        moved[low - start : high - start] = known[low - other : high - other] - second_error
    above = tabulated_divergence(first + first_error, moved, epsilon)
    return np.asarray(np.minimum(above + 4 * TAIL, 1.0), dtype=np.float64)


def _law(zeros: int, ones: int, flip: float) -> tuple[int, Floats, float]:
    """First point, ln P and its error of Bin(zeros, a) - Bin(ones, a), without 4 `TAIL` of mass."""
    up = binomial_window(zeros, flip)
    down = binomial_window(ones, flip)
    # Only positive terms: the errors stay relative.
    law = np.convolve(up.pmf, down.pmf[::-1])
    error = up.error + down.error + 4 * UNIT * (law.size + 8)
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(law, 1e-300))
    return up.start - (down.start + down.pmf.size - 1), logs, error + 8 * UNIT * 700
