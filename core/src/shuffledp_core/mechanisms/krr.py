"""k-ary randomised response (Biswas et al. 2023; Koskela et al. 2021).

Notation: docs/accounting.md, γ and k.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from shuffledp_core.answering.estimates import Estimate, Present, histogram_of
from shuffledp_core.bounds.local import response_epsilon
from shuffledp_core.mechanisms.base import (
    HistogramSpec,
    check_rational,
    check_whole,
    refuse_pure_noise,
    tally,
)
from shuffledp_core.sampling.randomness import RandomIntegers
from shuffledp_core.sampling.responses import respond, respond_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays


class KRRHistogram(HistogramSpec, frozen=True, kw_only=True, tag="krr-histogram"):
    """k-ary randomised response, one message: a histogram over {0..k-1}.

    Source: Biswas et al. 2023; Koskela et al. 2021.

    With probability `blanket` (γ) the symbol is uniform over all k, otherwise the true one, so that
    p = 1 - γ + γ/k, q = γ/k and ε0 = ln(p/q).
    """

    kind: ClassVar[str] = "krr-histogram"
    summary: ClassVar[str] = (
        "k-ary randomised response, shuffled: a histogram from one message per user."
    )
    blanket: Fraction

    def __post_init__(self) -> None:
        # msgspec calls this for decoded specs, too: what comes over the wire is checked before it
        # is sampled from.
        check_whole("symbols", self.symbols, 2)
        check_rational("blanket", self.blanket, Fraction(1))

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one symbol."""
        return 1

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """A symbol: uniform with probability γ, else the true one."""
        return respond(value, self.symbols, self.blanket, integers)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: one draw per user."""
        return respond_all(values, self.symbols, self.blanket, arrays)

    def encode(self, answer: int) -> Sequence[int]:
        """The answer itself."""
        if not 0 <= answer < self.symbols:
            raise ValueError(f"a symbol must be from 0 to {self.symbols - 1}")
        return [answer]

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts of the symbols, shape (rounds, symbols)."""
        return tally(answers, self.symbols)

    def local_epsilon(self, distance: int) -> float:  # noqa: ARG002 - every change is the same change
        """ε0 = ln(p/q) = ln(1 + (1-γ) k/γ) (K7)."""
        return response_epsilon(self.symbols, self.blanket)

    def witness(self, honest: int, distance: int) -> Witness:  # noqa: ARG002
        """Number of reports of the symbol that the user held, if all others hold another one."""
        from shuffledp_core.bounds.lower import BitCounts

        low = self.blanket / self.symbols
        return BitCounts(honest - 1, low, 1, 1 - self.blanket + low, low)

    def check_informative(self) -> None:
        """Raises `UsageError` if γ = 1."""
        refuse_pure_noise("blanket", self.blanket)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of a symbol's debiased count if every lying report names it instead of another."""
        return liars / (1 - self.blanket)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """Debias each symbol's count by inverting p and q."""
        q = self.blanket / self.symbols
        return histogram_of(counts, present.reports, 1 - self.blanket + q, q)

    def pool(
        self, values: NDArray[np.float64], groups: NDArray[np.int64], present: Present
    ) -> Estimate:
        """Reports of each group; their total is the number of reports, whatever was drawn."""
        import numpy as np

        from shuffledp_core.answering.margins import pool_responses, total_of_reports

        if groups.shape[1] == self.symbols:
            return total_of_reports(len(groups), present)
        uniform = float(self.blanket * int(present.reports) / self.symbols)
        counts = np.rint(values * float(1 - self.blanket) + uniform).astype(np.int64)
        return pool_responses(counts, groups, present, self.blanket)

    def most_likely(self, counts: Counts) -> NDArray[np.float64]:
        """The most likely histogram in closed form, for any number of symbols."""
        from shuffledp_core.answering.postprocessing import most_likely_histogram

        return most_likely_histogram(
            counts, float(self.blanket / self.symbols), float(1 - self.blanket)
        )
