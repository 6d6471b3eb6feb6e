"""RAPPOR with Bloom filters and cohorts (Erlingsson, Pihur, Korolova 2014), shuffled.

Notation: docs/accounting.md, K17: k, b, h, m and f.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.answering.bloom import FilterShape, decoder_of
from shuffledp_core.answering.estimates import Estimate, Present
from shuffledp_core.bounds.local import log_odds
from shuffledp_core.errors import ParameterError
from shuffledp_core.mechanisms.base import (
    HistogramSpec,
    check_rational,
    check_whole,
    refuse_pure_noise,
)
from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays

MOST_SYMBOLS = 512
"""Most symbols: decoding them takes seconds, and grows with their number squared."""

MOST_COHORTS = 256

MOST_BITS = 24

MOST_HASHES = 8

MOST_REPORTS = 2**30
"""Most different reports: a message carries at most four bytes."""


class BloomRappor(HistogramSpec, frozen=True, kw_only=True, tag="bloom-rappor"):
    """The Bloom filter of the user's symbol in a random cohort, with randomly flipped bits.

    Source: Erlingsson, Pihur and Korolova 2014, one-time RAPPOR.

    A user draws one of m cohorts, each of which has h hash functions into b bits, and sends the
    cohort and its symbol's filter, in which each bit is replaced by a fair coin with probability f
    = `fake`. The response is drawn anew in every round.
    """

    kind: ClassVar[str] = "bloom-rappor"
    summary: ClassVar[str] = (
        "RAPPOR with Bloom filters in cohorts, shuffled: a histogram over many symbols from one "
        "message per user, decoded by least squares (a baseline)."
    )
    bits: Annotated[int, "b, length of a filter."]
    hashes: Annotated[int, "h, bits that a symbol sets in its filter."]
    cohorts: Annotated[int, "m, groups of users with hash functions of their own."]
    fake: Annotated[Fraction, "f, probability that a bit is a fair coin."]

    def __post_init__(self) -> None:
        check_whole("symbols", self.symbols, 2, MOST_SYMBOLS)
        check_whole("bits", self.bits, 2, MOST_BITS)
        check_whole("hashes", self.hashes, 1, MOST_HASHES)
        check_whole("cohorts", self.cohorts, 1, MOST_COHORTS)
        check_rational("fake", self.fake, Fraction(1))
        if self.alphabet > MOST_REPORTS:
            raise ParameterError(
                f"{self.cohorts} cohorts of {self.bits} bits have more than 2^30 different "
                "reports; take fewer cohorts or bits"
            )

    @property
    def alphabet(self) -> int:
        """Number of different reports: a cohort, and any pattern of b bits."""
        return self.cohorts << self.bits

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one report."""
        return 1

    @property
    def cells(self) -> int:
        """Length of the counts: for each cohort its number of reports, and of ones in each bit."""
        return self.cohorts * (1 + self.bits)

    @property
    def flip(self) -> Fraction:
        """Probability f/2 that a bit of a report differs from the filter's."""
        return self.fake / 2

    @property
    def shape(self) -> FilterShape:
        """Sizes that determine the filters of all symbols."""
        return FilterShape(self.symbols, self.bits, self.hashes, self.cohorts)

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """Draw a cohort, and flip each bit of the value's filter with probability f/2."""
        cohort = integers.below(self.cohorts)
        flips = sum(bernoulli(self.flip, integers) << bit for bit in range(self.bits))
        return cohort << self.bits | self.shape.mask(cohort, value) ^ flips

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`, bit by bit."""
        cohorts = arrays.below(self.cohorts, values.size)
        filters = self.shape.masks[cohorts, values]
        for bit in range(self.bits):
            filters ^= arrays.bernoulli(self.flip, values.size).astype(filters.dtype) << bit
        return cohorts << self.bits | filters

    def encode(self, answer: int) -> Sequence[int]:
        """The report itself."""
        if not 0 <= answer < self.alphabet:
            raise ValueError(f"a report must be from 0 to {self.alphabet - 1}")
        return [answer]

    def counts_of(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each cohort its number of reports, and of ones in each bit; shape (cells,)."""
        import numpy as np

        cohorts = symbols >> self.bits
        columns = [np.bincount(cohorts, minlength=self.cohorts)]
        for bit in range(self.bits):
            holders = cohorts[(symbols >> bit & 1).astype(np.bool_)]
            columns.append(np.bincount(holders, minlength=self.cohorts))
        return np.stack(columns, axis=1).reshape(-1).astype(np.int64)

    def messages_of(self, counts: Counts) -> int:
        """Number of reports in all cohorts."""
        return int(sum(int(count) for count in counts[:: 1 + self.bits]))

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """`counts_of` of each round, shape (rounds, cells)."""
        import numpy as np

        return np.stack([self.counts_of(row) for row in answers])

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002 - every change is the same change
        """ε_L = 2 h ln((2-f)/f): h bits fall and h rise (K17, C10)."""
        return 2 * self.hashes * log_odds(self.fake)

    def witness(self, honest: int, distance: int) -> Witness | None:  # noqa: ARG002
        """Number of reports with a bit of symbol 0 alone, and without a bit of symbol 1 alone.

        All others hold symbol 1. Only cohorts in which both symbols have such a bit count.
        """
        from shuffledp_core.bounds.lower import BitCounts

        distinct = 0
        for cohort in range(self.cohorts):
            first = self.shape.mask(cohort, 0)
            second = self.shape.mask(cohort, 1)
            distinct += bool(first & ~second) and bool(second & ~first)
        if not distinct:
            return None
        share = Fraction(distinct, self.cohorts)
        low = share * self.flip**2
        return BitCounts(honest - 1, low, 1, share * (1 - self.flip) ** 2, low)

    def check_informative(self) -> None:
        """Raise `UsageError` if f = 1."""
        refuse_pure_noise("fake", self.fake)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift if every report has the largest score instead of the smallest (K17)."""
        if self.fake == 1:
            raise ZeroDivisionError("every report is pure noise")
        decoder = decoder_of(self.shape, self.flip)
        return liars * Fraction(float((decoder.highest - decoder.lowest).max()))

    def extreme_messages(self, value: int) -> tuple[int, int]:
        """The reports with the largest and the smallest score for `value`."""
        return decoder_of(self.shape, self.flip).extreme_reports(value)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Estimate by least squares on the shares of set bits, each less what flips add to it."""
        return decoder_of(self.shape, self.flip).decode(counts, present.reports)
