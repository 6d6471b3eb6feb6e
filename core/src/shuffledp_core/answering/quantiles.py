"""Quantiles, ranges and the distribution function of a histogram of ordered bins. Pure.

docs/accounting.md, N10. All of it follows from the published estimate of the bins and from public
parameters, so that anyone who has a result can compute it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.answering.trees import BinTree, query_errors, query_widths
from shuffledp_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shuffledp_core.documents.wording import QuestionWording
    from shuffledp_core.mechanisms.base import Spec
    from shuffledp_core.mechanisms.columns import ColumnsSpec

QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles that are shown unless others are asked for."""

_ROWS: Final = 32
"""Prefixes whose intervals are computed at a time while the end of an interval is sought."""

_FARTHEST: Final = 5.0
"""No 95% interval is longer than this many standard deviations to each side (Chebyshev)."""


class QuantileEstimate(NamedTuple):
    """A quantile: the first bin up to which at least the given share of the users lies.

    Attributes:
        share: the given share, from 0 to 1.
        bin: the estimate.
        low: first bin of its 95% interval.
        high: last bin of the interval.
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
        tree: the estimator of the bins.
        values: the unbiased estimate of each bin, shape (bins,).
        present: the messages that count.
        outside: bins at the end that are no values, such as people without an answer. Quantiles are
            those of all others.
    """

    spec: ColumnsSpec
    tree: BinTree
    values: NDArray[np.float64]
    present: Present
    outside: int = 0

    @property
    def counted(self) -> int:
        """Number of bins that are values."""
        return self.tree.bins - self.outside

    @property
    def people(self) -> float:
        """Estimated number of users in the bins that are values."""
        return float(self.sums[self.counted - 1]) if self.outside else self.reports

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
        """Largest change that `liars` reports make to the number of users up to any bin.

        Compared with any other messages of theirs; reached by reports whose messages are all alike.
        """
        return liars * self.spec.messages_per_user * self.tree.largest_prefix_shift()

    def prefix_errors(self) -> NDArray[np.float64]:
        """Standard error of the number of users up to each bin, shape (bins,)."""
        queries = self.tree.prefix_queries(np.arange(1, self.tree.bins + 1))
        return query_errors(self.spec, self.tree, queries, self.present.nodes)

    def quantile(self, share: float) -> QuantileEstimate:
        """The quantile of this share, with an interval of bins from the prefixes' 95% intervals.

        Raises:
            UsageError: the share is not from 0 to 1.
        """
        if not 0 <= share <= 1:
            raise UsageError(f"a quantile must be from 0 to 1, not {share}")
        rank = share * max(self.people, 0.0)
        rising = self.rising_sums[: self.counted]
        nearest = min(int(np.searchsorted(rising, rank - 1e-9 * self.reports)), self.counted - 1)
        low = self._first_bin_that_may_reach(share)
        high = self._last_bin_that_may_be_needed(share)
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
                f"a range of bins must be within 0 to {self.tree.bins - 1}, with its first bin "
                f"not after its last, not {first} to {last}"
            )
        query = np.zeros((1, self.tree.bins))
        query[0, first : last + 1] = 1.0
        people = float(self.values[first : last + 1].sum())
        error = float(query_errors(self.spec, self.tree, query, self.present.nodes)[0])
        width = float(query_widths(self.spec, self.tree, query, self.present)[0])
        ends = np.clip([people - width, people + width], 0.0, self.reports)
        return RangeEstimate(people, error, float(ends[0]), float(ends[1]))

    def _first_bin_that_may_reach(self, share: float) -> int:
        """The first bin up to which the prefix's upper end is at least the share."""
        ends = np.arange(1, self.counted + 1)
        likely = self._excess(ends, share) + self._margins(ends, share) >= 0
        likely[-1] = True
        for bins in _pieces(np.flatnonzero(likely)):
            reached = np.flatnonzero(self._excess_band(bins + 1, share)[1] >= -self._tolerance)
            if reached.size:
                return int(bins[reached[0]])
        return self.counted - 1

    def _last_bin_that_may_be_needed(self, share: float) -> int:
        """The last bin before which the prefix's lower end is below the share."""
        ends = np.arange(self.counted)
        likely = self._excess(ends, share) - self._margins(ends, share) < 0
        for bins in _pieces(np.flatnonzero(likely)[::-1]):
            below = np.flatnonzero(self._excess_band(bins, share)[0] < -self._tolerance)
            if below.size:
                return int(bins[below[0]])
        return 0

    def _excess(self, ends: NDArray[np.int64], share: float) -> NDArray[np.float64]:
        """Estimate of the number of users up to each end, less this share of those with a value."""
        return np.concatenate([[0.0], self.sums])[ends] - share * self.people

    def _excess_queries(self, ends: NDArray[np.int64], share: float) -> NDArray[np.float64]:
        everyone = self.tree.prefix_queries(np.array([self.counted]))
        return self.tree.prefix_queries(ends) - share * everyone

    def _excess_band(
        self, ends: NDArray[np.int64], share: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """95% intervals of `_excess`: lows and highs."""
        excess = self._excess(ends, share)
        queries = self._excess_queries(ends, share)
        widths = query_widths(self.spec, self.tree, queries, self.present)
        least = -share * self.reports
        most = self.reports
        return np.clip(excess - widths, least, most), np.clip(excess + widths, least, most)

    def _margins(self, ends: NDArray[np.int64], share: float) -> NDArray[np.float64]:
        """Upper bounds of the half-widths of the intervals of `_excess_band`."""
        queries = self._excess_queries(ends, share)
        errors = query_errors(self.spec, self.tree, queries, self.present.nodes)
        return _FARTHEST * errors + self.present.lost + self._tolerance

    @property
    def _tolerance(self) -> float:
        """Largest rounding error of floating-point numbers of users."""
        return 1e-9 * max(self.reports, 1.0)


@runtime_checkable
class OrderedBins(Protocol):
    """A mechanism whose symbols are bins in an order, with known errors of every range."""

    def distribution(self, estimate: Estimate, present: Present) -> BinDistribution:
        """The distribution of the users over the bins."""


def distribution_of(
    spec: Spec,
    estimate: Estimate,
    users: int,
    nodes: int,
    lost: int = 0,
    wording: QuestionWording | None = None,
) -> BinDistribution | None:
    """The distribution over bins that an answer shows; None if range errors are unknown.

    Args:
        spec: the mechanism of the round.
        estimate: the published answer of the round.
        users: accepted reports.
        nodes: nodes that added dummies.
        lost: messages of users that do not count.
        wording: the question; its others are in no quantile.
    """
    if not isinstance(spec, OrderedBins):
        return None
    reports = users - Fraction(lost, spec.messages_per_user)
    distribution = spec.distribution(estimate, Present(reports, nodes, lost))
    has_others = wording is not None and wording.others != ""
    return replace(distribution, outside=1) if has_others else distribution


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
