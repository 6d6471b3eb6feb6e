"""Central baselines: noise that a trusted curator would add, for comparison with shuffled sums.

The geometric mechanism (Ghosh, Roughgarden, Sundararajan 2009) in closed form and the Gaussian
mechanism after Balle and Wang 2018, Theorem 8. docs/accounting.md, Proposition S16. Both are exact
up to rounding, which goes outward by `_MARGIN`.
"""

from __future__ import annotations

import math

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.numerics.special import log_normal_cdf

_MARGIN = 1e-13
"""Relative rounding of one term; far above that of exp, expm1 and `log_normal_cdf`."""


def _positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{name} must be above 0 and finite, not {value}")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise UsageError(f"delta must be between 0 and 1, not {delta}")


def geometric_delta(noise_epsilon: float, distance: int, epsilon: float) -> float:
    """δ at total ε of x + discrete Laplace(noise_epsilon) when x changes by `distance`; rounded up.

    HS = 1 - (φ^(t+1) + e^ε φ^(d-t))/(1+φ), t = floor((d - ε/noise_epsilon)/2); 0 from ε =
    noise_epsilon d on. Source: docs/accounting.md, Proposition S16.

    Raises:
        UsageError: noise_epsilon not above 0, distance below 1, epsilon below 0.
    """
    _positive("noise_epsilon", noise_epsilon)
    if distance < 1:
        raise UsageError(f"distance must be at least 1, not {distance}")
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, not {epsilon}")
    if epsilon >= up(noise_epsilon * distance):
        return 0.0
    best = math.floor((distance - epsilon / noise_epsilon) / 2)
    ratio = math.exp(-noise_epsilon)
    # Where e^ε φ^(d-t) and φ^(t+1) sum to nearly 1 + φ the rounding of both is absolute, hence the
    # margin.
    outside = math.exp(-noise_epsilon * (best + 1)) + math.exp(
        epsilon - noise_epsilon * (distance - best)
    )
    slack = _MARGIN * (1 + noise_epsilon * distance)
    return min(1.0, max(0.0, 1.0 - outside / (1.0 + ratio)) + slack)


def gaussian_delta(sigma: float, sensitivity: float, epsilon: float) -> float:
    """δ of the Gaussian mechanism: Φ(Δ/2σ - εσ/Δ) - e^ε Φ(-Δ/2σ - εσ/Δ); rounded up.

    Source: Balle and Wang 2018, Theorem 8; docs/accounting.md, Proposition S16.

    Raises:
        UsageError: sigma or sensitivity not above 0, epsilon below 0.
    """
    _positive("sigma", sigma)
    _positive("sensitivity", sensitivity)
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, not {epsilon}")
    half = sensitivity / (2 * sigma)
    drift = epsilon * sigma / sensitivity
    first = log_normal_cdf(half - drift)
    second = epsilon + log_normal_cdf(-half - drift)
    # δ is below every double; the smallest of them is an upper bound.
    if first < -745:
        return 5e-324
    # The logarithms carry relative errors, which grow with their size.
    slack = _MARGIN * (1 + abs(first) + abs(second) + epsilon)
    # e^first (1 - e^(second - first)): the difference of two tiny numbers would be all rounding.
    return min(
        1.0, math.exp(first) * max(0.0, -math.expm1(second - first)) + 2 * slack * math.exp(first)
    )


def classical_gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """σ of the classical Gaussian mechanism, Δ √(2 ln(1.25/δ))/ε; same unit as the sensitivity.

    A sound but loose bound.

    Source: Dwork and Roth 2014, Theorem A.1, proved for ε < 1; Definition V.1 of Biswas et al. 2022
    prints it for every ε. `gaussian_sigma` is the least σ.

    Raises:
        UsageError: an argument out of range, or ε >= 1, where it is no guarantee.
    """
    _check_delta(delta)
    _positive("sensitivity", sensitivity)
    if not 0.0 < epsilon < 1.0:
        raise UsageError(
            f"the classical Gaussian mechanism needs epsilon above 0 and below 1, not {epsilon}"
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Smallest σ, found from above, for which the Gaussian mechanism is (ε, δ).

    Same unit as the sensitivity.

    Source: Balle and Wang 2018, Algorithm 1; docs/accounting.md, Proposition S16.

    Raises:
        UsageError: an argument out of range.
    """
    _check_delta(delta)
    _positive("sensitivity", sensitivity)
    high = sensitivity
    while gaussian_delta(high, sensitivity, epsilon) > delta:
        high *= 2
        if high > sensitivity * 1e15:
            raise UsageError(
                f"no sigma up to 1e15 times the sensitivity gives delta {delta:g} at epsilon "
                f"{epsilon:g}"
            )
    return bisect(
        lambda sigma: sigma > 0 and gaussian_delta(sigma, sensitivity, epsilon) <= delta,
        passing=high,
        failing=0.0,
        steps=100,
    )
