"""Common analysis of geo-shuffle and sgdl-shuffle: additive noise, clamped.

A `NoisySum` is the part of a spec and a setting that the analysis needs. Its δ at total ε = E and
distance d is at most HS_E(Y || Y + d) + δ1 (1 + e^E), Y the honest users' noise
(docs/accounting.md, Proposition S6), at most that of the noises that are not clamped (Proposition
S6b), and zero from the ε on that one clamped report has by itself (S8). `sums.worst` has the bounds
over all distances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.noise import SumNoise
from shuffledp_privacy.primitives.supremum import (
    Integers,
)
from shuffledp_privacy.sums.clamping import LARGEST_TOTAL, clamping_delta, log_clamping_delta
from shuffledp_privacy.sums.kept import KeptNoise

NODES = 320
"""Number of points at which a long δ curve is computed; chords in e^E between them are upper bounds
(convexity).
"""

UNNOTICED = 1e-4
"""Share of δ up to which it is not examined whether clamping could cost less: S6b has cells that
cost about as much.
"""

_DOWN = 1.0 - 1e-8
"""Relative inward margin of attained numbers: φ is rounded down for them, too, which changes ε by
at most 1e-10.
"""


def distances(max_value: int, setting: Setting) -> int:
    """Largest distance d_max: the whole domain unless the setting restricts it.

    Raises UsageError above the domain.
    """
    if setting.max_distance is None:
        return max_value
    if setting.max_distance > max_value:
        raise UsageError(
            f"max-distance must be at most the largest value, {max_value}, not "
            f"{setting.max_distance}"
        )
    return setting.max_distance


def check_epsilon(epsilon: float) -> None:
    """Check that ε is in [0, inf). Raises UsageError otherwise."""
    if not 0 <= epsilon < math.inf:
        raise UsageError(f"epsilon must be at least 0 and finite, not {epsilon}")


@dataclass(frozen=True, slots=True)
class NoisySum:
    """Parameters of a round whose sum is protected by additive, clamped noise.

    Attributes:
        noise: law of the honest users' unclamped noise.
        clamped: δ1, probability that some honest user's noise leaves [-c, c]; rounded up.
        local: d -> total ε of one clamped report at distance d with δ = 0, rounded up; rises with d
            and local(d)/d falls.
        pure: ε per unit of the unclamped noise at δ = 0; inf where it has less than one whole
            noise.
        d_max: largest distance.
        metric: whether ε counts per unit of distance.
        kept: the noises that are not clamped, their number known; None if Proposition S6b is not
            proved for them.
        log_clamped: ln of an upper bound of δ1, for totals whose e^E is no float; inf for none.
    """

    noise: SumNoise
    clamped: float
    local: Callable[[int], float]
    pure: float
    d_max: int
    metric: bool
    kept: KeptNoise | None = None
    log_clamped: float = math.inf

    def curve(self, distance: Integers, epsilon: Floats) -> Floats:
        """Certified δ at total ε = E >= 0 for distance d, row by row; never below the truth.

        Proposition S6.

        δ falls with E, so that the two-term bound at any smaller E' is a bound too; it is convex in
        e^E' and its smallest value is searched where the clamping term matters. There S6b is a
        bound as well.
        """
        # One clamped report is `own`-DP by itself, purely (S8): from there on no δ is needed.
        alone = np.array([self.local(int(d)) for d in distance])
        upper = np.zeros(epsilon.shape)
        rows = np.flatnonzero(epsilon < alone)
        if rows.size:
            upper[rows] = self.shuffled_delta(distance[rows], epsilon[rows])
        return upper

    def shuffled_delta(self, distance: Integers, epsilon: Floats) -> Floats:
        """The part of `curve` that follows from shuffling alone, not from a single report."""
        if self.kept is None:
            return self._coupled_delta(distance, epsilon)
        if not self.kept.log_concave:
            # What clamping leaves of shares comes from tables, which are quick.
            left = self.kept.divergence(distance, epsilon)[0]
            with np.errstate(over="ignore"):
                least = self.clamped * (1.0 + np.exp(np.minimum(epsilon, self.pure * distance)))
            rows = np.flatnonzero(least < left)
            left[rows] = np.minimum(left[rows], self._coupled_delta(distance[rows], epsilon[rows]))
            return left
        total = self._coupled_delta(distance, epsilon)
        with np.errstate(over="ignore"):
            rows = np.flatnonzero(self.clamped * (1.0 + np.exp(epsilon)) > UNNOTICED * total)
        total[rows] = np.minimum(
            total[rows], self.kept.divergence(distance[rows], epsilon[rows])[0]
        )
        return total

    def _coupled_delta(self, distance: Integers, epsilon: Floats) -> Floats:
        """Certified δ by Proposition S6."""
        if self.clamped >= 0.5:  # δ1 (1 + e^E) is 1 or more for every E
            return np.ones(epsilon.shape)
        total = self._bound(distance, epsilon)
        with np.errstate(over="ignore", invalid="ignore"):
            # Elsewhere a smaller E' could gain two thousandths at most.
            grown = np.flatnonzero(self.clamped * np.exp(epsilon) > 1e-3 * total)
        # Where S6b holds it is better there than any E'.
        if grown.size and self.kept is None:
            total[grown] = np.minimum(total[grown], self._smallest(distance[grown], epsilon[grown]))
        if math.isfinite(self.pure):
            alone = self.pure * distance
            with np.errstate(over="ignore"):
                cost = (
                    self.clamped * (1.0 + np.exp(alone)) * (1.0 + 1e-12)
                    if self.clamped > 0
                    else 0.0 * alone
                )
            # From the pure ε of a whole noise on only clamping costs anything (S6 with E' =
            # `alone`).
            total = np.where(epsilon >= alone, np.minimum(total, cost), total)
        return np.clip(total, 0.0, 1.0)

    @property
    def log_concave(self) -> bool:
        """True if there is at least one whole noise, so that its law is log-concave (S2)."""
        return math.isfinite(self.pure)

    def unclamped_deltas(self, epsilons: Floats) -> Floats:
        """Certified HS at d_max of the unclamped noise at total ε >= 0, at least the truth (S1)."""
        return self._thin_out(
            epsilons, lambda nodes: self.noise.divergence(self._largest(nodes), nodes)[0]
        )

    def remaining_deltas(self, epsilons: Floats) -> Floats:
        """Certified δ at d_max from the unclamped noises, if their number is revealed (S6b)."""
        noise = self.noise if self.kept is None else self.kept
        return self._thin_out(
            epsilons, lambda nodes: noise.divergence(self._largest(nodes), nodes)[0]
        )

    def _largest(self, epsilons: Floats) -> Integers:
        return np.full(epsilons.shape, self.d_max, dtype=np.int64)

    def least_delta(self) -> float:
        """Smallest value over E >= 0 of HS_E + δ1 (1 + e^E) at d_max, rounded up (C12)."""
        if self.clamped >= 0.5:
            return 1.0
        if self.clamped == 0.0:  # from the pure ε of a whole noise on nothing is left
            return 0.0
        smallest = float(self._smallest(self._largest(np.ones(1)), np.array([700.0]))[0])
        return min(1.0, smallest, self.pure_cost())

    def _smallest(self, distance: Integers, epsilon: Floats) -> Floats:
        """Smallest value of Proposition S6's bound over 0..ε, by golden section.

        Any point gives a valid bound.
        """
        low = np.zeros_like(epsilon)
        # Beyond E = -ln δ1 the clamping term alone is 1.
        high = np.minimum(epsilon, -math.log(self.clamped))
        best = np.full(epsilon.shape, np.inf)
        for _ in range(14):
            first = high - 0.618 * (high - low)
            second = low + 0.618 * (high - low)
            left = self._bound(distance, first)
            right = self._bound(distance, second)
            best = np.minimum(best, np.minimum(left, right))
            low, high = np.where(left > right, first, low), np.where(left > right, high, second)
        return best

    def _bound(self, distance: Integers, epsilon: Floats) -> Floats:
        upper = self.noise.divergence(distance, epsilon)[0]
        if self.clamped == 0.0:
            return upper
        with np.errstate(over="ignore"):
            return upper + self.clamped * (1.0 + np.exp(epsilon)) * (1.0 + 1e-12)

    def least_epsilons(self, distance: Integers, delta: float) -> Floats:
        """Smallest total E certified for δ, row by row."""
        alone = np.array([self.local(int(d)) for d in distance])
        if delta == 0.0:
            return alone
        return np.asarray(
            np.minimum(self.needed_epsilons(distance, delta), alone), dtype=np.float64
        )

    def needed_epsilons(self, distance: Integers, delta: float) -> Floats:
        """Smallest total E by S6 or S6b, row by row."""
        totals = self.noise.least(distance, delta, self.clamped)[0]
        if self.kept is None:
            return totals
        with np.errstate(over="ignore"):
            costs = self.clamped * (1.0 + np.exp(totals)) > UNNOTICED * delta
        rows = np.flatnonzero(costs)
        if rows.size:
            totals[rows] = np.minimum(totals[rows], self.kept.least(distance[rows], delta, 0.0)[0])
        return totals

    def pure_cost(self) -> float:
        """δ at the pure ε of a whole noise for the largest distance, due to clamping alone.

        Inf without one.
        """
        total = self.pure * self.d_max
        if math.isinf(total) or self.clamped == 0.0 or total <= LARGEST_TOTAL:
            return math.inf if math.isinf(total) else clamping_delta(self.clamped, total)
        return log_clamping_delta(self.log_clamped, total)

    def points(self, distance: int, epsilons: Floats) -> Floats:
        """Certified δ for one distance at many total ε of any sign.

        Below 0 by HS_{-E} = 1 - e^{-E} (1 - HS_E), as the bound holds in both directions. Long
        requests are computed on `NODES` points and joined by chords in e^E, which a convex curve
        never exceeds.
        """
        size = np.abs(epsilons)
        upper = self._thin_out(size, lambda nodes: self.curve(np.full(len(nodes), distance), nodes))
        return np.where(
            epsilons >= 0, upper, np.clip(1.0 - np.exp(-size) * (1.0 - upper), 0.0, 1.0)
        )

    def _thin_out(self, epsilons: Floats, curve: Callable[[Floats], Floats]) -> Floats:
        nodes = np.unique(epsilons)
        if len(nodes) > NODES:
            nodes = np.unique(
                np.concatenate([np.quantile(nodes, np.linspace(0, 1, NODES)), nodes[[0, -1]]])
            )
        return chord(nodes, curve(nodes), epsilons)


def chord(nodes: Floats, values: Floats, totals: Floats) -> Floats:
    """Interpolate on chords in e^E, rounded up.

    An upper bound where the curve is convex in e^E.
    """
    right = np.clip(np.searchsorted(nodes, totals), 0, len(nodes) - 1)
    left = np.maximum(right - 1, 0)
    exact = nodes[right] == totals
    gap = nodes[right] - nodes[left]
    with np.errstate(divide="ignore", invalid="ignore"):
        # (e^r - e^w)/(e^r - e^l) with no exponent above 0: nothing overflows, and short gaps keep
        # their digits.
        share = np.expm1(totals - nodes[right]) / np.expm1(-gap)
    share = np.clip(np.where(gap > 0, share, 0.0), 0.0, 1.0)
    # From the right end, whose value is the smaller one: no digits of a steep curve cancel.
    mixed = values[right] + share * np.maximum(values[left] - values[right], 0.0)
    return np.where(exact, values[right], np.minimum(mixed * (1.0 + 1e-12), 1.0))


def alone(setting: Setting) -> Setting:
    """The setting of a single user's report, which corrupt nodes see."""
    return replace(setting, users=1, honest=1)


def is_metric(setting: Setting) -> bool:
    """True if ε is per unit of distance."""
    return setting.adjacency is Adjacency.METRIC


def downward(value: float) -> float:
    """Round an attained number down, by more than the rounding errors of the last steps."""
    return max(0.0, value * _DOWN)


def probes(d_max: int) -> list[int]:
    """Some distances from 1 to d_max, to try first and for lower bounds."""
    return sorted({round(d_max ** (i / 8)) for i in range(9)})
