"""Closed forms of ε_L, the pure ε of one user's report when every mix node is corrupt.

Devices evaluate them before they take part, so they use only the standard library. The accountant
computes the same numbers by other code (`shuffledp_privacy`), and tests compare both. Results are
rounded up; nats.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

ROUNDING: Final = 1 + 2.0**-50
"""Factor by which results are rounded up: it covers a few floating-point roundings."""

LEAST_RATE: Final = 5e-5
"""Smallest ε of shared noise, nats per unit, whose law is summed: 400,000 terms. The accountant's
limit is above it.
"""

_NEGLIGIBLE: Final = 40.0
"""Terms below e^-40 of the first cannot change a float."""


def log_odds(randomise: Fraction) -> float:
    """ln((2-p)/p) of a bit that is replaced by a fair coin with probability p; rounded up."""
    # (2-p)/p = 1 + 2(1-p)/p, divided as rationals: near p = 1 the logarithm keeps its digits.
    return math.log1p(float(2 * (1 - randomise) / randomise)) * ROUNDING


def response_epsilon(symbols: int, blanket: Fraction) -> float:
    """ln(1 + k (1-γ)/γ) of k-RR; infinite at γ = 0; rounded up (K7)."""
    if blanket == 0:
        return math.inf
    return math.log1p(float((1 - blanket) * symbols / blanket)) * ROUNDING


def dilute(epsilon: float, share: Fraction) -> float:
    """ln(1 + s (e^ε - 1)): the ε of a report that depends on the value with probability s only.

    Rounded up.
    """
    if share == 0:
        return 0.0
    if epsilon > 700:  # e^ε overflows; the result is at most ε + ln(s + e^-ε)
        return math.log(float(share) + math.exp(-epsilon)) + epsilon * ROUNDING
    return math.log1p(float(share) * math.expm1(epsilon)) * ROUNDING


@lru_cache(maxsize=64)
def noisy_report(rate: Fraction, shares: int, distance: int) -> float:
    """ln P(N=0)/P(N=d) of one share N = A - B of a discrete Laplace noise.

    Rounded up (docs/accounting.md, S8).

    A, B ~ NB(r, 1-φ), r = 1/shares, φ = e^-rate, so that P(N=j) is proportional to φ^j S_j with
    S_j = Σ_i w_i w_{i+j} φ^(2i) and w_i = Γ(r+i)/(Γ(r) i!).

    Args:
        rate: ε of all shares together, nats per unit, above 0.
        shares: users who together add one noise.
        distance: d, the change of the value, at least 1.

    Returns:
        Total ε at δ = 0; `math.inf` for a share of noise with a rate below `LEAST_RATE`.
    """
    epsilon = float(rate)
    if shares == 1:
        return epsilon * distance * ROUNDING
    if epsilon < LEAST_RATE:
        return math.inf
    share = 1 / shares
    decay = math.exp(-2 * epsilon)
    # The first term of S_d is c_d, taken out of the sum; what is left of both sums starts at 1.
    first = math.lgamma(share + distance) - math.lgamma(share) - math.lgamma(distance + 1)
    at_zero = at_distance = near = far = power = 1.0
    for i in range(math.ceil(_NEGLIGIBLE / (2 * epsilon)) + 1):
        near *= (share + i) / (i + 1)
        far *= (share + distance + i) / (distance + i + 1)
        power *= decay
        at_zero += near * near * power
        at_distance += near * far * power
    # Terms fall, so that those left out add less than the last one times 1/(1 - φ²).
    at_zero += near * near * power / -math.expm1(-2 * epsilon)
    rounding = 1e-10 + 1e-15 * math.lgamma(distance + 2)
    return (distance * epsilon + math.log(at_zero / at_distance) - first + rounding) * ROUNDING
