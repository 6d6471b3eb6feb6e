"""Exact samplers from uniform integers alone, without floating point (invariant 2).

Sources: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
Algorithms 1 and 2, for Bernoulli(exp(-γ)), the geometric and the discrete Laplace law;
docs/accounting.md, for the thinning of a geometric by a Pólya urn. All probabilities are rationals;
all expected running times are finite and small.
"""

from __future__ import annotations

from fractions import Fraction

from shuffledp_core.sampling.randomness import RandomIntegers


def bernoulli(probability: Fraction, integers: RandomIntegers) -> bool:
    """True with exactly this probability, a rational from 0 to 1. Raises `ValueError` otherwise."""
    numerator, denominator = _as_ratio(probability)
    return _ratio(numerator, denominator, integers)


def binomial(trials: int, probability: Fraction, integers: RandomIntegers) -> int:
    """Number of true draws among `trials` independent `bernoulli`s, drawn one by one.

    Raises `ValueError` as `bernoulli` does.
    """
    numerator, denominator = _as_ratio(probability)
    # Inverting the distribution function would need powers of the probability, hence long integers
    # or floating point.
    return sum(_ratio(numerator, denominator, integers) for _ in range(trials))


def bernoulli_exp(gamma: Fraction, integers: RandomIntegers) -> bool:
    """True with probability exp(-gamma), gamma any rational >= 0 (CKS 2020, Algorithm 1).

    Raises `ValueError` below 0.
    """
    if gamma < 0:
        raise ValueError(f"gamma must not be negative, not {gamma}")
    # Algorithm 1 needs γ <= 1: the rest is a product of exp(-1)s. `all` stops at the first failure,
    # so that a large γ costs about 1.6 draws, not γ of them.
    quotient, rest = divmod(gamma.numerator, gamma.denominator)
    return all(_unit_exp(1, 1, integers) for _ in range(quotient)) and _unit_exp(
        rest, gamma.denominator, integers
    )


def geometric(epsilon: Fraction, integers: RandomIntegers) -> int:
    """G on {0, 1, ..} with P(G = g) = (1 - φ) φ^g, φ = exp(-epsilon).

    CKS 2020, Algorithm 2, lines 3-9: with epsilon = s/t, X = U + tV is geometric with ratio
    exp(-1/t), since U on {0..t-1} has weights exp(-u/t) and V has ratio exp(-1); then floor(X/s)
    has ratio exp(-s/t).

    Args:
        epsilon: ε in nats, above 0.
        integers: the source of randomness.

    Raises:
        ValueError: epsilon is not positive.
    """
    if epsilon <= 0:
        raise ValueError(f"epsilon must be positive, not {epsilon}")
    scale = epsilon.denominator
    while True:
        # Kept with chance above 1 - 1/e whatever the scale: the time does not grow with the
        # denominator.
        low = integers.below(scale)
        if _unit_exp(low, scale, integers):
            break
    high = 0
    while _unit_exp(1, 1, integers):
        high += 1
    return (low + scale * high) // epsilon.numerator


def discrete_laplace(epsilon: Fraction, integers: RandomIntegers) -> int:
    """N on the integers with P(N = j) = (1 - φ)/(1 + φ) φ^|j|, φ = exp(-epsilon).

    Canonne, Kamath and Steinke 2020, Algorithm 2.

    A geometric magnitude with a fair sign; "minus zero" is rejected, or zero would count twice.
    Raises `ValueError` if epsilon (nats) is not positive.
    """
    while True:
        magnitude = geometric(epsilon, integers)
        negative = integers.below(2) == 1
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def bounded_laplace(epsilon: Fraction, reach: int, integers: RandomIntegers) -> int:
    """`discrete_laplace` under the condition that it is in {-reach..reach}, by rejection.

    Raises `ValueError` if epsilon (nats) is not positive or reach is below 0.
    """
    if reach < 0:
        raise ValueError(f"reach must be at least 0, not {reach}")
    while True:
        noise = discrete_laplace(epsilon, integers)
        if -reach <= noise <= reach:
            return noise


def geometric_share(epsilon: Fraction, shares: int, integers: RandomIntegers) -> int:
    """One of `shares` addends of a geometric: NB(r, 1 - φ), r = 1/shares, φ = exp(-epsilon).

    Given G = NB(1), which is NB(r) + NB(1 - r), the first addend is beta-binomial(G, r, 1 - r): the
    number of white balls in G draws from a Pólya urn that starts with r white and 1 - r black, so
    that draw i is white with probability (r + s)/(1 + i), s the white draws so far.
    docs/accounting.md.

    Args:
        epsilon: ε in nats, above 0.
        shares: how many independent addends make one geometric; at least 1 (then it is the
            geometric itself).
        integers: the source of randomness.

    Raises:
        ValueError: epsilon or shares out of range.
    """
    if shares < 1:
        raise ValueError(f"shares must be at least 1, not {shares}")
    white = 0
    for draw in range(geometric(epsilon, integers)):
        # (r + s)/(1 + i) with r = 1/shares, in whole numbers; at most 1, because white <= draw.
        white += _ratio(1 + shares * white, shares * (1 + draw), integers)
    return white


def sgdl(epsilon: Fraction, shares: int, integers: RandomIntegers) -> int:
    """Symmetric generalised discrete Laplace: the difference of two independent `geometric_share`s.

    `shares` such values sum to exactly one discrete Laplace of this epsilon (nats). Errors as
    `geometric_share`.
    """
    return geometric_share(epsilon, shares, integers) - geometric_share(epsilon, shares, integers)


def _as_ratio(probability: Fraction) -> tuple[int, int]:
    numerator, denominator = probability.numerator, probability.denominator
    if not 0 <= numerator <= denominator:
        raise ValueError(f"a probability must be from 0 to 1, not {probability}")
    return numerator, denominator


def _ratio(numerator: int, denominator: int, integers: RandomIntegers) -> bool:
    return integers.below(denominator) < numerator


def _unit_exp(numerator: int, denominator: int, integers: RandomIntegers) -> bool:
    """Bernoulli(exp(-γ)) for γ = numerator/denominator in [0, 1].

    The first K at which Bernoulli(γ/K) fails is odd with probability Σ (-γ)^j / j! = exp(-γ).
    """
    # Trial K is reached with chance γ^(K-1)/(K-1)!, so that there are e trials at most on average.
    trial = 1
    while integers.below(denominator * trial) < numerator:
        trial += 1
    return trial % 2 == 1
