"""Encodings of one of k symbols, too large for a matrix, analysed by three values (K11).

Each of these encodings is symmetric: any two values can be exchanged for any other two, and in
unary codes and subsets also for any third. So the probabilities under three values, and the blanket
over all k, determine the bound; outputs with equal ones are merged into one column. For the
Hadamard response the third value is chosen as the worst.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from shuffledp_core.errors import UsageError
from shuffledp_core.runtime.arguments import check_number, whole_number

Rows = tuple[tuple[Fraction, ...], ...]

MOST_SYMBOLS = 10**6

LONGEST_POWER = 1000


def _check_symbols(symbols: int) -> None:
    whole_number("symbols", symbols)
    if not 2 <= symbols <= MOST_SYMBOLS:
        raise UsageError(f"symbols must be from 2 to {MOST_SYMBOLS:,}, not {symbols}")


@dataclass(frozen=True, slots=True)
class UnaryEncoding:
    """One bit for each of k symbols, each randomised independently.

    Symmetric and optimised unary encoding, and basic RAPPOR.

    Attributes:
        symbols: k, 2 to 1,000,000.
        when_one: chance of a 1 for the bit of the user's own symbol, in (0, 1).
        when_zero: chance of a 1 for every other bit, in (0, when_one).
    """

    symbols: int
    when_one: Fraction
    when_zero: Fraction

    def __post_init__(self) -> None:
        _check_symbols(self.symbols)
        check_number("when-zero", self.when_zero)
        check_number("when-one", self.when_one)
        if not 0 < self.when_zero < self.when_one < 1:
            raise UsageError(
                f"need 0 < when-zero < when-one < 1, not {self.when_zero} and {self.when_one}"
            )

    @property
    def rows(self) -> Rows:
        """Probabilities of three values' bit patterns, with the other bits all 1 or not."""
        return self._table[0]

    @property
    def blanket(self) -> tuple[Fraction, ...]:
        """The smallest probability of each output over all k values."""
        return self._table[1]

    @property
    def _table(self) -> tuple[Rows, tuple[Fraction, ...]]:
        shown = min(3, self.symbols)
        # R(y|x) is the chance of y under no symbol at all, times one of these for the bit of x.
        for_one = self.when_one / self.when_zero
        for_zero = (1 - self.when_one) / (1 - self.when_zero)
        # The least is taken by a symbol whose bit is 0, if there is one.
        rest = self.symbols - shown
        full = _power_down(self.when_zero, rest) if rest else Fraction(1)
        columns: list[list[Fraction]] = [[] for _ in range(shown)]
        blanket = []
        for bits in product((0, 1), repeat=shown):
            base = math.prod(
                (self.when_zero if bit else 1 - self.when_zero for bit in bits), start=Fraction(1)
            )
            for chance, others_full in ((full, True), (1 - full, False)):
                if chance == 0:
                    continue
                for x, bit in enumerate(bits):
                    columns[x].append(base * chance * (for_one if bit else for_zero))
                blanket.append(base * chance * (for_one if all(bits) and others_full else for_zero))
        return tuple(tuple(row) for row in columns), tuple(blanket)


def _power_down(chance: Fraction, times: int) -> Fraction:
    """chance^times, exactly; 0 if it is below 1e-300 or its exact form is too long.

    Replacing it by 0 is sound: it makes the blanket smaller, which only loosens the bound.
    """
    return (
        chance**times
        if times <= LONGEST_POWER and times * math.log(1 / chance) < 690
        else Fraction(0)
    )


MOST_HASHES = 8


@dataclass(frozen=True, slots=True)
class FilterResponse:
    """Two Bloom filters of h bits each without a common bit, each bit flipped with probability r.

    No two filters of at most h bits cost more, in however many cohorts (K17). An output is how many
    bits of either filter are reported as 1.

    Attributes:
        hashes: h, 1 to 8.
        flip: r, above 0 and below 1/2.
    """

    hashes: int
    flip: Fraction

    def __post_init__(self) -> None:
        whole_number("hashes", self.hashes)
        if not 1 <= self.hashes <= MOST_HASHES:
            raise UsageError(f"hashes must be from 1 to {MOST_HASHES}, not {self.hashes}")
        check_number("flip", self.flip)
        if not 0 < self.flip < Fraction(1, 2):
            raise UsageError(f"flip must be above 0 and below 1/2, not {self.flip}")

    @property
    def rows(self) -> Rows:
        """The law of both numbers under either filter."""
        return self.rows_of(2)

    def rows_of(self, filters: int) -> Rows:
        """The law of the numbers of all of these filters under each one; no two share a bit."""
        inside = self._ones(1 - self.flip)
        outside = self._ones(self.flip)
        return tuple(
            tuple(
                math.prod(
                    ((inside if at == row else outside)[ones] for at, ones in enumerate(numbers)),
                    start=Fraction(1),
                )
                for numbers in product(range(self.hashes + 1), repeat=filters)
            )
            for row in range(filters)
        )

    @property
    def blanket(self) -> tuple[Fraction, ...]:
        """(r/(1-r))^h times the law of an empty filter, which no filter's law is below (K17)."""
        outside = self._ones(self.flip)
        least = (self.flip / (1 - self.flip)) ** self.hashes
        return tuple(least * first * second for first, second in product(outside, repeat=2))

    def _ones(self, chance: Fraction) -> list[Fraction]:
        """The law of the number of ones among h bits."""
        return [
            math.comb(self.hashes, ones) * chance**ones * (1 - chance) ** (self.hashes - ones)
            for ones in range(self.hashes + 1)
        ]


@dataclass(frozen=True, slots=True)
class SubsetSelection:
    """A subset of w of the k symbols, which holds the user's own more often than others.

    Source: Ye and Barg 2018.

    Attributes:
        symbols: k, 2 to 1,000,000.
        size: w, 1 to k - 1.
        own: the chance that the subset holds the user's own symbol, above w/k and below 1; else it
            is any other subset.
    """

    symbols: int
    size: int
    own: Fraction

    def __post_init__(self) -> None:
        _check_symbols(self.symbols)
        whole_number("size", self.size)
        check_number("own", self.own)
        if not 1 <= self.size < self.symbols:
            raise UsageError(f"size must be from 1 to {self.symbols - 1}, not {self.size}")
        if not Fraction(self.size, self.symbols) < self.own < 1:
            raise UsageError(
                f"own must be above {self.size}/{self.symbols} and below 1, not {self.own}"
            )

    @property
    def rows(self) -> Rows:
        """Probabilities of each set of the three values that the subset contains."""
        return self._table[0]

    @property
    def blanket(self) -> tuple[Fraction, ...]:
        """The probability of a subset that does not contain the user's symbol."""
        return self._table[1]

    @property
    def _table(self) -> tuple[Rows, tuple[Fraction, ...]]:
        shown, k, w = min(3, self.symbols), self.symbols, self.size
        # Shares of all subsets; those that hold a given symbol are w/k of all.
        inside = self.own / Fraction(w, k)
        outside = (1 - self.own) / (1 - Fraction(w, k))
        columns: list[list[Fraction]] = [[] for _ in range(shown)]
        blanket = []
        for bits in product((0, 1), repeat=shown):
            ones = sum(bits)
            share = Fraction(1)
            for step in range(ones):
                share *= Fraction(max(0, w - step), k - step)
            for step in range(shown - ones):
                share *= Fraction(max(0, k - w - step), k - ones - step)
            if share > 0:
                for x, bit in enumerate(bits):
                    columns[x].append(share * (inside if bit else outside))
                blanket.append(share * outside)
        return tuple(tuple(row) for row in columns), tuple(blanket)


@dataclass(frozen=True, slots=True)
class HadamardResponse:
    """An index of a Hadamard matrix with K rows, likelier in the half of the user's symbol.

    Source: Acharya et al. 2019.

    Attributes:
        order: K, a power of two from 4 to 2^20; K - 1 symbols can be told apart.
        own: the chance of the half of the user's own symbol, above 1/2 and below 1.
    """

    order: int
    own: Fraction

    def __post_init__(self) -> None:
        if self.order.bit_count() != 1 or not 4 <= self.order <= 2**20:
            raise UsageError(f"order must be a power of two from 4 to {2**20:,}, not {self.order}")
        if not Fraction(1, 2) < self.own < 1:
            raise UsageError(f"own must be above 1/2 and below 1, not {self.own}")

    @property
    def rows(self) -> Rows:
        """Probabilities of the cells into which three values' halves cut the indices.

        The index that lies in all halves is a cell of its own.
        """
        return tuple(
            tuple(
                (self.own if bits[x] else 1 - self.own) * 2 * share for bits, share in self._parts
            )
            for x in range(3)
        )

    @property
    def blanket(self) -> tuple[Fraction, ...]:
        """The probability of an index outside the user's half.

        The index 0 is in the half of every symbol.
        """
        rest = tuple((1 - self.own) * 2 * share for _, share in self._parts[1:])
        return (self.own * 2 * self._parts[0][1], *rest)

    @property
    def _parts(self) -> list[tuple[tuple[int, ...], Fraction]]:
        """Cells of the indices: which of the rows 1, 2, 3 has the cell in its half, and its share.

        Index 0 comes first. Row 3 is the product of the two others. Users who hold it rarely send
        the indices that distinguish the other two, as rarely as the blanket (K13), so of all rows
        it hides the change least.
        """
        alone, quarter = Fraction(1, self.order), Fraction(1, 4)
        parts = [
            ((1, 1, 1), alone),
            ((1, 1, 1), quarter - alone),
            ((1, 0, 0), quarter),
            ((0, 1, 0), quarter),
            ((0, 0, 1), quarter),
        ]
        return [(bits, share) for bits, share in parts if share > 0]
