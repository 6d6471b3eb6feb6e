"""A lower bound of a round's δ from two neighbouring datasets, cheap enough for a device.

A mechanism names the law of one statistic of its board on two datasets that differ in one user's
value (`Spec.witness`). Whatever an accountant certifies must not be below what these two attain.
Pure; uses only numpy.

Every number is rounded down: floating point adds at most `ROUNDING` to a probability's relative
error, and the mass outside a window is charged in full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from shuffledp_core.bounds.blanketed import BlanketedCounts
from shuffledp_core.bounds.losses import PrivacyLosses
from shuffledp_core.bounds.one_report import OneReport
from shuffledp_core.bounds.windows import binomial_law, binomial_masses, window_reach

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_POINTS: Final = 2**18
"""Most points of a window, or of one side of a noise table: 2 MiB. Larger rounds have no bound."""

MOST_BITS: Final = 1024
"""Most changed bits that are convolved."""

MOST_DEVIATION: Final = 100.0
"""Largest standard deviation of a count of dummies whose bound is computed: 2,000 rows of as many
points.
"""

ROUNDING: Final = 1e-9
"""Relative error allowed for a computed probability; a window of `MOST_POINTS` logarithms makes
less than 1e-10.
"""

OUTSIDE: Final = 1e-15
"""Mass outside the binomial windows, nine standard deviations and 40 points wide: below e^-40 each
(Bernstein).
"""

TABLE_TAIL: Final = 1e-12
"""Mass outside a noise table, by which its length is bounded before it is computed."""

_LARGEST_EPSILON: Final = 700.0


@dataclass(frozen=True, slots=True)
class BitCounts:
    """Ones on the board: T = Bin(others, chance) + Bin(bits, high), or Bin(bits, low) when changed.

    Attributes:
        others: bits that the change does not touch.
        chance: probability of a one among them, in (0, 1).
        bits: changed bits, 1 to `MOST_BITS`.
        high: probability of a one among them before the change, in (0, 1).
        low: the probability after the change.
    """

    others: int
    chance: Fraction
    bits: int
    high: Fraction
    low: Fraction

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ of these two datasets at a total ε >= 0; 0 if none is computed."""
        import numpy as np

        if epsilon > _LARGEST_EPSILON:
            return 0.0
        base = _near_mean(self.others, self.chance)
        if base is None:
            return 0.0
        size = self.bits + 1
        before = np.convolve(base, _all_of(self.bits, self.high, size))
        after = np.convolve(base, _all_of(self.bits, self.low, size))
        return _excess(before, after, epsilon, OUTSIDE)


@dataclass(frozen=True, slots=True)
class ShiftedNoise:
    """A sum with noise Y, against the same sum plus `distance`.

    Y is a difference of two NB(shape, 1 - e^-rate).

    Attributes:
        shape: number of whole discrete Laplace noises, above 0.
        rate: ε of each, nats per unit.
        distance: d.
        altered: probability, rounded up, that clamping or a modulus changes the sum.
        room: modulus of the sum, if it has one: no bound is computed if the noise may wrap around.
    """

    shape: float
    rate: float
    distance: int
    altered: float
    room: int | None = None

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ of these two datasets at a total ε >= 0; 0 if none is computed."""
        import numpy as np

        from shuffledp_core.bounds.noise import TABULATION_ERROR, chernoff_half_width, probabilities

        if (
            epsilon > _LARGEST_EPSILON
            or chernoff_half_width(self.shape, self.rate, TABLE_TAIL) > MOST_POINTS
        ):
            return 0.0
        table = probabilities(self.shape, self.rate)
        if table is None or (self.room is not None and 2 * table.size + self.distance > self.room):
            return 0.0
        law = np.concatenate([table[:0:-1], table])
        moved = np.zeros(law.size)
        if self.distance < law.size:
            moved[: law.size - self.distance] = law[self.distance :]
        return _excess(law, moved, epsilon, self.altered + TABULATION_ERROR)


@dataclass(frozen=True, slots=True, eq=False)
class ReportSum:
    """A sum of independent reports, one of which changes its law.

    Attributes:
        honest: number of reports.
        before: probabilities of 0, 1, ... in every report before the change.
        after: those in the changed report; same shape.
    """

    honest: int
    before: NDArray[np.float64]
    after: NDArray[np.float64]

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ of these two datasets at a total ε >= 0; 0 if none is computed."""
        import numpy as np

        size = self._modulus()
        if epsilon > _LARGEST_EPSILON or size is None:
            return 0.0
        changed = np.fft.rfft(self.before, size)
        others = changed ** (self.honest - 1)
        before = np.fft.irfft(others * changed, size)
        after = np.fft.irfft(others * np.fft.rfft(self.after, size), size)
        # A transform errs by 16 u log2(size) at most, its power by as much for each report; summed
        # over all points.
        error = 2.0**-49 * math.log2(size) * self.honest * 2 * float(np.abs(others).sum())
        return _excess(before, after, epsilon, error)

    def _modulus(self) -> int | None:
        """Power of two modulo which the sum is evaluated; None if it would be too large.

        Wrapping loses information, but does not invalidate a lower bound.
        """
        import numpy as np

        places = np.arange(self.before.size)
        mean = float(self.before @ places)
        deviation = math.sqrt(self.honest * float(self.before @ (places - mean) ** 2))
        points = max(self.before.size, 24 * deviation)
        return None if points > MOST_POINTS else 1 << math.ceil(points).bit_length()


@dataclass(frozen=True, slots=True)
class DummyCounts:
    """Counts (a, b) of two symbols: (1 + M_a, M_b) before the change and (M_a, 1 + M_b) after it.

    M is multinomial: the numbers of dummies of the two symbols among all slots.

    Attributes:
        slots: messages that may be dummies.
        rate: probability that a slot is a dummy of one given symbol, in (0, 1/2].
    """

    slots: int
    rate: Fraction

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ of these two datasets at a total ε >= 0; 0 if none is computed.

        Computed as 𝔼[(a - e^ε b)_+] over one more slot, divided by the mean of a
        (docs/accounting.md, K15).
        """
        import numpy as np

        trials = self.slots + 1
        deviation = math.sqrt(trials * float(self.rate * (1 - self.rate)))
        if epsilon > _LARGEST_EPSILON or deviation > MOST_DEVIATION:
            return 0.0
        first_a, masses = binomial_law(trials, self.rate)
        growth = math.exp(epsilon) * (1 + ROUNDING)
        among_others = self.rate / (1 - self.rate)
        total = 0.0
        for a, mass in enumerate(masses.tolist(), start=first_a):
            if among_others == 1:  # every slot is a dummy of one of the two
                first_b = trials - a
                law = np.ones(1)
            else:
                first_b, law = binomial_law(trials - a, among_others)
            b = np.arange(first_b, first_b + law.size)
            total += mass * float(law @ np.maximum(a - growth * b, 0.0))
        # A window's masses are above the true ones by what lies outside, far less than `ROUNDING`.
        return max(0.0, min(1.0, total * (1 - 4 * ROUNDING) / float(trials * self.rate)))


def _excess(
    before: NDArray[np.float64], after: NDArray[np.float64], epsilon: float, error: float
) -> float:
    """Σ (P - e^ε Q)_+, less allowances for rounding and for `error` in any event's probability."""
    import numpy as np

    growth = math.exp(epsilon)
    terms = np.maximum(before * (1 - ROUNDING) - growth * (1 + ROUNDING) * after, 0.0)
    return max(0.0, min(1.0, float(terms.sum()) - (1 + growth) * error))


def _near_mean(trials: int, chance: Fraction) -> NDArray[np.float64] | None:
    """Probabilities of Bin(trials, chance) in a window around the mean.

    None if the window would be too wide.
    """
    deviation = math.sqrt(trials * float(chance) * float(1 - chance))
    if 2 * window_reach(deviation) >= MOST_POINTS:
        return None
    return binomial_law(trials, chance)[1]


def _all_of(trials: int, chance: Fraction, size: int) -> NDArray[np.float64]:
    return binomial_masses(trials, chance, 0, size - 1)


Witness = (
    BitCounts | ShiftedNoise | ReportSum | DummyCounts | BlanketedCounts | OneReport | PrivacyLosses
)
"""The law of one statistic of the board on two neighbouring datasets."""
