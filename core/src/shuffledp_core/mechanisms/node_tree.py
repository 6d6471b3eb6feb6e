"""Quantiles and ranges in one round: a histogram of fine bins, and one of groups of bins.

Notation: docs/accounting.md, N9 and N10. Hierarchical histograms: Hay et al. 2010, Qardaji, Yang
and Li 2013; here the noise is that of the nodes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.mechanisms.base import check_whole
from shuffledp_core.mechanisms.columns import ColumnsSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.answering.quantiles import BinDistribution
    from shuffledp_core.answering.trees import BinTree

MAX_BINS: Final = 2**12
"""Most bins: the errors of all quantiles take seconds."""


class NodeTree(ColumnsSpec, frozen=True, kw_only=True, tag="node-tree"):
    """A value's bin, and the group of `width` bins around the bin: two messages.

    With width 1 there are no groups, and one message. The two histograms are made consistent with
    each other and with the number of reports by weighted least squares, so that the number of users
    below any value has a small error (N10).
    """

    kind: ClassVar[str] = "node-tree"
    summary: ClassVar[str] = (
        "Bins and groups of bins among dummies of every mix node, shuffled: quantiles and ranges "
        "that need one honest node but no honest users."
    )
    for_ranges: ClassVar[bool] = True
    width: Annotated[int, "Bins of a group; 1 for no groups."]

    def __post_init__(self) -> None:
        check_whole("symbols", self.symbols, 2, MAX_BINS)
        check_whole("width", self.width, 1, self.symbols - 1)
        self.check_columns()

    @property
    def column_sizes(self) -> tuple[int, ...]:
        """Number of groups, and number of bins."""
        if self.width == 1:
            return (self.symbols,)
        return (-(-self.symbols // self.width), self.symbols)

    def cells_of(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group of each bin, and the bin."""
        import numpy as np

        if self.width == 1:
            return values[..., np.newaxis]
        return np.stack([values // self.width, values], axis=-1)

    def weigh(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bin number of each symbol; 0 for a group and for "empty"; same shape."""
        import numpy as np

        bins = symbols - self.column_starts[-2]
        return np.where((bins >= 0) & (bins < self.symbols), bins, 0)

    def answers_of_sums(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bins, capped at the last one in case a sum is of several bins."""
        import numpy as np

        return np.minimum(sums, self.symbols - 1)

    @property
    def tree(self) -> BinTree:
        """The estimator that makes the bins consistent with their groups."""
        from shuffledp_core.answering.trees import BinTree

        return BinTree(self.symbols, self.width)

    @property
    def node_noise(self) -> float:
        """Standard deviation of one node's noise in the estimate of the noisiest bin."""
        return self.count_deviation * float(self.tree.bin_spreads.max())

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a bin if all messages move from the least to the most weighted cell."""
        return liars * self.messages_per_user * self.tree.largest_message_shift()

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Estimate of the bins, consistent with the groups and with the number of reports."""
        import numpy as np

        from shuffledp_core.answering.trees import bin_widths

        tree = self.tree
        reports = float(present.reports)
        values = tree.consistent_bins(self.counts_less_dummies(counts, present.nodes), reports)
        errors = self.count_deviation * present.nodes**0.5 * tree.bin_spreads
        widths = bin_widths(self, tree, present.nodes)[tree.bin_kinds] + present.lost
        return Estimate(
            quantity="histogram",
            values=tuple(values.tolist()),
            standard_errors=tuple(errors.tolist()),
            lows=tuple(np.clip(values - widths, 0.0, reports).tolist()),
            highs=tuple(np.clip(values + widths, 0.0, reports).tolist()),
        )

    def distribution(self, estimate: Estimate, present: Present) -> BinDistribution:
        """Quantiles, ranges and the distribution function of a published estimate."""
        import numpy as np

        from shuffledp_core.answering.quantiles import BinDistribution

        return BinDistribution(self, self.tree, np.array(estimate.values), present)
