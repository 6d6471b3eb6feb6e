"""Local discrete Laplace noise, one number a user, shuffled.

Ghosh, Roughgarden and Sundararajan 2012. Notation: docs/accounting.md, φ and k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from shuffledp_core.answering.estimates import Estimate, Present, sum_of_clamped_reports
from shuffledp_core.bounds.local import noisy_report
from shuffledp_core.mechanisms.base import SumSpec, check_rational, check_whole
from shuffledp_core.sampling.exact import discrete_laplace
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.answering.estimates import Counts
    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays


class LocalLaplace(SumSpec, frozen=True, kw_only=True, tag="local-laplace"):
    """A value with discrete Laplace noise, clamped to the range of values: one message a user.

    Source: Ghosh, Roughgarden and Sundararajan 2012, the truncated geometric mechanism.

    N ~ discrete Laplace, P(N = j) = (1-φ)/(1+φ) φ^|j| with φ = exp(-epsilon_geo); the user sends
    the number clamp(x + N, 0, k). Without a shuffle this is the usual local mechanism for numbers.
    A report of 0 or k stands for all that lies beyond it, on average φ/(1-φ) farther, whatever the
    value is: so the sum has an unbiased estimate.
    """

    kind: ClassVar[str] = "local-laplace"
    summary: ClassVar[str] = (
        "Sums from one number per user with local discrete Laplace noise, shuffled (the baseline "
        "of the local model)."
    )
    epsilon_geo: Annotated[Fraction, "ε of the noise of one report, in nats per unit."]

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("epsilon_geo", self.epsilon_geo)

    @property
    def messages_per_user(self) -> int:
        """Number of messages of each user: one number."""
        return 1

    @property
    def alphabet(self) -> int:
        """Number of symbols: the numbers 0..k."""
        return self.max_value + 1

    @property
    def largest_answer(self) -> int:
        """Largest answer, k: reports are clamped to the largest value."""
        return self.max_value

    def sample(self, value: int, integers: RandomIntegers) -> int:
        """The value with noise, clamped to 0..k."""
        return min(max(value + discrete_laplace(self.epsilon_geo, integers), 0), self.max_value)

    def sample_all(self, values: NDArray[np.int64], arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `sample`; noise that may exceed machine words is drawn one by one."""
        import numpy as np

        from shuffledp_core.sampling import bulk

        if self.epsilon_geo < bulk.LEAST_EPSILON:
            return super().sample_all(values, arrays)
        noise = bulk.discrete_laplace(self.epsilon_geo, values.size, arrays)
        reports: NDArray[np.int64] = np.clip(values + noise, 0, self.max_value)
        return reports

    def encode(self, answer: int) -> Sequence[int]:
        """The number itself."""
        if not 0 <= answer <= self.max_value:
            raise ValueError(f"a report must be from 0 to {self.max_value}")
        return [answer]

    @property
    def cells(self) -> int:
        """4: the number of reports, their sum, and the numbers of reports of 0 and of k."""
        return 4

    def counts_of(self, symbols: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of reports, their sum, and the numbers of reports of 0 and of k."""
        import numpy as np

        (counts,) = self.count(symbols.reshape(1, -1))
        return np.asarray(counts, dtype=np.int64)

    def messages_of(self, counts: Counts) -> int:
        """The number of reports."""
        return int(counts[0])

    def count(self, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """`counts_of` of each round, shape (rounds, 4)."""
        import numpy as np

        reports = np.full(len(answers), answers.shape[1])
        total = answers.sum(axis=1, dtype=np.int64)
        lowest = (answers == 0).sum(axis=1)
        highest = (answers == self.max_value).sum(axis=1)
        return np.stack([reports, total, lowest, highest], axis=1).astype(np.int64)

    def local_epsilon(self, distance: int) -> float:
        """ε_geo d: clamping is post-processing (S8)."""
        return noisy_report(self.epsilon_geo, 1, distance)

    def witness(self, honest: int, distance: int) -> Witness | None:
        """Number of reports of 0, if all others hold k; a user of 0 sends one at rate 1/(1+φ)."""
        from shuffledp_core.bounds.lower import BitCounts

        rate = float(self.epsilon_geo)
        scale = 1 + math.exp(-rate)
        others = Fraction(math.exp(-rate * self.max_value) / scale)
        if others == 0:
            return None
        # As 1 less the rest: a chance next to 1 is no float.
        largest = 1 - Fraction(math.exp(-rate) / scale)
        changed = Fraction(math.exp(-rate * distance) / scale)
        return BitCounts(honest - 1, others, 1, largest, changed)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the debiased sum if every report is k instead of 0.

        Debiased, k counts as k + φ/(1-φ), and 0 as -φ/(1-φ).
        """
        rate = float(self.epsilon_geo)
        beyond = Fraction(math.exp(-rate) / -math.expm1(-rate) * (1 + 1e-12))
        return liars * (self.max_value + 2 * beyond)

    def estimate(self, counts: Counts, present: Present) -> Estimate:
        """The sum of all reports, each 0 and k counted φ/(1-φ) beyond its end; unbiased."""
        _, total, lowest, highest = (int(count) for count in counts)
        return sum_of_clamped_reports(
            total, lowest, highest, present.reports, self.max_value, float(self.epsilon_geo)
        )
