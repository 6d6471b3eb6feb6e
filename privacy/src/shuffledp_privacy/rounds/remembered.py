"""Rounds with a common memoised response: together they cost what it can ever reveal (K14).

They do not compose, because their randomness is not independent. A mechanism with a memoised
response states the cost of all such rounds by `certified_curve` and `corrupted_bounds`.
`epsilon_bounds` and `delta_bounds` are for a single round and must not be added up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.analyses import Analysis
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    corrupted_bounds,
    domain_of,
)


@dataclass(frozen=True, slots=True)
class AllReports(Analysis):
    """A spec that represents all rounds with this mechanism's memoised response."""

    mechanism: object

    @property
    def domain(self) -> int | None:
        """Number of admissible inputs; None if distances do not matter."""
        return domain_of(self.mechanism)

    @property
    def grows_with_distance(self) -> bool:
        """True, because all changes of a memoised response are the same change."""
        return True

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        local = corrupted_bounds(self, setting, delta)
        return Bounds(
            local.epsilon if local.delta <= delta else float("inf"), 0.0, None, local.basis
        )

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        return corrupted_bounds(self.mechanism, setting, delta)

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        return certified_curve(self.mechanism, setting, distance, epsilons)


def remembered_by(spec: object) -> str | None:
    """Name of the response that rounds of this spec share; None if each draws its own."""
    return getattr(spec, "response_name", None)


def times_counted(spec: object, rounds: int) -> int:
    """How many times `certified_curve` must be composed for `rounds` rounds of one spec.

    Once if all rounds share a memoised response, otherwise once for each round.
    """
    return rounds if remembered_by(spec) is None else 1
