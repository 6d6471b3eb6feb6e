"""Half-widths of weighted sums of many noises of nodes: exact laws, by their transforms.

docs/accounting.md, N10. Pure; uses only numpy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from shuffledp_core.bounds.bounded_noise import bounded_laplace_variance, law_of_sum

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PERIOD: Final = 24.0
"""Circumference of the circle on which a law is computed, in standard deviations; a sum of Laplace
noises lies outside with probability 1e-7 at most.
"""

TERMS: Final = 2048
"""Number of points of the transform; beyond them it is below 1e-9 for every law."""

SMOOTHING: Final = 0.0125
"""Standard deviation of a Gaussian noise that is added, in standard deviations of the sum. It makes
the transform fall; that of a law on few points does not fall by itself.
"""

ALLOWANCE: Final = 4 * SMOOTHING
"""Amount by which half-widths grow for the smoothing, in standard deviations of the sum."""

_BEYOND: Final = 1e-4
"""Allowance: the added noise exceeds `ALLOWANCE`, the sum leaves the circle, and rounding."""

_ROWS: Final = 64
"""Number of laws that are computed at a time."""

_NEGLIGIBLE: Final = 1e-11
"""Terms below this are not refined further: each factor is at most 1, so they cannot grow."""

_STEP: Final = 0.01
"""Resolution of a half-width, in standard deviations of the sum."""


class CountNoise(NamedTuple):
    """The noise of one node in the counts of a histogram (docs/accounting.md, N2).

    The noises of all counts are independent and have one symmetric law, under the condition that
    their sum is at most `spare`.

    Attributes:
        rate: ε of the noise in one count, in nats.
        mean: largest size of a noise.
        counts: how many counts there are.
        spare: largest sum.
    """

    rate: Fraction
    mean: int
    counts: int
    spare: int

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in one count, not conditioned on the sum."""
        return float(bounded_laplace_variance(self.rate, self.mean) ** 0.5)

    @property
    def room_probability(self) -> float:
        """Lower bound of the probability that a first draw meets the condition on the sum."""
        import numpy as np

        law = law_of_sum(self.rate, self.mean, self.counts)
        return max(0.0, float(law.at_most(np.array([self.spare]))[0]) - law.error)

    def largest_sum(self, terms: int, missed: float) -> int:
        """Smallest number that `terms` noises together exceed with probability at most `missed`."""
        import numpy as np

        law = law_of_sum(self.rate, self.mean, terms)
        enough = np.flatnonzero(law.cumulative - law.error >= 1 - missed)
        most = terms * self.mean
        return min(most, law.first + int(enough[0])) if enough.size else most

    def widths(
        self, weights: NDArray[np.float64], nodes: int, missed: float
    ) -> NDArray[np.float64]:
        """Half-widths that the noise in weighted sums of counts exceeds with probability `missed`.

        Args:
            weights: shape (sums, counts).
            nodes: how many nodes draw noise, at least 1.
            missed: from 1e-3 to 0.5.
        """
        import numpy as np

        laws = [np.unique(np.abs(row), return_counts=True) for row in weights]
        kinds = max(values.size for values, _ in laws)
        sizes = np.zeros((len(laws), kinds))
        numbers = np.zeros((len(laws), kinds), dtype=np.int64)
        for row, (values, counts) in enumerate(laws):
            sizes[row, : values.size] = values
            numbers[row, : counts.size] = counts * nodes
        deviations = np.sqrt((weights**2).sum(axis=1) * nodes) * self.deviation
        # A first draw without room is no draw: this makes no event more likely than by this factor.
        likely = missed * self.room_probability**nodes
        return half_widths(sizes, numbers, (self.rate, self.mean), deviations, likely)


def noise_transform(rate: Fraction, mean: int, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """E cos(angle Z) of one noise on {-mean..mean} with P(z) proportional to exp(-rate |z|)."""
    import numpy as np

    decay = math.exp(-float(rate))
    last = decay ** (mean + 1)
    # Sums of decay^z cos(z angle), and of decay^z, over z from 1 to the mean.
    waves = decay * np.cos(angles) - decay**2
    waves += last * (decay * np.cos(mean * angles) - np.cos((mean + 1) * angles))
    waves /= 1 - 2 * decay * np.cos(angles) + decay**2
    masses = decay * math.expm1(-float(rate) * mean) / math.expm1(-float(rate))
    return np.asarray((1 + 2 * waves) / (1 + 2 * masses))


def half_widths(
    weights: NDArray[np.float64],
    numbers: NDArray[np.int64],
    noise: tuple[Fraction, int],
    deviations: NDArray[np.float64],
    missed: float,
) -> NDArray[np.float64]:
    """Widths w with P(|sum of weight times noise| > w) <= `missed`, shape (sums,).

    Args:
        weights: different weights of each sum, shape (sums, kinds).
        numbers: how many independent noises have each weight, same shape.
        noise: rate and mean of every noise, whose law is that of `noise_transform`.
        deviations: standard deviation of each sum, above 0, shape (sums,).
        missed: from 1e-3 to 0.5.
    """
    import numpy as np

    widths = [
        _some_widths(
            weights[start : start + _ROWS] / deviations[start : start + _ROWS, np.newaxis],
            numbers[start : start + _ROWS],
            noise,
            missed - _BEYOND,
        )
        for start in range(0, len(weights), _ROWS)
    ]
    return np.concatenate(widths) * deviations


def _some_widths(
    weights: NDArray[np.float64],
    numbers: NDArray[np.int64],
    noise: tuple[Fraction, int],
    missed: float,
) -> NDArray[np.float64]:
    """The half-widths of sums that are scaled to a standard deviation of 1."""
    import numpy as np

    frequencies = 2 * np.pi / PERIOD * np.arange(1, TERMS + 1)
    transforms = np.tile(np.exp(-((SMOOTHING * frequencies) ** 2) / 2), (len(weights), 1))
    # The largest parts first: what they leave of most terms is too small to go on with.
    order = np.argsort(-(weights**2) * numbers, axis=1)
    for kinds in order.T:
        rows, terms = np.nonzero(np.abs(transforms) > _NEGLIGIBLE)
        weight = weights[rows, kinds[rows]]
        number = numbers[rows, kinds[rows]]
        transforms[rows, terms] *= noise_transform(*noise, weight * frequencies[terms]) ** number
    last = 1 + int(np.flatnonzero((np.abs(transforms) > _NEGLIGIBLE).any(axis=0))[-1])
    # P(|sum| <= x) on the circle, by the Fourier series of its density.
    reaches = np.arange(0.5, PERIOD / 4, _STEP)
    waves = np.sin(np.outer(frequencies[:last], reaches)) / np.arange(1, last + 1)[:, np.newaxis]
    within = 2 * reaches / PERIOD + 2 / np.pi * (transforms[:, :last] @ waves)
    enough = within >= 1 - missed
    first = np.where(enough.any(axis=1), enough.argmax(axis=1), reaches.size - 1)
    return reaches[first] + ALLOWANCE
