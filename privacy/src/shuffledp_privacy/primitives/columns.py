"""Bounds for several histograms in one submission, hidden by one honest node's dummies.

Pure; docs/accounting.md, N9.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.bounds.losses import PrivacyLosses
from shuffledp_core.bounds.node_noise import ends_mass, least_room
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms.columns import ColumnsSpec
from shuffledp_core.mechanisms.node_histogram import MAX_DUMMIES, MAX_MEAN
from shuffledp_privacy.bounds import Bounds, Setting
from shuffledp_privacy.calibration.families import deviations
from shuffledp_privacy.calibration.target import AIM, Target
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.primitives.few_losses import (
    OpenValueAnalysis,
    delta_of_losses,
    epsilon_of_losses,
)
from shuffledp_privacy.splitting import ends_of_noise
from shuffledp_privacy.sums.common import check_epsilon

REDRAWN: Final = 1e-3
"""Largest probability that a node draws the dummies of a column again: δ is larger by no more than
this share for each column.
"""

_BASIS: Final = (
    "N1, N3, N9: exact for every dataset, while one node is honest; no honest users needed",
    "N9: the columns have independent noises; their losses add up",
)


class ColumnsAnalysis(OpenValueAnalysis):
    """Analysis of unrandomised cells, one in each column, among one honest node's dummies."""

    __slots__ = ()

    spec: ColumnsSpec
    grows_with_distance = True  # no change costs more than one that moves the cell of every column

    def delta(self, setting: Setting, epsilon: float) -> Bounds:  # noqa: ARG002
        """Certified and attained δ of one round, for every number of users."""
        check_epsilon(epsilon)
        return delta_of_losses(self._losses(), epsilon, _BASIS)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:  # noqa: ARG002
        """Certified and attained ε of one round, for every number of users."""
        return epsilon_of_losses(self._losses(), delta, _BASIS)

    def curve(
        self,
        setting: Setting,  # noqa: ARG002
        distance: int,  # noqa: ARG002
        epsilons: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change in every column."""
        return self._losses().certified_delta(np.asarray(epsilons, dtype=np.float64))

    def _losses(self) -> PrivacyLosses:
        try:
            return self.spec.losses
        except ValueError as refusal:
            raise CannotCertify(f"{self.spec.kind}: {refusal}; use fewer symbols") from None


def safest_rate(target: Target, columns: int) -> float:
    """ε of the noise in one count at which all columns meet the target, apart from the ends."""
    return target.epsilon / target.rounds / (2 * columns) * AIM * (1 - 2.0**-20)


def guessed_rate(target: Target, columns: int) -> float:
    """First guess of the ε of the noise in one count, for a search."""
    safest = safest_rate(target, columns)
    if target.rounds == 1:
        return safest
    return max(safest, 1.4 * safest * target.rounds / deviations(target))


def least_dummies(
    kind: str, sizes: tuple[int, ...], rate: Fraction, target: Target
) -> tuple[int, int]:
    """The least mean and spare number of one node's dummies that meet the target.

    Raises:
        CannotCertify: a node would add too many.
    """
    columns = len(sizes)
    ends = ends_of_noise(target.delta, target.rounds) * (1 - 2 * columns * REDRAWN)

    def is_enough(mean: int) -> bool:
        return 2 * columns * ends_mass(rate, mean, 1) <= ends

    if not is_enough(MAX_MEAN):
        raise CannotCertify(
            f"{kind} would need more than {MAX_MEAN:,} dummies of each cell: allow a larger "
            "epsilon or delta"
        )
    mean = bisect_whole(is_enough, MAX_MEAN, 0)
    try:
        spare = max(least_room(rate, mean, size, REDRAWN) for size in sizes)
    except ValueError as refusal:
        raise CannotCertify(f"{kind}: {refusal}") from None
    dummies = sum(size * mean + min(spare, size * mean) for size in sizes)
    if dummies > MAX_DUMMIES:
        raise CannotCertify(
            f"{kind} would need {dummies:,} dummies of every node; it has {MAX_DUMMIES:,} at most: "
            "allow a larger epsilon or fewer cells"
        )
    return mean, spare
