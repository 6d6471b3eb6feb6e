"""The target of a calibration, and the excess of a candidate over it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import (
    MAX_DOMAIN,
    Mechanism,
)
from shuffledp_core.mechanisms.node_columns import MAX_COMBINATIONS
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.arguments import check_number, whole_number
from shuffledp_privacy.analyses import analysis_of
from shuffledp_privacy.bounds import Setting, check_delta, delta_bounds, epsilon_bounds
from shuffledp_privacy.calibration.proposal import Floats
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.rounds.loss_distribution import STEPS, Repeated, compose_curves
from shuffledp_privacy.rounds.subsampling import Curve

AIM = 1 - 4e-6
"""A search aims this much below the target ε, the width to which an analysis inverts its curve."""

LOWEST = -20.0
"""`excess` of a candidate that is private with next to no δ."""

COVERED = 0.03
"""By how much a cover of all datasets and distances is usually above the worst of them, for rounds
of flipped bits.
"""

SEARCH_STEPS = 200
"""Resolution of composition while searching: about 1 part in 1,000 looser than the final one."""


MOST_LOCAL = 30.0
"""Largest limit of ε_L: k-RR that keeps more replaces hardly any value."""


@dataclass(frozen=True, slots=True)
class Target:
    """The guarantee that a round, or a series of equal rounds, has to give.

    Attributes:
        epsilon: nats over all rounds, above 0, at most 100; per unit of distance under metric
            adjacency.
        delta: over all rounds, in [1e-12, 1).
        users: n, reports per round.
        honest: h <= n, users who follow the protocol.
        adjacency: which datasets are neighbours.
        max_distance: d_max, None for the whole domain.
        max_value: k of a sum over {0..k}; a histogram then has k + 1 symbols.
        symbols: number of bins of a histogram; only needed without `max_value`.
        rounds: how often the round is run on the same people, with the same mechanism.
        most_users: reports that may arrive at most, for mechanisms that must have room for them;
            None for `users`.
        epsilon_local: largest ε_L of one round, if every node is corrupt; None for any.
        columns: cells of each column, for mechanisms with several; None for one of all symbols.
    """

    epsilon: float
    delta: float
    users: int
    honest: int
    adjacency: Adjacency = Adjacency.STANDARD
    max_distance: int | None = None
    max_value: int | None = None
    symbols: int | None = None
    rounds: int = 1
    most_users: int | None = None
    epsilon_local: float | None = None
    columns: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if not 0 < self.epsilon <= 100:
            raise UsageError(f"epsilon must be above 0 and at most 100, not {self.epsilon}")
        check_delta(self.delta)
        if self.epsilon_local is not None and not 0 < self.epsilon_local <= MOST_LOCAL:
            raise UsageError(
                f"epsilon-local must be above 0 and at most {MOST_LOCAL:g}, not "
                f"{self.epsilon_local}"
            )
        if self.max_value is None and self.symbols is None:
            raise UsageError(
                "a target needs either max-value (for a sum) or symbols (for a histogram)"
            )
        if self.max_value is not None and not 1 <= self.max_value < MAX_DOMAIN:
            raise UsageError(f"max-value must be from 1 to {MAX_DOMAIN - 1}, not {self.max_value}")
        most = MAX_DOMAIN if self.columns is None else MAX_COMBINATIONS
        if self.symbols is not None and not 2 <= self.symbols <= most:
            raise UsageError(f"symbols must be from 2 to {most}, not {self.symbols}")
        if self.columns is not None and math.prod(self.columns) != self.bins:
            raise UsageError(
                f"columns of {', '.join(map(str, self.columns))} cells have "
                f"{math.prod(self.columns)} combinations, not {self.bins} symbols"
            )
        if not 1 <= self.rounds <= 10**6:
            raise UsageError(f"rounds must be from 1 to 1,000,000, not {self.rounds}")
        if self.most_users is not None and self.most_users < self.users:
            raise UsageError(
                f"most-users must be at least the number of users, {self.users}, not "
                f"{self.most_users}"
            )
        # By name it would be taken for another one, as for a setting.
        object.__setattr__(self, "adjacency", self.setting.adjacency)

    def _check_types(self) -> None:
        check_number("epsilon", self.epsilon)
        check_number("delta", self.delta)
        if self.epsilon_local is not None:
            check_number("epsilon-local", self.epsilon_local)
        for name, count in (
            ("max-value", self.max_value),
            ("symbols", self.symbols),
            ("rounds", self.rounds),
        ):
            if count is not None:
                whole_number(name, count)

    @property
    def setting(self) -> Setting:
        """The users, honest users, adjacency and largest distance of one round."""
        return Setting(self.users, self.honest, self.adjacency, self.max_distance)

    @property
    def bins(self) -> int:
        """Number of symbols of the histogram."""
        return self.symbols if self.symbols is not None else self.largest + 1

    @property
    def largest(self) -> int:
        """Largest value k of the sum; raises UsageError for a target without `max_value`."""
        if self.max_value is None:
            raise UsageError("this mechanism sums values, so the target needs max-value")
        return self.max_value

    @property
    def reach(self) -> int:
        """The largest |x - x'| among the values of the sum."""
        return min(self.max_distance or self.largest, self.largest)


def certified_epsilon_of(spec: Mechanism, target: Target, steps: int = STEPS) -> float:
    """Certified ε in nats of the target's rounds with this spec; `math.inf` without one.

    `steps` is the resolution of composition, for more than one round.
    """
    try:
        if target.rounds == 1:
            return epsilon_bounds(spec, target.setting, target.delta).certified
        return compose_epsilon([Round(spec, target.setting, target.rounds)], target.delta, steps)
    except CannotCertify:
        return math.inf


def excess(spec: Mechanism, target: Target) -> float:
    """Excess of a spec over the target: falls with more noise, and is at most 0 if it meets it.

    It is no guarantee: it uses the analysis's quick estimate if there is one.
    """
    estimate = analysis_of(spec).excess(target)
    return _excess_of_certificate(spec, target) if estimate is None else estimate


def _excess_of_certificate(spec: Mechanism, target: Target) -> float:
    """ln of certified over target: of δ for one round, of ε for several."""
    try:
        if target.rounds > 1:
            certified = certified_epsilon_of(spec, target, SEARCH_STEPS)
            return (
                max(math.log(certified / (target.epsilon * AIM)), LOWEST)
                if certified > 0
                else LOWEST
            )
        delta = delta_bounds(spec, target.setting, target.epsilon * AIM).certified
    except CannotCertify:
        return math.inf
    return excess_of_delta(delta, target)


def excess_of_delta(delta: float, target: Target) -> float:
    """ln of a round's δ over the target's, at least `LOWEST`."""
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


def excess_of_rounds(
    curve: Callable[[int, Floats], Floats],
    pure: Callable[[int], float],
    target: Target,
    tried: Iterable[int] = (),
) -> float:
    """ln of the rounds' ε over the target's at a few distances (metric adjacency).

    The certificate covers all distances, and is slightly larger.

    Args:
        curve: total ε -> δ of a change by d.
        pure: total ε of a change by d at δ = 0.
        target: the rounds.
        tried: the distances; None for 1, reach/8 and the reach.
    """
    worst, metric = LOWEST, target.adjacency is Adjacency.METRIC
    few = {1, max(1, target.reach // 8), target.reach}
    for distance in sorted(set(tried) or few if metric else {target.reach}):
        goal = target.epsilon * AIM / (1 + COVERED) * (distance if metric else 1)
        epsilon = min(
            composed_epsilon(partial(curve, distance), target), pure(distance) * target.rounds
        )
        worst = max(worst, math.log(epsilon / goal) if epsilon > 0 else LOWEST)
    return worst


def composed_epsilon(curve: Curve, target: Target) -> float:
    """ε of the target's rounds, each with the curve `curve`, at a search's resolution."""
    return compose_curves([Repeated(curve, target.rounds)], target.delta, SEARCH_STEPS).epsilon(
        target.delta
    )
