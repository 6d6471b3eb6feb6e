"""Privacy losses behind the dummies of nodes, and the noise that these add to an answer.

docs/accounting.md, N1 to N6. Pure; uses only numpy.
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
"""Probability that noise lies beyond one end of an interval, less its computation error."""

_STEPS: Final = 1000
"""Steps per standard deviation, to whose multiples noises of different weights are rounded before
they are added; rounding each of them outward widens an interval by a few thousandths.
"""


_BLOCKS: Final = 8
"""Number of values per standard deviation to which `NodeNoise.blocks` rounds the noise."""

_RARE: Final = 1e-9
"""Probability of each tail of the noise that `NodeNoise.blocks` leaves out."""


@lru_cache(maxsize=32)
def histogram_losses(rate: Fraction, mean: int, symbols: int, dummies: int) -> PrivacyLosses:
    """Losses of a change of one value from a to b, seen in all counts (N3).

    Before it u = D_a + 1 and v = D_b, after it u = D_a and v = D_b + 1. Given the sum of both, the
    dummies of the other symbols have room with probability w; the losses are 2 rate, 0, -2 rate,
    and infinite where D_a = 2 mean or D_b = 0.

    Raises:
        ValueError: the law is too wide to tabulate.
    """
    import numpy as np

    law = bounded_laplace_law(rate, mean)
    sums = np.arange(4 * mean + 1) - 2 * mean
    spare = dummies - symbols * mean
    others = law_of_sum(rate, mean, symbols - 2)
    room = others.at_most(spare - sums)
    roomier = np.clip(room + others.error, 0.0, 1.0)
    tighter = np.clip(room - others.error, 0.0, 1.0)
    unlikely = math.exp(-float(rate))
    size = np.abs(sums)
    square = law[mean] ** 2
    # One more in the count of a is less likely from the middle on, one fewer in that of b up to the
    # middle. Of pairs with a given sum and one of these losses either all are equally likely, or
    # their probabilities are a geometric series.
    pairs = np.maximum(mean - size, 0)
    series = np.expm1(-2 * float(rate) * pairs) / np.expm1(-2 * float(rate))
    opposite = square * np.exp(-float(rate) * size) * series
    alike = square * np.exp(-float(rate) * size) * np.minimum(size, 2 * mean - size)
    masses = (opposite, alike, unlikely**2 * opposite)

    def infinite(likely: NDArray[np.float64]) -> float:
        """Mass of infinite losses, D_a = 2 mean or D_b = 0; `likely` is P(room) by sum."""
        return float(law[-1] * (law @ likely[2 * mean :])) + float(
            law[0] * (law[:-1] @ likely[: 2 * mean])
        )

    # The condition's probability, by the same room.
    likely_low = (sum(float(mass @ tighter) for mass in masses) + infinite(tighter)) * (1 - MARGIN)
    likely_high = min(
        1.0, (sum(float(mass @ roomier) for mass in masses) + infinite(roomier)) * (1 + MARGIN)
    )
    units = [2.0, 0.0, -2.0]
    low = np.array([float(mass @ tighter) for mass in masses]) * ((1 - MARGIN) / likely_high)
    high = np.array([float(mass @ roomier) for mass in masses]) * ((1 + MARGIN) / likely_low)
    infinite_low = infinite(tighter) * (1 - MARGIN) / likely_high
    infinite_high = infinite(roomier) * (1 + MARGIN) / likely_low
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
    """P(Z > mean - distance): noise so large that only one of two counts can explain the result.

    The counts are `distance` apart.
    """
    return _middle(float(rate), mean) * _geometric_sum(float(rate), mean - distance + 1, mean)


def _middle(rate: float, mean: int) -> float:
    """P(Z = 0)."""
    return 1 / (1 + 2 * _geometric_sum(rate, 1, mean))


def _geometric_sum(rate: float, first: int, last: int) -> float:
    """Σ exp(-rate z) over z from `first` to `last`."""
    return math.exp(-rate * first) * math.expm1(-rate * (last - first + 1)) / math.expm1(-rate)


@lru_cache(maxsize=16)
def conditional_law(rate: Fraction, mean: int, symbols: int, dummies: int) -> NDArray[np.float64]:
    """Law of one symbol's Z, given that all dummies have room; shape (2 mean + 1,)."""
    import numpy as np

    places = np.arange(-mean, mean + 1)
    room = law_of_sum(rate, mean, symbols - 1).at_most(dummies - symbols * mean - places)
    weights = bounded_laplace_law(rate, mean) * room
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=16)
def least_room(rate: Fraction, mean: int, symbols: int, missed: float) -> int:
    """Smallest number that the sum of all Z exceeds with probability at most `missed`."""
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
        least: the noise is below this with probability at most 2.5%.
        most: the noise is above this with probability at most 2.5%.
        laws: weight and law of each noise of one node.
        nodes: nodes that draw them.
    """

    mean: float
    deviation: float
    least: float
    most: float
    laws: Sequence[tuple[int, NDArray[np.float64]]] = ()
    nodes: int = 0

    def blocks(self, sign: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """A few values of `sign` times the noise, each rounded down, and their probabilities.

        Both have shape (blocks,). The probabilities sum to 1: that of the values left out in the
        tails, about 1e-9 each, is added to the smallest value.
        """
        import numpy as np

        if not self.nodes:
            return np.zeros(1, dtype=np.int64), np.ones(1)
        first, masses = _law_of_nodes(
            [(weight, law[::sign]) for weight, law in self.laws], self.nodes
        )
        step = max(1, int(self.deviation / _BLOCKS))
        values = (first + np.arange(masses.size)) // step * step
        different, index = np.unique(values, return_inverse=True)
        sums = np.bincount(index, weights=masses)
        likely = np.flatnonzero(np.cumsum(sums) > _RARE)
        last = different.size - int((np.cumsum(sums[::-1]) > _RARE).argmax())
        different = different[likely[0] : last]
        sums = sums[likely[0] : last]
        sums[0] += max(0.0, 1 - float(sums.sum()))
        return different.astype(np.int64), np.asarray(sums, dtype=np.float64)


def noise_of_nodes(laws: Sequence[tuple[int, NDArray[np.float64]]], nodes: int) -> NodeNoise:
    """The noise of all nodes together: the sum over nodes and `laws` of weight times noise.

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
    return NodeNoise(
        nodes * mean, deviation, -float(down * step), float(up * step), tuple(laws), nodes
    )


def _last_likely(laws: Sequence[tuple[int, NDArray[np.float64]]], nodes: int, step: int) -> int:
    """Smallest number of steps that the noise, rounded up, exceeds with probability `_TAIL`."""
    import numpy as np

    first, masses = _law_of_nodes(laws, nodes, step)
    beyond = 1 - np.cumsum(masses)
    return first + int(np.flatnonzero(beyond <= _TAIL)[0])


def _law_of_nodes(
    laws: Sequence[tuple[int, NDArray[np.float64]]], nodes: int, step: int = 1
) -> tuple[int, NDArray[np.float64]]:
    """First value, in steps, and probabilities of the noise, whose terms are each rounded up."""
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
    return nodes * sum(start for start, _ in parts), np.asarray(masses)
