"""Analysis of node-histogram: protection by one honest node's dummies, without honest users.

A change of a value affects only two counts, whose privacy losses take four values; the condition
that all dummies have room depends only on their sum (docs/accounting.md, N1-N4). What is certified
is what two neighbours attain, whatever the users and their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.bounds.losses import PrivacyLosses
from shuffledp_core.bounds.node_noise import ends_mass, least_room
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism, NodeHistogram
from shuffledp_core.mechanisms.node_histogram import MAX_DUMMIES, MAX_MEAN
from shuffledp_privacy.analyses import analyses
from shuffledp_privacy.bounds import Bounds, Setting
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import AIM, Target
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.primitives.few_losses import (
    OpenValueAnalysis,
    delta_of_losses,
    epsilon_of_losses,
)
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.responses import (
    blanket_for,
    response_error,
    response_likelihood,
    symmetric_curve,
)
from shuffledp_privacy.rounds.subsampling import subsampled_curve
from shuffledp_privacy.splitting import ends_of_noise
from shuffledp_privacy.sums.common import check_epsilon

REDRAWN: Final = 1e-3
"""Largest probability that a node draws its dummies again: δ is larger by no more than this
share.
"""

LARGEST_RATE: Final = 40
"""Largest ε of the noise that is calibrated: noise that is 0 but for 1e-17. k-RR may need no more.
"""

_BASIS: Final = (
    "N1-N3: exact for every dataset, while one node is honest; no honest users needed",
    "N4: a node's dummies are drawn again until there is room for them",
)

_BASIS_BLANKETED: Final = (
    *_BASIS,
    "N8: the value goes through k-RR first; exact but for the condition on the dummies",
)


@analyses(NodeHistogram)
@dataclass(frozen=True, slots=True)
class NodeHistogramAnalysis(OpenValueAnalysis):
    """Analysis of true values among one honest node's dummies."""

    spec: NodeHistogram
    grows_with_distance = True  # all changes of a value are the same change

    def delta(self, setting: Setting, epsilon: float) -> Bounds:  # noqa: ARG002
        """Certified and attained δ of one round, for every number of users."""
        check_epsilon(epsilon)
        if self.spec.blanket:
            certified = float(self._certified_deltas(np.array([epsilon]))[0])
            attained = self._witness_delta(epsilon)
            return Bounds(certified, min(attained, certified), None, _BASIS_BLANKETED)
        return delta_of_losses(self._losses(), epsilon, _BASIS)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round, for every number of users."""
        if self.spec.blanket:
            return self._epsilon_of_responses(delta, self.corrupted_bounds(setting, delta).epsilon)
        return epsilon_of_losses(self._losses(), delta, _BASIS)

    def standard_error(self, users: int) -> float:
        """Standard error due to k-RR, at the worst values."""
        return response_error(self.spec, users)

    def log_likelihood(self, answers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The log-likelihood of k-RR."""
        return response_likelihood(self.spec, answers)

    def curve(
        self,
        setting: Setting,  # noqa: ARG002
        distance: int,  # noqa: ARG002
        epsilons: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """δ at each total ε, the one of two neighbours; exact without k-RR."""
        if self.spec.blanket:
            return self._certified_deltas(epsilons)
        return self._losses().certified_delta(np.asarray(epsilons, dtype=np.float64))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along the noise's ε, with the fewest sufficient dummies."""
        safest = target.epsilon / target.rounds / 2 * AIM * (1 - 2.0**-20)
        guess = safest
        if target.rounds > 1:
            guess = max(safest, 1.4 * safest * target.rounds / deviations(target))
        blanket = blanket_for(target.epsilon_local, target.bins)
        # A uniform report shows no value, not even at the ends of the noise (N8).
        share = float(1 - blanket)
        ends = ends_of_noise(target.delta, target.rounds) * (1 - 2 * REDRAWN) / share

        def build(parameter: Fraction) -> Mechanism:
            epsilon = min(parameter, Fraction(LARGEST_RATE))
            mean = _least_mean(epsilon, ends)
            try:
                spare = least_room(epsilon, mean, target.bins, REDRAWN)
            except ValueError as refusal:
                raise CannotCertify(f"{NodeHistogram.kind}: {refusal}") from None
            dummies = target.bins * mean + spare
            if dummies > MAX_DUMMIES:
                raise CannotCertify(
                    f"{NodeHistogram.kind} would need {dummies:,} dummies of every node; it has "
                    f"{MAX_DUMMIES:,} at most: allow a larger epsilon or fewer symbols"
                )
            return NodeHistogram(
                symbols=target.bins,
                noise_epsilon=epsilon,
                mean=mean,
                dummies=dummies,
                blanket=blanket,
            )

        return Family(build, guess, safest, rising=False)

    def _certified_deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        report = self.spec.one_report
        convex = subsampled_curve(self._losses().certified_delta, 1 - self.spec.blanket)

        def falling(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
            exact = [report.certified_delta(float(size)) for size in sizes]
            return np.minimum(exact, convex(sizes))

        return symmetric_curve(falling)(np.asarray(epsilons, dtype=np.float64))

    def _epsilon_of_responses(self, delta: float, ceiling: float) -> Bounds:
        certified = certified_epsilon(
            lambda epsilon: float(self._certified_deltas(np.array([epsilon]))[0]), delta, ceiling
        )
        attained = attained_epsilon(self._witness_delta, delta, ceiling)
        return Bounds(certified, min(attained, certified), None, _BASIS_BLANKETED)

    def _witness_delta(self, epsilon: float) -> float:
        witness = self.spec.witness(1, 1)
        return 0.0 if witness is None else witness.attained_delta(epsilon)

    def _losses(self) -> PrivacyLosses:
        try:
            return self.spec.losses
        except ValueError as refusal:
            raise CannotCertify(f"{self.spec.kind}: {refusal}; use fewer symbols") from None


def _least_mean(epsilon: Fraction, ends: float) -> int:
    """The least mean at which a change is revealed with probability at most `ends`.

    The lowest and the highest value of the noise reveal it.
    """

    def is_enough(mean: int) -> bool:
        return 2 * ends_mass(epsilon, mean, 1) <= ends

    if not is_enough(MAX_MEAN):
        raise CannotCertify(
            f"{NodeHistogram.kind} would need more than {MAX_MEAN:,} dummies of each symbol: allow "
            "a larger epsilon or delta"
        )
    return bisect_whole(is_enough, MAX_MEAN, 0)
