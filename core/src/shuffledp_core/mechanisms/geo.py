"""Geo-Shuffle (Athanasiou et al. 2025, Algorithm 3). Notation: docs/accounting.md, φ, c and k."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from shuffledp_core.mechanisms.base import PaddedSpec, check_rational, check_whole
from shuffledp_core.sampling.exact import discrete_laplace
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.bounds.lower import Witness
    from shuffledp_core.sampling.arrays import RandomArrays


class GeoShuffle(PaddedSpec, frozen=True, kw_only=True, tag="geo-shuffle"):
    """Discrete Laplace noise per user, shifted, clamped and unary-coded.

    Source: Athanasiou et al. 2025, Algorithm 3.

    N ~ discrete Laplace, P(N = j) = (1-φ)/(1+φ) φ^|j| with φ = exp(-epsilon_geo); the user sends
    clamp(x + N + c, 0, k + 2c) ones among k + 2c bits, c = padding.
    """

    kind: ClassVar[str] = "geo-shuffle"
    summary: ClassVar[str] = (
        "Sums with discrete Laplace noise from every user, shuffled (Athanasiou et al. 2025, "
        "Algorithm 3)."
    )
    epsilon_geo: Fraction
    padding: int

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("epsilon_geo", self.epsilon_geo)
        check_whole("padding", self.padding, 0)

    @property
    def noise_rate(self) -> Fraction:
        """ε of one user's noise, nats per unit."""
        return self.epsilon_geo

    @property
    def noise_shares(self) -> int:
        """1: every user adds a whole discrete Laplace noise."""
        return 1

    def witness(self, honest: int, distance: int) -> Witness | None:
        """The sum of all ones, by the exact law of one clamped report, if all others hold 0."""
        from shuffledp_core.bounds.lower import MOST_POINTS, ReportSum

        if self.messages_per_user >= MOST_POINTS:
            return None
        return ReportSum(honest, self._report_law(0), self._report_law(distance))

    def _report_law(self, value: int) -> NDArray[np.float64]:
        """Probabilities of 0..k + 2c ones in one report; shape (messages_per_user + 1,)."""
        import numpy as np

        rate, center = float(self.epsilon_geo), value + self.padding
        distance = np.abs(np.arange(self.messages_per_user + 1) - center)
        law = np.exp(-rate * distance) / (1 + math.exp(-rate))
        law[1:-1] *= -math.expm1(-rate)  # both ends hold all that lies beyond them as well
        return law

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the sum if every message is a one instead of a zero."""
        return Fraction(liars * self.messages_per_user)

    def noise(self, integers: RandomIntegers) -> int:
        """Draw one user's noise, a discrete Laplace number."""
        return discrete_laplace(self.epsilon_geo, integers)

    def noise_all(self, users: int, arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `noise`: one draw per user."""
        from shuffledp_core.sampling import bulk

        return bulk.discrete_laplace(self.epsilon_geo, users, arrays)
