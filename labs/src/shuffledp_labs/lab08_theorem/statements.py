"""True and false statements about shuffled k-RR: functions from a cell to a promised δ.

All are rational, because p/q and e^ε are. A statement is false in a cell if some dataset has a
larger δ.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import TypeAlias

from shuffledp_labs.lab08_theorem.exact import Cell, delta_of, worst_case

Statement: TypeAlias = Callable[[int, int, Fraction, Fraction], Fraction]
"""(users, symbols, p, growth) -> the δ that is promised."""

ZERO = Fraction(0)


def printed_theorem(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """Theorem 1 of Biswas et al. 2023 as printed, for the most favourable number of x0 holders."""
    return max(printed_at(at_x0, users, symbols, p, growth) for at_x0 in range(users))


def repaired_theorem(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The printed theorem with its algebra repaired.

    It is the exact δ of one bin, x0's, for the best number of others there.
    """
    return max(repaired_at(at_x0, users, symbols, p, growth) for at_x0 in range(users))


def third_symbol(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The δ of the dataset with all others at a third symbol, as if it were the worst.

    Three symbols or more.
    """
    return delta_of(symbols, p, growth, (2,) * (users - 1))


def exact_worst(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The exact largest δ."""
    return worst_case((users, symbols, p, growth))[0]


def lowered_in_one_cell(cell: Cell, part: Fraction) -> Statement:
    """The exact largest δ, except in one cell, where it is too small by `part`."""

    def statement(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
        value = exact_worst(users, symbols, p, growth)
        return value * (1 - part) if (users, symbols, p, growth) == cell else value

    return statement


def blanket(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The privacy blanket of Balle et al. 2019 with its exact law.

    Each other user sends noise with probability kq.
    """
    share = symbols * (1 - p) / (symbols - 1)
    noisy = (
        comb(users - 1, others)
        * share**others
        * (1 - share) ** (users - 1 - others)
        * _delta_among_uniform(others + 1, cell)
        for cell in [(users, symbols, p, growth)]
        for others in range(users)
    )
    return sum(noisy, ZERO)


def blanket_of_one_more(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The blanket with n + 1 instead of n, as if the changed user blanketed itself."""
    return blanket(users + 1, symbols, p, growth)


def no_shuffle(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The δ of one user's own randomiser, independent of the others."""
    del users
    return max(ZERO, p - growth * (1 - p) / (symbols - 1))


@lru_cache(maxsize=4096)
def printed_at(at_x0: int, users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """Theorem 1 as printed: δ = Σ_s (1 - e^(ε - v_s))_+ P(s), with e^(v_s) by its sums A and B."""
    q = (1 - p) / (symbols - 1)
    rest = users - at_x0
    kappa1 = p * (1 - q) / (q * (1 - p))
    kappa2 = (1 - p) / (1 - q)
    here, _ = _bin_of_x0(at_x0, users, p, q)
    total = ZERO
    for count in range(users + 1):
        low = max(0, count - rest)
        high = min(at_x0, count)
        a = sum(
            (comb(at_x0, r) * comb(rest, count - r) * kappa1**r for r in range(low, high + 1)), ZERO
        )
        b = sum(
            (
                (count - r) * comb(at_x0, r) * comb(rest - 1, count - r - 1) * kappa1**r
                for r in range(low, high + 1)
                if count > r
            ),
            ZERO,
        )
        loss = kappa2 + (p / q - kappa2) / rest * b / a
        total += max(ZERO, 1 - growth / loss) * here[count]
    return total


@lru_cache(maxsize=4096)
def repaired_at(at_x0: int, users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """δ of the number of messages x0, with the changed user at x0 or elsewhere. Exact."""
    here, elsewhere = _bin_of_x0(at_x0, users, p, (1 - p) / (symbols - 1))
    return sum(
        (
            max(ZERO, here_mass - growth * elsewhere_mass)
            for here_mass, elsewhere_mass in zip(here, elsewhere, strict=True)
        ),
        ZERO,
    )


def best_bin(users: int, symbols: int, p: Fraction, growth: Fraction) -> Fraction:
    """The largest δ of the count of x0 alone, over all datasets and both directions."""
    q = (1 - p) / (symbols - 1)
    largest = ZERO
    for at_x0 in range(users):
        here, elsewhere = _bin_of_x0(at_x0, users, p, q)
        for likely, unlikely in ((here, elsewhere), (elsewhere, here)):
            largest = max(
                largest,
                sum(
                    (max(ZERO, a - growth * b) for a, b in zip(likely, unlikely, strict=True)), ZERO
                ),
            )
    return largest


def _bin_of_x0(
    at_x0: int, users: int, p: Fraction, q: Fraction
) -> tuple[list[Fraction], list[Fraction]]:
    """Laws of the number of messages x0, with the changed user at x0 and elsewhere."""
    common = _convolve(_binomial(at_x0, p), _binomial(users - 1 - at_x0, q))
    return _convolve(common, [1 - p, p]), _convolve(common, [1 - q, q])


def _binomial(trials: int, chance: Fraction) -> list[Fraction]:
    return [
        comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits)
        for hits in range(trials + 1)
    ]


def _convolve(left: list[Fraction], right: list[Fraction]) -> list[Fraction]:
    result = [ZERO] * (len(left) + len(right) - 1)
    for i, left_mass in enumerate(left):
        for j, right_mass in enumerate(right):
            result[i + j] += left_mass * right_mass
    return result


def _delta_among_uniform(size: int, cell: Cell) -> Fraction:
    """δ of one user's message among `size` - 1 uniform messages.

    It is E[(Σ_i (M_0 - e^ε M_1)(Y_i))_+] k/size, Y_i uniform.
    """
    _, symbols, p, growth = cell
    q = (1 - p) / (symbols - 1)
    steps = (p - growth * q, q - growth * p, q - growth * q)
    total = ZERO
    for first in range(size + 1):
        for second in range(size - first + 1):
            rest = size - first - second
            ways = comb(size, first) * comb(size - first, second) * (symbols - 2) ** rest
            gain = first * steps[0] + second * steps[1] + rest * steps[2]
            if gain > 0:
                total += ways * gain
    return total * symbols / (size * Fraction(symbols) ** size)
