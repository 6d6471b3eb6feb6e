"""Analysis of the one-bit mean (Ding, Kulkarni, Yekhanin 2017), by the bounds of `sums.one_bit`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import OneBitShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    check_delta,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import (
    AIM,
    Target,
    excess_of_delta,
    excess_of_rounds,
)
from shuffledp_privacy.histogram.krr import certified_delta
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.rounds.subsampling import reflect_curve, subsampled_curve
from shuffledp_privacy.sums import rr
from shuffledp_privacy.sums.common import check_epsilon
from shuffledp_privacy.sums.one_bit import OneBitRound, one_bit_round


@analyses(OneBitShuffle)
@dataclass(frozen=True, slots=True)
class OneBitAnalysis(Analysis):
    """Analysis of one randomised bit per user, shuffled."""

    spec: OneBitShuffle
    grows_with_distance = True  # a larger change of the sum is easier to see (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = one_bit_round(self.spec, setting)
        certified = item.delta(epsilon)
        attained = max(
            item.attained_delta(d, epsilon * item.units(d)) for d in item.tried_distances()
        )
        return Bounds(certified, min(attained, certified), None, _basis(item))

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        certified = self.certified_epsilon(setting, delta)
        item = one_bit_round(self.spec, setting)
        if delta == 0.0 or certified == 0.0:
            return Bounds(certified, 0.0, None, _basis(item))
        attained = max(
            item.attained_epsilon(d, delta) / item.units(d) for d in item.tried_distances()
        )
        return Bounds(certified, min(attained, certified), None, _basis(item))

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta, pure=True)
        return one_bit_round(self.spec, setting).epsilon(delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        basis = (
            "S18: one bit, pure, ln(1 + 2(1-p)d/(pk)) for a change by d; the largest per unit is "
            "at d = 1"
        )
        return CorruptedBounds(one_bit_round(self.spec, setting).local(), 0.0, (basis,))

    def standard_error(self, users: int) -> float:
        """Standard error of the sum in the worst case, all users at the middle value.

        About k √n/(2(1 - p)).
        """
        if self.spec.randomise == 1:
            return math.inf
        share = float(
            self.spec.randomise / 2
            + (1 - self.spec.randomise) * Fraction(self.spec.max_value // 2, self.spec.max_value)
        )
        return (
            self.spec.max_value
            * math.sqrt(users * share * (1 - share))
            / float(1 - self.spec.randomise)
        )

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε: the curve of the randomised response, diluted.

        It holds for both orders of the datasets (S18), so that C2 gives negative ε.
        """
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        item = one_bit_round(self.spec, setting)
        sizes = np.abs(np.asarray(epsilons, dtype=np.float64))
        curve = subsampled_curve(
            partial(certified_curve, item.binary, setting, 1), item.rate(distance)
        )
        upper = np.where(sizes >= item.pure(distance), 0.0, curve(np.minimum(sizes, 700.0)))
        return np.asarray(np.where(epsilons >= 0.0, upper, reflect_curve(upper, sizes)))

    def excess(self, target: Target) -> float:
        """Excess on the datasets in which all others hold 0, or all hold k.

        The certificate covers all datasets, and is computed once at the end.
        """
        item = one_bit_round(self.spec, target.setting)
        if target.rounds > 1:
            return excess_of_rounds(item.ends_curve, item.pure, target, item.tried_distances())
        goal = target.epsilon * AIM / (1 + rr.SLACK)
        delta = max(item.quick(d, goal * item.units(d)) for d in item.tried_distances())
        return excess_of_delta(delta, target)

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of p/2 + (1 - p) x/k for a 1, and of its complement for a 0."""
        flip = float(self.spec.randomise / 2)
        share = np.arange(self.spec.domain) / self.spec.max_value
        ones = flip + float(1 - self.spec.randomise) * share
        zeros = flip + float(1 - self.spec.randomise) * (1 - share)
        return np.log(np.where(answers[:, None] == 1, ones, zeros))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along p; the safest one meets the target without a shuffle."""
        metric = target.adjacency is Adjacency.METRIC
        # One report alone: ln(1 + 2 (1-p) d/(p k)) for a change by d, the largest per unit at d = 1
        # (S18).
        alone = (1 if metric else target.reach) / target.largest
        growth = math.expm1(min(target.epsilon / target.rounds, 50.0)) * (1 - 1e-4)
        need = (
            deviations(target) / target.epsilon / target.largest * (1 if metric else target.reach)
        )
        return Family(
            lambda p: OneBitShuffle(max_value=target.largest, randomise=min(p, Fraction(1))),
            2 * need**2 / target.honest,
            min(1.0, 2 * alone / (growth + 2 * alone)),
            rising=True,
        )


def _basis(item: OneBitRound) -> tuple[str, ...]:
    _, words = certified_delta(item.law, item.honest)
    return (
        "S18: a change by d reaches the bit with chance d/k; exact",
        f"its randomised response: {words}",
    )
