"""One user's report of k-RR among the dummies of one node.

docs/accounting.md, N8: letters γ, φ, ρ, E, L, H and S. Pure; uses only numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from shuffledp_core.bounds.bounded_noise import bounded_laplace_law, law_of_sum
from shuffledp_core.bounds.windows import binomial_law

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARGIN: Final = 1e-9
"""Relative error allowed for every probability and every δ."""

MOST_COUNTS: Final = 2**21
"""Largest size of the tables, of other symbols' numbers and of pairs of counts."""

_RARE: Final = 1e-18
"""Least probability of a number of symbols at the lower end; rarer numbers are left out."""

_ROUNDING: Final = 1e-14
"""Error of a mean excess, in units of the larger likelihood ratio.

Windows leave out 3e-15 (Bernstein; `_RARE` at most 1,000 times), and the excess rounds by 16 units
in the last place of its largest term.
"""

_LARGEST_EPSILON: Final = 700.0

_LARGEST_RATE: Final = 300
"""Largest rate whose probabilities have all their digits."""


class _Change(NamedTuple):
    """A pair of counts of a and b that is likelier before the change, by its likelihood ratios.

    Attributes:
        old: p(z_a - 1)/p(z_a) for the count of a.
        new: p(z_b - 1)/p(z_b) for the count of b.
        free: upper bound of the probability of these counts.
        least: lower bound of the probability of these counts and room for all dummies.
        most: upper bound of the same.
    """

    old: float
    new: float
    free: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class OneReport:
    """One report of k-RR behind one honest node's dummies, before and after a change from a to b.

    Attributes:
        rate: ε of the noise in one count, nats.
        mean: μ, the mean number of a node's dummies of each symbol.
        symbols: k.
        dummies: T, the number of dummies of a node.
        blanket: γ of the user's report, in (0, 1).
    """

    rate: Fraction
    mean: int
    symbols: int
    dummies: int
    blanket: Fraction

    @property
    def is_small(self) -> bool:
        """True if its tables are small enough."""
        if self.rate > _LARGEST_RATE:
            return False
        edge = bounded_laplace_law(self.rate, self.mean)[-1]
        others = self.symbols - 2
        rows = min(others + 1, 18 * math.sqrt(others * edge) + 80)
        columns = min(others + 1, 9 * math.sqrt(others) + 80)
        return rows * columns <= MOST_COUNTS and (2 * self.mean + 1) ** 2 <= MOST_COUNTS

    def certified_delta(self, epsilon: float) -> float:
        """Upper bound of δ at a total ε >= 0; 1 if none is computed."""
        if not self.is_small or epsilon > _LARGEST_EPSILON:
            return 1.0
        table = _table(self)
        delta = self._sent_alone(epsilon) * table.full_most
        for change in table.changes:
            error = _ROUNDING * change.old
            spread = self._mean_excess(change, epsilon) + error
            most = float(self._excess(change, table.no_others, epsilon)[0]) + error
            # Either no room is needed, or the other symbols are taken at their least (N8).
            delta += min(change.free * spread, change.most * most)
        return min(1.0, delta * (1 + 4 * MARGIN) / table.likely_low)

    def attained_delta(self, epsilon: float) -> float:
        """Lower bound of δ at a total ε >= 0; 0 if none is computed."""
        if not self.is_small or epsilon > _LARGEST_EPSILON:
            return 0.0
        table = _table(self)
        delta = self._sent_alone(epsilon) * table.full_least
        for change in table.changes:
            spread = self._mean_excess(change, epsilon) - _ROUNDING * change.old
            delta += change.least * max(0.0, spread)
        return min(1.0, delta * (1 - 4 * MARGIN) / table.likely_high)

    def _sent_alone(self, epsilon: float) -> float:
        """Contribution to δ of counts of a that dummies alone cannot reach: the report is an a."""
        other = float(self.blanket / self.symbols)
        match = float(1 - self.blanket) + other
        return max(0.0, match - math.exp(epsilon) * other)

    def _mean_excess(self, change: _Change, epsilon: float) -> float:
        """Mean of `_excess` over the other symbols, not conditioned on room for all dummies."""
        table = _table(self)
        return float(self._excess(change, table.sums, epsilon) @ table.masses)

    def _excess(
        self, change: _Change, sums: NDArray[np.float64], epsilon: float
    ) -> NDArray[np.float64]:
        """(P - e^ε Q)_+ over the probability of the counts without a report; shape of `sums`.

        Args:
            change: the counts of a and b.
            sums: S of the other symbols.
            epsilon: total ε >= 0.
        """
        import numpy as np

        share = float(1 - self.blanket)
        other = float(self.blanket / self.symbols)
        gain = share * (change.old - math.exp(epsilon) * change.new)
        beside = math.expm1(epsilon) * other * (change.old + change.new + sums)
        return np.asarray(np.maximum(gain - beside, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The quantities of a `OneReport` that do not depend on ε.

    Attributes:
        changes: pairs of counts that can be likelier before the change.
        sums: S of the other symbols, shape (numbers,).
        masses: probabilities of `sums`, not conditioned on room for all dummies; same shape.
        no_others: S where all other symbols are at the lower end: 0, shape (1,).
        full_least: lower bound of the probability that D_a is 2 mean and all dummies have room.
        full_most: upper bound of that probability.
        likely_low: lower bound of the probability that all dummies have room.
        likely_high: upper bound of that probability.
    """

    changes: tuple[_Change, ...]
    sums: NDArray[np.float64]
    masses: NDArray[np.float64]
    no_others: NDArray[np.float64]
    full_least: float
    full_most: float
    likely_low: float
    likely_high: float


@lru_cache(maxsize=4)
def _table(report: OneReport) -> _Table:
    import numpy as np

    mean = report.mean
    law = bounded_laplace_law(report.rate, mean)
    places = np.arange(-mean, mean + 1)
    falls = math.exp(-float(report.rate))
    low_end = (0.0, places == -mean)
    low = (falls, (places > -mean) & (places <= 0))
    high = (1 / falls, places > 0)
    # The report itself is not one of the dummies that must have room.
    spare = report.dummies - report.symbols * mean
    others = law_of_sum(report.rate, mean, report.symbols - 2)
    room = others.at_most(spare + 1 - np.add.outer(places, places))
    tighter = np.clip(room - others.error, 0.0, 1.0)
    roomier = np.clip(room + others.error, 0.0, 1.0)
    changes = []
    for (old, is_old), (new, is_new) in ((high, low), (high, low_end), (low, low_end)):
        pairs = np.outer(law * is_old, law * is_new)
        free = float(pairs.sum())
        least = float((pairs * tighter).sum())
        changes.append(_Change(old, new, free, least, float((pairs * roomier).sum())))
    rest = law_of_sum(report.rate, mean, report.symbols - 1)
    full = float(rest.at_most(np.array([spare - mean]))[0])
    every = law_of_sum(report.rate, mean, report.symbols)
    likely = float(every.at_most(np.array([spare]))[0])
    sums, masses = _other_symbols(report.symbols - 2, falls, law[0], law[places > 0].sum())
    return _Table(
        changes=tuple(changes),
        sums=sums,
        masses=masses,
        no_others=np.zeros(1),
        full_least=float(law[-1]) * max(0.0, full - rest.error),
        full_most=float(law[-1]) * min(1.0, full + rest.error),
        likely_low=likely - every.error,
        likely_high=min(1.0, likely + every.error),
    )


def _other_symbols(
    symbols: int, falls: float, low_end: float, high: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and probabilities of the statistic S of the other symbols, by numbers of E and H.

    Args:
        symbols: k - 2.
        falls: φ.
        low_end: the probability of E.
        high: the probability of H.
    """
    import numpy as np

    first, ends = binomial_law(symbols, Fraction(float(low_end)))
    sums = []
    masses = []
    for at_end, mass in enumerate(ends.tolist(), start=first):
        if mass < _RARE:
            continue
        fewest, rises = binomial_law(symbols - at_end, Fraction(float(high / (1 - low_end))))
        rising = np.arange(fewest, fewest + rises.size)
        sums.append(rising / falls + (symbols - at_end - rising) * falls)
        masses.append(mass * rises)
    return np.concatenate(sums), np.concatenate(masses)
