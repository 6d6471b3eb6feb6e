"""Hadamard response (Acharya, Sun, Zhang 2019), shuffled.

Notation: docs/accounting.md, γ, k and K.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.answering.estimates import Estimate, Present, histogram_of
from shuffledp_core.bounds.local import log_odds
from shuffledp_core.mechanisms.base import (
    HistogramSpec,
    check_rational,
    check_whole,
    refuse_pure_noise,
    tally,
)
from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays

MOST_SYMBOLS = 2**20 - 1
"""Most symbols: a table of counts has an entry for each of up to twice as many indices."""


class HadamardHistogram(HistogramSpec, frozen=True, kw_only=True, tag="hadamard-histogram"):
    """An index of the Hadamard matrix of order K, the least power of two above k.

    Source: Acharya, Sun and Zhang 2019.

    Entry (i, j) of the matrix is 1 where i and j have an even number of ones in common, else -1
    (Sylvester). With probability `blanket` (γ) the index is uniform over all K, otherwise over the
    K/2 in the half of the user's symbol x, those at which row x + 1 is 1. So it lies in that half
    with probability p = 1 - γ/2, in the half of any other symbol with q = 1/2, and no two users
    send the same index more than (2 - γ)/γ times as likely as each other.
    """

    kind: ClassVar[str] = "hadamard-histogram"
    summary: ClassVar[str] = (
        "Hadamard response, shuffled: a histogram over many symbols from one message per user."
    )
    blanket: Annotated[Fraction, "γ, probability that the index does not depend on the value."]

    def __post_init__(self) -> None:
        check_whole("symbols", self.symbols, 2, MOST_SYMBOLS)
        check_rational("blanket", self.blanket, Fraction(1))

    @property
    def alphabet(self) -> int:
        """K, the least power of two above k: row 0 is constant and belongs to no symbol."""
        return 1 << self.symbols.bit_length()

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one index."""
        return 1

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """An index: uniform with probability γ, else uniform in the half of the user's symbol."""
        if bernoulli(self.blanket, integers):
            return integers.below(self.alphabet)
        # All bits but one are free; that one, a bit of the row's number, makes the number of common
        # ones even.
        row = value + 1
        bit = (row & -row).bit_length() - 1
        free = integers.below(self.alphabet // 2)
        index = free >> bit << (bit + 1) | free & ((1 << bit) - 1)
        return index | ((index & row).bit_count() & 1) << bit

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: a uniform index, corrected at one bit if in the wrong half.

        Turning that bit maps the one half of the indices onto the other, so that what is uniform
        stays so.
        """
        import numpy as np

        index, row = arrays.below(self.alphabet, values.size), values + 1
        outside = (np.bitwise_count(index & row) & 1).astype(np.bool_)
        turned = outside & ~arrays.bernoulli(self.blanket, values.size)
        return np.where(turned, index ^ (row & -row), index)

    def encode(self, answer: int) -> Sequence[int]:
        """The answer itself."""
        if not 0 <= answer < self.alphabet:
            raise ValueError(f"an index must be from 0 to {self.alphabet - 1}")
        return [answer]

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the indices, shape (rounds, alphabet)."""
        return tally(answers, self.alphabet)

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002 - every change is the same change
        """ε0 = ln((2-γ)/γ) (K13)."""
        return log_odds(self.blanket)

    def witness(self, honest: int, distance: int) -> Witness:  # noqa: ARG002
        """Indices in the half of the user's first symbol but not of the new one; others hold it."""
        from shuffledp_core.bounds.lower import BitCounts

        low = self.blanket / 4  # a quarter of all indices
        return BitCounts(honest - 1, low, 1, Fraction(1, 2) - low, low)

    def check_informative(self) -> None:
        """Raises `UsageError` if γ = 1."""
        refuse_pure_noise("blanket", self.blanket)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a symbol's debiased count if every report moves into the symbol's half."""
        return 2 * liars / (1 - self.blanket)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Estimate from how many indices lie in each symbol's half.

        That number is Bin(n_s, 1 - γ/2) + Bin(n - n_s, 1/2).
        """
        inside = in_halves(counts)[1 : self.symbols + 1]
        return histogram_of(inside, present.reports, 1 - self.blanket / 2, Fraction(1, 2))


def in_halves(counts: Counts) -> NDArray[np.int64]:
    """Number of indices at which each row of the Hadamard matrix is 1, from the indices' counts.

    By the fast Walsh-Hadamard transform, K log2 K additions of whole numbers: row i times the
    counts is the number inside its half less the number outside.

    Args:
        counts: how many reports name each index, shape (K,), K a power of two.

    Returns:
        Shape (K,), a number for each row; row 0 has all reports.
    """
    import numpy as np

    signed = np.asarray(counts, dtype=np.int64)
    # The matrix is a power of [[1, 1], [1, -1]]: one axis of two for each bit of the index.
    axes = signed.size.bit_length() - 1
    signed = signed.reshape((2,) * axes)
    for axis in range(axes):
        first, second = np.moveaxis(signed, axis, 0)
        signed = np.stack((first + second, first - second), axis=axis)
    return (signed.reshape(-1) + int(np.sum(counts))) // 2
