"""SGDL-Shuffle (Athanasiou et al. 2025, Algorithm 4).

Notation: docs/accounting.md, φ, r = 1/shares, c and k.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from shuffledp_core.mechanisms.base import (
    PaddedSpec,
    check_rational,
    check_whole,
)
from shuffledp_core.mechanisms.work import shared_noise_steps
from shuffledp_core.sampling.exact import sgdl
from shuffledp_core.sampling.randomness import RandomIntegers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shuffledp_core.sampling.arrays import RandomArrays


class SGDLShuffle(PaddedSpec, frozen=True, kw_only=True, tag="sgdl-shuffle"):
    """Symmetric generalised discrete Laplace noise, a share per user.

    Source: Athanasiou et al. 2025, Algorithm 4.

    N = A - B with A, B ~ NB(r, 1-φ) independent, r = 1/shares, φ = exp(-noise_epsilon); `shares`
    honest users together add exactly one discrete Laplace noise. Shift, clamp and code as in
    `GeoShuffle`.
    """

    kind: ClassVar[str] = "sgdl-shuffle"
    summary: ClassVar[str] = (
        "Sums with one discrete Laplace noise made in shares, shuffled (Athanasiou et al. 2025, "
        "Algorithm 4)."
    )
    noise_alone: ClassVar[bool] = False
    noise_epsilon: Fraction
    shares: int
    padding: int

    def __post_init__(self) -> None:
        check_whole("max_value", self.max_value, 1)
        check_rational("noise_epsilon", self.noise_epsilon)
        check_whole("shares", self.shares, 1)
        check_whole("padding", self.padding, 0)

    @property
    def noise_rate(self) -> Fraction:
        """ε of the noise that the shares add up to, in nats per unit."""
        return self.noise_epsilon

    @property
    def noise_shares(self) -> int:
        """Number of users who together add one noise, 1/r."""
        return self.shares

    @property
    def noise_steps(self) -> Fraction:
        """Mean number of steps of drawing one user's share: two Pólya urns."""
        return shared_noise_steps(self.noise_epsilon)

    def largest_shift(self, liars: int) -> Fraction:
        """Shift of the sum if every message is a one instead of a zero."""
        return Fraction(liars * self.messages_per_user)

    def noise(self, integers: RandomIntegers) -> int:
        """Draw one user's share of noise."""
        return sgdl(self.noise_epsilon, self.shares, integers)

    def noise_all(self, users: int, arrays: RandomArrays) -> NDArray[np.int64]:
        """Vectorised `noise`: one draw per user."""
        from shuffledp_core.sampling import bulk

        return bulk.sgdl(self.noise_epsilon, self.shares, users, arrays)
