"""Analysis of the shuffled Hadamard histogram: one finite local randomiser (K11, K13).

Acharya, Sun, Zhang 2019.

Any two rows of a Hadamard matrix are like any other two, so that the analysis of the local
randomiser looks at three values whatever the number of symbols. For two symbols there is no third
value to hold: both rows are written out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import HadamardHistogram
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    certified_epsilon,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import (
    Target,
)
from shuffledp_privacy.local.encodings import HadamardResponse
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.primitives.contour import Floats


def local_randomiser(spec: HadamardHistogram) -> HadamardResponse | LocalMatrix:
    """The local randomiser of one user's report, in the form that its analysis takes."""
    in_half_chance = 1 - spec.blanket / 2
    if spec.blanket == 1:  # nothing depends on the value
        return LocalMatrix(((Fraction(1),), (Fraction(1),)))
    if spec.symbols == 2:
        in_half, outside = in_half_chance / 2, (1 - in_half_chance) / 2
        return LocalMatrix(
            ((in_half, outside, in_half, outside), (in_half, in_half, outside, outside))
        )
    return HadamardResponse(order=spec.alphabet, own=in_half_chance)


@analyses(HadamardHistogram)
@dataclass(frozen=True, slots=True)
class HadamardAnalysis(Analysis):
    """The Hadamard response of one user as a finite local randomiser."""

    spec: HadamardHistogram
    grows_with_distance = True  # all changes of a value are the same change

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        return delta_bounds(local_randomiser(self.spec), setting, epsilon)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        return epsilon_bounds(local_randomiser(self.spec), setting, delta)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        return certified_epsilon(local_randomiser(self.spec), setting, delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        return corrupted_bounds(local_randomiser(self.spec), setting, delta)

    def standard_error(self, users: int) -> float:
        """Standard error √n/(1 - γ) of a count of 0, the worst: all n halves are fair coins."""
        return (
            math.sqrt(users) / float(1 - self.spec.blanket) if self.spec.blanket < 1 else math.inf
        )

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        return certified_curve(local_randomiser(self.spec), setting, distance, epsilons)

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of γ/K + 2(1 - γ)/K if the index lies in the value's half, else of γ/K."""
        inside = np.bitwise_count(answers[:, None] & np.arange(1, self.spec.symbols + 1)) % 2 == 0
        other = float(self.spec.blanket / self.spec.alphabet)
        return np.log(
            np.where(inside, other + float(2 * (1 - self.spec.blanket) / self.spec.alphabet), other)
        )

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along γ; the safest one meets the target without a shuffle."""
        # Half of all indices hide a symbol's half: the blanket need not grow with the symbols.
        safest = 2 / (1 + math.exp(target.epsilon / target.rounds)) * (1 + 1e-4)
        guess = 2 * (deviations(target) / target.epsilon) ** 2 / target.honest
        return Family(
            lambda g: HadamardHistogram(symbols=target.bins, blanket=min(g, Fraction(1))),
            guess,
            min(1.0, safest),
            rising=True,
        )
