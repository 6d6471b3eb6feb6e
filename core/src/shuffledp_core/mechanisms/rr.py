"""RR-Shuffle (Athanasiou et al. 2025, Algorithm 2). Notation: docs/accounting.md, p and k."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.answering.estimates import Estimate, Present, sum_of_bits
from shuffledp_core.bounds.local import log_odds
from shuffledp_core.mechanisms.base import UnarySpec, check_rational, check_whole, refuse_pure_noise
from shuffledp_core.sampling.exact import binomial
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays


class RRShuffle(UnarySpec, frozen=True, kw_only=True, tag="rr-shuffle"):
    """Bitwise randomised response on the unary code of length k = max_value.

    Source: Athanasiou et al. 2025, Algorithm 2.

    With probability `randomise` (p) a bit is replaced by a fair coin, so it is flipped with
    probability p/2.
    """

    kind: ClassVar[str] = "rr-shuffle"
    summary: ClassVar[str] = (
        "Sums from unary bits, each randomised, shuffled (Athanasiou et al. 2025, Algorithm 2)."
    )
    randomise: Annotated[Fraction, "p, probability that a bit is replaced by a fair coin."]

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("randomise", self.randomise, Fraction(1))

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: k bits."""
        return self.max_value

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The number of ones, which is all that remains after shuffling the certified bits."""
        flip = self.randomise / 2
        return (
            value
            - binomial(value, flip, integers)
            + binomial(self.max_value - value, flip, integers)
        )

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: one draw per user."""
        from shuffledp_core.sampling.bulk import binomial

        flip = self.randomise / 2
        return (
            values
            - binomial(values, flip, arrays)
            + binomial(self.max_value - values, flip, arrays)
        )

    def local_epsilon(self, distance: int) -> float:
        """d ln((2-p)/p) (S10)."""
        return distance * log_odds(self.randomise)

    def witness(self, honest: int, distance: int) -> Witness:
        """Number of ones, if all others hold 0; a change of too many bits to convolve is cut."""
        from shuffledp_core.bounds.lower import MOST_BITS, BitCounts

        changed, flip = min(distance, MOST_BITS), self.randomise / 2
        return BitCounts(honest * self.max_value - changed, flip, changed, 1 - flip, flip)

    def check_informative(self) -> None:
        """Raises `UsageError` if p = 1."""
        refuse_pure_noise("randomise", self.randomise)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the debiased sum if every bit is a one instead of a zero."""
        return liars * self.max_value / (1 - self.randomise)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The sum, debiased for bits that are flipped with probability p/2."""
        return sum_of_bits(int(counts[1]), present.reports, self.max_value, self.randomise / 2)
