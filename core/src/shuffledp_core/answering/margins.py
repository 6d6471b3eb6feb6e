"""A cross table from a histogram of its cells: fitted cells, margins, and their intervals. Pure.

All people who answered are in some cell, so that the total is known. Cells are fitted to it by
least squares, and a margin is the sum of its cells: margins add up to each other and to the total.
Intervals invert the exact law of a sum of counts, given that total (docs/accounting.md, S22).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import Dummies, Estimate, Present, histogram_of
from shuffledp_core.bounds.node_noise import NodeNoise


@runtime_checkable
class PooledHistogram(Protocol):
    """A histogram whose counts can be added up, with an exact law of each sum."""

    def pool(
        self, values: NDArray[np.float64], groups: NDArray[np.int64], present: Present
    ) -> Estimate:
        """Fitted numbers of people in groups of symbols; every group has the same size.

        Args:
            values: unbiased estimates of all symbols, shape (symbols,), as `estimate` gives them.
            groups: symbols of each group, shape (groups, cells), without repetition.
            present: the messages that count.

        Returns:
            One value for each group; exactly the number of reports for the group of all symbols.
        """


@dataclass(frozen=True)
class TableEstimate:
    """A fitted cross table.

    Attributes:
        mechanism: mechanism of the histogram.
        values: unbiased estimates of all symbols, shape (symbols,).
        shape: cells along each axis; cells are symbols row by row.
        has_others: whether one more symbol counts people who are in no cell.
        present: the messages that count.
    """

    mechanism: PooledHistogram
    values: NDArray[np.float64]
    shape: tuple[int, ...]
    has_others: bool
    present: Present

    def __post_init__(self) -> None:
        if prod(self.shape) + self.has_others != self.values.size:
            raise ValueError(
                f"a table of shape {self.shape} needs one value per cell, not {self.values.size}"
            )

    @cached_property
    def cells(self) -> Estimate:
        """Estimate for every symbol: the cells row by row, then the others."""
        return self._pool(np.arange(self.values.size)[:, np.newaxis])

    def margin(self, *axes: int) -> Estimate:
        """Sums over all other axes; these axes in ascending order, flattened row by row."""
        others = [axis for axis in range(len(self.shape)) if axis not in axes]
        symbols = np.arange(prod(self.shape)).reshape(self.shape)
        rows = prod(self.shape[axis] for axis in sorted(axes))
        return self._pool(symbols.transpose([*sorted(axes), *others]).reshape(rows, -1))

    @cached_property
    def in_cells(self) -> Estimate:
        """Number of people in any cell, that is, all but the others; an `Estimate` of one value."""
        return self.margin()

    def _pool(self, groups: NDArray[np.int64]) -> Estimate:
        return self.mechanism.pool(self.values, groups, self.present)


def fit_table(
    mechanism: object,
    estimate: Estimate,
    shape: tuple[int, ...],
    present: Present,
    *,
    has_others: bool,
) -> TableEstimate | None:
    """The cross table of a signed histogram; None if the mechanism's counts cannot be added up."""
    if not isinstance(mechanism, PooledHistogram):
        return None
    return TableEstimate(mechanism, np.asarray(estimate.values), shape, has_others, present)


def pool_responses(
    counts: NDArray[np.int64],
    groups: NDArray[np.int64],
    present: Present,
    blanket: Fraction,
    added: Dummies | NodeNoise | None = None,
) -> Estimate:
    """Estimate groups of m symbols of k-RR: a report stays in its group at rate 1 - γ + γ m/k.

    Args:
        counts: counts of all symbols, shape (symbols,).
        groups: shape (groups, m).
        present: the messages that count.
        blanket: γ, above 0.
        added: what the counts of a group have beside the reports.
    """
    uniform = blanket * groups.shape[1] / counts.size
    sums = counts[groups].sum(axis=1)
    return histogram_of(sums, present.reports, 1 - blanket + uniform, uniform, added)


def total_of_reports(groups: int, present: Present) -> Estimate:
    """Estimate for groups of all symbols: the number of reports, without error."""
    total = (float(present.reports),) * groups
    return Estimate(
        quantity="histogram",
        values=total,
        standard_errors=(0.0,) * groups,
        lows=total,
        highs=total,
    )


def subtract_noise(
    sums: NDArray[np.int64], present: Present, noise: tuple[float, float], ends: tuple[float, float]
) -> Estimate:
    """Subtract the mean of the noise from counts, with intervals from the ends of its range.

    Args:
        sums: the counts.
        present: the messages that count.
        noise: mean and standard deviation of the noise in each count.
        ends: numbers between which the noise lies with probability at least 95%.
    """
    most = float(present.reports)
    mean, deviation = noise
    return Estimate(
        quantity="histogram",
        values=tuple((sums - mean).tolist()),
        standard_errors=(deviation,) * sums.size,
        lows=tuple(np.clip(sums - ends[1], 0.0, most).tolist()),
        highs=tuple(np.clip(sums - ends[0], 0.0, most).tolist()),
    )
