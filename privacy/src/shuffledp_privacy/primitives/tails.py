"""Binomial laws on rigorous windows, their tails, and outward rounding.

Conventions for every certified number (docs/accounting.md, K0):
* a law is kept on a window whose outside mass is at most a stated `tail`, which the caller ADDS to
  δ;
* sums have positive terms only, so floating-point error stays relative; `up` and `down` cover it.
All probabilities are plain floats, all counts are users or messages. Nothing here draws random
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics.rounding import UNIT

Floats = NDArray[np.float64]

TAIL = 1e-30
"""Largest mass outside a window on each side: far below the smallest δ that is certified (1e-12).
"""

MARGIN = 1e-8
"""Relative outward margin. A window pmf is off by at most 2e-9 (see `binomial_window`), sums by N
2^-53.
"""

SHORT = 512
"""Largest number of entries for which a law is convolved directly."""

MAX_TRIALS = 4 * 10**18
"""Largest number of trials: beyond it integers lose exactness in int64."""


def outward(value: float) -> float:
    """Round a certified non-negative number up: never below the exact one."""
    # Among the smallest doubles the factor alone would change nothing.
    return math.nextafter(value * (1.0 + MARGIN), math.inf) if value > 0.0 else 0.0


def inward(value: float) -> float:
    """Round an attained non-negative number down: never above the exact one."""
    return max(0.0, math.nextafter(value * (1.0 - MARGIN), 0.0))


def binomial_range(trials: int, probability: float, tail: float = TAIL) -> tuple[int, int]:
    """Integers lo <= hi with P(X < lo), P(X > hi) <= tail for X ~ Bin(trials, probability).

    Bernstein's inequality with variance v: P(|X - μ| >= t on one side) <= exp(-t²/(2(v + t/3))).

    Raises:
        UsageError: trials outside 0..4e18, probability outside [0, 1], tail outside (0, 1).
    """
    if not 0 <= trials <= MAX_TRIALS:
        raise UsageError(f"trials must be from 0 to {MAX_TRIALS}, not {trials}")
    if not 0.0 <= probability <= 1.0:
        raise UsageError(f"probability must be from 0 to 1, not {probability}")
    if not 0.0 < tail < 1.0:
        raise UsageError(f"tail must be between 0 and 1, not {tail}")
    mean = trials * probability
    log_tail = -math.log(tail)
    # The t at which Bernstein's exponent t²/(2(v + t/3)) is -ln tail.
    reach = log_tail / 3 + math.sqrt(
        log_tail * log_tail / 9 + 2 * mean * (1.0 - probability) * log_tail
    )
    # One more on each side covers the rounding of the mean, at most trials * 2^-52.
    slack = 1 + math.ceil(trials * 2.0**-50)
    return max(0, math.floor(mean - reach) - slack), min(trials, math.ceil(mean + reach) + slack)


@dataclass(frozen=True, slots=True)
class Window:
    """A law on consecutive integers: pmf[i] belongs to start + i, and the sum is 1.

    Normalised on the window.

    Attributes:
        start: the first integer.
        pmf: the law conditioned on the window, relative error at most 1e-9; so it is above the true
            pmf by at most the factor 1/(1 - 2 tail).
        tail: bound on the true mass left out on EACH side of the window.
        error: bound on the relative error of every entry of pmf, from rounding.
    """

    start: int
    pmf: Floats
    tail: float
    error: float = 1e-9

    @property
    def support(self) -> Floats:
        """The integers of the window, as floats (exact below 2^53)."""
        return self.start + np.arange(self.pmf.size, dtype=np.float64)

    def at_most(self) -> Floats:
        """P(X <= start + i) for each i, summed from the small end for a small relative error."""
        return np.cumsum(self.pmf)

    def at_least(self) -> Floats:
        """P(X >= start + i) for each i, summed from the small end for a small relative error."""
        return np.cumsum(self.pmf[::-1])[::-1]


def binomial_window(
    trials: int, probability: float, tail: float = TAIL, complement: float | None = None
) -> Window:
    """The law Bin(trials, probability) on a window that misses at most `tail` on each side (K0).

    The logarithms of the successive ratios are summed outward from the mode and the result is
    normalised, which needs no log-factorials of large numbers (those lose 1e-6 at 1e9). With N
    steps on a side the relative error is at most 80 N 2^-53 (4 roundings a step, partial sums below
    70), under 2e-9 at 1e9.

    Args:
        trials: 0..4e18 (accuracy as stated up to 1e9).
        probability: in [0, 1].
        tail: bound on the mass left out on each side, in (0, 1).
        complement: 1 - probability where the caller knows it better than the subtraction does.

    Raises:
        UsageError: an argument outside its range.
    """
    low, high = binomial_range(trials, probability, tail)
    rest = 1.0 - probability if complement is None else complement
    if probability <= 0.0 or rest <= 0.0 or trials == 0:
        return Window(trials if probability > 0.0 else 0, np.ones(1), 0.0, 0.0)
    mode = min(max(math.floor((trials + 1) * probability), low), high)
    odds = probability / rest
    # From the mode outward every logarithm is at most 0: nothing overflows, and nothing cancels.
    above = np.arange(mode, high, dtype=np.float64)
    below = np.arange(mode, low, -1, dtype=np.float64)
    right = np.cumsum(np.log((trials - above) / (above + 1.0) * odds))
    left = np.cumsum(np.log(below / (trials - below + 1.0) / odds))
    pmf = np.exp(np.concatenate([left[::-1], np.zeros(1), right]))
    # Normalised on the window: every entry grows by the mass left out, at most 2 tail of itself;
    # none shrinks.
    pmf /= pmf.sum()
    steps = max(mode - low, high - mode) + 1
    return Window(low, pmf, 0.0 if low == 0 and high == trials else tail, 80 * steps * UNIT)


def convolve_window(left: Window, right: Window) -> tuple[Window, float]:
    """Law of the sum of two independent integers, and an error bound of any partial sum of it.

    By FFT. Higham, Accuracy and Stability of Numerical Algorithms, Theorem 24.2: a transform of N =
    2^t points has relative 2-norm error at most t η, η below 2^-50. No transform of
    a law exceeds 1, so the errors of the two forward transforms reach the result as t η ‖left‖₂ and
    t η ‖right‖₂, and the product and the inverse add (t η + 8 u) times the smaller norm, which
    bounds the result's. A partial sum of W entries errs by at most √W times the total
    (Cauchy-Schwarz). Where one law is short, the sum is formed directly: its error is relative, and
    the bound 0.

    Returns:
        The window of the sum, its `tail` the sum of both tails, and the absolute error bound, to be
        ADDED
        to (certified) or SUBTRACTED from (attained) any tail of it.
    """
    size = left.pmf.size + right.pmf.size - 1
    start = left.start + right.start
    tail = left.tail + right.tail
    relative = left.error + right.error + size * 2 * UNIT
    if min(left.pmf.size, right.pmf.size) <= SHORT:
        return Window(start, np.convolve(left.pmf, right.pmf), tail, relative), 0.0
    points = 1 << (size - 1).bit_length()
    product = np.fft.rfft(left.pmf, points) * np.fft.rfft(right.pmf, points)
    # No true entry is negative, so 0 is nearer to it than what rounding left.
    pmf = np.maximum(np.fft.irfft(product, points)[:size], 0.0)
    norms = (float(np.linalg.norm(left.pmf)), float(np.linalg.norm(right.pmf)))
    steps = points.bit_length() - 1
    error = (8 * steps * sum(norms) + 8 * (steps + 1) * min(norms)) * UNIT * math.sqrt(size)
    # Far entries hold rounding noise only: an end that carries next to nothing is left out.
    low = int(np.searchsorted(np.cumsum(pmf), error / 16))
    high = size - int(np.searchsorted(np.cumsum(pmf[::-1]), error / 16))
    # The transform's error, an eighth of it for the two ends that were cut off, and a little for
    # roundings.
    return Window(start + low, pmf[low:high], tail, relative), 1.2 * error


def chords(window: Window, spacing: int) -> tuple[Floats, Floats]:
    """A coarser law with the same mean, LARGER in convex order: Σ w g(x) >= E g(X).

    Each point's mass is split between the two nodes around it so that its mean is kept (K0,
    chords). For every convex g the new mean is an upper bound of the mean over the window. spacing
    >= 1; 1 changes nothing.

    Returns:
        (nodes, weights), both of one shape; the nodes are integers, as floats.
    """
    if spacing <= 1:
        return window.support, window.pmf
    cells = -(-window.pmf.size // spacing)
    padded = np.zeros(cells * spacing)
    padded[: window.pmf.size] = window.pmf
    block = padded.reshape(cells, spacing)
    toward_next = block @ (np.arange(spacing) / spacing)
    toward_this = block @ (1.0 - np.arange(spacing) / spacing)
    weights = np.zeros(cells + 1)
    weights[:-1] += toward_this
    weights[1:] += toward_next
    return window.start + spacing * np.arange(cells + 1, dtype=np.float64), weights


def cells(window: Window, spacing: int) -> tuple[Floats, Floats]:
    """A coarser law of cell means, SMALLER in convex order: Σ w g(mean) <= E g(X) (Jensen).

    Returns:
        (means, weights), both of one shape; cells of no mass are left out.
    """
    if spacing <= 1:
        return window.support, window.pmf
    count = -(-window.pmf.size // spacing)
    padded = np.zeros(count * spacing)
    padded[: window.pmf.size] = window.pmf
    block = padded.reshape(count, spacing)
    mass = block.sum(axis=1)
    keep = mass > 0.0
    offset = (block @ np.arange(spacing, dtype=np.float64))[keep] / mass[keep]
    return window.start + spacing * np.arange(count)[keep] + offset, mass[keep]
