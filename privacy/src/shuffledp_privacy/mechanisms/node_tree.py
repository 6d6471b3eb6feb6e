"""Analysis of node-tree: two histograms of one value, behind the dummies of one honest node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from shuffledp_core.answering.trees import BinTree
from shuffledp_core.mechanisms import Mechanism, NodeTree
from shuffledp_privacy.analyses import analyses
from shuffledp_privacy.calibration.families import Family
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.primitives.columns import (
    ColumnsAnalysis,
    guessed_rate,
    least_dummies,
    safest_rate,
)


@analyses(NodeTree)
@dataclass(frozen=True, slots=True)
class NodeTreeAnalysis(ColumnsAnalysis):
    """Analysis of two histograms, bins and groups of bins; changing a value can affect both."""

    spec: NodeTree

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along the noise's ε, with the best group width for quantiles."""
        width = best_width(target.bins)
        sizes = (target.bins,) if width == 1 else (-(-target.bins // width), target.bins)

        def build(parameter: Fraction) -> Mechanism:
            mean, spare = least_dummies(NodeTree.kind, sizes, parameter, target)
            return NodeTree(
                symbols=target.bins,
                noise_epsilon=parameter,
                mean=mean,
                spare=spare,
                width=width,
            )

        columns = len(sizes)
        return Family(
            build, guessed_rate(target, columns), safest_rate(target, columns), rising=False
        )


def best_width(bins: int) -> int:
    """Group width, in bins, with the smallest worst error of the number of users below a value.

    Groups of about the square root, with half of ε for each column, or none (N10).
    """
    width = math.isqrt(bins - 1) + 1
    if not 1 < width < bins:
        return 1
    # With two columns a count has twice the standard deviation.
    worst = [
        columns * math.sqrt(tree.largest_prefix_variance())
        for columns, tree in ((1, BinTree(bins, 1)), (2, BinTree(bins, width)))
    ]
    return 1 if worst[0] <= worst[1] else width
