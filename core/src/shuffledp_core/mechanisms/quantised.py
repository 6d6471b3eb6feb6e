"""RR-Shuffle on the quantised unary code. docs/accounting.md, r and Q.

Source: Athanasiou et al. 2025, Algorithms 8 and 2.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.answering.estimates import Estimate, Present, sum_of_quantised_bits
from shuffledp_core.bounds.local import dilute, log_odds
from shuffledp_core.mechanisms.base import UnarySpec, check_rational, check_whole, refuse_pure_noise
from shuffledp_core.mechanisms.rr import RRShuffle
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays


class QuantisedRR(UnarySpec, frozen=True, kw_only=True, tag="quantised-rr"):
    """A unary code of few bits, each randomised.

    Source: Athanasiou et al. 2025, Algorithm 8 in the place of Algorithm 1.

    A bit stands for Q = k/r units, k = max_value, r = `bits`: x = Q (q + s) with 0 <= s < 1 is
    rounded at random to q + 1 with probability s, else to q, and that number of ones is sent among
    r bits by RR-Shuffle: with probability `randomise` (p) a bit is replaced by a fair coin. With r
    = k it is RR-Shuffle itself, with r = 1 the one-bit mean. The paper's Q is whole; here it need
    not be, so that the largest value is always all bits.
    """

    kind: ClassVar[str] = "quantised-rr"
    summary: ClassVar[str] = (
        "Sums from few unary bits that stand for many units each, randomised, shuffled "
        "(Athanasiou et al. 2025, Algorithm 8)."
    )
    bits: Annotated[int, "r, bits of a report: each stands for k/r units."]
    randomise: Annotated[Fraction, "p, probability that a bit is replaced by a fair coin."]

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_whole("bits", self.bits, 1, self.max_value)
        check_rational("randomise", self.randomise, Fraction(1))

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: r bits."""
        return self.bits

    @property
    def code(self) -> RRShuffle:
        """The mechanism for a rounded value, a number of steps of Q: RR-Shuffle of r bits."""
        return RRShuffle(max_value=self.bits, randomise=self.randomise)

    @property
    def rounding(self) -> Fraction:
        """Largest variance of one value's rounding in steps: s (1 - s) <= 1/4, over all values."""
        # s takes all multiples of 1/parts.
        parts = Fraction(self.bits, self.max_value).denominator
        return Fraction((parts // 2) * ((parts + 1) // 2), parts**2)

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """Round the value at random to whole steps; return the number of ones in its noisy code."""
        steps, rest = divmod(value * self.bits, self.max_value)
        return self.code.sample(steps + int(integers.below(self.max_value) < rest), integers)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: one draw per user."""
        import numpy as np

        # Below 2^62: both factors are below 2^31.
        steps, rest = np.divmod(values * self.bits, self.max_value)
        return self.code.sample_all(
            steps + (arrays.below(self.max_value, values.size) < rest), arrays
        )

    def local_epsilon(self, distance: int) -> float:
        """a ε0 + ln(1 + b (e^ε0 - 1)) for a change by a + b steps, ε0 = ln((2-p)/p) (S20)."""
        steps, rest = divmod(distance * self.bits, self.max_value)
        per_step = log_odds(self.randomise)
        return steps * per_step + dilute(per_step, Fraction(rest, self.max_value))

    def witness(self, honest: int, distance: int) -> Witness | None:
        """Number of ones, if all others hold 0, for a change by whole steps or by less than one."""
        from shuffledp_core.bounds.lower import BitCounts

        steps, rest = divmod(distance * self.bits, self.max_value)
        if rest == 0:
            return self.code.witness(honest, steps)
        if steps:
            return None
        flip = self.randomise / 2
        high = flip + (1 - self.randomise) * Fraction(rest, self.max_value)
        return BitCounts(honest * self.bits - 1, flip, 1, high, flip)

    def check_informative(self) -> None:
        """Raises `UsageError` if p = 1."""
        refuse_pure_noise("randomise", self.randomise)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the debiased sum if every bit is a one instead of a zero."""
        return liars * self.max_value / (1 - self.randomise)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The sum: Q for every one, debiased for the bits flipped with probability p/2."""
        return sum_of_quantised_bits(
            int(counts[1]),
            present.reports,
            self.max_value,
            self.bits,
            self.randomise / 2,
            self.rounding,
        )
