"""Bounds for the Hadamard histogram (Acharya, Sun, Zhang 2019), shuffled: one finite local
randomiser (K11, K13).

Any two rows of a Hadamard matrix are like any other two, so that the analysis of the local
randomiser looks at three values whatever the number of symbols. For two symbols there is no third
value to hold: both rows are written out.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.mechanisms import HadamardHistogram
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.local.encodings import HadamardResponse
from shuffledp_privacy.local.matrix import LocalMatrix


def local_randomiser(spec: HadamardHistogram) -> HadamardResponse | LocalMatrix:
    """The report of one user, as its analysis takes it."""
    own = 1 - spec.blanket / 2
    if spec.blanket == 1:  # nothing depends on the value
        return LocalMatrix(((Fraction(1),), (Fraction(1),)))
    if spec.symbols == 2:
        in_half, outside = own / 2, (1 - own) / 2
        return LocalMatrix(
            ((in_half, outside, in_half, outside), (in_half, in_half, outside, outside))
        )
    return HadamardResponse(order=spec.alphabet, own=own)


@delta_bounds.register
def _(spec: HadamardHistogram, setting: Setting, epsilon: float) -> Bounds:
    return delta_bounds(local_randomiser(spec), setting, epsilon)


@epsilon_bounds.register
def _(spec: HadamardHistogram, setting: Setting, delta: float) -> Bounds:
    return epsilon_bounds(local_randomiser(spec), setting, delta)


@corrupted_bounds.register
def _(spec: HadamardHistogram, setting: Setting, delta: float) -> CorruptedBounds:
    return corrupted_bounds(local_randomiser(spec), setting, delta)


@certified_curve.register
def _(
    spec: HadamardHistogram, setting: Setting, distance: int, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    return certified_curve(local_randomiser(spec), setting, distance, epsilons)


@standard_error.register
def _(spec: HadamardHistogram, users: int) -> float:
    """Standard error √n/(1 - γ) of one count that is 0, the worst: n halves are fair coins."""
    return math.sqrt(users) / float(1 - spec.blanket) if spec.blanket < 1 else math.inf
