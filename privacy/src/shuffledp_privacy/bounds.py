"""The vocabulary of the accountant: a setting, a question about it, and an answer with both sides of the truth.

Every analysis answers the same questions about a mechanism spec; `functools.singledispatch` finds the
module that knows the spec (the modules register on import of `shuffledp_privacy.registry`).
Epsilon is in nats; under metric adjacency it is per unit of distance. All functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.privacy import Adjacency


@dataclass(frozen=True, slots=True)
class Setting:
    """Who takes part and against what neighbour the guarantee is stated.

    Attributes:
        users: n, reports that arrive, 1 <= n <= 1e9.
        honest: h <= n, reports of users who follow the protocol (the changed user is one of them).
        adjacency: which datasets are neighbours.
        max_distance: d_max, largest |x - x'| covered; None means the whole domain.
    """

    users: int
    honest: int
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.users <= 10**9:
            raise UsageError(f"users must be from 1 to 1,000,000,000, not {self.users}")
        if not 1 <= self.honest <= self.users:
            raise UsageError(f"honest must be from 1 to the number of users, {self.users}, not {self.honest}")
        if self.max_distance is not None and self.max_distance < 1:
            raise UsageError(f"max-distance must be at least 1, not {self.max_distance}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """One number, from both sides.

    Attributes:
        certified: upper bound that holds for every dataset; `math.inf` where there is none.
        attained: lower bound, exact (rounded down) on a concrete dataset.
        published: what the paper's formula prints, for comparison only; None where there is no formula.
        basis: which propositions of docs/accounting.md the certified number rests on, and notes in words.
    """

    certified: float
    attained: float
    published: float | None
    basis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CorruptedBounds:
    """What each user keeps when every mix node is corrupt: (epsilon, delta) of the local view, ε_L."""

    epsilon: float
    delta: float
    basis: tuple[str, ...]


def _unknown(spec: object) -> UsageError:
    return UsageError(f"no analysis of {type(spec).__name__} is known")


@singledispatch
def delta_bounds(spec: object, setting: Setting, epsilon: float) -> Bounds:  # noqa: ARG001
    """δ of one round at `epsilon`. Certified never below, attained never above the truth."""
    raise _unknown(spec)


@singledispatch
def epsilon_bounds(spec: object, setting: Setting, delta: float) -> Bounds:  # noqa: ARG001
    """ε of one round at `delta`. Certified never below, attained never above the truth."""
    raise _unknown(spec)


@singledispatch
def corrupted_bounds(spec: object, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG001
    """(ε_L, δ) when every node is corrupt. Never below the truth. ε_L counts as `setting.adjacency` says."""
    raise _unknown(spec)


@singledispatch
def standard_error(spec: object, users: int) -> float:  # noqa: ARG001
    """Standard deviation of the estimate for `users` reports: of the sum, or of one histogram count at worst."""
    raise _unknown(spec)


@singledispatch
def certified_curve(
    spec: object,
    setting: Setting,  # noqa: ARG001
    distance: int,  # noqa: ARG001
    epsilons: NDArray[np.float64],  # noqa: ARG001
) -> NDArray[np.float64]:
    """δ at each of `epsilons` (total, not per unit, any sign) for one value changed by exactly `distance`.

    Shape: same as `epsilons`. Never below the truth, and at every point the δ of one dominating pair (or above
    it), so that composition may build on it. Mechanisms without a metric ignore `distance`.
    """
    raise _unknown(spec)
