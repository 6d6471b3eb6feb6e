"""Several histograms of the same people in one round, behind the noise of the nodes.

Notation: docs/accounting.md, N9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.errors import ParameterError
from shuffledp_core.mechanisms.base import check_whole
from shuffledp_core.mechanisms.columns import ColumnsSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.node_noise import NodeNoise

MAX_COLUMNS: Final = 16
"""Most columns: ε is divided among them."""

MAX_COMBINATIONS: Final = 2**53 - 1
"""Most combinations of cells: every program has whole numbers of 53 bits. No message carries one.
"""


class NodeColumns(ColumnsSpec, frozen=True, kw_only=True, tag="node-columns"):
    """One answer to each of several questions, a message each: a histogram for each question.

    A value stands for one cell of every column, written as one number of a mixed base, the first
    column the most significant: `value_of`. The estimate has the cells of the columns one after
    the other: `split`. How the columns depend on each other is not counted.
    """

    kind: ClassVar[str] = "node-columns"
    summary: ClassVar[str] = (
        "One cell of each of several columns among dummies of every mix node, shuffled: several "
        "histograms in one round that need one honest node but no honest users."
    )
    counts_columns: ClassVar[bool] = True
    most_size: ClassVar[int] = MAX_COMBINATIONS
    columns: Annotated[tuple[int, ...], "Number of cells of each column, such as 7,5."]

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise ParameterError(
                f"columns must be 1 to {MAX_COLUMNS} numbers of cells, not {self.columns!r}"
            )
        for size in self.columns:
            check_whole("number of cells of a column", size, 2)
        check_whole("symbols", self.symbols, 2, MAX_COMBINATIONS)
        if math.prod(self.columns) != self.symbols:
            raise ParameterError(
                f"symbols must be the product of columns, {math.prod(self.columns)}, not "
                f"{self.symbols}"
            )
        self.check_columns()

    @property
    def column_sizes(self) -> tuple[int, ...]:
        """Number of cells of each column: the field `columns`."""
        return self.columns

    @property
    def strides(self) -> tuple[int, ...]:
        """Amount by which the value grows per cell of each column."""
        return tuple(math.prod(self.columns[column + 1 :]) for column in range(len(self.columns)))

    def value_of(self, cells: Sequence[int]) -> int:
        """The value that stands for these cells, one of each column.

        Raises:
            ParameterError: a cell does not exist, or there is not one for each column.
        """
        if len(cells) != len(self.columns):
            raise ParameterError(
                f"a value has {len(self.columns)} cells, one of each column, not {len(cells)}"
            )
        for cell, size in zip(cells, self.columns, strict=True):
            check_whole("cell", cell, 0, size - 1)
        return sum(cell * stride for cell, stride in zip(cells, self.strides, strict=True))

    def split(self, numbers: Sequence[float]) -> list[list[float]]:
        """The numbers of each column, from those of all cells such as an estimate's values."""
        starts = [sum(self.columns[:column]) for column in range(len(self.columns))]
        return [
            list(numbers[start : start + size])
            for start, size in zip(starts, self.columns, strict=True)
        ]

    def cells_of(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each value in each column: its mixed-radix digits, shape (..., columns)."""
        import numpy as np

        digits = values[..., np.newaxis] // np.array(self.strides) % np.array(self.columns)
        return np.asarray(digits, dtype=np.int64)

    def weigh(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Value of each symbol's cell: cell times stride, 0 for "empty"; same shape."""
        import numpy as np

        weights = np.zeros(self.alphabet, dtype=np.int64)
        for start, size, stride in zip(
            self.column_starts[:-1], self.columns, self.strides, strict=True
        ):
            weights[start : start + size] = np.arange(size) * stride
        return weights[symbols]

    def answers_of_sums(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values, capped at the largest one in case a column occurs more than once."""
        import numpy as np

        return np.minimum(sums, self.symbols - 1)

    def truth(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The histograms of all columns, shape (cells of all columns,)."""
        import numpy as np

        cells = self.cells_of(values)
        return np.concatenate(
            [
                np.bincount(cells[:, column], minlength=size)
                for column, size in enumerate(self.columns)
            ]
        ).astype(np.int64)

    @property
    def node_noise(self) -> float:
        """Standard deviation of one node's dummies in a count, in the column with the most."""
        return max(self._noise(column, nodes=1).deviation for column in range(len(self.columns)))

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a cell's count if every message moves there from outside its column."""
        return Fraction(liars * self.messages_per_user)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Each cell's count less the expected number of dummies in the cell."""
        import numpy as np

        # A lost message may have been of any column: every count may lack it.
        reports = float(present.reports) + present.lost
        values = []
        errors = []
        lows = []
        highs = []
        for column, observed in enumerate(self.counts_less_dummies(counts, present.nodes)):
            noise = self._noise(column, present.nodes)
            values += (observed - noise.mean).tolist()
            errors += [noise.deviation] * observed.size
            lows += np.clip(observed - noise.most, 0.0, reports).tolist()
            highs += np.clip(observed - noise.least + present.lost, 0.0, reports).tolist()
        return Estimate(
            quantity="histogram",
            values=tuple(values),
            standard_errors=tuple(errors),
            lows=tuple(lows),
            highs=tuple(highs),
        )

    def _noise(self, column: int, nodes: int) -> NodeNoise:
        """The noise of `nodes` nodes together in one count of a column."""
        from shuffledp_core.bounds.node_noise import conditional_law, noise_of_nodes

        law = conditional_law(
            self.noise_epsilon, self.mean, self.columns[column], self.column_dummies[column]
        )
        return noise_of_nodes(((1, law),), nodes)
