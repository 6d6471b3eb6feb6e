"""Special functions from the standard library and numpy, with their errors stated. Pure.

None of them rounds outward: a caller whose number is a bound adds its own margin.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_TERMS: Final = 100_000
"""Terms of a continued fraction: about the square root of its larger parameter is enough."""

_SETTLED: Final = 2.0**-46
"""A factor this near to 1 ends a continued fraction; roundings keep it from coming nearer."""

_FAR: Final = -30.0
"""Below it the series in 1/x² has all digits of ln Φ(x); erfc underflows from -37 on."""

_FAR_TERMS: Final = 9
"""The tenth term is below 1e-20 at `_FAR`."""


def log_normal_cdf(x: float) -> float:
    """Logarithm of the standard normal distribution function Φ at a finite x.

    The error is at most 2^-50 (1 + |ln Φ(x)|): that of erfc, and of its argument's rounding, which
    is relative and so grows with x².
    """
    if x > 0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2)))
    if x > _FAR:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Φ(x) = φ(x)/|x| (1 - 1/x² + 3/x⁴ - 15/x⁶ + ..), which lies between neighbouring partial sums.
    term, total = 1.0, 0.0
    for index in range(1, _FAR_TERMS + 1):
        term *= -(2 * index - 1) / x / x
        total += term
    return -0.5 * x * x - math.log(-x) - 0.5 * math.log(2 * math.pi) + math.log1p(total)


def normal_quantile(probabilities: Floats) -> Floats:
    """Quantiles of the standard normal law; infinite at 0 and 1. Relative error at most 2^-48.

    By Wichura's AS 241, which `statistics.NormalDist` implements.
    """
    from statistics import NormalDist  # here: slow to import, and most certificates need none

    inverse = NormalDist().inv_cdf
    return np.array(
        [
            inverse(p) if 0.0 < p < 1.0 else math.inf * (p - 0.5)
            for p in np.asarray(probabilities, dtype=np.float64).tolist()
        ],
        dtype=np.float64,
    )


def log_gamma(values: Floats) -> Floats:
    """Logarithms of the gamma function at positive values of shape (n,), by `math.lgamma`."""
    return np.array([math.lgamma(value) for value in values.tolist()], dtype=np.float64)


def log_beta(a: Floats, b: Floats) -> Floats:
    """Logarithm of the beta function B(a, b) = Γ(a) Γ(b) / Γ(a + b); a and b of shape (n,)."""
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def log_incomplete_beta(
    a: Floats, b: Floats, logit: Floats, log_scale: Floats
) -> tuple[Floats, Floats]:
    """Logarithm of the regularised incomplete beta I_x(a, b), and its derivative by the logit of x.

    For b >= 1 the error is that of the logarithms which make up the density, about 2^-50 times
    their sizes. For smaller b it is as much of the larger of I and 1 - I.

    Args:
        a: above 0, shape (n,).
        b: above 0, shape (n,).
        logit: ln(x/(1 - x)), which keeps all digits of x and of 1 - x, shape (n,).
        log_scale: `log_beta` of a and b, shape (n,).
    """
    log_x = -np.logaddexp(0.0, -logit)
    log_rest = -np.logaddexp(0.0, logit)
    # x^a (1-x)^b / B(a, b): the derivative of I by the logit.
    log_density = a * log_x + b * log_rest - log_scale
    logs = np.empty_like(logit)
    # The fraction settles for small x; beyond, 1 - I_(1-x)(b, a) is no small number.
    small = log_x < np.log((a + 1.0) / (a + b + 2.0))
    logs[small] = (
        log_density[small]
        - np.log(a[small])
        + np.log(_beta_fraction(a[small], b[small], np.exp(log_x[small])))
    )
    large = ~small
    rest = _beta_fraction(b[large], a[large], np.exp(log_rest[large])) / b[large]
    logs[large] = np.log1p(-np.exp(log_density[large]) * rest)
    return logs, np.exp(log_density - logs)


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Factor F of I_x(a, b) = x^a (1-x)^b / (a B(a, b)) F, for x up to (a + 1)/(a + b + 2).

    The continued fraction DLMF 8.17.22 by Lentz's method; all its steps are positive there.
    """
    settled = np.empty_like(x)
    # Places in `settled` of the elements that are still continuing.
    places = np.arange(x.size)
    # C and D of Lentz: ratios of neighbouring numerators and denominators.
    numerators = np.ones_like(x)
    denominators = 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = denominators.copy()
    for index in range(1, MOST_TERMS):
        if places.size == 0:
            return settled
        term = a + 2 * index
        even = index * (b - index) * x / ((term - 1.0) * term)
        denominators = 1.0 / (1.0 + even * denominators)
        numerators = 1.0 + even / numerators
        value *= denominators * numerators
        odd = -(a + index) * (a + b + index) * x / (term * (term + 1.0))
        denominators = 1.0 / (1.0 + odd * denominators)
        numerators = 1.0 + odd / numerators
        step = denominators * numerators
        value *= step
        going = np.abs(step - 1.0) >= _SETTLED
        if not going.all():
            settled[places] = value
            places = places[going]
            a, b, x, value = a[going], b[going], x[going], value[going]
            numerators, denominators = numerators[going], denominators[going]
    raise ArithmeticError("the continued fraction of the incomplete beta function did not converge")
