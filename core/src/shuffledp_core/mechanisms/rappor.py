"""Basic RAPPOR (Erlingsson, Pihur, Korolova 2014), shuffled.

Notation: docs/accounting.md, K14: k, f, p and q.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec

from shuffledp_core.answering.estimates import Estimate, Present, histogram_of
from shuffledp_core.bounds.local import log_odds
from shuffledp_core.errors import ParameterError, UsageError
from shuffledp_core.mechanisms.base import HistogramSpec, check_rational, check_whole
from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays

MOST_SYMBOLS = 31
"""Most symbols: a report is one message, and a message carries at most four bytes."""


class RapporHistogram(HistogramSpec, frozen=True, kw_only=True, tag="rappor-histogram"):
    """k bits in one message, of which the user's symbol sets one.

    Source: Erlingsson, Pihur and Korolova 2014, Basic RAPPOR.

    Permanent response: each bit is replaced by a fair coin with probability f = `fake`. A device
    draws it once for a question and keeps it permanently, even if its user's value changes. Each
    round's report is drawn from it anew: a bit is 1 with probability q = `when_one` where the kept
    bit is 1, and p = `when_zero` where it is 0. So all reports of all rounds together reveal no
    more than the permanent response, ε∞ = 2 ln((2-f)/f). One report has a 1 for the user's symbol
    with probability q* = p + (1 - f/2)(q - p), for any other with p* = p + (f/2)(q - p).
    """

    kind: ClassVar[str] = "rappor-histogram"
    summary: ClassVar[str] = (
        "Basic RAPPOR, shuffled: repeated histograms of the same people, from a response "
        "that is drawn once."
    )
    fake: Annotated[Fraction, "f, probability that a kept bit is a fair coin."]
    when_zero: Annotated[Fraction, "p, probability of a 1 in a report where the kept bit is 0."]
    when_one: Annotated[Fraction, "q, probability of a 1 in a report where the kept bit is 1."]
    question: Annotated[
        int, "Number of the question; rounds of the same one share the kept response."
    ] = 0

    def __post_init__(self) -> None:
        check_whole("symbols", self.symbols, 2, MOST_SYMBOLS)
        check_rational("fake", self.fake, Fraction(1))
        check_rational("when_zero", self.when_zero, Fraction(1))
        check_rational("when_one", self.when_one, Fraction(1))
        if not self.when_zero <= self.when_one < 1:
            raise ParameterError(
                f"need when_zero <= when_one < 1, not {self.when_zero} and {self.when_one}"
            )
        check_whole("question", self.question, 0)

    @property
    def alphabet(self) -> int:
        """Number of symbols: the 2^k possible reports."""
        return 1 << self.symbols

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one report."""
        return 1

    @property
    def cells(self) -> int:
        """Length of the counts: the number of reports, and for each bit the number of ones."""
        return self.symbols + 1

    @property
    def report_chances(self) -> tuple[Fraction, Fraction]:
        """(p*, q*): the chance of a 1 in one report where the true bit is 0, and where it is 1."""
        step = (self.when_one - self.when_zero) * self.fake / 2
        return self.when_zero + step, self.when_one - step

    @property
    def response_name(self) -> str:
        """Name of the question: number of symbols and f; p and q may change from round to round."""
        return f"{self.kind} question={self.question} symbols={self.symbols} fake={self.fake}"

    def about(self, question: int) -> Self:
        """The mechanism for the question of this number, with its own permanent response."""
        return msgspec.structs.replace(self, question=question)

    def remember(self, value: int, integers: RandomIntegers) -> int:
        """The permanent response of a user who holds `value`: bit s is that of symbol s."""
        half = self.fake / 2
        return _bits((1 - half if s == value else half for s in range(self.symbols)), integers)

    def report(self, kept: int, integers: RandomIntegers) -> int:
        """Draw one round's report from the permanent response."""
        if not 0 <= kept < self.alphabet:
            raise ValueError(f"a kept response must be from 0 to {self.alphabet - 1}")
        return _bits(
            (self.when_one if kept >> s & 1 else self.when_zero for s in range(self.symbols)),
            integers,
        )

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The report of a user without a permanent response: draws one, then the report."""
        return self.report(self.remember(value, integers), integers)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`, bit by bit.

        Bits that are set in the permanent response are drawn apart from those that are not.
        """
        import numpy as np

        answers = np.zeros(values.size, dtype=np.int64)
        for symbol in range(self.symbols):
            kept = (values == symbol) ^ arrays.bernoulli(self.fake / 2, values.size)
            bit = np.empty(values.size, dtype=np.int64)
            for held, chance in ((kept, self.when_one), (~kept, self.when_zero)):
                bit[held] = arrays.bernoulli(chance, int(held.sum()))
            answers |= bit << symbol
        return answers

    def encode(self, answer: int) -> Sequence[int]:
        """The report itself."""
        if not 0 <= answer < self.alphabet:
            raise ValueError(f"a report must be from 0 to {self.alphabet - 1}")
        return [answer]

    def counts_of(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of reports, and for each bit the number of reports that set it."""
        import numpy as np

        ones = [int((symbols >> symbol & 1).sum()) for symbol in range(self.symbols)]
        return np.array([symbols.size, *ones], dtype=np.int64)

    def messages_of(self, counts: Counts) -> int:
        """The number of reports."""
        return int(counts[0])

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of reports and of ones in each bit, shape (rounds, 1 + symbols)."""
        import numpy as np

        ones = [(answers >> symbol & 1).sum(axis=1) for symbol in range(self.symbols)]
        return np.stack([np.full(len(answers), answers.shape[1]), *ones], axis=1).astype(np.int64)

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002 - every change is the same change
        """ε∞ = 2 ln((2-f)/f) of the memoised response: two bits differ (K14)."""
        return 2 * log_odds(self.fake)

    def witness(self, honest: int, distance: int) -> Witness | None:  # noqa: ARG002
        """Reports with the bit of the user's first symbol but not of the new one.

        All others hold the new symbol.
        """
        from shuffledp_core.bounds.lower import BitCounts

        zero, one = self.report_chances
        low = zero * (1 - one)
        return BitCounts(honest - 1, low, 1, one * (1 - zero), low)

    def check_informative(self) -> None:
        """Raises `UsageError` if a report does not depend on the value."""
        if self.fake == 1 or self.when_zero == self.when_one:
            raise UsageError(
                "every report would be pure noise, because fake is 1 or when_zero equals "
                "when_one; ask for a larger epsilon or more reports"
            )

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a symbol's debiased count if every report sets the symbol's bit."""
        low, high = self.report_chances
        return liars / (high - low)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Estimate from the reports with a symbol's bit: Bin(n_s, q*) + Bin(n - n_s, p*).

        This holds if each user's response was drawn independently.
        """
        low, high = self.report_chances
        return histogram_of(counts[1:], present.reports, high, low)


def _bits(chances: Iterable[Fraction], integers: RandomIntegers) -> int:
    """Independent bits, bit s with the s-th chance."""
    return sum(bernoulli(chance, integers) << s for s, chance in enumerate(chances))
