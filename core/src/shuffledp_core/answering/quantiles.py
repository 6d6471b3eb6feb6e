"""Quantiles, ranges and the distribution function of a histogram of ordered bins. Pure.

docs/accounting.md, N10. All of it follows from the published estimate of the bins and from public
parameters, so that anyone who has a result can compute it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.answering.trees import BinTree, query_errors, query_widths
from shuffledp_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shuffledp_core.mechanisms.base import Spec
    from shuffledp_core.mechanisms.columns import ColumnsSpec

QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles that are shown unless others are asked for."""

_ROWS: Final = 32
"""Prefixes whose intervals are computed at a time while the end of an interval is sought."""

_FARTHEST: Final = 5.0
"""No 95% interval is longer than this many standard deviations to each side (Chebyshev)."""


class QuantileEstimate(NamedTuple):
    """A quantile: the first bin up to which at least this share of the users is.

    Attributes:
        share: from 0 to 1.
        bin: the estimate.
        low: first bin of its 95% interval.
        high: last bin of it.
    """

    share: float
    bin: int
    low: int
    high: int


class RangeEstimate(NamedTuple):
    """Number of users in a range of bins, with its standard error and 95% interval."""

    people: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class BinDistribution:
    """The distribution of the users over ordered bins, from a published estimate.

    Every interval holds with probability 0.95 or more by itself, whatever the values are, if the
    nodes draw their dummies as certified.

    Attributes:
        spec: the mechanism.
        tree: how its bins are estimated.
        values: the unbiased estimate of each bin, shape (bins,).
        present: the messages that count.
    """

    spec: ColumnsSpec
    tree: BinTree
    values: NDArray[np.float64]
    present: Present

    @property
    def reports(self) -> float:
        """Number of reports."""
        return float(self.present.reports)

    @property
    def sums(self) -> NDArray[np.float64]:
        """Unbiased estimate of the number of users up to each bin, shape (bins,)."""
        return np.cumsum(self.values)

    @property
    def rising_sums(self) -> NDArray[np.float64]:
        """The nearest numbers to `sums` that never fall, from 0 to the number of reports."""
        return np.clip(isotonic(self.sums), 0.0, self.reports)

    def band(self, ends: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """95% intervals of the number of users up to each bin: lows and highs."""
        sums = np.concatenate([[0.0], self.sums])[ends]
        widths = query_widths(self.spec, self.tree, self.tree.prefix_queries(ends), self.present)
        lows = np.clip(sums - widths, 0.0, self.reports)
        highs = np.clip(sums + widths, 0.0, self.reports)
        return lows, highs

    def largest_shift(self, liars: int) -> float:
        """Most that this number of reports moves the number of users up to any bin.

        Compared with any other messages of theirs; reached by reports whose messages are all alike.
        """
        return liars * self.spec.messages_per_user * self.tree.largest_prefix_shift()

    def prefix_errors(self) -> NDArray[np.float64]:
        """Standard error of the number of users up to each bin, shape (bins,)."""
        queries = self.tree.prefix_queries(np.arange(1, self.tree.bins + 1))
        return query_errors(self.spec, self.tree, queries, self.present.nodes)

    def quantile(self, share: float) -> QuantileEstimate:
        """The quantile of this share, with the bins that no 95% interval of a prefix excludes.

        Raises:
            UsageError: the share is not from 0 to 1.
        """
        if not 0 <= share <= 1:
            raise UsageError(f"a quantile must be from 0 to 1, not {share}")
        rank = share * self.reports
        last = self.tree.bins - 1
        nearest = min(int(np.searchsorted(self.rising_sums, rank - 1e-9 * self.reports)), last)
        low = self._first_bin_that_may_reach(rank)
        high = self._last_bin_that_may_be_needed(rank)
        return QuantileEstimate(share, nearest, min(low, nearest), max(high, nearest))

    def quantiles(self, shares: Sequence[float] = QUANTILES) -> list[QuantileEstimate]:
        """The quantiles of these shares."""
        return [self.quantile(share) for share in shares]

    def count_range(self, first: int, last: int) -> RangeEstimate:
        """The number of users from one bin to another, both included.

        Raises:
            UsageError: there are no such bins.
        """
        if not 0 <= first <= last < self.tree.bins:
            raise UsageError(
                f"a range of bins must be from 0 to {self.tree.bins - 1}, its first bin not behind "
                f"its last, not {first} to {last}"
            )
        query = np.zeros((1, self.tree.bins))
        query[0, first : last + 1] = 1.0
        people = float(self.values[first : last + 1].sum())
        error = float(query_errors(self.spec, self.tree, query, self.present.nodes)[0])
        width = float(query_widths(self.spec, self.tree, query, self.present)[0])
        ends = np.clip([people - width, people + width], 0.0, self.reports)
        return RangeEstimate(people, error, float(ends[0]), float(ends[1]))

    def _first_bin_that_may_reach(self, rank: float) -> int:
        """The first bin up to which the interval's upper end is at least the rank."""
        likely = self.sums + self._margins >= rank
        likely[-1] = True
        for bins in _pieces(np.flatnonzero(likely)):
            reached = np.flatnonzero(self.band(bins + 1)[1] >= rank)
            if reached.size:
                return int(bins[reached[0]])
        return self.tree.bins - 1

    def _last_bin_that_may_be_needed(self, rank: float) -> int:
        """The last bin before which the interval's lower end is below the rank."""
        before = np.concatenate([[0.0], self.sums[:-1] - self._margins[:-1]])
        likely = before < rank
        for bins in _pieces(np.flatnonzero(likely)[::-1]):
            below = np.flatnonzero(self.band(bins)[0] < rank)
            if below.size:
                return int(bins[below[0]])
        return 0

    @property
    def _margins(self) -> NDArray[np.float64]:
        """Upper bounds of the half-widths of the intervals of `band`."""
        return _FARTHEST * self.prefix_errors() + self.present.lost


@runtime_checkable
class OrderedBins(Protocol):
    """A mechanism whose symbols are bins in an order, with known errors of every range."""

    def distribution(self, estimate: Estimate, present: Present) -> BinDistribution:
        """The distribution of the users over the bins."""


def distribution_of(
    spec: Spec, estimate: Estimate, users: int, nodes: int, lost: int = 0
) -> BinDistribution | None:
    """The distribution that an answer shows; None for mechanisms that know no error of ranges.

    Args:
        spec: the mechanism of the round.
        estimate: its published answer.
        users: accepted reports.
        nodes: nodes that added dummies.
        lost: messages of users that do not count.
    """
    if not isinstance(spec, OrderedBins):
        return None
    reports = users - Fraction(lost, spec.messages_per_user)
    return spec.distribution(estimate, Present(reports, nodes, lost))


def isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rising sequence nearest to `values` in least squares (pool adjacent violators)."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            mean = (means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size
            means[-2:] = [mean]
            sizes[-2:] = [size]
    return np.repeat(means, sizes)


def _pieces(bins: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
    return [bins[start : start + _ROWS] for start in range(0, bins.size, _ROWS)]
