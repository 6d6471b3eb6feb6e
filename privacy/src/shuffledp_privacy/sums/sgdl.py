"""Bounds for sgdl-shuffle: every user adds a share of one discrete Laplace noise.

Source: Athanasiou et al. 2025, Algorithm 4.

Certified: the exact law SGDL(h/shares, φ) of the honest noise, also where too few honest users are
left, plus clamping (docs/accounting.md, Propositions S1-S9). Published: Theorem 5.1 claims ε =
noise_epsilon per unit at any δ; it neglects that clamping changes both datasets and rests on a
wrong padding (S13): no guarantee.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from shuffledp_core.mechanisms import SGDLShuffle
from shuffledp_privacy.bounds import (
    Setting,
)
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.primitives.noise import (
    LONGEST_SMALL_TABLE,
    SumNoise,
    rounded_ratio,
    rounded_shape,
    sum_noise,
    table_length,
)
from shuffledp_privacy.primitives.table import NoiseTable, build_table
from shuffledp_privacy.sums.clamping import log_any_clamped, sgdl_any_clamped, sgdl_tail
from shuffledp_privacy.sums.common import (
    NoisySum,
    distances,
    is_metric,
)
from shuffledp_privacy.sums.kept_shares import KeptShares, kept_shares


def share_law(noise_epsilon: Fraction, shares: int) -> NoiseTable | None:
    """Law SGDL(1/shares, φ) of one user's noise, φ and 1/shares rounded down.

    None if φ = 0 or ε is too small.
    """
    ratio = rounded_ratio(noise_epsilon)
    if ratio == 0.0 or table_length(1.0, ratio) > LONGEST_SMALL_TABLE:
        return None
    return build_table(rounded_shape(Fraction(1, shares)), ratio, table_length(1.0, ratio))


def local_total(noise_epsilon: Fraction, shares: int, distance: int) -> float:
    """Total ε at δ = 0 of one clamped report at distance d: ln P(N=0)/P(N=d), rounded up; nats.

    It is the largest log ratio of one report because ln P is convex on the positive integers
    (Proposition S8). Infinite where the law cannot be tabulated and shares > 1.
    """
    if shares == 1:
        return math.nextafter(up(float(noise_epsilon), units=2) * distance, math.inf)
    table = share_law(noise_epsilon, shares)
    if table is None:
        return math.inf
    ends = table.mass(np.array([0.0, float(distance)]))
    return math.nextafter(float(ends.high[0] - ends.low[1]), math.inf)


def honest_noise(noise_epsilon: Fraction, shares: int, honest: int) -> SumNoise:
    """Law SGDL(h/shares, φ) of `honest` shares together."""
    return sum_noise(Fraction(honest, shares), noise_epsilon)


def pure_unit(noise_epsilon: Fraction, shares: int, honest: int) -> float:
    """ε per unit of the honest users' shares at δ = 0, rounded up.

    Inf where they are less than one whole noise.
    """
    # One whole noise is pure per unit, and the rest is independent of it; fewer shares are not
    # log-concave (S2).
    return local_total(noise_epsilon, 1, 1) if honest >= shares else math.inf


def noise_basis(shares: int, honest: int) -> str:
    """The certificate's assumption about the noise, in words."""
    if honest >= shares:
        return (
            "S2: at least one whole discrete Laplace noise from honest users, and its exact excess"
        )
    return f"S2: only {honest} honest of {shares} shares; recomputed for the noise that is there"


def noisy_sum(spec: SGDLShuffle, setting: Setting) -> NoisySum:
    """Parameters of an sgdl-shuffle round for the analysis."""
    d_max = distances(spec.max_value, setting)
    return NoisySum(
        noise=honest_noise(spec.noise_epsilon, spec.shares, setting.honest),
        # What one user alone reports is a function of x + N: clamping costs nothing (S6).
        clamped=0.0 if setting.honest == 1 else any_clamped(spec, setting),
        local=lambda d: local_total(spec.noise_epsilon, spec.shares, d),
        pure=pure_unit(spec.noise_epsilon, spec.shares, setting.honest),
        d_max=d_max,
        metric=is_metric(setting),
        log_clamped=log_any_clamped(
            spec.noise_epsilon, -(-setting.honest // spec.shares), spec.padding
        ),
        kept=_kept_noise(spec, setting.honest, d_max),
    )


@lru_cache(maxsize=16)
def _kept_noise(spec: SGDLShuffle, honest: int, farthest: int) -> KeptShares | None:
    law = share_law(spec.noise_epsilon, spec.shares)
    if law is None or honest == 1:
        return None
    return kept_shares(
        law,
        spec.padding,
        honest,
        sgdl_tail(spec.noise_epsilon, spec.shares, spec.padding),
        unclamped=honest_noise(spec.noise_epsilon, spec.shares, honest),
        local=partial(local_total, spec.noise_epsilon, spec.shares),
        farthest=farthest,
    )


def any_clamped(spec: SGDLShuffle, setting: Setting) -> float:
    """δ1, the probability that some honest noise is clamped; rounded up."""
    return sgdl_any_clamped(spec.noise_epsilon, spec.shares, spec.padding, setting.honest)


def published_padding(noise_epsilon: Fraction, users: int, delta: float) -> int:
    """Padding c as printed in Lemma C.1 of Athanasiou et al. 2025.

    Too small (docs/accounting.md, S13), to compare.
    """
    w = 2 * users * math.log(-math.expm1(math.log1p(-delta) / users) / 2)
    u = 1 + (math.sqrt(w * (w - 4)) - w) / 2
    return math.ceil(u * -math.expm1(-float(noise_epsilon)) / users)
