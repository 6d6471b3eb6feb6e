"""Analysis of split-mix (Balle et al. 2020): a sum with one discrete Laplace noise, unclamped.

Certified: the exact law SGDL(h/shares, φ) of the honest noise, as for sgdl-shuffle, and, where
clamping has its cost there, the distance τ of the shuffled pieces from uniform ones of the same sum
(docs/accounting.md, Proposition S19).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Mechanism, SplitMix
from shuffledp_core.mechanisms.split import WRAPPED
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
)
from shuffledp_privacy.calibration.families import Family, guess_of_whole_noise, pure_rate
from shuffledp_privacy.calibration.target import (
    AIM,
    Target,
    excess_of_delta,
)
from shuffledp_privacy.mechanisms.padded import noise_table
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.rounds.shifts import Farthest
from shuffledp_privacy.sums import attained, sgdl
from shuffledp_privacy.sums.common import (
    NoisySum,
    check_epsilon,
    distances,
    downward,
    is_metric,
)
from shuffledp_privacy.sums.mixing import least_pieces
from shuffledp_privacy.sums.split import mixing_security, noisy_sum, wide_modulus
from shuffledp_privacy.sums.worst import tried_distances, worst_delta, worst_epsilon


@analyses(SplitMix)
@dataclass(frozen=True, slots=True)
class SplitMixAnalysis(Analysis):
    """Analysis of random pieces of noisy values, shuffled."""

    spec: SplitMix
    grows_with_distance = True  # a larger change of the sum is easier to see (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = noisy_sum(self.spec, setting)
        low = max(
            attained.attained_delta(
                None, item.noise, WRAPPED, d, epsilon * (d if item.metric else 1)
            )
            for d in tried_distances(item)
        )
        certified = worst_delta(item, epsilon)
        return Bounds(
            certified, min(downward(low), certified), None, _basis(self.spec, setting, item)
        )

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        check_delta(delta, pure=True)
        item = noisy_sum(self.spec, setting)
        low = 0.0
        if delta > 0.0:
            steps = tried_distances(item)
            # The sum modulo q on threshold events, less what wraps: S9 with that in place of what
            # is clamped.
            totals = attained.attained_totals(None, item.noise, WRAPPED, steps, delta)
            low = max(
                total / (d if item.metric else 1) for total, d in zip(totals, steps, strict=True)
            )
        certified = self.certified_epsilon(setting, delta)
        return Bounds(
            certified, min(downward(low), certified), None, _basis(self.spec, setting, item)
        )

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta, pure=True)
        return worst_epsilon(noisy_sum(self.spec, setting), delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        d_max = distances(self.spec.max_value, setting)
        epsilon = sgdl.local_total(
            self.spec.noise_epsilon, self.spec.shares, 1 if is_metric(setting) else d_max
        )
        words = (
            "S8: one user's pieces add up to its value and its own share of the noise, which is 0 "
            "for nearly everybody: ln P(N=0)/P(N=d)"
        )
        return CorruptedBounds(epsilon, 0.0, (words,))

    def standard_error(self, users: int) -> float:
        """Standard deviation of the noise of all users: sqrt(2 n r φ)/(1 - φ).

        Nothing is clamped, so there is no bias.
        """
        rate = float(self.spec.noise_epsilon)
        return math.sqrt(2.0 * users / self.spec.shares) * math.exp(-rate / 2) / -math.expm1(-rate)

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:
        """δ at each total ε, for a change by exactly `distance`."""
        item = noisy_sum(self.spec, setting)
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        return item.points(distance, np.asarray(epsilons, dtype=np.float64))

    def excess(self, target: Target) -> float | None:
        """Excess of the certified δ over the target, without the attained bound."""
        if target.rounds > 1:
            return None
        delta = worst_delta(noisy_sum(self.spec, target.setting), target.epsilon * AIM)
        return excess_of_delta(delta, target)

    def farthest(self, setting: Setting) -> Farthest | None:
        """The round at its largest distance, if that is proved the worst to compose; else None."""
        noise = noisy_sum(self.spec, setting)
        return noise if noise.log_concave else None

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log-probability of the noise from x to the answer modulo q, up to wraps of mass 1e-17."""
        law = noise_table(self.spec.noise_epsilon, self.spec.shares)
        noise = np.asarray(
            (answers[:, None] - np.arange(self.spec.domain)) % self.spec.modulus, dtype=np.float64
        )
        turns = 1 + math.ceil(40 / (float(self.spec.noise_epsilon) * self.spec.modulus))
        log_mass = law.mass(noise).low
        for turn in range(1, turns + 1):
            for way in (-turn, turn):
                log_mass = np.logaddexp(log_mass, law.mass(noise + way * self.spec.modulus).low)
        return np.asarray(log_mass, dtype=np.float64)

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along ε of one whole noise, with least pieces and modulus."""
        safest = pure_rate(target)
        total = target.epsilon * (1 if target.adjacency is Adjacency.STANDARD else target.reach)
        security = mixing_security(total, target.delta, target.rounds)

        def build(epsilon: Fraction) -> Mechanism:
            modulus = wide_modulus(
                target.largest, epsilon, target.honest, target.most_users or target.users
            )
            return SplitMix(
                max_value=target.largest,
                noise_epsilon=epsilon,
                shares=target.honest,
                modulus=modulus,
                pieces=least_pieces(target.honest, modulus, security),
            )

        return Family(build, guess_of_whole_noise(target, safest), safest, rising=False)


def _basis(spec: SplitMix, setting: Setting, item: NoisySum) -> tuple[str, ...]:
    return (
        sgdl.noise_basis(spec.shares, setting.honest),
        "S1-S5: exact divergence, worst distance",
        f"S19: {spec.pieces} pieces of {setting.honest} honest users show their sum and no more, "
        f"but for {item.clamped:.2g} (1 + e^E)",
        "S8: never more than one noisy value alone",
        "one lost, doubled or altered message voids the sum, and one user who lies moves it "
        "anywhere",
    )
