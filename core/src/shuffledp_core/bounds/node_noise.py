"""What the dummies of nodes hide, and what they add to an answer.

docs/accounting.md, N1 to N6. Pure; numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from shuffledp_core.bounds.bounded_noise import bounded_laplace_law, law_of_sum
from shuffledp_core.bounds.losses import MARGIN, PrivacyLosses, finite_losses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TAIL: Final = 0.025 - 1e-6
"""Probability that noise is beyond one end of an interval, less what computing it errs by."""

_STEPS: Final = 1000
"""Steps of a standard deviation on which noises of different weights are added; rounding each of
them outward widens an interval by a few thousandths.
"""


@lru_cache(maxsize=32)
def histogram_losses(rate: Fraction, mean: int, symbols: int, dummies: int) -> PrivacyLosses:
    """Losses of a change of one value from a to b, seen in all counts (N3).

    Before it u = D_a + 1 and v = D_b, after it u = D_a and v = D_b + 1. Given the sum of both, the
    other symbols' numbers have room with probability w; the losses are 2 rate, 0, -2 rate, and
    infinite where D_a = 2 mean or D_b = 0.

    Raises:
        ValueError: the law is too wide to tabulate.
    """
    import numpy as np

    law = bounded_laplace_law(rate, mean)
    rising = np.arange(2 * mean + 1) < mean  # one more makes it likelier
    last = np.arange(2 * mean + 1) == 2 * mean
    first = np.arange(2 * mean + 1) == 0
    at_end = np.where(last, law, 0.0)
    at_start = np.where(first, law, 0.0)
    # One more in the count of a: less likely from the middle on. One fewer in that of b: less
    # likely up to the middle.
    gaining_a = np.where(rising | last, 0.0, law)
    losing_a = np.where(rising, law, 0.0)
    gaining_b = np.where(rising | (np.arange(2 * mean + 1) == mean), law, 0.0) - at_start
    losing_b = law - gaining_b - at_start
    pairs = {
        math.inf: np.convolve(at_end, law) + np.convolve(law - at_end, at_start),
        2.0: np.convolve(gaining_a, gaining_b),
        0.0: np.convolve(gaining_a, losing_b) + np.convolve(losing_a, gaining_b),
        -2.0: np.convolve(losing_a, losing_b),
    }
    sums = np.arange(4 * mean + 1) - 2 * mean
    spare = dummies - symbols * mean
    others = law_of_sum(rate, mean, symbols - 2)
    room = others.at_most(spare - sums)
    roomier = np.clip(room + others.error, 0.0, 1.0)
    tighter = np.clip(room - others.error, 0.0, 1.0)
    both = np.convolve(law, law)
    # The condition's probability, by the same room.
    likely_low = float(both @ tighter) * (1 - MARGIN)
    likely_high = min(1.0, float(both @ roomier) * (1 + MARGIN))
    units = [2.0, 0.0, -2.0]
    low = np.array([float(pairs[unit] @ tighter) for unit in units]) * ((1 - MARGIN) / likely_high)
    high = np.array([float(pairs[unit] @ roomier) for unit in units]) * ((1 + MARGIN) / likely_low)
    infinite_low = float(pairs[math.inf] @ tighter) * (1 - MARGIN) / likely_high
    infinite_high = float(pairs[math.inf] @ roomier) * (1 + MARGIN) / likely_low
    losses = np.array(units) * float(rate)
    slack = 1e-14 * np.abs(losses)
    return PrivacyLosses(losses - slack, losses + slack, low, high, infinite_low, infinite_high)


@lru_cache(maxsize=256)
def shift_losses(rate: Fraction, mean: int, distance: int) -> PrivacyLosses:
    """Losses of a count of ones that a change raises by `distance`, behind dummies of a node (N5).

    P is the law of Z + distance, Q that of Z. The loss at y is rate (|y| - |y - distance|), and
    infinite above the mean.

    Args:
        rate: nats per unit, above 0.
        mean: largest |Z|, at least `distance`.
        distance: d, at least 1.
    """
    import numpy as np

    if not 1 <= distance <= mean:
        raise ValueError(f"distance must be from 1 to the mean, {mean}, not {distance}")
    exponent = float(rate)
    # P(Z = z) is `middle` φ^|z|; sums of powers by expm1, so that a small rate keeps its digits.
    middle = _middle(exponent, mean)
    steps = np.arange(distance, -1, -1, dtype=np.float64)
    # y from 0 to distance is Z from -distance to 0; both ends hold all finite losses beyond.
    masses = middle * np.exp(-exponent * (distance - steps))
    masses[0] = middle * _geometric_sum(exponent, 0, mean - distance)
    masses[-1] = middle * _geometric_sum(exponent, distance, mean)
    losses = exponent * (2.0 * steps - distance)
    return finite_losses(losses, masses, ends_mass(rate, mean, distance))


def ends_mass(rate: Fraction, mean: int, distance: int) -> float:
    """P(Z > mean - distance): what a count shows that is `distance` too large for no change."""
    return _middle(float(rate), mean) * _geometric_sum(float(rate), mean - distance + 1, mean)


def _middle(rate: float, mean: int) -> float:
    """P(Z = 0)."""
    return 1 / (1 + 2 * _geometric_sum(rate, 1, mean))


def _geometric_sum(rate: float, first: int, last: int) -> float:
    """Σ exp(-rate z) over z from `first` to `last`."""
    return math.exp(-rate * first) * math.expm1(-rate * (last - first + 1)) / math.expm1(-rate)


@lru_cache(maxsize=16)
def conditional_law(rate: Fraction, mean: int, symbols: int, dummies: int) -> NDArray[np.float64]:
    """Law of one symbol's Z, shape (2 mean + 1,), under the condition that all have room."""
    import numpy as np

    places = np.arange(-mean, mean + 1)
    room = law_of_sum(rate, mean, symbols - 1).at_most(dummies - symbols * mean - places)
    weights = bounded_laplace_law(rate, mean) * room
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=16)
def least_room(rate: Fraction, mean: int, symbols: int, missed: float) -> int:
    """Smallest sum of Z over all symbols that is exceeded with probability `missed` at most."""
    import numpy as np

    law = law_of_sum(rate, mean, symbols)
    enough = np.flatnonzero(law.cumulative - law.error >= 1 - missed)
    last = symbols * mean
    return max(0, min(last, law.first + int(enough[0]) if enough.size else last))


class NodeNoise(NamedTuple):
    """Noise of all nodes together in one number of an answer.

    Attributes:
        mean: expected value.
        deviation: standard deviation.
        least: exceeded downwards with probability 2.5% at most.
        most: exceeded upwards with probability 2.5% at most.
    """

    mean: float
    deviation: float
    least: float
    most: float


def noise_of_nodes(laws: Sequence[tuple[int, NDArray[np.float64]]], nodes: int) -> NodeNoise:
    """The sum over nodes, and over `laws`, of weight times noise.

    Args:
        laws: weight and law of each noise, on -reach..reach; shape (2 reach + 1,).
        nodes: how many nodes draw each of them, independently.
    """
    import numpy as np

    if nodes == 0:
        return NodeNoise(0.0, 0.0, 0.0, 0.0)
    mean = variance = 0.0
    for weight, law in laws:
        places = np.arange(law.size) - law.size // 2
        center = float(law @ places)
        mean += weight * center
        variance += weight**2 * float(law @ (places - center) ** 2)
    deviation = math.sqrt(nodes * variance)
    step = max(1, int(deviation / _STEPS))
    up = _last_likely(laws, nodes, step)
    down = _last_likely([(weight, law[::-1]) for weight, law in laws], nodes, step)
    return NodeNoise(nodes * mean, deviation, -float(down * step), float(up * step))


def _last_likely(laws: Sequence[tuple[int, NDArray[np.float64]]], nodes: int, step: int) -> int:
    """Smallest number of steps that the noise, rounded up in each part, exceeds rarely."""
    import numpy as np

    parts = []
    for weight, law in laws:
        reach = law.size // 2
        rounded = -(-weight * np.arange(-reach, reach + 1) // step)
        parts.append((int(rounded[0]), np.bincount(rounded - rounded[0], weights=law)))
    size = 1 + nodes * sum(part.size - 1 for _, part in parts)
    points = 1 << size.bit_length()
    transform = np.ones(points // 2 + 1, dtype=np.complex128)
    for _, part in parts:
        transform *= np.fft.rfft(part, points) ** nodes
    masses = np.fft.irfft(transform, points)[:size]
    first = nodes * sum(start for start, _ in parts)
    beyond = 1 - np.cumsum(masses)
    return first + int(np.flatnonzero(beyond <= _TAIL)[0])
