"""The exact law of the noise in a sum: a difference of two equal negative binomials.

Y = A - B with A, B ~ NB(shape, 1 - φ) independent, φ = exp(-epsilon): the sum of n discrete Laplace
variables has shape n (`GeoShuffle`), the sum of n SGDL shares has shape n r (`SGDLShuffle`). Near
shape 1 its tails are exponential, not Gaussian, so a normal interval would be wrong there.
Notation: docs/accounting.md.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_WINDOW: Final = 2**22
"""Largest lattice on which the law is tabulated: 32 MiB of float64, a quarter of a second."""

TABULATION_ERROR: Final = 1e-9
"""Allowance for rounding and aliasing of a tabulated probability; both are proved, or were
observed, to be far below it.
"""

_WINDOW_TAIL: Final = 1e-12
_NORMAL_EXCESS: Final = 1e-3
_NORMAL_ERROR: Final = 1e-5
_LARGE_EPSILON: Final = 700.0  # beyond it sinh overflows; less noise is only safer
# Shares of epsilon, since 𝔼[exp(θ Y)] exists below it only. Every θ gives a true bound: the grid is
# for tightness.
_TILTS: Final = np.geomspace(1e-9, 0.999, 400)


def standard_deviation(shape: float, epsilon: float) -> float:
    """Standard deviation of Y: sqrt(2 · shape · φ) / (1 - φ)."""
    return math.sqrt(2 * shape * math.exp(-epsilon)) / -math.expm1(-epsilon)


def chernoff_half_width(shape: float, epsilon: float, tail: float) -> int:
    """A whole number h with P(|Y| > h) <= tail, for every shape; above the smallest such h.

    Chernoff: P(|Y| > h) <= 2 exp(-θ h) 𝔼[exp(θ Y)], with 𝔼[exp(θ Y)] = (1 - 4 φ sinh²(θ/2) /
    (1-φ)²)^(-shape) for θ < epsilon; the best θ of a fixed grid.
    """
    epsilon = min(epsilon, _LARGE_EPSILON)
    theta = epsilon * _TILTS
    root = math.exp(-epsilon / 2) * np.sinh(theta / 2)
    inner = 1 - 4 * root**2 / math.expm1(-epsilon) ** 2
    # Above 0 for every θ < epsilon but for rounding near its end.
    usable = inner > 0
    bounds = (math.log(2 / tail) - shape * np.log(inner[usable])) / theta[usable]
    return math.ceil(float(bounds.min()))


def probabilities(shape: float, epsilon: float) -> NDArray[np.float64] | None:
    """P(Y = 0), P(Y = 1), ... up to a window outside of which less than 1e-12 is left.

    The characteristic function (1 + 4 φ sin²(t/2) / (1-φ)²)^(-shape) is inverted by one FFT; what
    lies beyond the window folds back into it, so that the aliasing error is below 1e-12 in total.

    Returns:
        The probabilities, or None if the window would be larger than `MAX_WINDOW`.
    """
    reach = chernoff_half_width(shape, epsilon, _WINDOW_TAIL)
    if 2 * reach + 2 > MAX_WINDOW:
        return None
    size = 1 << (2 * reach + 1).bit_length()
    frequencies = np.arange(size // 2 + 1) * (2 * math.pi / size)
    # sin² and log1p: 1 - 2φ cos t + φ² would lose its digits near t = 0, where the function is
    # largest.
    ratio = 4 * math.exp(-epsilon) * np.sin(frequencies / 2) ** 2 / math.expm1(-epsilon) ** 2
    table = np.fft.irfft(np.exp(-shape * np.log1p(ratio)), size)
    # Rounding leaves entries of about ±1e-17 far out; no probability is negative.
    return np.maximum(table[: size // 2], 0.0)


def half_width(shape: float, epsilon: float, coverage: float = 0.95) -> int:
    """A whole number h with P(|Y| <= h) >= coverage: the half width of a confidence interval.

    1. The smallest such h, from the tabulated law (up to `TABULATION_ERROR`, on the safe side).
    2. Where the table would be too large and the excess kurtosis is below 1e-3: the normal quantile
       plus 1/2, for 1e-5 more in either tail than was asked for (first Edgeworth term at 95%: 0.008
       times the excess kurtosis).
    3. Otherwise Chernoff's bound: safe, and about twice too wide for shapes near 1 (more below).

    Args:
        shape: shape of each negative binomial, above 0.
        epsilon: noise parameter, above 0 (nats per unit).
        coverage: above 0 and below 1.
    """
    if not (shape > 0 and epsilon > 0 and 0 < coverage < 1):
        raise ValueError(
            f"shape and epsilon must be above 0, and coverage between 0 and 1; got {shape}, "
            f"{epsilon} and {coverage}"
        )
    table = probabilities(shape, epsilon)
    if table is not None:  # 1
        inside = table[0] + 2 * np.cumsum(np.append(0.0, table[1:]))
        # The table's sum may stop just below 1: without the cap a coverage near 1 would run off its
        # end.
        return int(np.searchsorted(inside, min(coverage + TABULATION_ERROR, 1 - TABULATION_ERROR)))
    ratio = math.exp(-epsilon)
    excess = (1 + 4 * ratio + ratio**2) / (2 * shape * ratio)
    if excess < _NORMAL_EXCESS:  # 2
        tail = (1 - coverage) / 2
        quantile = -NormalDist().inv_cdf(tail - min(_NORMAL_ERROR, tail / 2))
        return math.ceil(quantile * standard_deviation(shape, epsilon) + 0.5)
    return chernoff_half_width(shape, epsilon, 1 - coverage)  # 3


def mean_of_tail(shape: float, epsilon: float, tail: float) -> float:
    """The mean of the largest `tail` share of Y: min over c of c + 𝔼[(Y - c)_+]/tail; rounded up.

    A variable that is smaller than Y in convex order, such as a conditional mean of Y, exceeds this
    with probability at most `tail`, and is below its negative with probability at most `tail`.

    1. From the tabulated law, at the c where P(Y > c) is about `tail`: any c gives a true bound.
    2. Where the table would be too large and the excess kurtosis is below 1e-3: that of the normal
       law, and a thousandth of a standard deviation (at 2.5%: about 0.3 times the
       excess kurtosis).
    3. Otherwise Chernoff's bound, which holds for laws of smaller convex order, too.

    Args:
        shape: shape of each negative binomial, above 0.
        epsilon: noise parameter, above 0 (nats per unit).
        tail: above 0 and below 1/2.
    """
    if not (shape > 0 and epsilon > 0 and 0 < tail < 0.5):
        raise ValueError(f"shape, epsilon and tail are out of range: {shape}, {epsilon}, {tail}")
    table = probabilities(shape, epsilon)
    if table is not None:  # 1
        # P(Y > c) for c = 0, 1, ... by sums from the far end; what is left out is 1e-12.
        above = np.append(np.cumsum(table[:0:-1])[::-1], 0.0) + TABULATION_ERROR
        cut = int(np.searchsorted(-above, -tail))
        return cut + float(above[cut:].sum()) / tail
    ratio = math.exp(-epsilon)
    excess = (1 + 4 * ratio + ratio**2) / (2 * shape * ratio)
    if excess < _NORMAL_EXCESS:  # 2
        normal = NormalDist()
        mean = normal.pdf(normal.inv_cdf(tail)) / tail
        return (mean + _NORMAL_EXCESS) * standard_deviation(shape, epsilon)
    return float(chernoff_half_width(shape, epsilon, 2 * tail))  # 3
