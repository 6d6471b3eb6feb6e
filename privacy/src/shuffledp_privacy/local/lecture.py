"""Mechanisms of a lecture (Wang, lecture 9): local model, RAPPOR, Cheu's one-bit binary sum.

Local mechanisms need no shuffler; their guarantee holds against every adversary, so certified and
attained agree and `corrupted_bounds` is the same number. To see one of them shuffled, put its ε0 in
`clones.LocalRandomiser`, or use `KRRHistogram` and `RRShuffle`, which are analysed exactly.
docs/accounting.md, propositions C8 and C9.

Parameters are floats: these specs are for comparison and teaching and are never sampled on a
device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    epsilon_bounds,
)
from shuffledp_privacy.rounds.subsampling import reflect_curve

Floats: TypeAlias = NDArray[np.float64]

ROUNDING = 2.0**-44
"""Relative outward margin for sums of a few thousand positive terms and elementary functions."""

_LARGEST_EPSILON = 100.0
_MOST_DISTANCES = 10**6


def _check_local(epsilon: float, max_value: int) -> None:
    if not 0 < epsilon <= _LARGEST_EPSILON:
        raise UsageError(f"epsilon must be above 0 and at most {_LARGEST_EPSILON:g}, not {epsilon}")
    if not 1 <= max_value <= _MOST_DISTANCES:
        raise UsageError(f"max-value must be from 1 to {_MOST_DISTANCES:,}, not {max_value}")


@dataclass(frozen=True, slots=True)
class OneBitMean:
    """One-bit report of a value in {0..m} (Theorem 9.3; Ding 2017).

    It is 1 with probability (1 + (x/m)(e^ε - 1)) / (e^ε + 1).

    With m = 1 this is binary randomised response, true with probability e^ε/(e^ε + 1).

    Attributes:
        epsilon: local ε in nats for any change, above 0, at most 100.
        max_value: m, 1 to 1,000,000.
    """

    epsilon: float
    max_value: int = 1

    def __post_init__(self) -> None:
        _check_local(self.epsilon, self.max_value)

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..max_value}."""
        return self.max_value + 1


@dataclass(frozen=True, slots=True)
class LaplaceMean:
    """Report of a value in {0..m} plus continuous Laplace noise of scale m/ε (section 9.1).

    Attributes:
        epsilon: local ε in nats for the largest change, above 0, at most 100.
        max_value: m, 1 to 1,000,000.
    """

    epsilon: float
    max_value: int = 1

    def __post_init__(self) -> None:
        _check_local(self.epsilon, self.max_value)

    @property
    def domain(self) -> int:
        """Number of admissible inputs, {0..max_value}."""
        return self.max_value + 1


LocalMean: TypeAlias = OneBitMean | LaplaceMean


def binary_response(epsilon: float) -> OneBitMean:
    """Binary randomised response of the lecture, ε in nats, 0 < ε <= 100.

    Raises UsageError outside.
    """
    return OneBitMean(epsilon, 1)


def cheu_binary_sum(users: int, epsilon: float, delta: float) -> RRShuffle:
    """Cheu's one-bit sum with the lecture's p = ln(1/δ)/(n ε²) (9.2.2): one-bit RR-shuffle.

    The printed p is an order of magnitude, not a guarantee: certify the result.

    Args:
        users: n >= 1.
        epsilon: target in nats, above 0.
        delta: target, in (0, 1).

    Raises:
        UsageError: out of range, or where the formula asks for p > 1 (too few users).
    """
    if users < 1 or not epsilon > 0 or not 0 < delta < 1:
        raise UsageError(
            f"need users >= 1, epsilon > 0, 0 < delta < 1, not {users}, {epsilon}, {delta}"
        )
    randomise = math.log(1 / delta) / (users * epsilon**2)
    if randomise > 1:
        raise UsageError(
            f"{users} users are too few: the formula would need p = {randomise:.3g}, which is "
            "above 1"
        )
    return RRShuffle(max_value=1, randomise=Fraction(math.ceil(randomise * 2**40), 2**40))


def mean_variance(spec: LocalMean, values: Sequence[int]) -> float:
    """Exact variance, in squared units, of the unbiased estimate of the mean of `values` (C9).

    Args:
        spec: the mechanism.
        values: x_i in {0..max_value}, at least one.

    Raises:
        UsageError: for no values, or a value outside the domain.
    """
    if not values or min(values) < 0 or max(values) > spec.max_value:
        raise UsageError(f"values must be non-empty, each from 0 to {spec.max_value}")
    users, largest = len(values), spec.max_value
    if isinstance(spec, LaplaceMean):
        return 2 * (largest / spec.epsilon) ** 2 / users
    spread = largest / math.tanh(spec.epsilon / 2)
    ones = [
        (1 + x / largest * math.expm1(spec.epsilon)) / (math.exp(spec.epsilon) + 1) for x in values
    ]
    return math.fsum(spread**2 * q * (1 - q) for q in ones) / users**2


def _distances(setting: Setting, max_value: int) -> Floats:
    """Distances to cover: 1..d_max under metric adjacency, only the largest under standard."""
    largest = min(setting.max_distance or max_value, max_value)
    if setting.adjacency is Adjacency.STANDARD:
        return np.array([float(largest)])
    return np.arange(1.0, largest + 1)


def _units(setting: Setting, distances: Floats) -> Floats:
    return distances if setting.adjacency is Adjacency.METRIC else np.ones_like(distances)


def _check_delta(delta: float) -> None:
    if not 0 <= delta <= 1:
        raise UsageError(f"delta must be from 0 to 1, not {delta}")


_BASIS = ("C8: exact, local",)


def _one_bit_delta(spec: OneBitMean, distances: Floats, totals: Floats, margin: float) -> Floats:
    """δ of the worst pair at each distance for total ε >= 0 (C8), moved by the relative margin."""
    losses = np.log1p(distances / spec.max_value * math.expm1(spec.epsilon)) * (1 + margin)
    excess = np.maximum(losses - totals, 0.0)
    totals = np.minimum(totals, losses)
    # e^L - e^E by expm1: nothing cancels where E is near L.
    return np.exp(totals) * np.expm1(excess) / (math.exp(spec.epsilon) + 1) * (1 + margin)


def _laplace_delta(spec: LaplaceMean, distances: Floats, totals: Floats, margin: float) -> Floats:
    """δ at each distance for total ε >= 0 (C8), moved by the relative margin."""
    losses = distances * spec.epsilon / spec.max_value * (1 + margin)
    return -np.expm1(np.minimum(totals - losses, 0.0) / 2) * (1 + margin)


Formula: TypeAlias = Callable[[Any, Floats, Floats, float], Floats]


def _delta_bounds(formula: Formula, spec: LocalMean, setting: Setting, epsilon: float) -> Bounds:
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, not {epsilon}")
    distances = _distances(setting, spec.max_value)
    totals = epsilon * _units(setting, distances)
    high, low = (float(np.max(formula(spec, distances, totals, m))) for m in (ROUNDING, -ROUNDING))
    return Bounds(min(1.0, high), low, None, _BASIS)


def _epsilon_bounds(totals: Floats, units: Floats) -> Bounds:
    value = float(np.max(np.maximum(totals, 0.0) / units))
    return Bounds(value * (1 + ROUNDING), value * (1 - ROUNDING), None, _BASIS)


def _signed_curve(formula: Formula, spec: LocalMean, distance: int, epsilons: Floats) -> Floats:
    sizes = np.abs(epsilons)
    upper = np.minimum(formula(spec, np.full_like(sizes, distance), sizes, ROUNDING), 1.0)
    return np.where(epsilons < 0, reflect_curve(upper, sizes), upper)


class _LocalMeanAnalysis(Analysis):
    """Code shared by the analyses of both local means."""

    __slots__ = ()
    spec: LocalMean

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        return CorruptedBounds(epsilon_bounds(self.spec, setting, 0.0).certified, 0.0, _BASIS)

    def standard_error(self, users: int) -> float:
        """Standard error of the sum, at the worst value for the mechanism, the middle one."""
        return math.sqrt(users * mean_variance(self.spec, [self.spec.max_value // 2]))


@analyses(OneBitMean)
@dataclass(frozen=True, slots=True)
class OneBitMeanAnalysis(_LocalMeanAnalysis):
    """Exact analysis of the one-bit mean without a shuffler."""

    spec: OneBitMean

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        return _delta_bounds(_one_bit_delta, self.spec, setting, epsilon)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        _check_delta(delta)
        distances = _distances(setting, self.spec.max_value)
        # (e^ε + 1) δ may be nearly as large as the gain: the subtraction's own rounding is bounded
        # apart.
        gain = distances / self.spec.max_value * math.expm1(self.spec.epsilon)
        loss = delta * (math.exp(self.spec.epsilon) + 1)
        high = np.log1p(np.maximum(gain * (1 + ROUNDING) - loss * (1 - ROUNDING), 0.0))
        low = np.log1p(np.maximum(gain * (1 - ROUNDING) - loss * (1 + ROUNDING), 0.0))
        units = _units(setting, distances)
        return Bounds(
            _epsilon_bounds(high, units).certified,
            _epsilon_bounds(low, units).attained,
            None,
            _BASIS,
        )

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:  # noqa: ARG002
        """δ at each total ε, for a change by exactly `distance`."""
        return _signed_curve(_one_bit_delta, self.spec, distance, epsilons)


@analyses(LaplaceMean)
@dataclass(frozen=True, slots=True)
class LaplaceMeanAnalysis(_LocalMeanAnalysis):
    """Exact analysis of the Laplace mean without a shuffler."""

    spec: LaplaceMean

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        return _delta_bounds(_laplace_delta, self.spec, setting, epsilon)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        _check_delta(delta)
        if delta == 1:
            return Bounds(0.0, 0.0, None, _BASIS)
        distances = _distances(setting, self.spec.max_value)
        loss = distances * self.spec.epsilon / self.spec.max_value
        gift = 2 * math.log1p(-delta)
        high, low = (loss * (1 + r) + gift * (1 - r) for r in (ROUNDING, -ROUNDING))
        units = _units(setting, distances)
        return Bounds(
            _epsilon_bounds(high, units).certified,
            _epsilon_bounds(low, units).attained,
            None,
            _BASIS,
        )

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:  # noqa: ARG002
        """δ at each total ε, for a change by exactly `distance`."""
        return _signed_curve(_laplace_delta, self.spec, distance, epsilons)
