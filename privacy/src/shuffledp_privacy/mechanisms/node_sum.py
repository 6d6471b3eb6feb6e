"""Analysis of node-sum: protection by one honest node's dummies, without honest users.

Digits have independent noises, so that their losses add up (docs/accounting.md, N5 and N6). What is
certified is what two neighbours attain, whatever the users and their number; per unit of distance
only for plain unary code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.bounds.losses import PrivacyLosses
from shuffledp_core.bounds.node_noise import ends_mass
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import Mechanism, NodeSum
from shuffledp_core.mechanisms.node_sum import MAX_MEAN, farthest_steps, means_for
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import analyses
from shuffledp_privacy.bounds import Bounds, Setting, check_delta
from shuffledp_privacy.calibration.families import Family, guess_of_whole_noise, pure_rate
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.primitives.few_losses import (
    OpenValueAnalysis,
    attained_of_losses,
    certified_delta,
    least_epsilon,
)
from shuffledp_privacy.rounds.cover import worst_over_distances
from shuffledp_privacy.splitting import ends_of_noise
from shuffledp_privacy.sums.common import check_epsilon, distances, is_metric, probes

WORST_RATIO: Final = 1.2
"""Largest error of digits, as a multiple of the error of plain unary code."""

LARGEST_BASE: Final = 64
"""Largest base of digits."""

_EXACT: Final = "N5: exact for every dataset, while one node is honest; no honest users needed"

_DIGITS: Final = "N6: digits have independent noises; their losses add up"

_PER_UNIT: Final = (
    "N6: digits in a base have no better number per unit of distance than the one for every change"
)


@analyses(NodeSum)
@dataclass(frozen=True, slots=True)
class NodeSumAnalysis(OpenValueAnalysis):
    """Analysis of true values, sent in digits, among one honest node's dummies."""

    spec: NodeSum
    grows_with_distance = True  # a larger step of a digit is easier to see (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round, for every number of users."""
        check_epsilon(epsilon)
        farthest = distances(self.spec.max_value, setting)
        per_unit = is_metric(setting)
        low = max(
            self._losses_of_change(distance).attained_delta(epsilon * (distance if per_unit else 1))
            for distance in (probes(farthest) if per_unit else [farthest])
        )

        def ceiling(first: int, last: int) -> float:
            return certified_delta(self._dominating_losses(last), down(epsilon * first))

        if per_unit and self._is_unary:
            certified = worst_over_distances(ceiling, farthest)
        else:
            certified = certified_delta(self._dominating_losses(farthest), epsilon)
        return Bounds(certified, min(low, certified), None, self._basis(setting))

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round, for every number of users."""
        check_delta(delta, pure=True)
        farthest = distances(self.spec.max_value, setting)
        per_unit = is_metric(setting)
        low = max(
            attained_of_losses(self._losses_of_change(distance), delta)
            / (distance if per_unit else 1)
            for distance in (probes(farthest) if per_unit else [farthest])
        )

        def ceiling(first: int, last: int) -> float:
            return up(least_epsilon(self._dominating_losses(last), delta) / first)

        if per_unit and self._is_unary:
            # No distance costs more than the noise's own ε for each unit, unless an end shows it.
            least_epsilon(self._dominating_losses(farthest), delta)
            per_one = float(self.spec.rates[0]) * (1 + 1e-14)
            certified = min(per_one, worst_over_distances(ceiling, farthest))
        else:
            certified = least_epsilon(self._dominating_losses(farthest), delta)
        return Bounds(certified, min(down(low), certified), None, self._basis(setting))

    def curve(
        self,
        setting: Setting,  # noqa: ARG002
        distance: int,
        epsilons: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """δ at each total ε for a change by `distance`; with several digits, for any change."""
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        losses = self._dominating_losses(distance)
        return losses.certified_delta(np.asarray(epsilons, dtype=np.float64))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along the noise's ε, with the fewest sufficient dummies."""
        largest = target.largest
        base = _best_base(target)
        # The noise's ε is for the largest change of all, which in unary code need not be covered.
        scale = largest if base > largest else target.reach
        ends = ends_of_noise(target.delta, target.rounds)

        def build(epsilon: Fraction) -> Mechanism:
            return _with_least_mean(largest, epsilon, base, target.reach, ends)

        rate = pure_rate(target)
        return Family(build, guess_of_whole_noise(target, rate) * scale, rate * scale, rising=False)

    @property
    def _is_unary(self) -> bool:
        return self.spec.base > self.spec.max_value

    def _dominating_losses(self, distance: int) -> PrivacyLosses:
        """Privacy losses that dominate those of every change up to `distance`."""
        return self.spec.losses(farthest_steps(self.spec, distance)[1])

    def _losses_of_change(self, distance: int) -> PrivacyLosses:
        """Losses of one change up to `distance`."""
        return self.spec.losses(farthest_steps(self.spec, distance)[0])

    def _basis(self, setting: Setting) -> tuple[str, ...]:
        if self._is_unary:
            return (_EXACT,)
        return (_EXACT, _DIGITS, _PER_UNIT) if is_metric(setting) else (_EXACT, _DIGITS)


def _best_base(target: Target) -> int:
    """The base with the fewest messages among those with nearly the least error (`WORST_RATIO`).

    Plain unary code has the least error, and is the only one with a good ε per unit of distance.
    """
    largest = target.largest
    if target.adjacency is Adjacency.METRIC:
        return largest + 1
    best = (largest, largest + 1)
    for base in range(2, min(LARGEST_BASE, largest) + 1):
        messages = 0
        spread = 0.0
        weight = 1
        while weight <= largest:
            cap = min(base - 1, largest // weight)
            messages += cap
            spread += float(weight * cap) ** (2 / 3)
            weight *= base
        # ε in proportion to spans^(2/3) gives the error (Σ spans^(2/3))^(3/2) (N6).
        if spread**1.5 <= WORST_RATIO * largest:
            best = min(best, (messages, base))
    return best[1]


def _with_least_mean(
    largest: int, epsilon: Fraction, base: int, reach: int, ends: float
) -> NodeSum:
    """The spec with the least mean whose noise reveals a change with probability at most `ends`."""
    least = max(1, largest if base > largest else _highest_cap(largest, base))
    spec = NodeSum(max_value=largest, noise_epsilon=epsilon, base=base, mean=least)
    steps = (reach,) if base > largest else spec.caps

    def is_enough(mean: int) -> bool:
        digits = zip(spec.rates, means_for(spec, mean), steps, strict=True)
        left = sum(
            math.log1p(-ends_mass(rate, digit_mean, step)) for rate, digit_mean, step in digits
        )
        return -math.expm1(left) * (1 + 1e-9) <= ends

    enough = least
    while not is_enough(enough):
        enough *= 2
        if max(means_for(spec, enough)) > 2 * MAX_MEAN:
            break
    mean = enough if enough == least else bisect_whole(is_enough, enough, enough // 2)
    if max(means_for(spec, mean)) > MAX_MEAN:
        raise CannotCertify(
            f"{NodeSum.kind} would need more than {MAX_MEAN:,} dummies of a digit: allow a larger "
            "epsilon or delta"
        )
    return NodeSum(max_value=largest, noise_epsilon=epsilon, base=base, mean=mean)


def _highest_cap(largest: int, base: int) -> int:
    while largest >= base:
        largest //= base
    return largest
