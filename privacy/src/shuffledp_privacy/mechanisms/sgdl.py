"""Bounds for sgdl-shuffle: every user adds a share of one discrete Laplace noise.

Source: Athanasiou et al. 2025, Algorithm 4.

Certified: the exact law SGDL(h/shares, φ) of the honest noise, also where too few honest users are
left, plus clamping (docs/accounting.md, Propositions S1-S9). Published: Theorem 5.1 claims ε =
noise_epsilon per unit at any δ; it neglects that clamping changes both datasets and rests on a
wrong padding (S13): no guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Mechanism, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
)
from shuffledp_privacy.calibration.families import Family, guess_of_whole_noise, pure_rate
from shuffledp_privacy.calibration.proposal import NoiseShares, least_padding, total_needed
from shuffledp_privacy.calibration.target import (
    Target,
)
from shuffledp_privacy.mechanisms.padded import PaddedAnalysis, attained_delta, attained_epsilon
from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.table import build_table
from shuffledp_privacy.rounds.shifts import Farthest
from shuffledp_privacy.splitting import among_rounds, between_clamping_and_noise, own_tail
from shuffledp_privacy.sums import attained
from shuffledp_privacy.sums.attained_tilted import ComparedReports, Reports, two_datasets
from shuffledp_privacy.sums.common import (
    check_epsilon,
    distances,
    downward,
    is_metric,
)
from shuffledp_privacy.sums.errors import ErrorLaw, sgdl_error
from shuffledp_privacy.sums.sgdl import (
    any_clamped,
    local_total,
    noise_basis,
    noisy_sum,
    share_law,
)
from shuffledp_privacy.sums.worst import worst_delta, worst_epsilon

_FORMULA = (
    "Theorem 5.1 of Athanasiou et al. 2025, false for larger distances and with its padding (S13)"
)


@analyses(SGDLShuffle)
@dataclass(frozen=True, slots=True)
class SGDLAnalysis(PaddedAnalysis):
    """Analysis of shares of one discrete Laplace noise, clamped and shuffled."""

    spec: SGDLShuffle
    grows_with_distance = True  # a larger change of the sum is easier to see (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = noisy_sum(self.spec, setting)
        exact = _exact(self.spec, setting.honest, item.d_max)
        clamped = any_clamped(self.spec, setting)
        compare = partial(_compare_reports, self.spec, setting.honest)
        low = attained_delta(item, exact, clamped, compare, epsilon)
        return Bounds(
            worst_delta(item, epsilon),
            downward(low),
            None,
            _basis(self.spec, setting),
        )

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        check_delta(delta, pure=True)
        item = noisy_sum(self.spec, setting)
        certified = worst_epsilon(item, delta)
        low = 0.0
        if delta > 0.0:
            exact = _exact(self.spec, setting.honest, item.d_max)
            clamped = any_clamped(self.spec, setting)
            compare = partial(_compare_reports, self.spec, setting.honest)
            near = certified * (item.d_max if item.metric else 1)
            low = attained_epsilon(item, exact, clamped, compare, delta, near)
        published = float(self.spec.noise_epsilon) * (1 if item.metric else item.d_max)
        return Bounds(certified, downward(low), published, _basis(self.spec, setting), _FORMULA)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta, pure=True)
        return worst_epsilon(noisy_sum(self.spec, setting), delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        d_max = distances(self.spec.max_value, setting)
        epsilon = local_total(
            self.spec.noise_epsilon, self.spec.shares, 1 if is_metric(setting) else d_max
        )
        return CorruptedBounds(
            epsilon, 0.0, ("S8: one clamped report, ln P(N=0)/P(N=d), largest per unit at d = 1",)
        )

    def standard_error(self, users: int) -> float:
        """Worst root mean squared error: sqrt(2 n r φ)/(1 - φ) and the bias of clamping.

        docs/accounting.md, S17.
        """
        rate = float(self.spec.noise_epsilon)
        deviation = (
            math.sqrt(2.0 * users / self.spec.shares) * math.exp(-rate / 2) / -math.expm1(-rate)
        )
        return math.hypot(deviation, users * self.spec.bias)

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:
        """δ at each total ε, for a change by exactly `distance`."""
        item = noisy_sum(self.spec, setting)
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        return item.points(distance, epsilons)

    def farthest(self, setting: Setting) -> Farthest | None:
        """The round at its largest distance, if that is proved the worst to compose; else None."""
        noise = noisy_sum(self.spec, setting)
        # Less than one whole noise has a spike at 0, and so has what clamping leaves of shares:
        # their largest distance need not be the worst.
        return replace(noise, kept=None) if noise.log_concave else None

    def error_law(self, users: int, total: int) -> ErrorLaw:  # noqa: ARG002
        """Law of the error of the debiased sum, if no noise is clamped."""
        return sgdl_error(users / self.spec.shares, float(self.spec.noise_epsilon))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along ε of one whole noise, shared by all honest users."""
        safest = pure_rate(target)

        def build(epsilon: Fraction) -> Mechanism:
            padding = _padding(
                target, NoiseShares(float(epsilon), 1 / target.honest, target.honest)
            )
            return SGDLShuffle(
                max_value=target.largest,
                noise_epsilon=epsilon,
                shares=target.honest,
                padding=padding,
            )

        return Family(build, guess_of_whole_noise(target, safest), safest, rising=False)


def _basis(spec: SGDLShuffle, setting: Setting) -> tuple[str, ...]:
    return (
        noise_basis(spec.shares, setting.honest),
        "S1-S5: exact divergence, worst distance",
        "S6-S7: clamping, δ1 (1 + e^E), honest users only; S6b: at large δ the shares that are "
        "not clamped alone",
        "S8: never more than one clamped report alone",
    )


@lru_cache(maxsize=8)
def _exact(spec: SGDLShuffle, honest: int, d_max: int) -> attained.ClampedSum | None:
    law = share_law(spec.noise_epsilon, spec.shares)
    if law is None or 4 * law.last > attained.LONGEST:
        return None
    half = np.exp(law.log_pmf)
    pmf = np.concatenate([half[:0:-1], half])
    # Weights err relative to P(0), so that only the mass off 0 is uncertain.
    relative = law.margin + 16 * UNIT * (2 + 1 / float(spec.noise_epsilon))
    inexact = 4 * relative * (1 - float(half[0])) + 16 * UNIT
    return attained.clamped_sum(
        attained.Clamped(pmf, spec.padding, spec.max_value), honest, d_max, inexact
    )


@lru_cache(maxsize=8)
def _compare_reports(spec: SGDLShuffle, honest: int, distance: int) -> tuple[ComparedReports, ...]:
    """Tilted laws for a change by this distance, with all others at 0 or in the middle.

    None if they are too wide.
    """
    law, reach = share_law(spec.noise_epsilon, spec.shares), spec.max_value + spec.padding
    if law is None or 4 * max(reach, law.last) > attained.LONGEST:
        return ()
    if reach > law.last:
        law = build_table(law.shape, law.ratio, reach)
    rate = float(spec.noise_epsilon)
    relative = law.margin + UNIT * (16 + 4 * rate * reach)
    user = Reports(law.log_pmf, law.log_tail, spec.padding, spec.max_value, rate, relative)
    return two_datasets(user, honest, distance)


def _padding(target: Target, noise: NoiseShares) -> int:
    """A padding at which clamping the largest change uses only its share of δ."""
    units = 1 if target.adjacency is Adjacency.STANDARD else target.reach
    if target.rounds == 1:
        total = total_needed(noise, target.reach, between_clamping_and_noise(target.delta).noise)
        total = min(total, target.epsilon * units)
    else:
        # Each round of several is needed up to where its own tail is far below δ.
        total = total_needed(noise, target.reach, own_tail(target.delta, target.rounds))
    clamping = between_clamping_and_noise(among_rounds(target.delta, target.rounds)).clamping
    return least_padding(noise, total, clamping, target.largest)
