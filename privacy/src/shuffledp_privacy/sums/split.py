"""Bounds for split-mix: only a sum with one whole, unclamped discrete Laplace noise is revealed.

Source: Balle et al. 2020.

Certified: the exact law SGDL(h/shares, φ) of the honest noise, as for sgdl-shuffle. The cost of
clamping in sgdl-shuffle is replaced by the distance τ of the shuffled pieces from uniform ones of
the same sum (docs/accounting.md, Proposition S19).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms.split import MAX_MODULUS, SplitMix, least_modulus
from shuffledp_privacy.bounds import (
    Setting,
)
from shuffledp_privacy.splitting import left_to_mixing
from shuffledp_privacy.sums import sgdl
from shuffledp_privacy.sums.common import (
    NoisySum,
    distances,
    is_metric,
)
from shuffledp_privacy.sums.mixing import MOST_SECURITY, SECURITY, mixing_distance


def noisy_sum(spec: SplitMix, setting: Setting) -> NoisySum:
    """Parameters of a split-mix round for the analysis.

    Its `clamped` is the mixing distance τ, which costs as much as the δ1 of S6 does (S19).

    Raises:
        UsageError: the modulus is too small for this number of users.
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


def mixing_security(total: float, delta: float, rounds: int) -> float:
    """Bits σ >= `SECURITY` at which 2^-σ (1 + e^E) is negligible against δ.

    E is the total ε of the largest change.

    Raises:
        CannotCertify: no number of pieces provides this many bits.
    """
    if delta == 0:
        return float(SECURITY)  # then nothing counts but a user's own noise
    needed = math.log2(math.e) * float(np.logaddexp(0.0, total)) - math.log2(
        left_to_mixing(delta, rounds)
    )
    if needed > MOST_SECURITY:
        raise CannotCertify(
            f"{SplitMix.kind} does not reach that far: the largest change may cost {total:.6g}; "
            "cover a smaller distance, or take another mechanism"
        )
    return max(float(SECURITY), needed)


def wide_modulus(max_value: int, noise_epsilon: Fraction, shares: int, users: int) -> int:
    """The least power of two with room for the sum of these users; no piece is ever redrawn.

    Raises:
        CannotCertify: the modulus is larger than a message can carry.
    """
    modulus = 1 << (least_modulus(max_value, noise_epsilon, shares, users) - 1).bit_length()
    if modulus > MAX_MODULUS:
        raise CannotCertify(
            f"{SplitMix.kind} needs a modulus of 2^{modulus.bit_length() - 1} for {users} values "
            f"up to {max_value} and their noise, above 2^{MAX_MODULUS.bit_length() - 1}; take "
            "fewer users or smaller values"
        )
    return modulus
