"""The target of a calibration, and the excess of a candidate over it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, singledispatch

import numpy as np

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import (
    MAX_DOMAIN,
    GeoShuffle,
    Mechanism,
    OneBitShuffle,
    PaddedSpec,
    QuantisedRR,
    RRShuffle,
    SplitMix,
)
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.arguments import check_number, whole_number
from shuffledp_privacy.bounds import Setting, check_delta, delta_bounds, epsilon_bounds
from shuffledp_privacy.calibration.proposal import Floats, clamping, noise_law, noise_of
from shuffledp_privacy.primitives.bits import BitPair
from shuffledp_privacy.primitives.pairs import hockey_stick
from shuffledp_privacy.rounds.composition import Round, compose_epsilon
from shuffledp_privacy.rounds.loss_distribution import STEPS, Repeated, compose_curves
from shuffledp_privacy.rounds.subsampling import Curve
from shuffledp_privacy.sums import geo, one_bit, quantised, rr, split
from shuffledp_privacy.sums.common import probes
from shuffledp_privacy.sums.kept import KeptNoise

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

    def __post_init__(self) -> None:
        self._check_types()
        if not 0 < self.epsilon <= 100:
            raise UsageError(f"epsilon must be above 0 and at most 100, not {self.epsilon}")
        check_delta(self.delta)
        if self.max_value is None and self.symbols is None:
            raise UsageError("a target names max-value (for a sum) or symbols (for a histogram)")
        if self.max_value is not None and not 1 <= self.max_value < MAX_DOMAIN:
            raise UsageError(f"max-value must be from 1 to {MAX_DOMAIN - 1}, not {self.max_value}")
        if self.symbols is not None and not 2 <= self.symbols <= MAX_DOMAIN:
            raise UsageError(f"symbols must be from 2 to {MAX_DOMAIN}, not {self.symbols}")
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
        for name, count in (
            ("max-value", self.max_value),
            ("symbols", self.symbols),
            ("rounds", self.rounds),
        ):
            if count is not None:
                whole_number(name, count)

    @property
    def setting(self) -> Setting:
        """The setting of one round."""
        return Setting(self.users, self.honest, self.adjacency, self.max_distance)

    @property
    def bins(self) -> int:
        """Symbols of the histogram."""
        return self.symbols if self.symbols is not None else self.largest + 1

    @property
    def largest(self) -> int:
        """k of the sum; raises UsageError for a target without `max_value`."""
        if self.max_value is None:
            raise UsageError("this mechanism sums values: the target has to name max-value")
        return self.max_value

    @property
    def reach(self) -> int:
        """The largest |x - x'| among the values of the sum."""
        return min(self.max_distance or self.largest, self.largest)


def certified_epsilon_of(spec: Mechanism, target: Target, steps: int = STEPS) -> float:
    """Certified ε of the target's rounds with this spec, nats; `math.inf` where there is none.

    `steps` is the resolution of composition, for more than one round.
    """
    try:
        if target.rounds == 1:
            return epsilon_bounds(spec, target.setting, target.delta).certified
        return compose_epsilon([Round(spec, target.setting, target.rounds)], target.delta, steps)
    except CannotCertify:
        return math.inf


@singledispatch
def excess(spec: Mechanism, target: Target) -> float:
    """A number that falls with more noise and is at most 0 where the target is met.

    No guarantee by itself.

    ln of certified over wanted: δ for one round, ε for several.
    """
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
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


@excess.register
def _(spec: GeoShuffle, target: Target) -> float:
    """By its own certificate: what clamping leaves of the noise is quickly evaluated (S6b)."""
    item = geo.noisy_sum(spec, target.setting)
    if target.rounds > 1:
        units = target.reach if target.adjacency is Adjacency.METRIC else 1
        total = _composed_epsilon(item.left, target)
        pure = item.pure * item.d_max * target.rounds
        return (
            max(math.log(min(total, pure) / (target.epsilon * units * AIM)), LOWEST)
            if total > 0
            else LOWEST
        )
    if isinstance(item.kept, KeptNoise) and item.kept.cells.lost > target.delta:
        # So many noises are clamped that no ε is enough by S6b, and its bound would take minutes
        # for few users.
        item = replace(item, kept=None)
    delta = item.delta(target.epsilon * AIM)
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


@excess.register
def _(spec: SplitMix, target: Target) -> float:
    """By its own certificate, without the attained side."""
    if target.rounds > 1:
        return excess.dispatch(object)(spec, target)
    delta = split.noisy_sum(spec, target.setting).delta(target.epsilon * AIM)
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


@excess.register
def _(spec: RRShuffle, target: Target) -> float:
    """From the datasets that are known to be the worst.

    The certificate looks at all of them, once.
    """
    item = rr.bit_shuffle(spec, target.setting)
    if target.rounds > 1:
        return _excess_of_rounds(item.ends_curve, lambda distance: item.per_unit * distance, target)
    steps = np.repeat(
        np.array(probes(item.d_max) if item.metric else [item.d_max], dtype=np.float64), 2
    )
    # All other bits 0, and all 1. A certificate is up to `rr.SLACK` above what they attain.
    zeros = np.where(np.arange(steps.size) % 2 == 0, item.bits - steps, 0.0)
    pairs = BitPair(zeros, item.bits - steps - zeros, steps, item.flip)
    goal = target.epsilon * AIM / (1 + rr.SLACK) * (steps if item.metric else np.ones_like(steps))
    delta = float(
        np.where(goal < item.per_unit * steps, hockey_stick(pairs, goal).upper, 0.0).max()
    )
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


@excess.register
def _(spec: OneBitShuffle, target: Target) -> float:
    """From the datasets whose others all hold 0, or all k.

    The certificate looks at all of them, once.
    """
    if target.rounds > 1:
        return excess.dispatch(object)(spec, target)
    item = one_bit.one_bit_round(spec, target.setting)
    goal = target.epsilon * AIM / (1 + rr.SLACK)
    delta = max(item.quick(d, goal * item.units(d)) for d in item.tried())
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


@excess.register
def _(spec: QuantisedRR, target: Target) -> float:
    """From the datasets whose others' bits are all 0, or all 1, as for the code itself."""
    item = quantised.quantised_round(spec, target.setting)
    if target.rounds > 1:
        return _excess_of_rounds(item.ends_curve, item.pure, target)
    goal = target.epsilon * AIM / (1 + rr.SLACK)
    delta = max(
        item.quick(d, goal * item.units(d))
        for d in (probes(item.d_max) if item.metric else [item.d_max])
    )
    return max(math.log(delta / target.delta), LOWEST) if delta > 0 else LOWEST


@excess.register
def _(spec: PaddedSpec, target: Target) -> float:
    """From the estimates of `proposal`, a hundred times faster than the certificate."""
    law = noise_law(noise_of(spec, target.honest), target.reach)
    if law is None:
        return excess.dispatch(object)(spec, target)
    noise, lost = (
        noise_of(spec, target.honest),
        clamping(noise_of(spec, target.honest), spec.padding),
    )

    def curve(distance: int) -> Curve:
        about, pure = law.curve(distance), noise.rate * distance if noise.share == 1 else math.inf

        def clamped(epsilons: Floats) -> Floats:
            # δ falls, so that the bound at any smaller ε is a bound too.
            points = np.append(epsilons, np.linspace(0.0, float(np.max(epsilons)), 65))
            order = np.argsort(points)
            bound = about(points[order]) + lost * (1 + np.exp(np.minimum(points[order], 700.0)))
            falling = np.empty_like(points)
            falling[order] = np.minimum.accumulate(np.minimum(bound, 1.0))
            return np.where(epsilons >= pure, 0.0, falling[: epsilons.size])

        return clamped

    worst = LOWEST
    for distance in _probes(target):
        goal = target.epsilon * AIM * (distance if target.adjacency is Adjacency.METRIC else 1)
        if target.rounds == 1:
            ratio = float(curve(distance)(np.array([goal]))[0]) / target.delta
        else:
            ratio = _composed_epsilon(curve(distance), target) / goal
        worst = max(worst, math.log(ratio) if ratio > 0 else LOWEST)
    return worst


def _excess_of_rounds(
    curve: Callable[[int, Floats], Floats], pure: Callable[[int], float], target: Target
) -> float:
    """ln of the rounds' ε over the wanted one at a few distances.

    The certificate covers all, and is a little above.
    """
    worst, metric = LOWEST, target.adjacency is Adjacency.METRIC
    for distance in sorted(
        {1, max(1, target.reach // 8), target.reach} if metric else {target.reach}
    ):
        goal = target.epsilon * AIM / (1 + COVERED) * (distance if metric else 1)
        epsilon = min(
            _composed_epsilon(partial(curve, distance), target), pure(distance) * target.rounds
        )
        worst = max(worst, math.log(epsilon / goal) if epsilon > 0 else LOWEST)
    return worst


def _composed_epsilon(curve: Curve, target: Target) -> float:
    return compose_curves([Repeated(curve, target.rounds)], target.delta, SEARCH_STEPS).epsilon(
        target.delta
    )


def _probes(target: Target) -> list[int]:
    """Distances at which a search looks: the largest for standard adjacency, some of all for
    metric.
    """
    if target.adjacency is Adjacency.STANDARD:
        return [target.reach]
    return sorted({round(x) for x in np.geomspace(1, target.reach, min(target.reach, 12))})
