"""Analysis of geo-shuffle (Athanasiou et al. 2025, Algorithm 3).

Certified: the exact law SGDL(h, φ) of the honest noise, plus clamping (docs/accounting.md,
Propositions S1-S8). Published: Theorem 4.1 at d = 1, as printed, which is its best case and no
guarantee for larger d (S12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle, Mechanism
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
)
from shuffledp_privacy.calibration.clamped import (
    LESS_NOISE,
    biased_at_most,
    refuse_too_wide,
    wasting_little,
)
from shuffledp_privacy.calibration.families import Family, deviations, pure_rate
from shuffledp_privacy.calibration.target import (
    AIM,
    LOWEST,
    Target,
    composed_epsilon,
    excess_of_delta,
)
from shuffledp_privacy.mechanisms.padded import PaddedAnalysis, attained_delta, attained_epsilon
from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.noise import rounded_ratio, sum_noise
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.rounds.shifts import Farthest
from shuffledp_privacy.sums import attained
from shuffledp_privacy.sums.attained_tilted import ComparedReports, Reports, two_datasets
from shuffledp_privacy.sums.common import (
    check_epsilon,
    distances,
    downward,
    is_metric,
)
from shuffledp_privacy.sums.errors import ErrorLaw, sgdl_error
from shuffledp_privacy.sums.geo import any_clamped, noisy_sum, published_epsilon
from shuffledp_privacy.sums.kept import KeptNoise
from shuffledp_privacy.sums.worst import worst_delta, worst_epsilon

_BASIS = (
    "S1-S5: exact divergence of the honest users' noise SGDL(h, φ), worst distance",
    "S6: clamping, δ1 (1 + e^E), honest users only; S6b: or the noises that are not clamped alone",
    "S8: never more than one clamped report alone, ε_geo per unit",
)


_FORMULA = "Theorem 4.1 of Athanasiou et al. 2025 at d = 1, no guarantee for larger distances (S12)"

SPARE = 0.004
"""Share of the noise of geo-shuffle that is given for fewer messages, besides what its padding
wastes anyway.
"""


@analyses(GeoShuffle)
@dataclass(frozen=True, slots=True)
class GeoAnalysis(PaddedAnalysis):
    """Analysis of each user's discrete Laplace noise, clamped and shuffled."""

    spec: GeoShuffle
    grows_with_distance = True  # a larger change of the sum is easier to see (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = noisy_sum(self.spec, setting)
        exact = _exact(self.spec, setting.honest, item.d_max)
        clamped = any_clamped(self.spec, setting)
        compare = partial(_compare_datasets, self.spec, setting.honest)
        low = attained_delta(item, exact, clamped, compare, epsilon)
        return Bounds(worst_delta(item, epsilon), downward(low), None, _BASIS)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        check_delta(delta, pure=True)
        item = noisy_sum(self.spec, setting)
        certified = worst_epsilon(item, delta)
        low = 0.0
        if delta > 0.0:
            exact = _exact(self.spec, setting.honest, item.d_max)
            clamped = any_clamped(self.spec, setting)
            compare = partial(_compare_datasets, self.spec, setting.honest)
            units = item.d_max if item.metric else 1
            near = min(certified * units, item.local(item.d_max))
            low = attained_epsilon(item, exact, clamped, compare, delta, near)
        published = (
            published_epsilon(self.spec.epsilon_geo, setting.users, delta)
            if item.metric and delta > 0
            else None
        )
        return Bounds(certified, downward(low), published, _BASIS, _FORMULA)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta, pure=True)
        return worst_epsilon(noisy_sum(self.spec, setting), delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        d_max = distances(self.spec.max_value, setting)
        total = math.nextafter(float(self.spec.epsilon_geo), math.inf) * (
            1 if is_metric(setting) else d_max
        )
        return CorruptedBounds(
            math.nextafter(total, math.inf), 0.0, ("S8: one clamped report, pure ε_geo per unit",)
        )

    def standard_error(self, users: int) -> float:
        """Worst root mean squared error: sqrt(2 n φ)/(1 - φ) and the bias of clamping.

        docs/accounting.md, S17.
        """
        rate = float(self.spec.epsilon_geo)
        return math.hypot(
            math.sqrt(2.0 * users) * math.exp(-rate / 2) / -math.expm1(-rate),
            users * self.spec.bias,
        )

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:
        """δ at each total ε, for a change by exactly `distance`."""
        item = noisy_sum(self.spec, setting)
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        return item.points(distance, epsilons)

    def excess(self, target: Target) -> float:
        """Excess of the certified δ, or over rounds the certified ε, over the target (S6b)."""
        item = noisy_sum(self.spec, target.setting)
        if target.rounds > 1:
            units = target.reach if target.adjacency is Adjacency.METRIC else 1
            total = composed_epsilon(item.remaining_deltas, target)
            pure = item.pure * item.d_max * target.rounds
            return (
                max(math.log(min(total, pure) / (target.epsilon * units * AIM)), LOWEST)
                if total > 0
                else LOWEST
            )
        if isinstance(item.kept, KeptNoise) and item.kept.cells.lost > target.delta:
            # So many noises are clamped that no ε is enough by S6b, and for few users its bound
            # would take minutes.
            item = replace(item, kept=None)
        delta = worst_delta(item, target.epsilon * AIM)
        return excess_of_delta(delta, target)

    def farthest(self, setting: Setting) -> Farthest | None:
        """The round at its largest distance, if that is proved the worst to compose; else None."""
        return noisy_sum(self.spec, setting)

    def error_law(self, users: int, total: int) -> ErrorLaw:  # noqa: ARG002
        """Law of the error of the debiased sum, if no noise is clamped."""
        return sgdl_error(float(users), float(self.spec.epsilon_geo))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along ε_geo, with padding that wastes few messages."""
        units = target.reach if target.adjacency is Adjacency.STANDARD else 1
        safest = pure_rate(target)
        # Under about this tilt several rounds together reach ε.
        tilt = target.epsilon / units / target.rounds

        def least_padding(epsilon: Fraction) -> int:
            return biased_at_most(float(epsilon), target.users, target.largest)

        def build(epsilon: Fraction) -> Mechanism:
            padding = max(wasting_little(epsilon, tilt, target.largest), least_padding(epsilon))
            return GeoShuffle(max_value=target.largest, epsilon_geo=epsilon, padding=padding)

        guess = max(safest, min(_without_clamping(target, safest), 20.0))
        return Family(build, guess, safest, rising=False, spare=SPARE, least_padding=least_padding)


@lru_cache(maxsize=8)
def _exact(spec: GeoShuffle, honest: int, d_max: int) -> attained.ClampedSum | None:
    ratio = rounded_ratio(spec.epsilon_geo)
    # Beyond it lies at most 2 e^-75, about 5e-33.
    length = math.ceil(75.0 / max(-math.log(ratio), 1e-6)) if ratio > 0 else 1
    if 4 * length > attained.LONGEST:
        return None
    size = np.abs(np.arange(-length, length + 1, dtype=np.float64))
    pmf = np.exp(-size * float(spec.epsilon_geo))
    pmf /= pmf.sum()
    # Exponents up to 80, rounded twice; what lies beyond the end is lost.
    user = attained.Clamped(pmf, spec.padding, spec.max_value)
    return attained.clamped_sum(user, honest, d_max, 1e-32, 256 * UNIT)


@lru_cache(maxsize=8)
def _compare_datasets(spec: GeoShuffle, honest: int, distance: int) -> tuple[ComparedReports, ...]:
    """Tilted laws for a change by this distance, with all others at 0 or in the middle.

    None if they are too wide.
    """
    rate = float(spec.epsilon_geo)
    if 4 * (spec.max_value + spec.padding) > attained.LONGEST:
        return ()
    steps = np.arange(spec.max_value + spec.padding + 1, dtype=np.float64)
    falling = -rate * steps
    user = Reports(
        falling + math.log(math.tanh(rate / 2)),
        falling - math.log1p(math.exp(-rate)),
        spec.padding,
        spec.max_value,
        rate,
        UNIT * (16 - 4 * float(falling[-1])),
    )
    return two_datasets(user, honest, distance)


def _without_clamping(target: Target, safest: float) -> float:
    """Estimate of the largest sufficient ε_geo without clamping, less `wasting_little`'s loss."""
    units = target.reach if target.adjacency is Adjacency.STANDARD else 1
    total = target.epsilon * target.reach / units
    rate = target.epsilon * math.sqrt(2 * target.honest) / (deviations(target) * units)
    refuse_too_wide(max(rate, safest), target.largest)
    # What a change costs grows nearly in proportion to ε_geo.
    for _ in range(4):
        rate = min(max(rate, safest), 20.0)
        needed = _needed_without_clamping(target, _dyadic(rate))
        rate *= total / needed if needed > 0 else 2.0
    return max(min(rate, 20.0), safest) * (1 - LESS_NOISE)


def _dyadic(value: float) -> Fraction:
    """The value rounded to a few bits, so that a double represents it exactly."""
    bits = 30 + max(0, 1 - math.frexp(value)[1])
    return Fraction(max(1, round(math.ldexp(value, bits))), 2**bits)


def _needed_without_clamping(target: Target, epsilon: Fraction) -> float:
    """Total ε of the target's rounds for the largest change, if no sum were clamped; nats."""
    noise = sum_noise(Fraction(target.honest), epsilon)
    pure = float(epsilon) * target.reach * target.rounds
    if target.rounds == 1:
        return min(float(noise.least(np.array([target.reach]), target.delta, 0.0)[0][0]), pure)

    def curve(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return noise.divergence(np.full(epsilons.shape, target.reach), epsilons)[0]

    return min(
        compose_curves([Repeated(curve, target.rounds)], target.delta, 60).epsilon(target.delta),
        pure,
    )
