"""A mechanism whose privacy curve is computed once and then read off a table, for the ledger's many compositions.

Every reservation composes all rounds so far, and a curve costs up to seconds. δ is a convex function of e^ε, so the
chord between two upper bounds of it is an upper bound; and it falls, so its last bound holds for ever after
(docs/accounting.md, proposition C3). The table is therefore never below the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_accountant.numerics.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    corrupted_bounds,
    epsilon_bounds,
)
from shuffledp_accountant.numerics.rounds.composition import grows_with_distance
from shuffledp_accountant.numerics.rounds.subsampling import reflected
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.privacy import Adjacency

NODES: Final = 400
"""Points of a table: for a Gaussian curve 1/30 of a standard deviation apart; the chords add less than 1 % to δ."""

REACH: Final = 2.5
"""The table ends at so many times ε(1e-6): for a Gaussian curve δ is 1e-31 there."""

TAIL_NODES: Final = 64
"""Points beyond the reach."""

LARGEST: Final = 80.0
"""No table goes further: e^ε is beyond counting."""

ROUNDING: Final = 2.0**-46
"""Relative outward margin for the interpolation's own roundings."""


@dataclass(frozen=True, slots=True)
class Tabulated:
    """A spec that answers as its mechanism does, but its curve from a table."""

    mechanism: Mechanism

    @property
    def domain(self) -> int:
        """Number of admissible inputs."""
        return self.mechanism.domain


@lru_cache(maxsize=1024)
def bounds_of(mechanism: Mechanism, setting: Setting, delta: float) -> Bounds:
    """`epsilon_bounds`, computed once."""
    return epsilon_bounds(mechanism, setting, delta)


@lru_cache(maxsize=1024)
def _table(mechanism: Mechanism, setting: Setting, distance: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(e^ε - 1, δ) at ε >= 0, for the total ε of a change by `distance`."""
    standard = Setting(setting.users, setting.honest, Adjacency.STANDARD, distance)
    try:
        reach = REACH * bounds_of(mechanism, standard, 1e-6).certified
    except CannotCertify:
        reach = 40.0
    reach = min(max(reach, 1e-3), LARGEST)
    epsilons = np.linspace(0.0, reach, NODES)
    # Clamping leaves a small δ up to the ε that even a report on its own keeps; from there on nothing.
    pure = min(corrupted_bounds(mechanism, standard, 0.0).epsilon * (1 + 1e-9), LARGEST)
    if pure > reach:
        epsilons = np.concatenate((epsilons, np.linspace(reach, pure, TAIL_NODES)[1:]))
    return np.expm1(epsilons), certified_curve(mechanism, setting, distance, epsilons)


@certified_curve.register
def _(spec: Tabulated, setting: Setting, distance: int, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    nodes, deltas = _table(spec.mechanism, setting, distance)
    sizes = np.abs(epsilons)
    with np.errstate(over="ignore"):  # beyond the table e^ε may be anything
        upper = np.minimum(np.interp(np.expm1(sizes), nodes, deltas) * (1 + ROUNDING), 1.0)
    return np.where(epsilons < 0, reflected(upper, sizes), upper)


@epsilon_bounds.register
def _(spec: Tabulated, setting: Setting, delta: float) -> Bounds:
    return bounds_of(spec.mechanism, setting, delta)


@corrupted_bounds.register
def _(spec: Tabulated, setting: Setting, delta: float) -> CorruptedBounds:
    return corrupted_bounds(spec.mechanism, setting, delta)


@grows_with_distance.register
def _(spec: Tabulated) -> bool:
    return grows_with_distance(spec.mechanism)
