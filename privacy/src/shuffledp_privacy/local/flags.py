"""The hidden-flag blanket of any finite local randomiser: bounds for its shuffled reports.

Certified: with the probabilities γ_y = min_x R(y|x), each of the others sends an output that does
not depend on its value, and the adversary is told which of them did. Attained: all others hold one
value. Both are the mean positive part of a sum of equal draws, which `primitives.excess` computes
(docs/accounting.md, K11, K12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics import rounding
from shuffledp_privacy.primitives.excess import Draw, many_chernoff, mean_excess
from shuffledp_privacy.primitives.inversion import certified_epsilon
from shuffledp_privacy.primitives.tails import Floats, inward, outward

Indices = NDArray[np.int64]

Rows = tuple[tuple[Fraction, ...], ...]
"""R(y|x): a row for each value x, a column for each output y."""

MARGIN: Final = 2.0**-40
"""Relative margin of R(y|x)/γ_y, for the rounding of γ_y and of sums of up to 2000 of them."""

MOST_OUTPUTS: Final = 2000

MOST_CELLS: Final = 20_000_000
"""Most outputs times pairs of values: about 2 s to find out which pairs are alike."""

LEAST_NORMAL: Final = 1e-300
"""A smaller chance loses digits as a float, or all of it."""

LEAST_BLANKET: Final = 1e-130
"""A smaller γ_y is taken for none: squares of what is divided by it would overflow."""

RARE: Final = 1e-4
"""Outputs of which all others send fewer than this are taken for uncovered; δ grows by less than
this share.
"""

LARGEST_VALUE: Final = 1e140
"""The square of a larger value would be no double."""

LARGEST_EPSILON: Final = 100.0
"""Beyond it the local guarantee is all that is computed."""

MOST_AT_ONCE: Final = 1_000_000
"""Most outputs times pairs that are looked at together."""

COARSE: Final = 8.0
"""How much less is spent on a pair to see that another one is worse."""

MOST_CHANGES: Final = 64
"""Most changes of a value that are looked at for a dataset that is bad."""

MOST_DATASETS: Final = 12
"""Most datasets that are tried."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A change from x0 to x1 against the others' law m, as ratios a/m and b/m.

    Outputs without such a mass are separate.

    Attributes:
        mass: γ_y, shape (classes,), outputs of one class together.
        gained: R(y|x0)/γ_y.
        given: R(y|x1)/γ_y.
        bare: (R(y|x0), R(y|x1)) of the outputs without mass, shape (2, outputs).
        epsilon0: largest ln R(y|x0)/R(y|x1), rounded up; may be infinite.
    """

    mass: Floats
    gained: Floats
    given: Floats
    bare: Floats
    epsilon0: float

    def upper(self, honest: int, epsilon: float, goal: float = 0.0, coarse: float = 1.0) -> float:
        """Certified δ for ε >= 0, never below the pair's δ.

        `coarse` and `goal` as in `mean_excess`.
        """
        if epsilon >= self.epsilon0 < math.inf:
            return 0.0
        local = self._local(epsilon, MARGIN)
        if honest == 1 or epsilon > LARGEST_EPSILON:
            return min(1.0, outward(local))
        draw, bare = self._cover(honest, epsilon)
        excess = mean_excess(draw, honest, goal - bare, coarse)[1] + bare
        return min(1.0, outward(min(local, excess)))

    def lower(self, honest: int, epsilon: float, goal: float = 0.0) -> float:
        """Attained δ for ε >= 0, never above the pair's; the others' law must have mass 1."""
        if epsilon > LARGEST_EPSILON:
            return 0.0
        if honest == 1:
            return inward(self._local(epsilon, -MARGIN))
        draw = Draw(self.mass, self._values(epsilon, -MARGIN))
        bare = self._bare(epsilon, -MARGIN)
        # A bare output may have had a chance below the least, which the others would add to the
        # second law.
        hidden = LEAST_BLANKET * honest * math.exp(epsilon) * self.bare.shape[1]
        if np.abs(draw.values).max(initial=0.0) > LARGEST_VALUE:
            return inward(max(0.0, bare - hidden))
        return inward(max(0.0, mean_excess(draw, honest, goal - bare)[0] + bare - hidden))

    def _values(self, epsilon: float, margin: float) -> Floats:
        with np.errstate(over="ignore"):  # far below 0 is all there is to know
            return np.asarray(
                self.gained * (1 + margin) - self.given * (math.exp(epsilon) * (1 - margin))
            )

    def _bare(self, epsilon: float, margin: float) -> float:
        left, right = self.bare
        if margin > 0.0:
            right = _without_tiny(right)
        return float(
            np.maximum(
                left * (1 + margin) - right * (math.exp(min(epsilon, 700.0)) * (1 - margin)), 0.0
            ).sum()
        )

    def _cover(self, honest: int, epsilon: float) -> tuple[Draw, float]:
        """Law of V over outputs that others send often, and an upper bound of δ for the rest."""
        values = self._values(epsilon, MARGIN)
        often = self.mass * honest > RARE / max(1, self.mass.size)
        rare = float((np.maximum(values, 0.0) * self.mass)[~often].sum())
        return Draw(self.mass[often], values[often]), rare * (1 + MARGIN) + self._bare(
            epsilon, MARGIN
        )

    def _local(self, epsilon: float, margin: float) -> float:
        """δ of a single report."""
        values = np.maximum(self._values(min(epsilon, 700.0), margin), 0.0) * self.mass
        return float(values.sum()) * (1 + margin) + self._bare(epsilon, margin)


def blanket_of(rows: Rows) -> tuple[Fraction, ...]:
    """The blanket γ_y = min_x R(y|x) of each output y."""
    return tuple(min(column) for column in zip(*rows, strict=True))


class HiddenFlags:
    """All changes of a value, with equivalent changes counted once.

    Args:
        rows: R(y|x); exact, each of sum 1.
        blanket: γ_y, 0 <= γ_y <= R(y|x) for every value x that the others may hold; None for the
            largest there is.
    """

    def __init__(self, rows: Rows, blanket: tuple[Fraction, ...] | None = None) -> None:
        self.rows = rows
        masses = _rounded_down(blanket_of(rows) if blanket is None else blanket)
        cells = len(rows) * (len(rows) - 1) * len(masses)
        if cells > MOST_CELLS or len(masses) > MOST_OUTPUTS:
            raise UsageError(
                f"{len(rows)} values and {len(masses)} outputs are too many: at most "
                f"{MOST_OUTPUTS} outputs, and {MOST_CELLS:,} outputs times ordered pairs of "
                "values, are allowed; merge outputs with proportional columns"
            )
        self._ratios = _Ratios(rows, masses)
        self.changes = self._ratios.different()
        self.epsilon0 = max(
            _log_ratio(max(column), min(column)) for column in zip(*rows, strict=True)
        )
        self._pair = lru_cache(maxsize=64)(self._ratios.pair)

    def delta(self, honest: int, epsilon: float) -> float:
        """Certified δ at ε >= 0 over all pairs."""
        if epsilon >= self.epsilon0 < math.inf:
            return 0.0
        best = 0.0
        for bound, change in self._by_size(honest, epsilon):
            if bound <= best:
                break
            pair = self._pair(*change)
            if len(self.changes) == 1 or pair.upper(honest, epsilon, coarse=COARSE) > best:
                best = max(best, min(bound, pair.upper(honest, epsilon)))
        return best

    def _by_size(self, honest: int, epsilon: float) -> list[tuple[float, tuple[int, int]]]:
        """Pairs in descending order of a loose bound on their δ."""
        if len(self.changes) == 1:
            return [(1.0, self.changes[0])]
        bounds = self._ratios.quick(np.array(self.changes), honest, epsilon).tolist()
        return sorted(zip(bounds, self.changes, strict=True), reverse=True)

    def least(self, honest: int, delta: float) -> float:
        """Certified ε at δ, nats, over all pairs.

        Raises:
            CannotCertify: no ε is enough.
        """
        if not self.changes:
            return 0.0
        # Few pairs come near the one that looks worst at its own answer.
        near = 0.5 * self._alone(self._by_size(honest, 0.0)[0][1], honest, delta)
        start = self._by_size(honest, near)[0][1]
        epsilon = self._alone(start, honest, delta)
        left = [
            change
            for bound, change in self._by_size(honest, epsilon)
            if bound > delta and change != start
        ]
        for change in left:
            pair = self._pair(*change)
            if (
                pair.upper(honest, epsilon, delta, COARSE) > delta
                and pair.upper(honest, epsilon, delta) > delta
            ):
                epsilon = max(epsilon, self._alone(change, honest, delta))
        return epsilon

    def _alone(self, change: tuple[int, int], honest: int, delta: float) -> float:
        pair = self._pair(*change)
        return certified_epsilon(partial(pair.upper, honest, goal=delta), delta, pair.epsilon0)

    def datasets(self, honest: int, epsilon: float) -> list[Pair]:
        """Changes that probably have the largest δ near ε, with all others at one value."""
        laws = self._ratios.float_rows
        gaps: list[tuple[float, int, int, int]] = []
        for _, (x0, x1) in self._by_size(honest, epsilon)[:MOST_CHANGES]:
            with np.errstate(all="ignore"):
                distances = np.nansum((laws[x0] - laws[x1]) ** 2 / laws, axis=1)
            gaps += [(gap, x0, x1, other) for other, gap in enumerate(distances.tolist())]
        return [
            _Ratios((self.rows[x0], self.rows[x1]), _nearest(self.rows[other])).pair(0, 1)
            for _, x0, x1, other in sorted(gaps, reverse=True)[:MOST_DATASETS]
        ]


class _Ratios:
    """The ratios R(y|x)/γ_y for all x and y, with equal ones stored once."""

    def __init__(self, rows: Rows, masses: Sequence[tuple[Fraction, float]]) -> None:
        self.rows = rows
        covered = [index for index, (_, mass) in enumerate(masses) if mass > 0.0]
        bare = [index for index, (_, mass) in enumerate(masses) if mass <= 0.0]
        self.mass = np.array([masses[index][1] for index in covered], dtype=np.float64)
        code_of: dict[Fraction, int] = {}
        divided: dict[tuple[Fraction, Fraction], int] = {}
        self.code = np.zeros((len(rows), len(covered)), dtype=np.int64)
        for x, row in enumerate(rows):
            for column, y in enumerate(covered):
                key = (row[y], masses[y][0])
                if key not in divided:
                    divided[key] = code_of.setdefault(row[y] / masses[y][0], len(code_of))
                self.code[x, column] = divided[key]
        self.exact = list(code_of)
        self.ratio = np.array([float(value) for value in self.exact], dtype=np.float64)
        self.column = np.unique(self.mass, return_inverse=True)[1].reshape(-1)
        self.float_rows = np.array([[float(value) for value in row] for row in rows])
        self.bare = np.array(
            [[_rounded_up(row[y]) for y in bare] for row in rows], dtype=np.float64
        )
        chances: dict[Fraction, int] = {}
        numbers = [[chances.setdefault(row[y], len(chances)) for y in bare] for row in rows]
        self.bare_code = np.array(numbers, dtype=np.int64)
        self.bare_codes = len(chances)

    def different(self) -> list[tuple[int, int]]:
        """One pair of values of each kind; all pairs of a kind have the same ratios.

        Two pairs are of one kind if they differ only in the names of the outputs.
        """
        kinds: dict[bytes, tuple[int, int]] = {}
        for x0, x1 in permutations(range(len(self.rows)), 2):
            # By the exact chances, here and below: floats may be equal where these are not.
            if self.rows[x0] == self.rows[x1]:
                continue
            merged = (self.code[x0] * len(self.exact) + self.code[x1]) * (
                self.mass.size + 1
            ) + self.column
            merged.sort()
            bare = np.sort(self.bare_code[x0] * self.bare_codes + self.bare_code[x1])
            kinds.setdefault(merged.tobytes() + bare.tobytes(), (x0, x1))
        return list(kinds.values())

    def pair(self, x0: int, x1: int) -> Pair:
        """The change from x0 to x1, with outputs of equal ratios joined."""
        codes, inverse = np.unique(
            self.code[x0] * len(self.exact) + self.code[x1], return_inverse=True
        )
        # Down, by more than the rounding of the sum: less blanket is a looser bound.
        together = np.bincount(inverse.reshape(-1), weights=self.mass, minlength=codes.size)
        mass = np.asarray(together * (1 - 2.0**-53 * self.mass.size), dtype=np.float64)
        left, right = np.divmod(codes, max(1, len(self.exact)))
        epsilon0 = self._epsilon0(x0, x1)
        return Pair(
            np.asarray(mass, dtype=np.float64),
            self.ratio[left],
            self.ratio[right],
            self.bare[[x0, x1]],
            epsilon0,
        )

    def _epsilon0(self, x0: int, x1: int) -> float:
        """Largest ln R(y|x0)/R(y|x1), rounded up, from the rounded probabilities."""
        above, below = self.float_rows[x0], self.float_rows[x1]
        with np.errstate(all="ignore"):
            ratio = np.where(above > 0.0, above / below, 0.0)
        # What is next to nothing as a float, or nothing, is compared exactly: 1e-400 is not 0.
        small = np.flatnonzero((below < LEAST_NORMAL) | (above < LEAST_NORMAL)).tolist()
        places = {int(np.argmax(ratio)), *small}
        # Another one may be larger by its rounding.
        return (
            max(_log_ratio(self.rows[x0][output], self.rows[x1][output]) for output in places)
            + 2.0**-50
        )

    def quick(self, changes: Indices, honest: int, epsilon: float) -> Floats:
        """Chernoff upper bounds of δ for many pairs at a time, at ε >= 0."""
        bounds = np.empty(len(changes))
        chunk = max(1, MOST_AT_ONCE // max(1, self.mass.size))
        growth = math.exp(min(epsilon, LARGEST_EPSILON)) * (1 - MARGIN)
        often = self.mass * honest > RARE / max(1, self.mass.size)
        for start in range(0, len(changes), chunk):
            x0, x1 = changes[start : start + chunk].T
            values = self.ratio[self.code[x0]] * (1 + MARGIN) - self.ratio[self.code[x1]] * growth
            given = _without_tiny(self.bare[x1])
            bare = np.maximum(self.bare[x0] * (1 + MARGIN) - given * growth, 0.0).sum(axis=1)
            bare += np.maximum(values[:, ~often], 0.0) @ self.mass[~often] * (1 + MARGIN)
            bounds[start : start + chunk] = bare + many_chernoff(
                self.mass[often], values[:, often], honest
            )
        return np.minimum(bounds * (1 + 1e-8), 1.0)


def _log_ratio(above: Fraction, below: Fraction) -> float:
    """ln(a/b), rounded up and at least 0; infinite if only b is 0."""
    if above <= below:
        return 0.0
    if below == 0:
        return math.inf
    ratio = above / below
    # Near 1 the logarithm of a rounded ratio would have lost its digits.
    if ratio < 2:
        return rounding.up(math.log1p(float(ratio - 1))) + 2.0**-1070
    if ratio < 2**1000:
        return rounding.up(math.log(float(ratio)))
    # The logarithms of long numbers are large, and their difference has lost what both were rounded
    # by.
    return (math.log(ratio.numerator) - math.log(ratio.denominator)) * (1 + 2.0**-40)


def _rounded_up(chance: Fraction) -> float:
    """The probability as a float, rounded up where floats have fewer digits.

    `MARGIN` covers all others.
    """
    nearest = float(chance)
    return math.nextafter(nearest, 1.0) if chance > 0 and nearest < LEAST_NORMAL else nearest


def _without_tiny(chances: Floats) -> Floats:
    """Probabilities to subtract from a certified δ: 0 for those that were rounded up."""
    return np.where(chances < LEAST_NORMAL, 0.0, chances)


def _rounded_down(blanket: tuple[Fraction, ...]) -> list[tuple[Fraction, float]]:
    roundings = []
    for value in blanket:
        rounded = math.nextafter(float(value), 0.0)
        roundings.append((value, rounded if rounded >= LEAST_BLANKET else 0.0))
    return roundings


def _nearest(law: tuple[Fraction, ...]) -> list[tuple[Fraction, float]]:
    return [(value, float(value) if float(value) >= LEAST_BLANKET else 0.0) for value in law]
