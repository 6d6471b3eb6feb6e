"""Privacy cost of randomised rounding to unary codes in steps of Q (Athanasiou et al. 2025, Algorithm 8).

x = qQ + r is rounded to q + 1 with probability r/Q, to q otherwise, and the result is made private with ε_Q per
step of the quantised value. docs/accounting.md, Proposition S14.
"""

from __future__ import annotations

import math

from shuffledp_core.errors import UsageError

_OUTWARD = 2.0**-48


def _check(epsilon: float, granularity: int) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be above 0 and finite, not {epsilon}")
    if granularity < 1:
        raise UsageError(f"granularity must be at least 1, not {granularity}")


def quantised_epsilon(epsilon_q: float, granularity: int) -> float:
    """Pure ε = ln(1 + (e^ε_Q - 1)/Q) per unit of x, in nats, rounded up; between ε_Q/Q and ε_Q.

    Exact for the geometric mechanism. Source: docs/accounting.md, Proposition S14.

    Args:
        epsilon_q: pure ε per step of the quantised value, nats, > 0.
        granularity: Q >= 1, units of x per step.

    Raises:
        UsageError: an argument out of range.
    """
    _check(epsilon_q, granularity)
    if epsilon_q > 30:
        # e^ε_Q - 1 + Q = e^ε_Q (1 + (Q - 1) e^-ε_Q)
        value = epsilon_q + math.log1p((granularity - 1) * math.exp(-epsilon_q)) - math.log(granularity)
        return min(epsilon_q, value + _OUTWARD * (1 + epsilon_q))
    return min(epsilon_q, math.log1p(math.expm1(epsilon_q) / granularity) * (1 + _OUTWARD))


def quantised_parameter(epsilon: float, granularity: int) -> float:
    """Largest ε_Q that gives ε per unit of x: ln(1 + Q (e^ε - 1)), rounded down. Errors as above."""
    _check(epsilon, granularity)
    if epsilon > 30:
        value = epsilon + math.log(granularity) + math.log1p(-math.exp(-epsilon) * (granularity - 1) / granularity)
        return max(epsilon, value * (1 - _OUTWARD))
    return max(epsilon, math.log1p(granularity * math.expm1(epsilon)) * (1 - _OUTWARD))
