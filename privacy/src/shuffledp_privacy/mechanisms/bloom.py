"""Analysis of RAPPOR with Bloom filters and cohorts, shuffled (K11, K17).

Erlingsson, Pihur, Korolova 2014.

Certified: two filters of h bits without a common bit cost at least as much as those of any two
symbols in any cohorts, so neither the hash functions nor the numbers of bits, cohorts and symbols
matter. Attained: three symbols of this very round, in those cohorts in which their filters share no
bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.answering.bloom import FilterShape, decoder_of
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import BloomRappor
from shuffledp_core.mechanisms.bloom import MOST_SYMBOLS
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    certified_epsilon,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.local.encodings import FilterResponse
from shuffledp_privacy.local.matrix import LocalMatrix
from shuffledp_privacy.primitives.contour import Floats

BITS: Final = 22

COHORTS: Final = 256
"""Calibrated plans have as many different reports as a message can carry."""

HASHES: Final = 1
"""More hashes have more noise at the same ε (K17, table)."""

MOST_TRIED: Final = 12
"""Symbols among which a bad dataset is looked for."""

_NOTHING: Final = LocalMatrix(((Fraction(1),), (Fraction(1),)))

_BASIS: Final = (
    "hidden-flag blanket of two filters without a common bit, the worst of all hash functions "
    "(K11, K12, K17)"
)
_ATTAINED: Final = "attained: all others hold one symbol, cohorts of disjoint filters (K17)"


def local_randomiser(spec: BloomRappor) -> FilterResponse | LocalMatrix:
    """Two filters without a common bit, which cost at least as much as any two of the round."""
    return FilterResponse(spec.hashes, spec.flip) if spec.fake < 1 else _NOTHING


def attained_randomiser(spec: BloomRappor) -> LocalMatrix:
    """Three symbols of the round (two if it has no more), seen in cohorts of disjoint filters.

    The last output stands for all reports of other cohorts.
    """
    number = min(3, spec.symbols)
    share = _disjoint_share(spec.shape, number)
    if spec.fake == 1 or share == 0:
        return _NOTHING
    rows = FilterResponse(spec.hashes, spec.flip).rows_of(number)
    rest = (1 - share,) if share < 1 else ()
    return LocalMatrix(tuple((*(share * chance for chance in row), *rest) for row in rows))


@lru_cache(maxsize=16)
def _disjoint_share(shape: FilterShape, number: int) -> Fraction:
    """Largest share of cohorts in which `number` symbols set h bits each, all different."""
    # Of these symbols only: all filters of a round are up to a million hashes.
    masks = shape._replace(symbols=min(MOST_TRIED, shape.symbols)).masks
    most = 0
    for chosen in combinations(range(masks.shape[1]), number):
        joined = np.bitwise_or.reduce(masks[:, chosen], axis=1)
        most = max(most, int((np.bitwise_count(joined) == number * shape.hashes).sum()))
    return Fraction(most, shape.cohorts)


@analyses(BloomRappor)
@dataclass(frozen=True, slots=True)
class BloomRapporAnalysis(Analysis):
    """Analysis of a Bloom filter with flipped bits as a local randomiser with few outputs."""

    spec: BloomRappor
    grows_with_distance = True  # all changes of a value are the same change

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        bounds = delta_bounds(local_randomiser(self.spec), setting, epsilon)
        reached = delta_bounds(attained_randomiser(self.spec), setting, epsilon).attained
        return _with_attained(bounds, reached)

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        bounds = epsilon_bounds(local_randomiser(self.spec), setting, delta)
        reached = epsilon_bounds(attained_randomiser(self.spec), setting, delta).attained
        return _with_attained(bounds, reached)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        return certified_epsilon(local_randomiser(self.spec), setting, delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        bounds = corrupted_bounds(local_randomiser(self.spec), setting, delta)
        return CorruptedBounds(bounds.epsilon, bounds.delta, ("C10: pure, one report",))

    def standard_error(self, users: int) -> float:
        """Standard error of one count at worst, over all symbols and all datasets.

        It is infinite if the filters do not distinguish the symbols.
        """
        if self.spec.fake == 1:
            return math.inf
        try:
            decoder = decoder_of(self.spec.shape, self.spec.flip)
        except UsageError:
            return math.inf
        return math.sqrt(users * float(decoder.worst_variances.max()))

    def curve(
        self, setting: Setting, distance: int, epsilons: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        return certified_curve(local_randomiser(self.spec), setting, distance, epsilons)

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of the chance of each report: one factor for each bit that was flipped."""
        shape = self.spec.shape
        flips = answers[:, None] & (1 << shape.bits) - 1 ^ shape.masks[answers >> shape.bits]
        flipped = np.bitwise_count(flips).astype(np.float64)
        chance = float(self.spec.flip)
        unflipped = shape.bits * math.log1p(-chance) - math.log(shape.cohorts)
        return np.asarray(unflipped + flipped * (math.log(chance) - math.log1p(-chance)))

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along f; the safest one meets the target without a shuffle."""
        if target.bins > MOST_SYMBOLS:
            raise CannotCertify(
                f"{BloomRappor.kind} decodes at most {MOST_SYMBOLS} symbols, not {target.bins}"
            )
        safest = 2 / (1 + math.exp(target.epsilon / (2 * HASHES * target.rounds))) * (1 + 1e-4)
        guess = 8 * deviations(target) / (target.epsilon * math.sqrt(target.honest))
        return Family(
            lambda f: BloomRappor(
                symbols=target.bins,
                bits=BITS,
                hashes=HASHES,
                cohorts=COHORTS,
                fake=min(f, Fraction(1)),
            ),
            min(guess, 0.99 * safest),
            min(1.0, safest),
            rising=True,
        )


def _with_attained(bounds: Bounds, attained: float) -> Bounds:
    reached = min(attained, bounds.certified)
    return replace(bounds, attained=reached, basis=(_BASIS, _ATTAINED))
