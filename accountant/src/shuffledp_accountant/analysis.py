"""All that the ledger and the service ask of the numerics, in one place.

A `Cost` is what one round costs its users: exact mechanism, who takes part, and the δ at which ε is stated. The
ledger adds costs up under its own adjacency, by analysing the same mechanisms again: see `spent`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from shuffledp_accountant.numerics import registry
from shuffledp_accountant.numerics.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    corrupted_bounds,
    standard_error,
)
from shuffledp_accountant.numerics.calibration.calibrate import Target, calibrate
from shuffledp_accountant.numerics.rounds.composition import Round, compose_bounds
from shuffledp_accountant.tabulated import Tabulated, bounds_of
from shuffledp_core.documents.models import RoundPlan
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import KRRHistogram, Mechanism
from shuffledp_core.privacy import Adjacency

REGISTERED: Final = registry.ANALYSES
"""The analyses that `bounds` dispatches to; they register on import."""

MOST_CURVES: Final = 12
"""Different rounds that are composed one by one, at up to seconds for each new one; more are put together by size."""

HONEST_BITS: Final = 6
"""Leading bits of a number of honest users that are kept then: at most 1/32 of the users are given away."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one round costs: ε of `mechanism` in `setting` at `delta` (0 <= δ < 1)."""

    mechanism: Mechanism
    setting: Setting
    delta: float


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the numerics say about one cost; the standard error is the estimate's, for all its users."""

    bounds: Bounds
    corrupted: CorruptedBounds
    standard_error: float


@dataclass(frozen=True, slots=True)
class Spent:
    """ε that several rounds cost together (nats, never below the truth, `math.inf` for no bound), and why."""

    epsilon: float
    basis: tuple[str, ...]


def largest_distance(mechanism: Mechanism) -> int:
    """The largest |x - x'| in the mechanism's domain."""
    return mechanism.domain - 1


def calibrated(plan: RoundPlan) -> Mechanism:
    """The mechanism of least error that meets the plan with its smallest number of reports.

    Raises:
        UsageError: a parameter is outside its range.
        CannotCertify: no parameters meet the target; the message says the closest that can.
    """
    histogram = plan.mechanism == KRRHistogram.kind
    target = Target(
        epsilon=plan.epsilon,
        delta=plan.delta,
        users=plan.min_reports,
        honest=plan.min_reports - plan.colluding,
        adjacency=plan.adjacency,
        max_distance=plan.max_distance,
        max_value=None if histogram else plan.size,
        symbols=plan.size if histogram else None,
    )
    return calibrate(plan.mechanism, target)


def analyse(cost: Cost) -> Analysis:
    """ε from both sides, ε_L and the standard error of one round.

    Raises:
        UsageError: the setting is outside the analysis' range.
        CannotCertify: no sound bound is known.
    """
    return Analysis(
        bounds_of(cost.mechanism, cost.setting, cost.delta),
        corrupted_bounds(cost.mechanism, cost.setting, cost.delta),
        standard_error(cost.mechanism, cost.setting.users),
    )


def spent(costs: Sequence[Cost], adjacency: Adjacency, delta: float) -> Spent:
    """ε under `adjacency` at `delta` of all rounds together: the smallest of the sound bounds.

    ε of one adjacency is never added to ε of another. Each mechanism is analysed anew under `adjacency` and over
    its whole domain, whatever its own certificate was stated for: an ε of 0.1 per unit over {0..20} is charged to a
    standard budget as what changing a value from 0 to 20 reveals, which is at most 2, and often less.

    Bounds: privacy loss distributions convolved (`numerics.rounds.composition`), and basic composition, the sum of ε_i
    where the sum of δ_i is at most `delta`. Either holds for rounds whose parameters were fixed without looking
    at the results of earlier rounds of the same users; the rounds' randomness may be anything.

    Args:
        costs: the rounds, in any order; none cost 0.
        adjacency: the budget's.
        delta: the budget's, 0 < δ < 1.
    """
    if not costs:
        return Spent(0.0, ("nothing charged",))
    return _spent(tuple(sorted(costs, key=repr)), adjacency, delta)


@lru_cache(maxsize=256)
def _spent(costs: tuple[Cost, ...], adjacency: Adjacency, delta: float) -> Spent:
    rebased = tuple(
        Cost(cost.mechanism, Setting(cost.setting.users, cost.setting.honest, adjacency), cost.delta) for cost in costs
    )
    convolved, added = _convolved(rebased, delta), _added(rebased, delta)
    return min(convolved, added, key=lambda bound: bound.epsilon)


def _convolved(costs: tuple[Cost, ...], delta: float) -> Spent:
    times = Counter((cost.mechanism, cost.setting) for cost in costs)
    if len(times) > MOST_CURVES:
        times = Counter((cost.mechanism, _coarser(cost.setting)) for cost in costs)
    try:
        bounds = compose_bounds(
            [Round(Tabulated(spec), setting, count) for (spec, setting), count in times.items()], delta
        )
    except (CannotCertify, UsageError) as refusal:
        return Spent(math.inf, (f"no finite bound: {refusal}",))
    return Spent(bounds.certified, tuple(line for line in bounds.basis if not line.startswith("published")))


def _coarser(setting: Setting) -> Setting:
    """Fewer honest users, so that rounds of similar sizes share a curve.

    Sound: count the others as dishonest and tell the adversary what they sent; what is left is a round of the
    remaining honest users alone, and the whole view is computed from it.
    """
    dropped = max(0, setting.honest.bit_length() - HONEST_BITS)
    honest = setting.honest >> dropped << dropped
    return Setting(honest, honest, setting.adjacency, setting.max_distance)


def _added(costs: tuple[Cost, ...], delta: float) -> Spent:
    nothing = Spent(math.inf, ("no finite bound: the rounds' deltas together exceed the budget's",))
    if sum(Fraction(cost.delta) for cost in costs) > Fraction(delta):
        return nothing
    try:
        epsilons = [bounds_of(cost.mechanism, cost.setting, cost.delta).certified for cost in costs]
    except (CannotCertify, UsageError):
        return nothing
    # Every partial sum is rounded at most once, by half a unit in the last place.
    return Spent(sum(epsilons) * (1 + 2**-52 * len(epsilons)), ("basic composition: sum of epsilons",))
