"""The exact samplers of `sampling` for arrays of users: the same laws, by integers alone.

For simulated users, audits and experiments; a device draws its one value by `sampling`. Every law
is proved in its docstring from the exact draws of `RandomArrays`. Values are runs, or the proposals
that were kept, of a stream of independent draws in its order (`_collect`); or all users take a step
together, and those who have finished leave. Either way no draw serves two of them, so that they are
independent. Arrays are of 64-bit integers that cannot wrap around: what would not fit is computed
in Python's integers.

Sources: as `sampling`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.sampling.arrays import RandomArrays

Integers = NDArray[np.int64]

LEAST_EPSILON: Final = Fraction(1, 2**40)
"""Smallest ε that is drawn in bulk: a geometric then exceeds `MOST` with probability exp(-2^22) at
most.
"""

MOST: Final = 2**62
"""Largest noise, so that a value and a padding can be added to it."""


def binomial(
    trials: Integers, probability: Fraction, arrays: RandomArrays, piece: int = 2**16
) -> Integers:
    """Number of true coins among `trials` each, drawn one by one.

    Args:
        trials: shape (users,), each at least 0.
        probability: probability of every coin, from 0 to 1.
        arrays: the source of randomness.
        piece: about how many coins are in memory at once.

    Returns:
        Shape (users,), from 0 to `trials`.

    Raises:
        ValueError: a probability out of range.
    """
    true = np.zeros_like(trials)
    most = int(trials.max(initial=0))
    rows = max(1, piece // max(1, trials.size))
    for first in range(0, most, rows):
        numbers = np.arange(first, min(first + rows, most))[:, np.newaxis]
        coins = arrays.bernoulli(probability, numbers.size * trials.size).reshape(
            numbers.size, trials.size
        )
        # A coin beyond a user's own number is drawn and not looked at.
        true += np.count_nonzero(coins & (numbers < trials), axis=0)
    return true


def geometric(epsilon: Fraction, count: int, arrays: RandomArrays) -> Integers:
    """`count` independent G on {0, 1, ..} with P(G = g) = (1 - φ) φ^g, φ = exp(-epsilon).

    Like `sampling.geometric`.

    With epsilon = s/t, G = floor((U + t V)/s): U on {0..t-1} is uniform and kept with probability
    exp(-U/t); V counts successes of probability exp(-1).

    Args:
        epsilon: ε in nats, at least `LEAST_EPSILON`.
        count: number of draws.
        arrays: the source of randomness.

    Returns:
        Shape (count,).

    Raises:
        ValueError: epsilon is too small, or its denominator above 2^63.
        OverflowError: a draw beyond `MOST`, with probability exp(-2^22) at most; no number is ever
            a wrong one.
    """
    if epsilon < LEAST_EPSILON:
        raise ValueError(
            f"epsilon must be at least 2^-40 for sampling in bulk, not {epsilon}: draw one by one"
        )
    scale = epsilon.denominator
    low = _low_parts(scale, count, arrays)
    high = _high_parts(count, arrays)
    if max(scale * (1 + int(high.max(initial=0))), epsilon.numerator) <= MOST:
        return (low + scale * high) // epsilon.numerator
    parts = zip(low.tolist(), high.tolist(), strict=True)
    quotients = [
        (low_part + scale * high_part) // epsilon.numerator for low_part, high_part in parts
    ]
    if max(quotients, default=0) > MOST:
        raise OverflowError(
            "the drawn noise has more than 62 bits, which has probability exp(-2^22): draw again"
        )
    return np.array(quotients, dtype=np.int64)


def discrete_laplace(epsilon: Fraction, count: int, arrays: RandomArrays) -> Integers:
    """`count` independent N on the integers with P(N = j) = (1 - φ)/(1 + φ) φ^|j|.

    Like `sampling.discrete_laplace`.

    A geometric magnitude with a fair sign, both drawn afresh for "minus zero". Arguments and errors
    as `geometric`.
    """

    def propose(size: int) -> Integers:
        magnitude = geometric(epsilon, size, arrays)
        negative = arrays.below(2, size) == 1
        return np.where(negative, -magnitude, magnitude)[
            np.flatnonzero((magnitude > 0) | ~negative)
        ]

    return _collect(count, propose)


def geometric_share(epsilon: Fraction, shares: int, count: int, arrays: RandomArrays) -> Integers:
    """`count` independent values, each one of `shares` addends of a geometric.

    Like `sampling.geometric_share`.

    Draw i from Pólya's urn is white with probability (1 + shares s)/(shares (1 + i)), s the white
    draws so far: where a uniform on {0..shares (1 + i) - 1} is at most shares s. It is shares B + A
    with B uniform on {0..i} and A on {0..shares-1}, independent, so that this is where B < s, or B
    = s and A = 0: no product is formed.

    Args:
        epsilon: ε in nats, at least `LEAST_EPSILON`.
        shares: how many addends make one geometric, from 1 to 2^63.
        count: number of draws.
        arrays: the source of randomness.

    Returns:
        Shape (count,).

    Raises:
        ValueError, OverflowError: as `geometric`, or shares out of range.
    """
    if shares < 1:
        raise ValueError(f"shares must be at least 1, not {shares}")
    draws = geometric(epsilon, count, arrays)
    white = np.zeros(count, dtype=np.int64)
    drawing = np.flatnonzero(draws)
    draw = 0
    white_chance, left = Fraction(1, shares), draws[drawing]
    while drawing.size:
        so_far, ball = white[drawing], arrays.below(1 + draw, drawing.size)
        white[drawing] += (ball < so_far) | (
            (ball == so_far) & arrays.bernoulli(white_chance, drawing.size)
        )
        draw += 1
        going = np.flatnonzero(left > draw)
        drawing, left = drawing[going], left[going]
    return white


def sgdl(epsilon: Fraction, shares: int, count: int, arrays: RandomArrays) -> Integers:
    """`count` differences of two independent `geometric_share`s each.

    Like `sampling.sgdl`, with the same errors.
    """
    return geometric_share(epsilon, shares, count, arrays) - geometric_share(
        epsilon, shares, count, arrays
    )


def _collect(count: int, propose: Callable[[int], Integers]) -> Integers:
    """The first `count` accepted values of a stream of independent proposals, in order.

    `propose(size)` draws `size` proposals and returns the accepted ones. Never more are proposed
    than are missing, so that no accepted value is discarded.
    """
    accepted, missing = [np.zeros(0, dtype=np.int64)], count
    while missing:
        accepted.append(propose(missing))
        missing -= accepted[-1].size
    return np.concatenate(accepted)


def _low_parts(scale: int, count: int, arrays: RandomArrays) -> Integers:
    """`count` independent U on {0..scale-1} with weights exp(-U/scale)."""

    def propose(size: int) -> Integers:
        drawn = arrays.below(scale, size)
        return drawn[np.flatnonzero(_unit_exp(drawn, scale, arrays))]

    return _collect(count, propose) if scale > 1 else np.zeros(count, dtype=np.int64)


def _high_parts(count: int, arrays: RandomArrays) -> Integers:
    """`count` independent V >= 0 with P(V = v) = (1 - 1/e) e^-v: numbers of successes in a row."""
    drawn = 0

    def propose(size: int) -> Integers:
        nonlocal drawn
        failures = np.flatnonzero(~arrays.coins(map(_inverse_e, itertools.count(1)), size)) + drawn
        drawn += size
        return failures

    return np.diff(_collect(count, propose), prepend=-1) - 1


def _unit_exp(numerators: Integers, denominator: int, arrays: RandomArrays) -> NDArray[np.bool_]:
    """A coin of probability exp(-γ) for each γ = numerator/denominator in [0, 1].

    Like `sampling.bernoulli_exp`.

    True where the first K at which Bernoulli(γ/K) fails is odd. Bernoulli(γ/K) is Bernoulli(1/K)
    and Bernoulli(γ), both independent, so that no bound is a product.
    """
    odd = np.ones(numerators.size, dtype=np.bool_)
    going = np.arange(numerators.size)
    trial = 1
    while going.size:
        going = going[np.flatnonzero(arrays.bernoulli(Fraction(1, trial), going.size))]
        going = going[np.flatnonzero(arrays.below(denominator, going.size) < numerators[going])]
        trial += 1
        odd[going] = trial % 2 == 1
    return odd


@cache
def _inverse_e(position: int) -> int:
    """The digit of exp(-1) at this position, counted from 1, in base 256.

    exp(-1) lies between any two successive partial sums of Σ (-1)^j / j!; where both have the
    digit, it has.
    """
    shift = 1 << 8 * position
    total = Fraction(1)
    term = Fraction(-1)
    j = 1
    while math.floor(shift * total) != math.floor(shift * (total + term)):
        j += 1
        total, term = total + term, -term / j
    return math.floor(shift * total) % 256
