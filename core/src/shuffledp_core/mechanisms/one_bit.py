"""The one-bit mean (Ding, Kulkarni, Yekhanin 2017), shuffled.

Notation: docs/accounting.md, p, k and q = p/2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.answering.estimates import Estimate, Present, sum_of_one_bit_reports
from shuffledp_core.bounds.local import ROUNDING
from shuffledp_core.mechanisms.base import UnarySpec, check_rational, check_whole, refuse_pure_noise
from shuffledp_core.sampling.exact import bernoulli
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays


class OneBitShuffle(UnarySpec, frozen=True, kw_only=True, tag="one-bit-mean"):
    """One bit a user, whatever the range of the values (Ding, Kulkarni, Yekhanin 2017).

    With probability `randomise` (p) the bit is a fair coin, otherwise it is 1 with probability x/k,
    k = max_value. So a 1 has the chance q + (1 - p) x/k, q = p/2: the value is rounded at random to
    0 or k, and that bit is randomised.
    """

    kind: ClassVar[str] = "one-bit-mean"
    summary: ClassVar[str] = (
        "Means from one randomised bit per user, shuffled (Ding, Kulkarni, Yekhanin 2017)."
    )
    randomise: Annotated[Fraction, "p, probability that the bit is a fair coin."]

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("randomise", self.randomise, Fraction(1))

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one bit."""
        return 1

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """A fair coin with probability p, else 1 with probability x/k."""
        if bernoulli(self.randomise, integers):
            return integers.below(2)
        return int(integers.below(self.max_value) < value)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`: one draw per user; draws that a user does not need are discarded."""
        import numpy as np

        rounded = arrays.below(self.max_value, values.size) < values
        coin = arrays.below(2, values.size)
        return np.where(arrays.bernoulli(self.randomise, values.size), coin, rounded)

    def local_epsilon(self, distance: int) -> float:
        """ln(1 + 2(1-p) d/(p k)) (S18)."""
        rise = 2 * (1 - self.randomise) * distance / (self.randomise * self.max_value)
        return math.log1p(float(rise)) * ROUNDING

    def witness(self, honest: int, distance: int) -> Witness | None:
        """Number of ones, if all other users hold 0."""
        from shuffledp_core.bounds.lower import BitCounts

        low = self.randomise / 2
        high = low + (1 - self.randomise) * distance / self.max_value
        return BitCounts(honest - 1, low, 1, high, low)

    def check_informative(self) -> None:
        """Raises `UsageError` if p = 1."""
        refuse_pure_noise("randomise", self.randomise)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the debiased sum if every report is a one instead of a zero."""
        return liars * self.max_value / (1 - self.randomise)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The sum k (ones - n q)/(1 - p), unbiased for all values."""
        return sum_of_one_bit_reports(
            int(counts[1]), present.reports, self.max_value, self.randomise
        )
