"""Analysis of shuffled local discrete Laplace noise, by the bounds of `sums.local_laplace`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import LocalLaplace
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import Bounds, CorruptedBounds, Setting, check_delta
from shuffledp_privacy.calibration.families import Family, deviations, pure_rate
from shuffledp_privacy.calibration.target import AIM, Target, excess_of_delta, excess_of_rounds
from shuffledp_privacy.local.flags import COARSE
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.rounds.subsampling import reflect_curve
from shuffledp_privacy.sums.common import check_epsilon, downward, probes
from shuffledp_privacy.sums.local_laplace import (
    CLOSE,
    LocalLaplaceRound,
    local_laplace_round,
)

SEARCH_NODES = 24
"""Points at which a curve is computed for a search."""


@analyses(LocalLaplace)
@dataclass(frozen=True, slots=True)
class LocalLaplaceAnalysis(Analysis):
    """Analysis of one number per user with local noise, shuffled."""

    spec: LocalLaplace
    grows_with_distance = True  # the bound for a distance covers all smaller ones (S24)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = local_laplace_round(self.spec, setting)
        certified = item.delta(epsilon)
        attained = downward(item.attained_delta(epsilon)) if certified > 0.0 else 0.0
        return Bounds(certified, min(attained, certified), None, _basis(item))

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        certified = self.certified_epsilon(setting, delta)
        item = local_laplace_round(self.spec, setting)
        if delta == 0.0 or certified == 0.0:
            return Bounds(certified, 0.0, None, _basis(item))
        attained = downward(item.attained_epsilon(delta, certified))
        return Bounds(certified, min(attained, certified), None, _basis(item))

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta, pure=True)
        return local_laplace_round(self.spec, setting).epsilon(delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        basis = "S8: one clamped report, pure ε_geo per unit"
        return CorruptedBounds(local_laplace_round(self.spec, setting).local(), 0.0, (basis,))

    def standard_error(self, users: int) -> float:
        """Standard error of the sum in the worst case, all users at the middle value (S24)."""
        rate = float(self.spec.epsilon_geo)
        half = self.spec.max_value // 2
        other_half = self.spec.max_value - half
        at_ends = (math.exp(-rate * half) + math.exp(-rate * other_half)) / (1 + math.exp(-rate))
        return math.sqrt(users * math.exp(-rate) * (2 - at_ends)) / -math.expm1(-rate)

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, for changes by at most `distance`, in both orders (S24, C2)."""
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        item = local_laplace_round(self.spec, setting)
        sizes = np.abs(np.asarray(epsilons, dtype=np.float64))
        upper = item.curve(distance, sizes)
        return np.asarray(np.where(epsilons >= 0.0, upper, reflect_curve(upper, sizes)))

    def excess(self, target: Target) -> float:
        """Excess at a few distances.

        The certificate covers all distances, and is at most `CLOSE` above the worst of them.
        """
        item = local_laplace_round(self.spec, target.setting)
        if target.rounds > 1:
            curve = partial(item.curve, most=SEARCH_NODES, coarse=COARSE)
            return excess_of_rounds(curve, item.pure, target, [])
        goal = target.epsilon * AIM / (1 + CLOSE if item.metric else 1)
        tried = probes(item.d_max) if item.metric else [item.d_max]
        delta = max(item.certified_delta(d, goal * item.units(d), target.delta) for d in tried)
        return excess_of_delta(delta, target)

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of the law of one clamped report."""
        rate = float(self.spec.epsilon_geo)
        logs = -rate * np.abs(answers[:, None] - np.arange(self.spec.domain))
        inside = (answers > 0) & (answers < self.spec.max_value)
        logs += np.where(inside, math.log(-math.expm1(-rate)), 0.0)[:, None]
        return np.asarray(logs - math.log1p(math.exp(-rate)))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along ε_geo; the safest one meets the target without a shuffle."""
        safest = pure_rate(target)
        metric = target.adjacency is Adjacency.METRIC
        # Reports at the far end hide the largest change: about h e^(-k ε_geo) of them.
        needed = (deviations(target) / max(target.epsilon, 1e-9)) ** 2
        hidden = math.log(max(target.honest / needed, 1.0)) / target.largest
        return Family(
            lambda rate: LocalLaplace(max_value=target.largest, epsilon_geo=rate),
            safest if metric else max(safest, hidden),
            safest,
            rising=False,
        )


def _basis(item: LocalLaplaceRound) -> tuple[str, ...]:
    alone = "S8: never more than one clamped report alone, ε_geo per unit"
    if not item.counts_on_others:
        return (alone, "the noise is too small for other users' reports to hide a change by k")
    return (
        "S24: hidden-flag blanket of the clamped reports, the worst change in convex order",
        alone,
    )
