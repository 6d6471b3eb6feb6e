"""Analysis of node-columns: several histograms, behind the dummies of one honest node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from shuffledp_core.mechanisms import Mechanism, NodeColumns
from shuffledp_privacy.analyses import analyses
from shuffledp_privacy.calibration.families import Family
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.primitives.columns import (
    ColumnsAnalysis,
    guessed_rate,
    least_dummies,
    safest_rate,
)


@analyses(NodeColumns)
@dataclass(frozen=True, slots=True)
class NodeColumnsAnalysis(ColumnsAnalysis):
    """Analysis of one cell per column; a change of the value may move every cell."""

    spec: NodeColumns

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along the noise's ε, equal in all columns."""
        sizes = target.columns or (target.bins,)

        def build(parameter: Fraction) -> Mechanism:
            mean, spare = least_dummies(NodeColumns.kind, sizes, parameter, target)
            return NodeColumns(
                symbols=math.prod(sizes),
                noise_epsilon=parameter,
                mean=mean,
                spare=spare,
                columns=sizes,
            )

        number = len(sizes)
        return Family(
            build, guessed_rate(target, number), safest_rate(target, number), rising=False
        )
