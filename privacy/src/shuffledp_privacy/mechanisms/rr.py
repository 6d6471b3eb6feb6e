"""Analysis of rr-shuffle (Athanasiou et al. 2025, Algorithm 2), by the bounds of `sums.rr`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.bounds.windows import binomial_masses
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
    epsilon_bounds,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import (
    AIM,
    Target,
    excess_of_delta,
    excess_of_rounds,
)
from shuffledp_privacy.primitives.bits import BitPair
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.pairs import hockey_stick
from shuffledp_privacy.rounds.shifts import Farthest
from shuffledp_privacy.sums import rr
from shuffledp_privacy.sums.common import (
    alone,
    check_epsilon,
    distances,
    downward,
    is_metric,
    probes,
)
from shuffledp_privacy.sums.errors import ErrorLaw, bits_error
from shuffledp_privacy.sums.rr import (
    WORTH_A_DELTA,
    bit_shuffle,
    block_curve,
    local_epsilon,
    nodes_of,
    published_epsilon,
)

_BASIS = (
    "S10: exact divergence for every number of ones among the other bits, both directions",
    "S4-S5: certified maximum over them; the largest distance is the worst, or all other bits are "
    "1",
    "S10: never more than ln((2-p)/p) per unit, at δ = 0",
)

_FORMULA = "Theorem 3.1 of Athanasiou et al. 2025, false for larger distances (S11)"


@analyses(RRShuffle)
@dataclass(frozen=True, slots=True)
class RRAnalysis(Analysis):
    """Analysis of a unary code with flipped bits, shuffled."""

    spec: RRShuffle
    grows_with_distance = True  # the bits of a larger change include those of a smaller one (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = bit_shuffle(self.spec, setting)
        if epsilon >= item.per_unit * (1 if item.metric else item.d_max):
            return Bounds(0.0, 0.0, None, _BASIS)
        certified, low = item.delta(epsilon)
        return Bounds(certified, downward(low), None, _BASIS)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        check_delta(delta, pure=True)
        item = bit_shuffle(self.spec, setting)
        local = item.per_unit * (1 if item.metric else item.d_max)
        if delta == 0.0:
            # Exact: the outcome without any one has this ratio on every dataset.
            return Bounds(local, downward(local), None, _BASIS)
        certified, low = item.epsilon(delta)
        published = published_epsilon(self.spec, setting.users, delta) if item.metric else None
        return Bounds(min(certified, local), downward(low), published, _BASIS, _FORMULA)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """ε_L of the number of ones in a report; the bits' order is hidden (S10)."""
        d_max = distances(self.spec.max_value, setting)
        pure = local_epsilon(self.spec) * (1 if is_metric(setting) else d_max)
        report = bit_shuffle(self.spec, alone(setting))
        worth = WORTH_A_DELTA * pure
        # Where this δ is not certified a little below the pure ε, or some dataset needs nearly that
        # one, there is no smaller one to search for.
        if delta > 0.0 and report.known_delta(worth) <= delta and report.delta(worth)[0] <= delta:
            epsilon = epsilon_bounds(self.spec, alone(setting), delta).certified
            if epsilon < worth:
                return CorruptedBounds(
                    epsilon,
                    delta,
                    ("S10: one report is a number of ones, analysed as one user's sum",),
                )
        return CorruptedBounds(
            pure, 0.0, ("S10: one report is a number of ones, d ln((2-p)/p) at δ = 0, exact",)
        )

    def standard_error(self, users: int) -> float:
        """Standard error sqrt(n k (p/2)(1 - p/2))/(1 - p) of the debiased sum; inf at p = 1."""
        p = float(self.spec.randomise)
        if p == 1.0:
            return math.inf
        return math.sqrt(users * self.spec.max_value * p / 2 * (1 - p / 2)) / (1 - p)

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:
        """δ at each total ε, for a change by exactly `distance`."""
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        item = bit_shuffle(self.spec, setting)
        size = np.abs(epsilons)
        nodes, spread = nodes_of(size)
        upper = spread(block_curve(item, distance, nodes))
        return np.where(
            epsilons >= 0, upper, np.clip(1.0 - np.exp(-size) * (1.0 - upper), 0.0, 1.0)
        )

    def excess(self, target: Target) -> float:
        """Excess on the datasets known to be nearly the worst.

        The certificate covers all datasets, and is computed once at the end.
        """
        item = rr.bit_shuffle(self.spec, target.setting)
        if target.rounds > 1:
            return excess_of_rounds(
                item.ends_curve, lambda distance: item.per_unit * distance, target
            )
        steps = np.repeat(
            np.array(probes(item.d_max) if item.metric else [item.d_max], dtype=np.float64), 2
        )
        # All other bits 0, and all 1. A certificate is up to `rr.SLACK` above what they attain.
        zeros = np.where(np.arange(steps.size) % 2 == 0, item.bits - steps, 0.0)
        pairs = BitPair(zeros, item.bits - steps - zeros, steps, item.flip)
        goal = (
            target.epsilon * AIM / (1 + rr.SLACK) * (steps if item.metric else np.ones_like(steps))
        )
        delta = float(
            np.where(goal < item.per_unit * steps, hockey_stick(pairs, goal).upper, 0.0).max()
        )
        return excess_of_delta(delta, target)

    def farthest(self, setting: Setting) -> Farthest | None:
        """The round at its largest distance, if that is proved the worst to compose; else None."""
        bits = rr.bit_shuffle(self.spec, setting)
        return FlippedBits(bits) if bits.continues else None

    def error_law(self, users: int, total: int) -> ErrorLaw:
        """Law of the error of the debiased sum, if no noise is clamped."""
        return bits_error(users * self.spec.max_value, total, float(self.spec.randomise))

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of the law of a sum of two binomials: ones kept, and zeros flipped.

        Each of x ones stays with probability 1 - p/2, each of k - x zeros turns with p/2.
        """
        flip, k = self.spec.randomise / 2, self.spec.max_value
        table = np.empty((len(answers), k + 1))
        for value in range(k + 1):
            stay = binomial_masses(value, 1 - flip, 0, value)
            turn = binomial_masses(k - value, flip, 0, k - value)
            table[:, value] = np.convolve(stay, turn)[answers]
        with np.errstate(divide="ignore"):
            return np.log(table)

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along p; the safest one meets the target without a shuffle."""
        units = target.reach if target.adjacency is Adjacency.STANDARD else 1
        local = target.epsilon / units / target.rounds
        safest = 2 / (1 + math.exp(local)) * (1 + 1e-4)
        need = deviations(target) * units / target.epsilon
        guess = 2 * need**2 / (target.honest * target.largest)
        return Family(
            lambda p: RRShuffle(max_value=target.largest, randomise=min(p, Fraction(1))),
            guess,
            min(1.0, safest),
            rising=True,
        )


@dataclass(frozen=True, slots=True)
class FlippedBits:
    """A round of rr-shuffle at its largest distance; nothing is clamped."""

    bits: rr.BitShuffle
    kept: None = None

    @property
    def d_max(self) -> int:
        """The largest distance."""
        return self.bits.d_max

    def unclamped_deltas(self, epsilons: Floats) -> Floats:
        """Certified δ at total ε >= 0 that covers every distance."""
        return self.bits.farthest(epsilons)

    remaining_deltas = unclamped_deltas

    def least_delta(self) -> float:
        """Smallest possible δ of the round: 0, because no noise is clamped."""
        return 0.0
