"""Analysis of k-ary randomised response: certified, attained by one dataset, and published.

The bounds are those of `histogram.krr`. Every change of a value is the same change for k-RR, so
distances do not matter: under metric adjacency the worst distance is 1 and the numbers are those of
the standard adjacency (K7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import (
    Target,
)
from shuffledp_privacy.histogram.blanket import law_of
from shuffledp_privacy.histogram.krr import (
    PRINTED_FORMULA,
    as_bits,
    attained_delta,
    certified_delta,
    epsilon0_to_blanket,
    positive_curve,
    printed_curve,
)
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.responses import blanket_for
from shuffledp_privacy.primitives.tails import outward
from shuffledp_privacy.rounds.subsampling import reflect_curve


@analyses(KRRHistogram)
@dataclass(frozen=True, slots=True)
class KRRAnalysis(Analysis):
    """Analysis of shuffled k-ary randomised response."""

    spec: KRRHistogram
    grows_with_distance = True  # all changes of a value are the same change

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        if not epsilon >= 0.0:
            raise UsageError(f"epsilon must be at least 0, not {epsilon}")
        law = law_of(self.spec)
        certified, words = certified_delta(law, setting.honest)
        attained = 0.0 if epsilon >= law.epsilon0 else attained_delta(law, setting.honest)(epsilon)
        curve = printed_curve(law, setting)
        published = None if curve is None or epsilon <= 0.0 else curve(epsilon)
        delta, bits = certified(epsilon), as_bits(self.spec, setting)
        if bits is not None and delta > 0.0:
            delta = min(delta, bits.delta(epsilon)[0])
        return _bounds(delta, min(attained, delta), published, words)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        law = law_of(self.spec)
        _, words = certified_delta(law, setting.honest)
        certified = self.certified_epsilon(setting, delta)
        attained = attained_epsilon(attained_delta(law, setting.honest), delta, law.epsilon0)
        printed = printed_curve(law, setting)
        published = None
        if printed is not None:
            # The printed sum starts above ε = 0.
            published = certified_epsilon(
                lambda epsilon: printed(max(epsilon, 1e-12)), delta, law.epsilon0
            )
        return _bounds(certified, attained, published, words)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        law = law_of(self.spec)
        curve, _ = certified_delta(law, setting.honest)
        certified, bits = certified_epsilon(curve, delta, law.epsilon0), as_bits(self.spec, setting)
        if bits is not None and certified > 0.0:
            certified = min(certified, bits.epsilon(delta)[0])
        return certified

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        del setting, delta  # every change is the same change, and the guarantee is pure
        return CorruptedBounds(
            law_of(self.spec).epsilon0, 0.0, ("k-RR is ε0-LDP, pure, for every change (K7)",)
        )

    def standard_error(self, users: int) -> float:
        """Standard error of one count (N_s - n q)/(p - q) at the worst dataset; inf for γ = 1."""
        law = law_of(self.spec)
        signal = float(1 - self.spec.blanket)
        # The variance N_s p(1-p) + (n - N_s) q(1-q) is linear in N_s, so that an end is the worst.
        spread = max(law.p * (1 - law.p), law.q * (1 - law.q))
        return math.sqrt(users * spread) / signal if signal > 0.0 else math.inf

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, by K1 and K6.

        Both dominating pairs are symmetric, so δ(-ε) = 1 - e^-ε + e^-ε δ(ε) (K7).
        """
        del distance
        law = law_of(self.spec)
        size, inverse = np.unique(
            np.abs(np.asarray(epsilons, dtype=np.float64)), return_inverse=True
        )
        rising = np.array([outward(value) for value in positive_curve(law, setting.honest, size)])
        rising = np.where(size >= law.epsilon0, 0.0, np.minimum(rising, 1.0))
        mirrored = reflect_curve(rising, size)
        inverse = inverse.reshape(np.shape(epsilons))
        return np.asarray(np.where(epsilons >= 0.0, rising[inverse], mirrored[inverse]))

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of γ/k + 1 - γ for the true symbol, and of γ/k for any other."""
        other = float(self.spec.blanket / self.spec.symbols)
        table = np.full((len(answers), self.spec.symbols), np.log(other))
        table[np.arange(len(answers)), answers] = np.log(other + float(1 - self.spec.blanket))
        return table

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along γ; the safest one meets the target without a shuffle."""
        local = min(target.epsilon / target.rounds, 25.0)
        safest = float(epsilon0_to_blanket(local, target.bins))
        guess = 2 * target.bins * (deviations(target) / target.epsilon) ** 2 / target.honest
        least = blanket_for(target.epsilon_local, target.bins)
        return Family(
            lambda g: KRRHistogram(symbols=target.bins, blanket=min(max(g, least), Fraction(1))),
            guess,
            safest,
            rising=True,
        )


def _bounds(certified: float, attained: float, published: float | None, words: str) -> Bounds:
    formula = "" if published is None else PRINTED_FORMULA
    return Bounds(certified, attained, published, (words,), formula)
