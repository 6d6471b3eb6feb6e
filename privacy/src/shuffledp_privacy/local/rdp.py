"""Rényi bound of Girgis et al. for shuffled, subsampled local randomisers, for comparison only.

Source: Girgis, Data, Diggavi, Suresh and Kairouz 2021, "On the Rényi differential privacy of the
(subsampled) shuffle model", in the form that Koskela et al. 2021 compare with in section 3.4. Its
numbers are `published` ones: they are the formula's, rounded to nearest, and never enter a
certificate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics.special import log_gamma

LARGEST_ORDER = 256
"""Highest Rényi order tried; the best one is far below for every setting in the papers."""


def _log_terms(epsilon0: float, reports: int, rate: float, order: int) -> NDArray[np.float64]:
    """Logarithms of all terms above 1 inside the bound, for a whole order >= 2."""
    blocks = math.floor((reports - 1) / (2 * math.exp(epsilon0))) + 1
    orders = np.arange(3.0, order + 1)
    log_choose = math.lgamma(order + 1) - log_gamma(orders + 1) - log_gamma(order + 1 - orders)
    square = (
        math.log(2 * order * (order - 1)) + 2 * math.log(rate * math.expm1(epsilon0)) - epsilon0
    )
    spread = math.log(2) + 2 * math.log(math.expm1(2 * epsilon0)) - 2 * epsilon0 - math.log(blocks)
    higher = log_choose + orders * math.log(rate) + np.log(orders)
    higher += log_gamma(orders / 2) + orders / 2 * spread
    return np.concatenate(
        ([square - math.log(blocks)], higher, [_log_rare(epsilon0, reports, rate, order)])
    )


def _log_rare(epsilon0: float, reports: int, rate: float, order: int) -> float:
    """Logarithm of the term for too few blanket reports: ((1+a)^λ - 1 - λa) e^(-(m-1)/(8 e^ε0))."""
    grown = rate * math.sinh(epsilon0)
    log_power = order * math.log1p(grown)
    rest = -math.log1p(order * grown) if order * grown > 0 else 0.0
    gap = log_power + rest
    # Beyond 30 the 1 in e^gap - 1 is below 1e-13 of it.
    excess = math.log1p(order * grown) + (
        gap if gap > 30 else math.log(max(math.expm1(gap), 1e-300))
    )
    return excess - (reports - 1) / (8 * math.exp(epsilon0))


def published_shuffle_rdp(epsilon0: float, reports: int, order: int, rate: float = 1.0) -> float:
    """Published Rényi divergence bound of one round; nats, >= 0. Not a guarantee of this project.

    Args:
        epsilon0: ε0 of every user's pure local randomiser, above 0.
        reports: users who are drawn in one round, >= 1.
        order: λ, whole, 2 to 256.
        rate: γ, drawn users as a share of all, in (0, 1].

    Raises:
        UsageError: out of range.
    """
    if not (0 < epsilon0 <= 50 and reports >= 1 and 2 <= order <= LARGEST_ORDER and 0 < rate <= 1):
        raise UsageError(
            f"need 0 < epsilon0 <= 50, reports >= 1, order 2..{LARGEST_ORDER}, 0 < rate <= 1; "
            f"not {epsilon0}, {reports}, {order}, {rate}"
        )
    total = float(np.logaddexp.reduce(np.append(_log_terms(epsilon0, reports, rate, order), 0.0)))
    return total / (order - 1)


def published_rdp_epsilon(
    epsilon0: float, reports: int, delta: float, *, rounds: int = 1, rate: float = 1.0
) -> float:
    """Published ε of `rounds` rounds at δ by the Rényi bound of the best whole order.

    Nats, for comparison only.

    The conversion is ε = T ρ(λ) + ln((λ-1)/λ) - (ln δ + ln λ)/(λ-1) (Canonne, Kamath and Steinke
    2020).

    Raises:
        UsageError: out of range.
    """
    if not 0 < delta < 1 or rounds < 1:
        raise UsageError(f"need 0 < delta < 1 and rounds >= 1, not {delta} and {rounds}")
    smallest = math.inf
    for order in range(2, LARGEST_ORDER + 1):
        divergence = rounds * published_shuffle_rdp(epsilon0, reports, order, rate)
        shift = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        smallest = min(smallest, divergence + shift)
    return max(0.0, smallest)
