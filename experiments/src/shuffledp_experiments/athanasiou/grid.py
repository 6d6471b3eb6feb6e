"""The square grid of paper 002 over a city, and distances between centroids in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.sums.errors import ErrorLaw

Floats = NDArray[np.float64]

SIDE: Final = 100.0
"""Metres of a square's side in a grid of 1000 x 1000, as the paper says."""


CELLS: Final = 400
"""Cells of each axis' law where a distance in the plane is averaged or its quartiles are taken."""


@dataclass(frozen=True, slots=True)
class SquareGrid:
    """A grid of squares over a city, with ε of the plane split into one for each axis.

    Attributes:
        squares: number of squares along one side of the grid, k.
        radius: r in metres, within which ε holds.
    """

    squares: int
    radius: float

    @property
    def side(self) -> float:
        """Side of a square in metres: the larger, the fewer squares the city has."""
        return SIDE * 1000 / self.squares

    def per_square(self, epsilon: float) -> float:
        """ε of the plane per square of distance."""
        return epsilon * self.side / self.radius

    def axis(self, epsilon: float) -> float:
        """ε of each axis per square, `epsilon_run` in the paper."""
        return self.per_square(epsilon) / math.sqrt(2)


def metres(
    law: ErrorLaw, users: int, side: float, *, manhattan: bool
) -> tuple[float, float, float]:
    """Mean and both quartiles of the distance between true and reported centroid, in metres.

    The errors of the two axes are independent and of the same law.

    The Manhattan mean is exact. Others are of the law in `CELLS` cells, each at its mean: by
    convexity a Euclidean mean is not above the true one, and less than a thousandth below it.
    """
    first, mass = _cells(law)
    size = np.abs(first)
    distance = (
        size[:, None] + size[None, :] if manhattan else np.hypot(size[:, None], size[None, :])
    )
    weight = mass[:, None] * mass[None, :]
    mean = 2 * law.mean_absolute() if manhattan else float((distance * weight).sum())
    order = np.argsort(distance, axis=None)
    reached = np.cumsum(weight.ravel()[order])
    quartiles = distance.ravel()[order][
        np.searchsorted(reached, [0.25 * reached[-1], 0.75 * reached[-1]])
    ]
    scale = side / users
    return mean * scale, float(quartiles[0]) * scale, float(quartiles[1]) * scale


def _cells(law: ErrorLaw) -> tuple[Floats, Floats]:
    """The law of |error|, in cells of at most equal probability, each at its mean.

    Cells without probability are left out.
    """
    size = np.abs(law.errors)
    order = np.argsort(size, kind="stable")
    size, mass = size[order], law.mass[order]
    # Half of the cells by probability, half by size, so that the tail is resolved, too.
    by_mass = np.floor(np.cumsum(mass) * CELLS / 2)
    by_size = np.floor(size / size[-1] * CELLS / 2)
    starts = np.flatnonzero(np.diff(by_mass, prepend=-1) + np.diff(by_size, prepend=-1))
    total = np.add.reduceat(mass, starts)
    means = np.add.reduceat(mass * size, starts) / np.maximum(total, 1e-300)
    return means[total > 0], total[total > 0]
