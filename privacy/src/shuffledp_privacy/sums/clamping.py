"""Privacy cost of clamping noisy values to [0, k + 2c], and the padding c that makes it small.

No user is clamped while every honest |N_i| <= c, whatever the data. If that fails with probability
at most δ1, then δ(E) <= HS_E of the unclamped sum + δ1 (1 + e^E) (docs/accounting.md, Proposition
S6). Only honest users count in δ1: the others' messages are independent of the honest noise and can
be handed to the adversary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MAX_DOMAIN
from shuffledp_privacy.numerics.rounding import ELEMENTARY, UNIT, down, up
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.primitives.noise import LONGEST_SMALL_TABLE, table_length
from shuffledp_privacy.primitives.table import NoiseTable, build_table

_OUTWARD = 1.0 + 1e-12
"""Covers the few roundings of a closed form."""

LARGEST_TOTAL = 690.0
"""Total ε up to which δ1 e^E is computed in floats; beyond, closed forms in logarithms are used."""

_UNDERFLOW = 1e-320
"""Added to every probability of a tail: below 1e-308 roundings are absolute, at most 5e-324 each,
and the last
one would be to 0, which claims that no user is ever clamped."""


def geo_tail(epsilon_geo: Fraction, padding: int) -> float:
    """Tail P(|N| > c) = 2 φ^(c+1)/(1+φ) of discrete Laplace noise, φ = exp(-epsilon_geo).

    Rounded up. In [0, 1].

    Source: docs/accounting.md, Proposition S6 (Athanasiou et al. 2025, Proposition 2, sums from c
    instead of c + 1).
    """
    return min(
        1.0,
        2.0 * _power(epsilon_geo, padding + 1) / (1.0 + math.exp(-float(epsilon_geo))) * _OUTWARD,
    )


@lru_cache(maxsize=8)
def _share_table(noise_epsilon: Fraction, shares: int) -> NoiseTable | None:
    """Law of one share, φ and r rounded UP (heavier tails); None if its table is too long."""
    rate = float(noise_epsilon)
    ratio = (
        math.exp(-rate) * (1.0 + (4 + 2 * rate) * UNIT) + 1e-300
    )  # the rounding of ε counts ε times
    if ratio >= 1.0 or table_length(1.0, ratio) > LONGEST_SMALL_TABLE:
        return None
    return build_table(math.nextafter(1.0 / shares, 1.0), ratio, table_length(1.0, ratio))


def sgdl_tail(noise_epsilon: Fraction, shares: int, padding: int) -> float:
    """Tail P(|N| > c) of one share N ~ SGDL(1/shares, exp(-noise_epsilon)); rounded up. In [0, 1].

    The exact law by recurrence; where its table would be too long, 2 φ^(c+1), which holds for
    shares >= 1. Source: docs/accounting.md, Propositions S2, S3 and S7.
    """
    if shares == 1:
        return geo_tail(noise_epsilon, padding)
    table = _share_table(noise_epsilon, shares)
    loose = min(1.0, 2.0 * _power(noise_epsilon, padding + 1))
    if table is None:
        return loose
    exact = 2.0 * math.exp(float(table.at_least(np.array([padding + 1.0])).high[0])) * _OUTWARD
    return min(loose, exact + _UNDERFLOW)


def _power(epsilon: Fraction, exponent: int) -> float:
    """Power φ^exponent, rounded up, never 0."""
    # The rounding of the exponent grows with its size, and is a relative error of the power.
    size = float(epsilon) * exponent
    return math.exp(-size) * (_OUTWARD + size * 1e-15) + _UNDERFLOW


def _any(tail: float, honest: int) -> float:
    """Probability 1 - (1 - tail)^honest that some noise is clamped, rounded up."""
    if tail >= 1.0:
        return 1.0
    # Computed as 1 - (1 - tail)^honest, a tail below 1e-16 would say that no one is ever clamped.
    return min(1.0, -math.expm1(honest * math.log1p(-tail)) * _OUTWARD)


def geo_any_clamped(epsilon_geo: Fraction, padding: int, honest: int) -> float:
    """Probability δ1 = P(some honest |N_i| > c) for geo-shuffle noise, rounded up.

    Source: Proposition S6.
    """
    return _any(geo_tail(epsilon_geo, padding), honest)


def sgdl_any_clamped(noise_epsilon: Fraction, shares: int, padding: int, honest: int) -> float:
    """Probability δ1 = P(some honest |N_i| > c) for sgdl-shuffle noise, rounded up.

    Source: Propositions S6 and S7.
    """
    groups = -(-honest // shares)
    together = 2.0 * groups * _power(noise_epsilon, padding + 1)
    # Both hold: the exact tail of every share, and the union bound over whole noises (S7).
    return min(_any(sgdl_tail(noise_epsilon, shares, padding), honest), together)


def clamping_delta(any_clamped: float, total_epsilon: float) -> float:
    """Cost of clamping, δ1 (1 + e^E), rounded up; E in nats, total.

    Source: docs/accounting.md, Proposition S6.
    """
    if any_clamped == 0.0:
        return 0.0
    if total_epsilon > 700.0:
        return math.inf
    return any_clamped * (1.0 + math.exp(total_epsilon)) * _OUTWARD


def log_any_clamped(epsilon: Fraction, groups: int, padding: int) -> float:
    """Logarithm of 2 g φ^(c+1), rounded up: an upper bound of δ1 that never underflows.

    Geo-shuffle has g = honest users, sgdl-shuffle g = ceil(honest/shares) (Propositions S6 and S7).
    """
    exponent = float(epsilon) * (padding + 1)
    return math.log(2 * groups) - down(exponent) + ELEMENTARY * UNIT


def log_clamping_delta(log_clamped: float, total_epsilon: float) -> float:
    """Cost of clamping, δ1 (1 + e^E), from ln δ1; in [0, inf], for any E >= 0; rounded up."""
    exponent = log_clamped + up(total_epsilon) + math.log1p(math.exp(-total_epsilon))
    return (
        math.exp(exponent + ELEMENTARY * UNIT * abs(log_clamped)) * _OUTWARD
        if exponent < 700
        else math.inf
    )


def least_padding_geo(
    epsilon_geo: Fraction, honest: int, delta: float, total_epsilon: float
) -> int:
    """Smallest c with δ1 (1 + e^E) <= delta for geo-shuffle noise, in bits on each side.

    Args:
        epsilon_geo: ε of one user's noise, nats.
        honest: largest number of honest reports that may arrive, 1..1e9.
        delta: budget for clamping, in (0, 1).
        total_epsilon: E, nats: ε d_max under metric adjacency, ε under standard. Above
            `LARGEST_TOTAL` the padding is that of `closed_padding`, which may be a few bits larger.

    Raises:
        UsageError: an argument out of range.
        CannotCertify: no padding up to 2^31 - 1 is enough.
    """
    roof = closed_padding(float(epsilon_geo), honest, delta, total_epsilon)
    if total_epsilon > LARGEST_TOTAL:
        return roof
    return _least(lambda c: geo_any_clamped(epsilon_geo, c, honest), delta, total_epsilon, roof)


def least_padding_sgdl(
    noise_epsilon: Fraction, shares: int, honest: int, delta: float, total_epsilon: float
) -> int:
    """Smallest c with δ1 (1 + e^E) <= delta for sgdl-shuffle noise.

    Arguments and errors as for geo-shuffle.
    """
    groups = -(-honest // shares)
    roof = closed_padding(float(noise_epsilon), groups, delta, total_epsilon)
    if total_epsilon > LARGEST_TOTAL:
        return roof
    return _least(
        lambda c: sgdl_any_clamped(noise_epsilon, shares, c, honest), delta, total_epsilon, roof
    )


def closed_padding(epsilon: float, groups: int, delta: float, total_epsilon: float) -> int:
    """Padding in closed form such that 2 g φ^(c+1) (1 + e^E) <= δ.

    ceil((ln(2g/δ) + ln(1 + e^E))/ε) - 1, at least 0.

    Geo-shuffle has g = honest users, sgdl-shuffle g = ceil(honest/shares) (Propositions S6 and S7).

    Raises:
        UsageError: an argument out of range.
        CannotCertify: the padding would be above 2^31 - 1.
    """
    if not epsilon > 0:
        raise UsageError(f"epsilon must be above 0, not {epsilon}")
    if not 0 < delta < 1:
        raise UsageError(f"delta must be between 0 and 1, not {delta}")
    if groups < 1:
        raise UsageError(f"the number of users must be at least 1, not {groups}")
    if not 0 <= total_epsilon < math.inf:
        raise UsageError(f"total epsilon must be at least 0 and finite, not {total_epsilon}")
    growth = total_epsilon + math.log1p(math.exp(-total_epsilon))
    needed = (math.log(2 * groups / delta) + growth) / epsilon * (1 + 1e-11)
    if needed > MAX_DOMAIN:
        raise CannotCertify(f"no padding up to {MAX_DOMAIN} keeps clamping below delta {delta:g}")
    return max(0, math.ceil(needed) - 1)


def _least(
    any_clamped: Callable[[int], float], delta: float, total_epsilon: float, roof: int
) -> int:
    """Smallest sufficient c by bisection; `roof` is sufficient up to rounding."""
    enough = roof
    while clamping_delta(any_clamped(enough), total_epsilon) > delta:
        enough += 1
        if enough > MAX_DOMAIN:
            raise CannotCertify(
                f"no padding up to {MAX_DOMAIN} keeps clamping below delta {delta:g}"
            )
    return bisect_whole(
        lambda padding: clamping_delta(any_clamped(padding), total_epsilon) <= delta,
        passing=enough,
        failing=-1,
    )
