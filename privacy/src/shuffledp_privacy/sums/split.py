"""Bounds for split-mix (Balle et al.

2020): a sum with one discrete Laplace noise that nothing clamps, seen alone.

Certified: the exact law SGDL(h/shares, φ) of the honest noise, as for sgdl-shuffle, and, where
clamping has its cost there, the distance τ of the shuffled pieces from uniform ones of the same sum
(docs/accounting.md, Proposition S19).
"""

from __future__ import annotations

import math

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms.split import WRAPPED, SplitMix
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    certified_curve,
    check_delta,
    corrupted_bounds,
    delta_bounds,
    epsilon_bounds,
    standard_error,
)
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.sums import attained, sgdl
from shuffledp_privacy.sums.common import (
    NoisySum,
    check_epsilon,
    distances,
    downward,
    is_metric,
    probes,
)
from shuffledp_privacy.sums.mixing import mixing_distance


def noisy_sum(spec: SplitMix, setting: Setting) -> NoisySum:
    """Parameters of a split-mix round for the analysis.

    `clamped` is τ, which costs as much as a δ1 of S6 does (S19).

    Raises:
        UsageError: the modulus is too small for so many users.
    """
    spec.check_room(setting.users)
    return NoisySum(
        noise=sgdl.honest_noise(spec.noise_epsilon, spec.shares, setting.honest),
        clamped=mixing_distance(setting.honest, spec.modulus, spec.pieces),
        local=lambda d: sgdl.local_total(spec.noise_epsilon, spec.shares, d),
        pure=sgdl.pure_unit(spec.noise_epsilon, spec.shares, setting.honest),
        d_max=distances(spec.max_value, setting),
        metric=is_metric(setting),
    )


def _basis(spec: SplitMix, setting: Setting, item: NoisySum) -> tuple[str, ...]:
    return (
        sgdl.noise_basis(spec.shares, setting.honest),
        "S1-S5: exact divergence, worst distance",
        f"S19: {spec.pieces} pieces of {setting.honest} honest users show their sum and no more, "
        f"but for "
        f"{item.clamped:.2g} (1 + e^E)",
        "S8: never more than one noisy value alone",
        "one lost, doubled or altered message voids the sum, and one user who lies moves it "
        "anywhere",
    )


@delta_bounds.register
def _(spec: SplitMix, setting: Setting, epsilon: float) -> Bounds:
    check_epsilon(epsilon)
    item = noisy_sum(spec, setting)
    low = max(
        attained.attained_delta(None, item.noise, WRAPPED, d, epsilon * (d if item.metric else 1))
        for d in _probes(item)
    )
    certified = item.delta(epsilon)
    return Bounds(certified, min(downward(low), certified), None, _basis(spec, setting, item))


@epsilon_bounds.register
def _(spec: SplitMix, setting: Setting, delta: float) -> Bounds:
    check_delta(delta, pure=True)
    item = noisy_sum(spec, setting)
    low = 0.0
    if delta > 0.0:
        steps = _probes(item)
        # The sum modulo q on threshold events, less what wraps: S9 with that in the place of what
        # is clamped.
        totals = attained.attained_totals(None, item.noise, WRAPPED, steps, delta)
        low = max(total / (d if item.metric else 1) for total, d in zip(totals, steps, strict=True))
    certified = item.epsilon(delta)
    return Bounds(certified, min(downward(low), certified), None, _basis(spec, setting, item))


def _probes(item: NoisySum) -> list[int]:
    return probes(item.d_max) if item.metric else [item.d_max]


@corrupted_bounds.register
def _(spec: SplitMix, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG001
    d_max = distances(spec.max_value, setting)
    epsilon = sgdl.local_total(spec.noise_epsilon, spec.shares, 1 if is_metric(setting) else d_max)
    words = (
        "S8: one user's pieces add up to its value and its own share of the noise, which is 0 for "
        "nearly everybody: "
        "ln P(N=0)/P(N=d)"
    )
    return CorruptedBounds(epsilon, 0.0, (words,))


@standard_error.register
def _(spec: SplitMix, users: int) -> float:
    """Standard deviation of the noise of all users: sqrt(2 n β φ)/(1 - φ).

    Nothing is clamped, so there is no bias.
    """
    rate = float(spec.noise_epsilon)
    return math.sqrt(2.0 * users / spec.shares) * math.exp(-rate / 2) / -math.expm1(-rate)


@certified_curve.register
def _(spec: SplitMix, setting: Setting, distance: int, epsilons: Floats) -> Floats:
    item = noisy_sum(spec, setting)
    if not 1 <= distance <= spec.max_value:
        raise UsageError(f"distance must be from 1 to {spec.max_value}, not {distance}")
    return item.points(distance, np.asarray(epsilons, dtype=np.float64))
