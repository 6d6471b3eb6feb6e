"""Privacy filters: total cost of rounds whose parameters may depend on earlier results.

Each filter gives a round a cost that does not depend on the other rounds, and costs are added up
(docs/accounting.md, propositions C13 to C15). One filter replaces a round by a Gaussian mechanism
that dominates it, the other by a pure guarantee; both may fail with a small part of δ. They run in
parallel on parts of the budget's δ. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_privacy.bounds import SMALLEST_DELTA
from shuffledp_privacy.central import gaussian_delta
from shuffledp_privacy.numerics.chords import falling_chord
from shuffledp_privacy.numerics.hull import lower_hull
from shuffledp_privacy.numerics.rounding import down, up
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.numerics.special import normal_quantile
from shuffledp_privacy.splitting import among_filters

QUANTILE_ROUNDING: Final = 2.0**-40
"""Relative outward margin for one normal quantile, far above the error of `normal_quantile`."""

LARGEST_VARIANCE: Final = 1e12
"""Largest Gaussian cost: above it the cost counts as infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaCurve:
    """Upper bounds of a privacy curve at ε >= 0, for both orders of the neighbours (C2, C3).

    Attributes:
        excess: e^ε - 1 at the nodes, rounded up; rising from 0.
        deltas: δ there, in [0, 1], never below the truth; after the last node the last one holds.
    """

    excess: NDArray[np.float64]
    deltas: NDArray[np.float64]

    def delta(self, epsilon: float) -> float:
        """Upper bound of δ at ε (nats, >= 0), by chords."""
        return float(self.bounds(np.array([epsilon]))[0])

    def bounds(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Upper bounds of δ at each ε (nats, >= 0), by chords."""
        # Down: the curve falls.
        excess = down(np.expm1(np.minimum(epsilons, 700.0)))
        return np.minimum(falling_chord(excess, self.excess, self.deltas), 1.0)

    def lines(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Slopes B and intercepts A of the hull's pieces A - B e^ε.

        The curve never exceeds their maximum (C3).
        """
        vertices = lower_hull(self.excess, self.deltas)
        at = self.excess[vertices]
        values = self.deltas[vertices]
        slopes = np.append((values[:-1] - values[1:]) / (at[1:] - at[:-1]), 0.0)
        # Both ends of each piece lie under its line, whatever the rounding of the slope.
        ends = up(
            np.maximum(values[:-1] + slopes[:-1] * at[:-1], values[1:] + slopes[:-1] * at[1:])
        )
        # From A - B (e^ε - 1) to A - B e^ε.
        return slopes, up(np.append(ends, values[-1]) + slopes)


def gaussian_cost(curve: DeltaCurve, leak: float) -> float:
    """Least s, rounded up, at which N(0, 1) against N(√s, 1) with a leak of `leak` s dominates.

    It dominates the curve.

    0 for a curve that is 0, `math.inf` where only revealing everything would be enough. Source:
    C14.
    """
    slopes, intercepts = curve.lines()

    def fits(s: float) -> bool:
        leaked = down(leak * s)
        # Such a leak shows everything, so it dominates every curve.
        if leaked >= 1:
            return True
        above = up((intercepts - leaked) / (1 - leaked))
        # A line with b <= 0 lies below the leak itself (C14).
        binding = above > 0
        if not binding.any():
            return True
        high = normal_quantile(np.minimum(above[binding], 1.0))
        low = normal_quantile(np.minimum(slopes[binding] / (1 - leaked), 1.0))
        with np.errstate(invalid="ignore"):  # both infinite: not a number, which fits nothing
            apart = high - low + QUANTILE_ROUNDING * (np.abs(high) + np.abs(low))
        return bool(np.all(apart <= math.sqrt(s)))

    return _least(fits, LARGEST_VARIANCE) if curve.deltas[0] > 0 else 0.0


def pure_cost(curve: DeltaCurve, leak: float) -> float:
    """Least ε, rounded up, at which the curve is at most `leak` ε. Nats, >= 0. Source: C15."""
    if curve.deltas[0] <= 0:
        return 0.0
    return _least(lambda epsilon: curve.delta(epsilon) <= down(leak * epsilon), 700.0)


def gaussian_epsilon(s: float, leaked: float, delta: float) -> float:
    """ε at δ of N(0, 1) against N(√s, 1) with a leak of `leaked`.

    Rounded up, `math.inf` where there is none.
    """
    left = down(delta - leaked)
    if s == 0 and left >= 0:
        return 0.0
    if not (left > 0 and s < LARGEST_VARIANCE):
        return math.inf
    sigma = 1 / math.sqrt(up(s))
    if gaussian_delta(sigma, 1.0, 0.0) <= left:
        return 0.0
    return _least(lambda epsilon: gaussian_delta(sigma, 1.0, epsilon) <= left, 4 * LARGEST_VARIANCE)


def _least(fits: Callable[[float], bool], most: float) -> float:
    """Smallest positive x at which a monotone condition holds, rounded up.

    `math.inf` beyond `most`.
    """
    highest = math.log(most)
    if not fits(math.exp(highest)):
        return math.inf
    # Bisected in ln x: costs differ by dozens of orders of magnitude.
    return math.exp(bisect(lambda log: fits(math.exp(log)), highest, failing=-60.0, steps=48))


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of one or several rounds in each filter: s in the Gaussian one, ε in the pure one.

    `math.inf` if it exceeds every budget.
    """

    gaussian: float
    pure: float

    def __add__(self, other: Price) -> Price:
        return Price(up(self.gaussian + other.gaussian), up(self.pure + other.pure))

    def times(self, count: int) -> Price:
        """Cost of `count` such rounds together."""
        return Price(up(self.gaussian * count), up(self.pure * count))


@dataclass(frozen=True, slots=True)
class Filters:
    """Both filters of one budget, a total ε at δ; made by `of`.

    Attributes:
        gaussian: the part of δ at which the Gaussian filter guarantees ε.
        gaussian_leak, pure_leak: δ per unit of cost in each filter.
    """

    gaussian: float
    gaussian_leak: float
    pure_leak: float

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Self:
        """Make the filters that belong to a budget.

        Raises:
            UsageError: ε not above 0 and finite, δ not between 0 and 1.
            CannotCertify: δ below `SMALLEST_DELTA`.
        """
        if not (0 < epsilon < math.inf and 0 < delta < 1):
            raise UsageError(
                "a privacy filter needs a finite epsilon above 0 and a delta between 0 and 1, "
                f"not {epsilon} and {delta}"
            )
        if delta < SMALLEST_DELTA:
            raise CannotCertify(
                f"a filter resolves delta from {SMALLEST_DELTA:g}, not {delta:g}; take a larger "
                "delta"
            )
        parts = among_filters(delta)
        without_leak = parts.gaussian - parts.leak
        # The largest total cost that this filter admits; the leak is spread evenly over it.
        # In σ² = 1/s, whose least value is found from above, so that s errs downward.
        most = 1 / _least(
            lambda width: gaussian_delta(math.sqrt(width), 1.0, epsilon) <= without_leak, 1 / 1e-26
        )
        return cls(parts.gaussian, parts.leak / most, parts.pure / epsilon)

    def price(self, curve: DeltaCurve) -> Price:
        """Cost of a round with this curve in both filters."""
        return Price(gaussian_cost(curve, self.gaussian_leak), pure_cost(curve, self.pure_leak))

    def spent_epsilon(self, total: Price) -> tuple[float, str]:
        """Total ε of rounds with this total price, and the proposition that it follows from.

        It is at most the budget's ε if a filter admits the rounds.
        """
        leaked = up(total.gaussian * self.gaussian_leak)
        gaussian = gaussian_epsilon(total.gaussian, leaked, self.gaussian)
        # Each filter guarantees ε at its own part of δ, so that any one of them may admit (C15).
        if gaussian <= total.pure:
            return gaussian, "C14: filter, each round counted as a Gaussian mechanism"
        return total.pure, "C15: filter, pure guarantees added"
