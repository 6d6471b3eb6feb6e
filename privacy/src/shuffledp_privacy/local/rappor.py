"""Bounds for RAPPOR (Erlingsson, Pihur and Korolova 2014; Wang, lecture 9, section 9.1.1).

docs/accounting.md, C10.

A value sets h bits of a Bloom filter. The permanent response replaces each bit by a fair coin with
probability f and is kept permanently; each report sends 1 with probability q where the kept bit is
1, and p where it is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
)
from shuffledp_privacy.rounds.subsampling import reflect_curve

ROUNDING = 2.0**-40
"""Relative outward margin for (h + 1)² positive terms of binomial probabilities."""

MOST_HASHES = 64


def _check(hashes: int, fake: float) -> None:
    if not 1 <= hashes <= MOST_HASHES:
        raise UsageError(f"hashes must be from 1 to {MOST_HASHES}, not {hashes}")
    if not 0 < fake < 1:
        raise UsageError(f"f must be above 0 and below 1, not {fake}")


@dataclass(frozen=True, slots=True)
class RapporPermanent:
    """The permanent response B'; all of a user's reports on one value reveal at most B'.

    Attributes:
        hashes: h, 1 to 64, bits a value sets.
        fake: f in (0, 1), the chance that a bit is replaced by a fair coin.
    """

    hashes: int
    fake: float

    def __post_init__(self) -> None:
        _check(self.hashes, self.fake)

    @property
    def response(self) -> tuple[float, float]:
        """(P(1 | bit 0), P(1 | bit 1)) of a memoised bit: (f/2, 1 - f/2)."""
        return self.fake / 2, 1 - self.fake / 2

    @property
    def gap(self) -> float:
        """The difference of the two, without cancellation."""
        return 1 - self.fake

    @property
    def zero_chance(self) -> float:
        """P(0 | bit 1), without cancellation."""
        return self.fake / 2


@dataclass(frozen=True, slots=True)
class RapporReport:
    """One RAPPOR report.

    Reports share the memoised filter: several of them are analysed as `RapporPermanent`, not
    composed.

    Attributes:
        hashes: h, 1 to 64.
        fake: f in (0, 1).
        when_zero: p in (0, 1), the chance of a 1 where the kept bit is 0.
        when_one: q in (p, 1), the chance of a 1 where the kept bit is 1.
    """

    hashes: int
    fake: float
    when_zero: float
    when_one: float

    def __post_init__(self) -> None:
        _check(self.hashes, self.fake)
        if not 0 < self.when_zero < self.when_one < 1:
            raise UsageError(f"need 0 < p < q < 1, not p = {self.when_zero}, q = {self.when_one}")

    @property
    def response(self) -> tuple[float, float]:
        """(p*, q*): the probability of a reported 1 if the true bit is 0, or 1."""
        middle = self.fake / 2 * (self.when_zero + self.when_one)
        return middle + (1 - self.fake) * self.when_zero, middle + (1 - self.fake) * self.when_one

    @property
    def gap(self) -> float:
        """The difference of the two, without cancellation."""
        return (1 - self.fake) * (self.when_one - self.when_zero)

    @property
    def zero_chance(self) -> float:
        """P(0 | bit 1), without cancellation."""
        none = (1 - self.when_zero) + (1 - self.when_one)
        return self.fake / 2 * none + (1 - self.fake) * (1 - self.when_one)


def rappor_epsilon(spec: RapporPermanent | RapporReport) -> float:
    """Pure ε = h ln(q*(1-p*) / (p*(1-q*))), for the memoised filter 2h ln((1-f/2)/(f/2)).

    Nats, rounded up.
    """
    low, _ = spec.response
    # Logarithms of 1 and something: where the two chances are nearly the same, no digits are lost.
    odds = math.log1p(spec.gap / low) + math.log1p(spec.gap / spec.zero_chance)
    return spec.hashes * odds * (1 + ROUNDING)


def _curve(
    spec: RapporPermanent | RapporReport, epsilons: NDArray[np.float64], margin: float
) -> NDArray[np.float64]:
    """Exact δ at ε >= 0 for two values without a common bit, the worst pair, with the margin."""
    low, high = spec.response
    ones = np.arange(spec.hashes + 1.0)
    log_choose = np.array(
        [math.log(math.comb(spec.hashes, count)) for count in range(spec.hashes + 1)]
    )
    true_bits = np.exp(
        log_choose + ones * math.log(high) + (spec.hashes - ones) * math.log(spec.zero_chance)
    )
    fake_bits = np.exp(log_choose + ones * math.log(low) + (spec.hashes - ones) * math.log1p(-low))
    # The law of A - B of C10, from -h to h.
    differences = np.correlate(true_bits, fake_bits, mode="full")
    one_bit = rappor_epsilon(spec) / (1 + ROUNDING) / spec.hashes
    losses = one_bit * np.arange(-spec.hashes, spec.hashes + 1) * (1 + margin)
    gaps = np.minimum(np.subtract.outer(epsilons, losses), 0.0)
    values: NDArray[np.float64] = -np.expm1(gaps) @ differences
    return values * (1 + margin)


@analyses(RapporReport)
@dataclass(frozen=True, slots=True)
class RapporReportAnalysis(Analysis):
    """Analysis of RAPPOR without a shuffler; no curve, as its reports share a memoised filter."""

    spec: RapporPermanent | RapporReport

    def delta(self, setting: Setting, epsilon: float) -> Bounds:  # noqa: ARG002
        """Certified and attained δ of one round."""
        high, low = (
            float(_curve(self.spec, np.array([epsilon]), r)[0]) for r in (ROUNDING, -ROUNDING)
        )
        return Bounds(min(1.0, high), low, None, ("C10: exact, local",))

    def epsilon(self, setting: Setting, delta: float) -> Bounds:  # noqa: ARG002
        """The pure ε for every δ: RAPPOR is not calibrated by δ.

        Published: Erlingsson's formula, which is right.
        """
        if not 0 <= delta <= 1:
            raise UsageError(f"delta must be from 0 to 1, not {delta}")
        pure = rappor_epsilon(self.spec)
        attained = pure * (1 - 2 * ROUNDING) if delta == 0 else 0.0
        return Bounds(pure, attained, pure / (1 + ROUNDING), ("C10: pure, local",))

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG002
        """(ε_L, δ): the guarantee of one report, which remains if every mix node is corrupt."""
        return CorruptedBounds(rappor_epsilon(self.spec), 0.0, ("C10: local, no shuffler needed",))

    def standard_error(self, users: int) -> float:
        """Standard error of the number of users who set a given bit, in the worst case."""
        low, high = self.spec.response
        return math.sqrt(users * max(low * (1 - low), high * (1 - high))) / (high - low)


@analyses(RapporPermanent)
@dataclass(frozen=True, slots=True)
class RapporPermanentAnalysis(RapporReportAnalysis):
    """The permanent response, with the curve of all its reports together."""

    spec: RapporPermanent

    def curve(
        self,
        setting: Setting,
        distance: int,
        epsilons: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """δ at each total ε, for a change by exactly `distance`."""
        del setting, distance  # any two values may differ in all their bits
        sizes = np.abs(epsilons)
        upper = np.minimum(_curve(self.spec, sizes, ROUNDING), 1.0)
        return np.where(epsilons < 0, reflect_curve(upper, sizes), upper)
