"""Bounds for geo-shuffle: every user's discrete Laplace noise, clamped, unary.

Source: Athanasiou et al. 2025, Algorithm 3.

Certified: the exact law SGDL(h, φ) of the honest noise, plus clamping (docs/accounting.md,
Propositions S1-S8). Published: Theorem 4.1 at d = 1, as printed, which is its best case and no
guarantee for larger d (S12).
"""

from __future__ import annotations

import math
from fractions import Fraction

from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_privacy.bounds import (
    Setting,
)
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.primitives.noise import sum_noise
from shuffledp_privacy.sums.clamping import geo_any_clamped, log_any_clamped
from shuffledp_privacy.sums.common import (
    NoisySum,
    distances,
    is_metric,
)
from shuffledp_privacy.sums.kept import kept_noise, resolvable_honest


def noisy_sum(spec: GeoShuffle, setting: Setting) -> NoisySum:
    """Parameters of a geo-shuffle round for the analysis."""
    rate = up(float(spec.epsilon_geo), units=2)  # it only enters guarantees, never the noise
    d_max = distances(spec.max_value, setting)
    # What one user alone reports is a function of x + N: clamping costs nothing (S6).
    alone = setting.honest == 1
    return NoisySum(
        noise=sum_noise(Fraction(setting.honest), spec.epsilon_geo),
        clamped=0.0 if alone else any_clamped(spec, setting),
        local=lambda d: math.nextafter(rate * d, math.inf),
        pure=math.nextafter(rate, math.inf),
        d_max=d_max,
        metric=is_metric(setting),
        log_clamped=log_any_clamped(spec.epsilon_geo, setting.honest, spec.padding),
        kept=None if alone else kept_noise(spec, resolvable_honest(spec, setting.honest, d_max)),
    )


def any_clamped(spec: GeoShuffle, setting: Setting) -> float:
    """δ1, the probability that some honest noise is clamped; rounded up."""
    return geo_any_clamped(spec.epsilon_geo, spec.padding, setting.honest)


def published_padding(epsilon_geo: Fraction, users: int, delta: float) -> int:
    """Padding c as printed in Algorithm 3 of Athanasiou et al. 2025.

    Sound for δ1 <= δ/2 (its Proposition 2).
    """
    rate = float(epsilon_geo)
    share = -math.expm1(math.log1p(-delta / 2) / users)
    return max(0, math.ceil(-math.log((1 + math.exp(-rate)) * share / 2) / rate))


def published_epsilon(
    epsilon_geo: Fraction, users: int, delta: float, steepness: float = 2.0
) -> float | None:
    """ε of Theorem 4.1 of Athanasiou et al. 2025 as evaluated there, at d = 1.

    NO guarantee (docs/accounting.md, S12).

    ln P(r)/P(r + 1) at r = ceil(α), α the Chernoff quantile with t = 2 ε_geo/sqrt(n); None if the
    formula has no value: t >= ε_geo, that is n <= 4, or none in double precision. `steepness` is
    the 2 in t.
    """
    rate = float(epsilon_geo)
    if users <= steepness**2 or rate > 700.0:
        return None
    tilt = steepness * rate / math.sqrt(users)
    moment = -users * math.log1p(
        -4 * math.exp(-rate) * math.sinh(tilt / 2) ** 2 / math.expm1(-rate) ** 2
    )
    quantile = (moment - math.log(delta / 4)) / tilt
    return _log_step(float(users), math.exp(-rate), math.ceil(quantile))


def _log_step(shape: float, ratio: float, point: int) -> float:
    """Log ratio ln P(r)/P(r + 1) by the downward recurrence from far enough above.

    For comparison only.
    """
    following, begin = ratio, point + 1 + math.ceil(40 / -math.log(ratio))
    if begin - point > 2_000_000:
        return math.nan
    for m in range(begin, point, -1):
        upper = (1 + ratio * ratio) * m - ratio * (m + 1 - shape) * following
        following = ratio * (m - 1 + shape) / upper
    return -math.log(following)
