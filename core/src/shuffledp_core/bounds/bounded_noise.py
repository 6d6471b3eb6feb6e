"""The law of a node's dummies: discrete Laplace noise of bounded size, and sums of it.

Notation: docs/accounting.md, N1: z is in {-reach..reach} with P(z) proportional to φ^|z|,
φ = exp(-rate). Pure; uses only numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

OUTSIDE: Final = 1e-15
"""Mass of a sum that may lie outside its window."""

_NATS: Final = 37.5
"""2 e^-37.5 is below `OUTSIDE`."""

MOST_POINTS: Final = 2**23
"""Most points of a window: 64 MiB. The law of a wider sum is not computed."""


@lru_cache(maxsize=8)
def bounded_laplace_law(rate: Fraction, reach: int) -> NDArray[np.float64]:
    """Probabilities of -reach..reach, shape (2 reach + 1,), in a read-only array.

    The relative error of each is at most 1e-13 up to 100 nats; the errors sum to at most 1e-14.
    """
    import numpy as np

    weights = np.exp(-float(rate) * np.abs(np.arange(-reach, reach + 1, dtype=np.float64)))
    law: NDArray[np.float64] = weights / weights.sum()
    law.setflags(write=False)
    return law


def bounded_laplace_variance(rate: Fraction, reach: int) -> float:
    """Variance of one bounded noise."""
    import numpy as np

    places = np.arange(-reach, reach + 1, dtype=np.float64)
    return float(bounded_laplace_law(rate, reach) @ places**2)


@dataclass(frozen=True, slots=True, eq=False)
class SumLaw:
    """Distribution function of a sum of independent bounded noises, on a window.

    Attributes:
        first: smallest sum of the window.
        cumulative: computed P(S <= first + i), shape (points,).
        error: largest error of a computed probability.
    """

    first: int
    cumulative: NDArray[np.float64]
    error: float

    def at_most(self, sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Computed P(S <= s) at each of these sums, in the same shape; wrong by at most `error`."""
        import numpy as np

        places = np.clip(sums - self.first, -1, self.cumulative.size - 1)
        return np.where(places < 0, 0.0, self.cumulative[places])


@lru_cache(maxsize=16)
def law_of_sum(rate: Fraction, reach: int, terms: int) -> SumLaw:
    """The law of the sum of `terms` independent bounded noises.

    Computed by a Fourier transform modulo a power of two. The window leaves out at most `OUTSIDE`
    (Bernstein). A point of the transform errs by 16 u log2(points), and its power by as much for
    each term; the errors of all points add up in a probability. The law of each term errs by 1e-14.

    Raises:
        ValueError: the sum is spread over more than `MOST_POINTS`.
    """
    import numpy as np

    if terms == 0:
        return SumLaw(0, np.ones(1), 0.0)
    variance = terms * bounded_laplace_variance(rate, reach)
    linear = _NATS * reach / 3
    half = math.ceil(linear + math.sqrt(linear**2 + 2 * _NATS * variance)) + reach
    points = 1 << min(2 * half, 2 * reach * terms).bit_length()
    if points > MOST_POINTS:
        raise ValueError(
            f"the sum of {terms} noises, each up to {reach}, has too many possible values to "
            "tabulate"
        )
    folded = np.zeros(points)
    folded[np.arange(-reach, reach + 1) % points] = bounded_laplace_law(rate, reach)
    # The law is symmetric, so that its transform is real.
    others = np.fft.rfft(folded).real ** terms
    masses = np.roll(np.fft.irfft(others, points), points // 2)
    error = 2.0**-49 * math.log2(points) * (terms + 1) * 2 * float(np.abs(others).sum())
    cumulative = np.clip(np.cumsum(masses), 0.0, 1.0)
    error += OUTSIDE + 1e-14 * terms + points * 2.0**-53
    return SumLaw(-(points // 2), cumulative, error)
