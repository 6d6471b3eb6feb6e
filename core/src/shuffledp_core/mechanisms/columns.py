"""Several histograms in one submission, each hidden by dummies of every node.

Notation: docs/accounting.md, N9. What `node-tree` and `node-columns` have in common: users send one
symbol in each of several columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.mechanisms.base import (
    Answers,
    HistogramSpec,
    Spec,
    check_rational,
    check_whole,
    tally,
)
from shuffledp_core.mechanisms.node_histogram import MAX_DUMMIES, MAX_MEAN, draw_counts
from shuffledp_core.mechanisms.work import bounded_noise_tries
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.losses import PrivacyLosses
    from shuffledp_core.sampling.arrays import RandomArrays


class ColumnsSpec(HistogramSpec, frozen=True, kw_only=True):
    """The value's cell in each of several columns, one message each; every node adds dummies.

    Column c has s_c cells, written as symbols of a range of its own, behind which comes its
    "empty". Of a node's T_c = s_c mean + min(spare, s_c mean) dummies in it, mean + Z_j are of cell
    j, by the law of `node-histogram`, under the condition that they have room; the others are
    "empty". The columns are independent. A subclass says what the columns are, and how their counts
    become an estimate.
    """

    needs_crowd: ClassVar[bool] = False
    noise_epsilon: Annotated[Fraction, "ε of a node's noise in one count, in nats per user."]
    mean: Annotated[int, "μ, mean number of a node's dummies of each cell."]
    spare: Annotated[int, "Dummies that each node adds to a column beyond the mean number."]

    def check_columns(self) -> None:
        """Check the fields of this class; raises `ParameterError`."""
        check_rational("noise_epsilon", self.noise_epsilon)
        check_whole("mean", self.mean, 1, MAX_MEAN)
        # More would only add empty messages.
        check_whole("spare", self.spare, 0, max(self.column_sizes) * self.mean)
        check_whole("number of dummies", self.dummies_per_node, 1, MAX_DUMMIES)

    @property
    def column_sizes(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        raise NotImplementedError

    def cells_of(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each value in each column, shape (..., columns)."""
        raise NotImplementedError

    @property
    def column_starts(self) -> tuple[int, ...]:
        """First symbol of each column, followed by the total number of symbols."""
        return tuple(accumulate((size + 1 for size in self.column_sizes), initial=0))

    @property
    def column_dummies(self) -> tuple[int, ...]:
        """Number T_c of dummies of each column, from one node."""
        return tuple(
            size * self.mean + min(self.spare, size * self.mean) for size in self.column_sizes
        )

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one in each column."""
        return len(self.column_sizes)

    @property
    def alphabet(self) -> int:
        """Number of symbols: the cells of all columns, and an "empty" for each column."""
        return self.column_starts[-1]

    @property
    def dummies_per_node(self) -> int:
        """Number of one node's dummies: the sum of T_c over all columns."""
        return sum(self.column_dummies)

    @property
    def dummy_tries(self) -> Fraction:
        """Mean number of draws for the bounded noises of all cells, rounded up."""
        return sum(self.column_sizes) * bounded_noise_tries(self.noise_epsilon, self.mean)

    def sample_dummies(self, integers: RandomIntegers) -> NDArray[np.int64]:
        """One node's dummies by column: noisy cell counts, redrawn until they fit, then "empty"."""
        import numpy as np

        counts = [
            count
            for size, dummies in zip(self.column_sizes, self.column_dummies, strict=True)
            for count in draw_counts(self.noise_epsilon, self.mean, size, dummies, integers)
        ]
        return np.repeat(np.arange(self.alphabet), np.array(counts, dtype=np.int64))

    def sample(self, value: int, integers: RandomIntegers) -> int:  # noqa: ARG002
        """The value itself."""
        return value

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:  # noqa: ARG002
        """The values themselves."""
        return values.copy()

    def encode(self, answer: int) -> Sequence[int]:
        """The answer's cell in each column, in the order of the columns."""
        import numpy as np

        if not 0 <= answer < self.symbols:
            raise ValueError(f"an answer must be from 0 to {self.symbols - 1}")
        cells = self.cells_of(np.array(answer)).tolist()
        return [start + cell for start, cell in zip(self.column_starts[:-1], cells, strict=True)]

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the symbols, shape (rounds, alphabet)."""
        import numpy as np

        symbols = self.cells_of(answers) + np.array(self.column_starts[:-1])
        return tally(symbols.reshape(len(answers), -1), self.alphabet)

    def witness(self, honest: int, distance: int) -> PrivacyLosses:  # noqa: ARG002
        """Losses of all columns' counts, for two values that differ in every column (N9)."""
        return self.losses

    @property
    def losses(self) -> PrivacyLosses:
        """Losses of a change of one cell in every column, behind one honest node's dummies."""
        from shuffledp_core.bounds.node_noise import histogram_losses

        columns = [
            histogram_losses(self.noise_epsilon, self.mean, size, dummies)
            for size, dummies in zip(self.column_sizes, self.column_dummies, strict=True)
        ]
        joined = columns[0]
        for column in columns[1:]:
            joined = joined.combine(column)
        return joined

    @property
    def count_deviation(self) -> float:
        """Standard deviation of one node's noise in one count, not conditioned on enough room."""
        from shuffledp_core.bounds.bounded_noise import bounded_laplace_variance

        return float(bounded_laplace_variance(self.noise_epsilon, self.mean) ** 0.5)

    @property
    def room_probability(self) -> float:
        """Lower bound of the probability that one node's first draw has room in every column."""
        import numpy as np

        from shuffledp_core.bounds.bounded_noise import law_of_sum

        likely = 1.0
        for size, dummies in zip(self.column_sizes, self.column_dummies, strict=True):
            law = law_of_sum(self.noise_epsilon, self.mean, size)
            room = float(law.at_most(np.array([dummies - size * self.mean]))[0]) - law.error
            likely *= max(0.0, room)
        return likely

    def counts_less_dummies(self, counts: Counts, nodes: int) -> list[NDArray[np.float64]]:
        """The counts of each column's cells, less the dummies that are expected in them."""
        import numpy as np

        board = np.asarray(counts, dtype=np.float64)
        return [
            board[start : start + size] - nodes * self.mean
            for start, size in zip(self.column_starts[:-1], self.column_sizes, strict=True)
        ]


def answer_size(spec: Spec) -> int:
    """Length of an estimate: 1 for a sum, else one number per value, or per cell of a column."""
    if isinstance(spec, ColumnsSpec) and spec.counts_columns:
        return sum(spec.column_sizes)
    return spec.domain if spec.answers is Answers.HISTOGRAM else 1
