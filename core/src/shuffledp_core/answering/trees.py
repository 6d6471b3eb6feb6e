"""Bins that agree with the groups that hold them: weighted least squares, and its errors. Pure.

docs/accounting.md, N10.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.estimates import COVERAGE, Present
from shuffledp_core.bounds.weighted_noise import half_widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shuffledp_core.mechanisms.columns import ColumnsSpec

Floats = NDArray[np.float64]

_ROWS: Final = 256
"""Linear functions of the bins whose coefficients are held at a time."""

_DIGITS: Final = 10
"""Decimal digits up to which coefficients of counts are alike."""


@dataclass(frozen=True)
class BinTree:
    """The consistent estimate of bins, from their counts and from those of groups of bins.

    All counts have independent errors of one variance, and the total is known. The estimate is the
    unbiased linear one of the least variance, of the bins and of every linear function of them. A
    *query* is such a function: a weight for each bin.

    Attributes:
        bins: B, at least 2.
        width: bins of a group, the last of which may have fewer; 1 for no groups.
    """

    bins: int
    width: int

    @property
    def has_groups(self) -> bool:
        """True if there are counts of groups."""
        return self.width > 1

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """Number of bins in each group, shape (groups,); a single group if there are none."""
        width = self.width if self.has_groups else self.bins
        starts = np.arange(0, self.bins, width)
        return np.diff(np.append(starts, self.bins))

    def group_sums(self, queries: Floats) -> Floats:
        """Sums over the bins of each group; shape (..., groups) from (..., bins)."""
        starts = np.cumsum(self.widths) - self.widths
        return np.asarray(np.add.reduceat(queries, starts, axis=-1))

    def spread(self, groups: Floats) -> Floats:
        """Repeat each group's number at each of its bins; shape (..., bins) from (..., groups)."""
        return np.repeat(groups, self.widths, axis=-1)

    @cached_property
    def _variances(self) -> Floats:
        """Variance of each group's estimate, from its count and its bins, in units of a count's."""
        widths = self.widths.astype(np.float64)
        return widths / (widths + 1) if self.has_groups else widths

    def consistent_bins(self, columns: Sequence[Floats], total: float) -> Floats:
        """The estimate of the bins, shape (bins,).

        Args:
            columns: counts of the groups, shape (groups,), where there are groups; then those of
                the bins, shape (bins,).
            total: what all bins add up to.
        """
        bins = columns[-1]
        sums = self.group_sums(bins)
        groups = sums
        if self.has_groups:
            groups = (columns[0] * self.widths + sums) / (self.widths + 1)
        rest = total - groups.sum()
        groups = groups + rest * self._variances / self._variances.sum()
        return bins + self.spread((groups - sums) / self.widths)

    def coefficients(self, queries: Floats) -> Floats:
        """Weights of the counts in the estimates of queries.

        Shape (..., groups + bins) from (..., bins); without groups (..., bins).
        """
        means = self.group_sums(queries) / self.widths
        shares = self._variances / self._variances.sum()
        moved = means - (means @ shares)[..., np.newaxis]
        within = queries - self.spread(means)
        if not self.has_groups:
            return within + self.spread(moved)
        group_share = moved * self._variances
        bin_share = self.spread(moved / (self.widths + 1)) + within
        return np.concatenate([group_share, bin_share], axis=-1)

    @cached_property
    def bin_kinds(self) -> NDArray[np.int64]:
        """Kind of each bin: 0 in a group as wide as the first one, 1 in a narrower last group."""
        narrow = (self.widths != self.widths[0]).astype(np.int64)
        return np.repeat(narrow, self.widths)

    @property
    def bin_queries(self) -> Floats:
        """One bin of each kind as a query, shape (kinds, bins)."""
        firsts = [int(np.argmax(self.bin_kinds == kind)) for kind in np.unique(self.bin_kinds)]
        return _units(firsts, self.bins)

    @cached_property
    def bin_spreads(self) -> Floats:
        """Standard deviation of each bin's estimate, in units of a count's; shape (bins,)."""
        spreads = np.sqrt((self.coefficients(self.bin_queries) ** 2).sum(axis=1))
        return np.asarray(spreads[self.bin_kinds])

    def prefix_queries(self, ends: NDArray[np.int64]) -> Floats:
        """The number of users in the first bins, up to each end; shape (ends, bins)."""
        return (np.arange(self.bins) < np.asarray(ends)[:, np.newaxis]).astype(np.float64)

    def largest_prefix_variance(self) -> float:
        """Largest variance of the number of users in the first bins, in units of a count's."""
        largest = 0.0
        for start in range(1, self.bins, _ROWS):
            ends = np.arange(start, min(start + _ROWS, self.bins))
            weights = self.coefficients(self.prefix_queries(ends))
            largest = max(largest, float((weights**2).sum(axis=1).max()))
        return largest

    def largest_prefix_shift(self) -> float:
        """Largest difference that one message can make to the number of users in the first bins."""
        largest = 0.0
        for start in range(1, self.bins, _ROWS):
            ends = np.arange(start, min(start + _ROWS, self.bins))
            weights = self.coefficients(self.prefix_queries(ends))
            largest = max(largest, float(np.ptp(weights, axis=1).max()))
        return largest * (1 + 1e-12)

    def largest_message_shift(self) -> Fraction:
        """Largest difference that one message can make to the estimate of a bin."""
        widths = [int(width) for width in dict.fromkeys(self.widths.tolist())]
        numbers = {width: int((self.widths == width).sum()) for width in widths}
        variance = {
            width: Fraction(width, width + 1) if self.has_groups else Fraction(width)
            for width in widths
        }
        total = sum(numbers[width] * variance[width] for width in widths)
        largest = Fraction(0)
        for width in widths:  # of the bin's own group
            mean = Fraction(1, width)
            common = mean * variance[width] / total
            weights = []
            for other in widths:
                if other == width:
                    remaining = mean - common
                    rest = remaining / (width + 1) if self.has_groups else remaining
                    weights += [rest + 1 - mean, *([rest - mean] if width > 1 else [])]
                    weights += [remaining * variance[width]] if self.has_groups else []
                if numbers[other] > (other == width):
                    rest = -common / (other + 1) if self.has_groups else -common
                    weights += [rest, *([-common * variance[other]] if self.has_groups else [])]
            largest = max(largest, max(weights) - min(weights))
        return largest


def _units(places: list[int], size: int) -> Floats:
    rows = np.zeros((len(places), size))
    rows[np.arange(len(places)), places] = 1.0
    return rows


def query_errors(spec: ColumnsSpec, tree: BinTree, queries: Floats, nodes: int) -> Floats:
    """Standard errors of queries under the noise of this number of nodes, shape (queries,)."""
    deviation = spec.count_deviation * nodes**0.5
    parts = [
        np.sqrt((tree.coefficients(queries[start : start + _ROWS]) ** 2).sum(axis=1))
        for start in range(0, len(queries), _ROWS)
    ]
    return np.asarray(np.concatenate(parts) * deviation)


def query_widths(spec: ColumnsSpec, tree: BinTree, queries: Floats, present: Present) -> Floats:
    """Half-widths of 95% intervals of queries with weights from 0 to 1, shape (queries,).

    Each holds by itself, whatever the data are, for honest noise of `present.nodes` nodes. Messages
    that were lost may have been of groups or of bins, of any users: each can move the estimate by
    one.
    """
    widths = np.full(len(queries), float(present.lost))
    if not present.nodes:
        return widths
    weights, numbers = _kinds_of(tree, queries)
    deviations = np.sqrt((weights**2 * numbers).sum(axis=1) * present.nodes)
    # A first draw without room is no draw: this makes no event more likely than by this factor.
    missed = (1 - COVERAGE) * spec.room_probability**present.nodes
    varied = deviations > 1e-12  # else it is the total of all bins, which is known
    if varied.any():
        widths[varied] += half_widths(
            weights[varied],
            numbers[varied] * present.nodes,
            (spec.noise_epsilon, spec.mean),
            deviations[varied] * spec.count_deviation,
            missed,
        )
    return widths


@lru_cache(maxsize=32)
def bin_widths(spec: ColumnsSpec, tree: BinTree, nodes: int) -> Floats:
    """Half-widths of 95% intervals of one bin of each kind; shape (kinds,), read only."""
    widths = query_widths(spec, tree, tree.bin_queries, Present(Fraction(0), nodes))
    widths.setflags(write=False)
    return widths


def _kinds_of(tree: BinTree, queries: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The different absolute weights of counts in each query, and the number of counts with each.

    The sign of a weight does not matter to symmetric noise.
    """
    laws = []
    for start in range(0, len(queries), _ROWS):
        rows = np.abs(np.round(tree.coefficients(queries[start : start + _ROWS]), _DIGITS))
        laws += [np.unique(row, return_counts=True) for row in rows]
    kinds = max(values.size for values, _ in laws)
    weights = np.zeros((len(laws), kinds))
    numbers = np.zeros((len(laws), kinds), dtype=np.int64)
    for row, (values, counts) in enumerate(laws):
        weights[row, : values.size] = values
        numbers[row, : counts.size] = counts
    return weights, numbers
