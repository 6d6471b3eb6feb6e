"""Privacy amplification by a fixed-size random subset of the users before shuffling.

Source: Koskela et al. 2021, section 3.4; Zhu, Dong and Wang 2022, Proposition 30; Balle, Barthe and
Gaboardi 2018. docs/accounting.md, proposition C5. Everything here works on privacy curves at
epsilon >= 0; the other half follows by reflection (proposition C2).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_privacy.numerics.rounding import down, up

Curve: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A function from ε >= 0 (nats) to δ, same shape, never below the truth for either order of the two
neighbours.
"""


def check_rate(rate: Fraction) -> None:
    """Check that a sampling rate is in (0, 1]; raises UsageError otherwise."""
    if not 0 < rate <= 1:
        raise UsageError(f"the sampling rate must be above 0 and at most 1, not {rate}")


def subsampled_curve(curve: Curve, rate: Fraction, anyone: Curve | None = None) -> Curve:
    """Curve of a mechanism that runs on a uniform subset of fixed size, for ε >= 0.

    With u = e^ε, u' = 1 + (u - 1)/γ, λ = u/u' it is the smaller of γ f(u) and γ (λ f(u') + (1 - λ)
    F(u')), where f and F bound the mechanism on every dataset of the subset's size; γ f(u') where f
    = F (proposition C5). The result is never below the truth.

    Args:
        curve: f, for the change of one report that is asked about, in both orders.
        anyone: F >= f, for the change of one report into any other, in both orders: another user
            drawn in the changed one's place amounts to that. None if f covers it.
        rate: γ, the largest probability that the changed user is in the subset, given what the
            adversary knows. With t colluding users among n and m drawn, that is at most m / (n -
            t).

    Raises:
        UsageError: if the rate is not in (0, 1].
    """
    check_rate(rate)
    if rate == 1:
        return curve
    gamma = float(rate)
    others = float(1 - rate)

    def subsampled_deltas(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        inner = down(np.log1p(np.expm1(epsilons) / gamma))  # down: the curve falls
        near = curve(inner)
        if anyone is not None:
            # 1 - λ = (1 - γ)(u - 1)/(u - 1 + γ), from terms of one sign.
            grown = np.expm1(np.minimum(epsilons, 700.0))
            replaced = up(others * grown / (grown + gamma))
            # The second bound is γ f(u): joint convexity, with those subsets in common that miss
            # the changed user (C5).
            near = np.minimum(
                near + replaced * np.maximum(anyone(inner) - near, 0.0), curve(epsilons)
            )
        amplified: NDArray[np.float64] = up(gamma * near)
        return np.minimum(amplified, 1.0)

    return subsampled_deltas


def subsampled_epsilon(epsilon: float, rate: Fraction) -> float:
    """Amplified ε of a pure ε-DP mechanism on a random subset: ln(1 + γ(e^ε - 1)), rounded up.

    Nats, >= 0.

    Raises:
        UsageError: if the rate is not in (0, 1].
    """
    check_rate(rate)
    # e^ε overflows; what is given up is amplification, not soundness.
    if epsilon > 700:
        return epsilon
    amplified = float(np.log1p(float(rate) * np.expm1(epsilon)))
    return min(epsilon, up(amplified))


def reflect_curve(
    deltas: NDArray[np.float64], epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Extend a curve to negative ε: δ(-ε) = 1 - e^-ε (1 - δ(ε)), rounded up (proposition C2).

    Same shape.
    """
    # -expm1(-ε) + e^-ε δ: no cancellation, so that a narrow curve keeps its digits.
    mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
    return np.minimum(up(mirrored), 1.0)
