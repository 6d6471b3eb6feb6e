"""Pairs of laws with a known ε, and samples from them, to test the audits of lab 9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from shuffledp_labs.instance import Draws
from shuffledp_labs.lab08_theorem.exact import histogram_law

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class AuditedPair:
    """Two laws over the outcomes 0, 1, ..., and a δ.

    Probabilities in the outcomes' order, each law sums to 1.
    """

    first: tuple[Fraction, ...]
    second: tuple[Fraction, ...]
    delta: Fraction

    @property
    def epsilon(self) -> float:
        """The ε of the pair at its δ, both directions, rounded up.

        An audit may exceed it only by chance.
        """
        ways = ((self.first, self.second), (self.second, self.first))
        return max(_epsilon(likely, other, self.delta) for likely, other in ways)

    def swap(self) -> AuditedPair:
        """The pair with its two laws exchanged."""
        return AuditedPair(self.second, self.first, self.delta)


def _epsilon(likely: Sequence[Fraction], other: Sequence[Fraction], delta: Fraction) -> float:
    """The smallest ε >= 0 at which δ suffices in this direction; infinite if there is none."""

    def enough(growth: Fraction) -> bool:
        return (
            sum(
                max(Fraction(0), likely_mass - growth * other_mass)
                for likely_mass, other_mass in zip(likely, other, strict=True)
            )
            <= delta
        )

    low, high = 0.0, 40.0
    if enough(Fraction(1)):
        return 0.0
    if not enough(Fraction(math.exp(high))):
        return math.inf
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(Fraction(math.exp(middle))) else (middle, high)
    return high


def shuffled_krr(users: int, symbols: int, odds: Fraction, delta: Fraction) -> AuditedPair:
    """The histogram of shuffled k-RR with p/q = odds and all others at a third symbol.

    One user is at 0 or at 1.
    """
    p = odds / (odds + symbols - 1)
    laws = [histogram_law(symbols, p, (*((2,) * (users - 1)), changed)) for changed in (0, 1)]
    outcomes = sorted(laws[0])
    return AuditedPair(
        tuple(laws[0][outcome] for outcome in outcomes),
        tuple(laws[1][outcome] for outcome in outcomes),
        delta,
    )


def response(odds: Fraction) -> AuditedPair:
    """Randomised response with p/q = odds: ε = ln(odds) at δ = 0, attained by both outcomes."""
    p = odds / (odds + 1)
    return AuditedPair((p, 1 - p), (1 - p, p), Fraction(0))


def rare(delta: Fraction, outcomes: int) -> AuditedPair:
    """Two uniform laws that differ by one outcome of probability δ: ε = 0 at δ."""
    first = (*((1 - delta) / outcomes,) * outcomes, delta)
    return AuditedPair(first, (*(Fraction(1, outcomes),) * outcomes, Fraction(0)), delta)


def one_sided(low: Fraction, high: Fraction) -> AuditedPair:
    """A pair of laws whose ε is much larger in one direction.

    One outcome has probability `low` or `high`; the rest is spread over five others.
    """
    return AuditedPair((low, *((1 - low) / 5,) * 5), (high, *((1 - high) / 5,) * 5), Fraction(0))


def equal(outcomes: int, delta: Fraction) -> AuditedPair:
    """A pair of equal uniform laws."""
    return AuditedPair(
        (Fraction(1, outcomes),) * outcomes, (Fraction(1, outcomes),) * outcomes, delta
    )


class Sampler:
    """Samples from pairs of laws, all from one stream of draws.

    The names of the outcomes are drawn, too, and carry no meaning.
    """

    def __init__(self, draws: Draws) -> None:
        import numpy as np

        self._numbers = np.random.default_rng(int.from_bytes(draws.bytes(32), "big"))

    def trials(self, pair: AuditedPair, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`count` outcomes of each law."""
        names = self._numbers.permutation(len(pair.first))
        return names[self._draw(pair.first, count)], names[self._draw(pair.second, count)]

    def _draw(self, law: Sequence[Fraction], count: int) -> NDArray[np.intp]:
        import numpy as np

        # Floats choose the outcome: the laws are met to 1e-16, and the checks allow for 1e-9.
        edges = np.array([float(edge) for edge in accumulate(law)][:-1])
        return np.searchsorted(edges, self._numbers.random(count), side="right")
