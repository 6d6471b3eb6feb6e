"""Analysis of the histogram with users' dummies (Luo, Wang, Yi 2022): exact on every dataset (K15).

The true values of all others may be public: they are subtracted. What hides a change from a to b is
the numbers of dummies of these two symbols, M_a and M_b, and the likelihood ratio at counts (u, v)
is u/v. So certified and attained are the two sides of one mean, the distance of two values does not
matter, and the guarantee does not depend on the dataset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.bounds.blanketed import BlanketedCounts
from shuffledp_core.mechanisms import DummyHistogram
from shuffledp_core.mechanisms.dummies import MOST_SLOTS
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import Bounds, CorruptedBounds, Setting
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.inversion import attained_epsilon, certified_epsilon
from shuffledp_privacy.primitives.responses import (
    blanket_for,
    response_bounds,
    response_error,
    response_likelihood,
)
from shuffledp_privacy.primitives.tails import MARGIN, inward
from shuffledp_privacy.primitives.trinomial import TrinomialTable, trinomial_table
from shuffledp_privacy.rounds.subsampling import reflect_curve, subsampled_curve
from shuffledp_privacy.sums.common import check_epsilon

LARGEST_EPSILON = 700.0
"""Beyond it e^ε overflows: δ is certified as it is here, and nothing is attained."""

MOST_POINTS = 1_000_000
"""Most rows times epsilons of one evaluation of a curve."""

TAIL = 1e-30
"""Mass outside each window of the two numbers of dummies; it is added to δ."""

BASIS = "K15: exact on every dataset, the others' values may be public; every change is the same"


BLANKETED = (
    "K16: the value goes through k-RR first; dummies and the uniform reports of honest users hide "
    "the report"
)


@dataclass(frozen=True, slots=True)
class DummyPair:
    """Counts (1 + M_a, M_b) and (M_a, 1 + M_b), with M the dummies of the honest users' slots.

    Attributes:
        slots: h s.
        spec: the mechanism.
    """

    slots: int
    spec: DummyHistogram

    @property
    def table(self) -> TrinomialTable:
        """Tables of two cells, for one slot more than there is (K15)."""
        return _table(self.slots, self.spec)

    def upper(self, epsilons: Floats) -> Floats:
        """Upper bound of δ at each ε >= 0; same shape, (epsilons,)."""
        table = self.table
        growth = np.exp(np.minimum(epsilons, LARGEST_EPSILON)) * (1 - 2.0**-50)
        means = np.empty(epsilons.size)
        chunk = max(1, MOST_POINTS // table.a.size)
        for start in range(0, epsilons.size, chunk):
            part = growth[start : start + chunk]
            means[start : start + chunk] = table.upper(
                np.ones(part.size), part, np.zeros(part.size)
            )
        deltas = means / self._mean + table.outer
        return np.asarray(np.minimum(np.nextafter(deltas * (1 + MARGIN), math.inf), 1.0))

    def delta_above(self, epsilon: float) -> float:
        """δ at ε >= 0, never below the truth."""
        return float(self.upper(np.array([epsilon]))[0])

    def delta_below(self, epsilon: float) -> float:
        """δ at ε >= 0, never above the truth."""
        if epsilon > LARGEST_EPSILON:
            return 0.0
        growth = np.array([math.exp(epsilon) * (1 + 2.0**-50)])
        mean = float(self.table.lower(np.ones(1), growth, np.zeros(1))[0])
        return min(inward(mean / self._mean), 1.0)

    @property
    def _mean(self) -> float:
        return float((self.slots + 1) * self.spec.dummy_rate)


@lru_cache(maxsize=4)
def _table(slots: int, spec: DummyHistogram) -> TrinomialTable:
    rate = spec.dummy_rate
    rest = 1 - rate
    return trinomial_table(
        slots + 1, float(rate), float(rate / rest), float((rest - rate) / rest), TAIL
    )


@dataclass(frozen=True, slots=True)
class BlanketedPair:
    """A report of k-RR among dummies, and among the uniform reports of the honest users (K16).

    Attributes:
        counts: the report, and what hides it.
        open_pair: the pair for the true value without k-RR, ignoring the reports of others.
    """

    counts: BlanketedCounts
    open_pair: DummyPair

    def upper(self, epsilons: Floats) -> Floats:
        """Upper bound of δ at each ε >= 0; same shape, (epsilons,)."""
        exact = [self.counts.certified_delta(float(epsilon)) for epsilon in epsilons]
        amplified = subsampled_curve(self.open_pair.upper, 1 - self.counts.blanket)(epsilons)
        return np.minimum(exact, amplified)

    def delta_above(self, epsilon: float) -> float:
        """δ at ε >= 0, never below the truth."""
        return float(self.upper(np.array([epsilon]))[0])

    def delta_below(self, epsilon: float) -> float:
        """δ at ε >= 0, never above the truth."""
        return self.counts.attained_delta(epsilon)


@analyses(DummyHistogram)
@dataclass(frozen=True, slots=True)
class DummyAnalysis(Analysis):
    """Analysis of true values among users' dummies."""

    spec: DummyHistogram
    grows_with_distance = True  # all changes of a value are the same change

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        pair = self._pair(setting)
        certified = pair.delta_above(epsilon)
        return Bounds(certified, min(pair.delta_below(epsilon), certified), None, self._basis)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        pair = self._pair(setting)
        ceiling = self.corrupted_bounds(setting, delta).epsilon
        certified = self.certified_epsilon(setting, delta)
        attained = attained_epsilon(pair.delta_below, delta, ceiling)
        return Bounds(certified, min(attained, certified), None, self._basis)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        ceiling = self.corrupted_bounds(setting, delta).epsilon
        return certified_epsilon(self._pair(setting).delta_above, delta, ceiling)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """No guarantee without k-RR, because a message is the value; with k-RR, its ε_L."""
        del setting, delta
        if self.spec.blanket:
            return response_bounds(self.spec)
        words = "K15: with every node corrupt the value is in the open"
        return CorruptedBounds(math.inf, 0.0, (words,))

    def standard_error(self, users: int) -> float:
        """Standard error of every count, from its dummies, and from k-RR at the worst values."""
        rate = self.spec.dummy_rate
        dummies = math.sqrt(users * self.spec.slots * float(rate * (1 - rate)))
        return math.hypot(dummies / float(1 - self.spec.blanket), response_error(self.spec, users))

    def curve(self, setting: Setting, distance: int, epsilons: NDArray[np.float64]) -> Floats:
        """δ at each total ε by K15.

        Each pair is symmetric, so δ(-ε) = 1 - e^-ε + e^-ε δ(ε).
        """
        del distance
        flat = np.asarray(epsilons, dtype=np.float64)
        sizes, index = np.unique(np.abs(flat), return_inverse=True)
        falling = self._pair(setting).upper(sizes)
        mirrored = reflect_curve(falling, sizes)
        index = index.reshape(flat.shape)
        return np.asarray(np.where(flat >= 0.0, falling[index], mirrored[index]))

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """The log-likelihood of k-RR; without k-RR, -inf for all values but the answer."""
        return response_likelihood(self.spec, answers)

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along the mean number of dummies per user, in the fewest slots.

        The error depends only on that mean, so that more slots would cost messages for nothing.
        """
        blanket = blanket_for(target.epsilon_local, target.bins)
        guess = 2 * target.bins * (deviations(target) / target.epsilon) ** 2 / target.honest

        def build(mean: Fraction) -> DummyHistogram:
            slots = min(math.ceil(mean), MOST_SLOTS)
            fill = min(mean / slots, Fraction(1))
            return DummyHistogram(symbols=target.bins, slots=slots, fill=fill, blanket=blanket)

        return Family(build, min(guess, MOST_SLOTS), float(MOST_SLOTS), rising=True)

    def _pair(self, setting: Setting) -> DummyPair | BlanketedPair:
        pair = DummyPair(setting.honest * self.spec.slots, self.spec)
        if not self.spec.blanket:
            return pair
        return BlanketedPair(self.spec.blanketed_counts(setting.honest), pair)

    @property
    def _basis(self) -> tuple[str, ...]:
        return (BLANKETED,) if self.spec.blanket else (BASIS,)
