"""The mean position of the people in a table of two ordered fields, from its histogram. Pure.

docs/accounting.md, N12: both coordinates come from one round and one charge, with an ellipse of
their joint error and an interval of each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import COVERAGE

if TYPE_CHECKING:
    from shuffledp_core.bounds.weighted_noise import CountNoise

_NEARLY: Final = 1.25
"""Half-widths of the point beyond which an end of its interval seldom is."""

_CLOSE: Final = 0.05
"""By which part of itself a side of an interval may be too long."""


class CentreEstimate(NamedTuple):
    """Estimated mean position of the people in a table's cells, each at the middle of a cell.

    Attributes:
        point: estimated mean along each axis.
        low: lower ends of the 95% intervals, each of which holds by itself.
        high: upper ends of the intervals.
        covariance: covariance of the two coordinates, shape (2, 2): the standard error ellipse.
    """

    point: tuple[float, float]
    low: tuple[float, float]
    high: tuple[float, float]
    covariance: tuple[tuple[float, float], tuple[float, float]]

    def ellipse(self, scales: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float, float]:
        """Semi-axes of the standard error ellipse, the larger first, and its angle.

        The angle is in radians from the second coordinate's axis towards the first one's. Scales
        convert a coordinate into another unit.
        """
        factors = np.diag(scales)
        sizes, axes = np.linalg.eigh(factors @ np.array(self.covariance) @ factors)
        first, second = axes[:, 1]
        angle = math.atan2(first, second) % math.pi
        larger = math.sqrt(max(float(sizes[1]), 0.0))
        return larger, math.sqrt(max(float(sizes[0]), 0.0)), angle


def centre_of(
    counts: NDArray[np.float64],
    middles: tuple[NDArray[np.float64], NDArray[np.float64]],
    noise: CountNoise,
    nodes: int,
    reports: float,
) -> CentreEstimate | None:
    """Estimate the mean position of the people in the cells; None if the cells may be empty.

    Args:
        counts: unbiased estimates of the cells row by row, and perhaps of the others.
        middles: the middle of each row, and of each column.
        noise: one node's noise in the counts.
        nodes: how many nodes drew noise, at least 1.
        reports: number of people, in cells or not.
    """
    axes = _Axes(counts, middles, noise, nodes, reports)
    people, of_people = axes.add(axes.inside)
    if people <= axes.width(of_people):
        return None
    points = [axes.add(axis)[0] / people for axis in axes.numbers]
    rests = [
        axes.add(axis - point * axes.inside)[1]
        for axis, point in zip(axes.numbers, points, strict=True)
    ]
    spread = nodes * noise.deviation**2 / people**2
    first, both, second = (
        float(rests[row] @ rests[column]) * spread for row, column in ((0, 0), (0, 1), (1, 1))
    )
    lows = [axes.farthest(at, point, float(middles[at].min())) for at, point in enumerate(points)]
    highs = [axes.farthest(at, point, float(middles[at].max())) for at, point in enumerate(points)]
    return CentreEstimate(
        (points[0], points[1]),
        (lows[0], lows[1]),
        (highs[0], highs[1]),
        ((first, both), (both, second)),
    )


class _Axes:
    """Estimates weighted sums of a table's counts.

    The known number of reports reduces their noise.
    """

    def __init__(
        self,
        counts: NDArray[np.float64],
        middles: tuple[NDArray[np.float64], NDArray[np.float64]],
        noise: CountNoise,
        nodes: int,
        reports: float,
    ) -> None:
        rows, columns = (numbers.size for numbers in middles)
        self.numbers = np.zeros((2, counts.size))
        self.numbers[0, : rows * columns] = np.repeat(middles[0], columns)
        self.numbers[1, : rows * columns] = np.tile(middles[1], rows)
        self.inside = np.zeros(counts.size)
        self.inside[: rows * columns] = 1.0
        self._counts = counts
        self._noise = noise
        self._nodes = nodes
        self._reports = reports

    def add(self, query: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Estimate a weighted sum of the counts; return it with the weights of their noise."""
        common = float(query.mean())
        rest = query - common
        return float(rest @ self._counts) + common * self._reports, rest

    def width(self, rest: NDArray[np.float64]) -> float:
        """Half-width of the 95% interval of a sum of noises with these weights; 0 without noise."""
        if not float(rest @ rest) > 1e-18:
            return 0.0
        return float(self._noise.widths(rest[np.newaxis], self._nodes, 1 - COVERAGE)[0])

    def farthest(self, axis: int, point: float, edge: float) -> float:
        """The end of a coordinate's 95% interval on the side of `edge`, which it does not pass."""

        def is_excluded(number: float) -> bool:
            total, rest = self.add(self.numbers[axis] - number * self.inside)
            return abs(total) > self.width(rest)

        people, _ = self.add(self.inside)
        _, rest = self.add(self.numbers[axis] - point * self.inside)
        near = point
        far = point + math.copysign(_NEARLY * self.width(rest) / people, edge - point)
        if (far - edge) * (edge - point) >= 0 or not is_excluded(far):
            if not is_excluded(edge):
                return edge
            far = edge
        while abs(far - near) > _CLOSE * abs(far - point):
            middle = (near + far) / 2
            if is_excluded(middle):
                far = middle
            else:
                near = middle
        return far
