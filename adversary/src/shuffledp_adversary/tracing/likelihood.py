"""Likelihood of an answer given a value, and the adversary's guess. Pure.

An answer is the sum of a user's own messages: the symbol of a histogram, the number of ones of a
sum. These are the laws that `shuffledp_core.sampling.randomisers` samples, computed in floating
point; a test compares the two.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import singledispatch
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import (
    HadamardHistogram,
    KRRHistogram,
    Mechanism,
    OneBitShuffle,
    PaddedSpec,
    QuantisedRR,
    RapporHistogram,
    RRShuffle,
    SplitMix,
)
from shuffledp_privacy.primitives.table import NoiseTable
from shuffledp_privacy.registry import registered
from shuffledp_privacy.sums.sgdl import share_law

Floats = NDArray[np.float64]

_CELLS: Final = 2**22
"""Largest block of the table of answers by values that is held at once: 32 MiB."""


def guess_values(spec: Mechanism, answers: NDArray[np.int64], prior: Floats) -> NDArray[np.int64]:
    """Guess the likeliest value for each answer: argmax of P(answer | x) prior(x).

    Of equally likely values the smallest is taken.

    A uniform prior makes it the maximum-likelihood guess.

    Args:
        spec: the mechanism, as certified.
        answers: shape (users,), in {0..m} for sums, {0..k-1} for a histogram.
        prior: shape (spec.domain,), not negative, with a positive sum.
    """
    distinct, inverse = np.unique(answers, return_inverse=True)
    best = np.empty(len(distinct), dtype=np.int64)
    rows = max(1, _CELLS // spec.domain)
    with np.errstate(divide="ignore"):
        # A value that no user holds gets -inf, and is never guessed.
        log_prior = np.log(prior)
    for start in range(0, len(distinct), rows):
        block = distinct[start : start + rows]
        best[start : start + rows] = np.argmax(log_likelihood(spec, block) + log_prior, axis=1)
    return best[inverse]


@singledispatch
def log_likelihood(spec: object, answers: NDArray[np.int64]) -> Floats:
    """ln P(answer | x): shape (answers, domain), -inf where it cannot be.

    Raises:
        UsageError: the mechanism's package registers no such law, or it cannot be tabulated.
    """
    law = registered(log_likelihood, spec)
    if law is None:
        raise UsageError(
            f"no law of the answers of {type(spec).__name__} is known: nothing can be guessed "
            f"from them"
        )
    return law(spec, answers)


@log_likelihood.register
def _(spec: KRRHistogram, answers: NDArray[np.int64]) -> Floats:
    """Log of γ/k, and of 1 - γ more for the true symbol."""
    other = float(spec.blanket / spec.symbols)
    table = np.full((len(answers), spec.symbols), np.log(other))
    table[np.arange(len(answers)), answers] = np.log(other + float(1 - spec.blanket))
    return table


@log_likelihood.register
def _(spec: HadamardHistogram, answers: NDArray[np.int64]) -> Floats:
    """Log of γ/K, and of 2(1 - γ)/K more where the index lies in the half of the value."""
    inside = np.bitwise_count(answers[:, None] & np.arange(1, spec.symbols + 1)) % 2 == 0
    other = float(spec.blanket / spec.alphabet)
    return np.log(np.where(inside, other + float(2 * (1 - spec.blanket) / spec.alphabet), other))


@log_likelihood.register
def _(spec: RapporHistogram, answers: NDArray[np.int64]) -> Floats:
    """Log of p* or 1 - p* for each bit of another symbol, q* or 1 - q* for that of the value.

    Of one report.
    """
    low, high = (float(chance) for chance in spec.reported)
    set_bits = answers[:, None] >> np.arange(spec.symbols) & 1
    others = np.where(set_bits == 1, math.log(low), math.log1p(-low))
    of_value = np.where(set_bits == 1, math.log(high), math.log1p(-high))
    return np.asarray(others.sum(axis=1, keepdims=True) - others + of_value)


@log_likelihood.register
def _(spec: OneBitShuffle, answers: NDArray[np.int64]) -> Floats:
    """Log of p/2 + (1 - p) x/k for a 1, and of what is left for a 0."""
    flip = float(spec.randomise / 2)
    share = np.arange(spec.domain) / spec.max_value
    ones = flip + float(1 - spec.randomise) * share
    zeros = flip + float(1 - spec.randomise) * (1 - share)
    return np.log(np.where(answers[:, None] == 1, ones, zeros))


@log_likelihood.register
def _(spec: QuantisedRR, answers: NDArray[np.int64]) -> Floats:
    """Between the two steps that a value is rounded to."""
    steps, rest = np.divmod(np.arange(spec.domain) * spec.bits, spec.max_value)
    share = rest / spec.max_value
    of_steps = np.exp(log_likelihood(spec.code, answers))
    # The largest value is the last step, with no share left for one above it.
    above = of_steps[:, np.minimum(steps + 1, spec.bits)]
    with np.errstate(divide="ignore"):
        return np.log((1 - share) * of_steps[:, steps] + share * above)


@log_likelihood.register
def _(spec: RRShuffle, answers: NDArray[np.int64]) -> Floats:
    """Sum of two binomials.

    Each of x ones stays with probability 1 - p/2, each of k - x zeros turns with p/2.
    """
    from scipy.stats import binom  # here: slow to import, and every trace would wait for it

    flip, k = float(spec.randomise / 2), spec.max_value
    table = np.empty((len(answers), k + 1))
    for value in range(k + 1):
        stay = binom.pmf(np.arange(value + 1), value, 1 - flip)
        turn = binom.pmf(np.arange(k - value + 1), k - value, flip)
        table[:, value] = np.convolve(stay, turn)[answers]
    with np.errstate(divide="ignore"):
        return np.log(table)


@log_likelihood.register
def _(spec: PaddedSpec, answers: NDArray[np.int64]) -> Floats:
    """The noise that leads from x + c to the answer; at 0 and k + 2c all that was clamped to it.

    One discrete Laplace noise is the share of one (docs/accounting.md, Proposition S2).
    """
    law = _noise_table(spec.noise_rate, spec.noise_shares)
    shifted = np.arange(spec.domain, dtype=np.float64) + spec.padding
    last = spec.messages_per_user
    table = law.mass(answers[:, None] - shifted).low
    table[answers == 0] = law.at_least(shifted).low
    table[answers == last] = law.at_least(last - shifted).low
    return table


@log_likelihood.register
def _(spec: SplitMix, answers: NDArray[np.int64]) -> Floats:
    """Noises that lead from x to the answer modulo q, with and without wrapping around.

    Those left out have probability 1e-17.
    """
    law = _noise_table(spec.noise_epsilon, spec.shares)
    noise = np.asarray((answers[:, None] - np.arange(spec.domain)) % spec.modulus, dtype=np.float64)
    turns = 1 + math.ceil(40 / (float(spec.noise_epsilon) * spec.modulus))
    log_mass = law.mass(noise).low
    for turn in range(1, turns + 1):
        for way in (-turn, turn):
            log_mass = np.logaddexp(log_mass, law.mass(noise + way * spec.modulus).low)
    return np.asarray(log_mass, dtype=np.float64)


def _noise_table(noise_epsilon: Fraction, shares: int) -> NoiseTable:
    law = share_law(noise_epsilon, shares)
    if law is None:
        raise UsageError(
            f"the noise at epsilon {noise_epsilon} is too wide, or too narrow, to be tabulated "
            f"for guessing"
        )
    return law
