"""The accountant's basic types: a setting, and upper and lower bounds.

The functions below ask the spec's analysis (`analyses`). Epsilon is in nats; under metric adjacency
it is per unit of distance. All functions are pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.arguments import whole_number
from shuffledp_privacy.analyses import analysis_of

SMALLEST_DELTA: Final = 1e-12
"""Smallest δ above 0: below it floating point cannot bracket the truth of one round."""

LEAST_DOUBLE: Final = math.ulp(0.0)
"""The least positive double."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The users of a round, and which datasets count as neighbours.

    Attributes:
        users: n, reports that arrive, 1 <= n <= 1e9.
        honest: h <= n, reports of users who follow the protocol (the changed user is one of them).
        adjacency: which datasets are neighbours; its name is accepted, too.
        max_distance: d_max, largest |x - x'| covered; None means the whole domain.

    Raises:
        UsageError: a number that is not whole or outside its range, or an unknown adjacency.
    """

    users: int
    honest: int
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", whole_number("users", self.users))
        object.__setattr__(self, "honest", whole_number("honest", self.honest))
        object.__setattr__(self, "adjacency", _adjacency(self.adjacency))
        if self.max_distance is not None:
            object.__setattr__(
                self, "max_distance", whole_number("max-distance", self.max_distance)
            )
        if not 1 <= self.users <= 10**9:
            raise UsageError(f"users must be from 1 to 1,000,000,000, not {self.users}")
        if not 1 <= self.honest <= self.users:
            raise UsageError(
                f"honest must be from 1 to the number of users, {self.users}, not {self.honest}"
            )
        if self.max_distance is not None and self.max_distance < 1:
            raise UsageError(f"max-distance must be at least 1, not {self.max_distance}")


def _adjacency(value: Any) -> Adjacency:
    """Convert a name to the enum member, because the analyses compare by identity."""
    try:
        return Adjacency(value)
    except ValueError:
        names = " or ".join(repr(member.value) for member in Adjacency)
        raise UsageError(f"adjacency must be {names}, not {value!r}") from None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper and lower bound of one number, ε or δ.

    Attributes:
        certified: upper bound that holds for every dataset; `math.inf` where there is none.
        attained: lower bound, exact (rounded down) on a concrete dataset; `-math.inf` where none is
            known.
        published: what the paper's formula prints, for comparison only; None if there is no
            formula.
        basis: which propositions of docs/accounting.md the certified number rests on, and notes in
            words.
        formula: source of `published`, and its faults; "" without one.
    """

    certified: float
    attained: float
    published: float | None
    basis: tuple[str, ...]
    formula: str = ""

    def lines(self) -> tuple[str, ...]:
        """The lines of a document's basis, with the line about the published number."""
        return (*self.basis, *published_lines(self.formula))


@dataclass(frozen=True, slots=True)
class CorruptedBounds:
    """The local guarantee (ε_L, δ), which remains if every mix node is corrupt."""

    epsilon: float
    delta: float
    basis: tuple[str, ...]


def published_lines(formula: str) -> tuple[str, ...]:
    """The line of a document's basis about a published number; none without a formula."""
    return (f"published: {formula}",) if formula else ()


def check_delta(delta: float, *, pure: bool = False) -> None:
    """Check that δ is in [`SMALLEST_DELTA`, 1), or 0 where a pure guarantee may be asked for.

    Raises:
        UsageError: outside the range, or not a number.
    """
    if not (SMALLEST_DELTA <= delta < 1.0 or (pure and delta == 0.0)):
        allowed = "0, or from 1e-12 to below 1" if pure else "from 1e-12 to below 1"
        raise UsageError(f"delta must be {allowed}, not {delta}")


def domain_of(spec: object) -> int | None:
    """Number of possible values of a person; None if the spec does not restrict them."""
    domain = getattr(spec, "domain", None)
    return None if domain is None else int(domain)


def delta_bounds(spec: object, setting: Setting, epsilon: float) -> Bounds:
    """δ of one round at `epsilon`. Certified never below, attained never above the truth.

    Below ε_L no δ is certified as 0: a positive one that is smaller than any double is certified as
    the least double.
    """
    # A whole number would make arrays of whole numbers.
    bounds = analysis_of(spec).delta(setting, float(epsilon))
    if bounds.certified == 0.0 and epsilon < corrupted_bounds(spec, setting, 0.0).epsilon:
        # Nothing proves that no δ is needed below ε_L: this 0 may come from underflow.
        return replace(bounds, certified=LEAST_DOUBLE)
    return bounds


def epsilon_bounds(spec: object, setting: Setting, delta: float) -> Bounds:
    """ε of one round at `delta`. Certified never below, attained never above the truth."""
    return analysis_of(spec).epsilon(setting, delta)


def certified_epsilon(spec: object, setting: Setting, delta: float) -> float:
    """The certified ε of `epsilon_bounds`, without the work for the attained one."""
    return analysis_of(spec).certified_epsilon(setting, delta)


def corrupted_bounds(spec: object, setting: Setting, delta: float) -> CorruptedBounds:
    """(ε_L, δ) that hold if every node is corrupt.

    The result is never below the truth. ε_L counts as `setting.adjacency` says.
    """
    return analysis_of(spec).corrupted_bounds(setting, delta)


def standard_error(spec: object, users: int, nodes: int = 1) -> float:
    """Standard deviation of the estimate for `users` reports: of the sum, or of the worst count.

    Args:
        spec: the mechanism.
        users: n, reports.
        nodes: honest nodes of the route, each of which adds its dummies if the mechanism has any.
    """
    return math.hypot(
        analysis_of(spec).standard_error(users), math.sqrt(nodes) * node_noise_of(spec)
    )


def node_noise_of(spec: object) -> float:
    """Standard deviation of one node's dummies in the estimate; 0 if nodes add none."""
    return float(getattr(spec, "node_noise", 0.0))


def certified_curve(
    spec: object,
    setting: Setting,
    distance: int,
    epsilons: NDArray[np.float64],
) -> NDArray[np.float64]:
    """δ at each of `epsilons` for one value changed by exactly `distance`.

    ε is total, not per unit, and of any sign.

    Shape: same as `epsilons`. The result is never below the truth, and at every point the δ of one
    dominating
    pair (or above it), so that composition may build on it. Mechanisms without a metric ignore
    `distance`.
    """
    return analysis_of(spec).curve(setting, distance, epsilons)
