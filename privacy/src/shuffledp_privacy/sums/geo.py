"""Bounds for geo-shuffle (Athanasiou et al.

2025, Algorithm 3): every user's discrete Laplace noise, clamped, unary.

Certified: the exact law SGDL(h, φ) of the honest noise, plus clamping (docs/accounting.md,
Propositions S1-S8). Published: Theorem 4.1 at d = 1, as printed, which is its best case and no
guarantee for larger d (S12).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle
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
from shuffledp_privacy.numerics.rounding import UNIT, up
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.noise import rounded_ratio, sum_noise
from shuffledp_privacy.sums import attained
from shuffledp_privacy.sums.attained_tilted import FROM, Compared, Reports, two_datasets
from shuffledp_privacy.sums.clamping import geo_any_clamped, log_any_clamped
from shuffledp_privacy.sums.common import (
    NoisySum,
    check_epsilon,
    distances,
    downward,
    is_metric,
    probes,
)
from shuffledp_privacy.sums.kept import kept_noise, resolved

_BASIS = (
    "S1-S5: exact divergence of the honest users' noise SGDL(h, φ), worst distance",
    "S6: clamping, δ1 (1 + e^E), honest users only; S6b: or the noises that are not clamped alone",
    "S8: never more than one clamped report alone, ε_geo per unit",
)
_FORMULA = "Theorem 4.1 of Athanasiou et al. 2025 at d = 1, no guarantee for larger distances (S12)"


def noisy_sum(spec: GeoShuffle, setting: Setting) -> NoisySum:
    """Parameters of a geo-shuffle round for the analysis."""
    rate = up(float(spec.epsilon_geo), units=2)  # it only enters guarantees, never the noise
    d_max = distances(spec.max_value, setting)
    # What one user alone reports is a function of x + N: clamping costs nothing (S6).
    alone = setting.honest == 1
    return NoisySum(
        noise=sum_noise(Fraction(setting.honest), spec.epsilon_geo),
        clamped=0.0 if alone else _any_clamped(spec, setting),
        local=lambda d: math.nextafter(rate * d, math.inf),
        pure=math.nextafter(rate, math.inf),
        d_max=d_max,
        metric=is_metric(setting),
        log_clamped=log_any_clamped(spec.epsilon_geo, setting.honest, spec.padding),
        kept=None if alone else kept_noise(spec, resolved(spec, setting.honest, d_max)),
    )


def _any_clamped(spec: GeoShuffle, setting: Setting) -> float:
    return geo_any_clamped(spec.epsilon_geo, spec.padding, setting.honest)


@lru_cache(maxsize=8)
def _exact(spec: GeoShuffle, honest: int, d_max: int) -> attained.ClampedSum | None:
    ratio = rounded_ratio(spec.epsilon_geo)
    # Beyond it lies at most 2 e^-75, about 5e-33.
    length = math.ceil(75.0 / max(-math.log(ratio), 1e-6)) if ratio > 0 else 1
    if 4 * length > attained.LONGEST:
        return None
    size = np.abs(np.arange(-length, length + 1, dtype=np.float64))
    pmf = np.exp(-size * float(spec.epsilon_geo))
    pmf /= pmf.sum()
    # Exponents up to 80, rounded twice; what lies beyond the end is lost.
    user = attained.Clamped(pmf, spec.padding, spec.max_value)
    return attained.clamped_sum(user, honest, d_max, 1e-32, 256 * UNIT)


@lru_cache(maxsize=8)
def _compared(spec: GeoShuffle, honest: int, distance: int) -> tuple[Compared, ...]:
    """Tilted laws of a change by this distance, others at 0 or in the middle.

    None where they are too wide.
    """
    rate = float(spec.epsilon_geo)
    if 4 * (spec.max_value + spec.padding) > attained.LONGEST:
        return ()
    steps = np.arange(spec.max_value + spec.padding + 1, dtype=np.float64)
    falling = -rate * steps
    user = Reports(
        falling + math.log(math.tanh(rate / 2)),
        falling - math.log1p(math.exp(-rate)),
        spec.padding,
        spec.max_value,
        rate,
        UNIT * (16 - 4 * float(falling[-1])),
    )
    return two_datasets(user, honest, distance)


def _probes(item: NoisySum) -> list[int]:
    return probes(item.d_max) if item.metric else [item.d_max]


@delta_bounds.register
def _(spec: GeoShuffle, setting: Setting, epsilon: float) -> Bounds:
    check_epsilon(epsilon)
    item = noisy_sum(spec, setting)
    exact, clamped = _exact(spec, setting.honest, item.d_max), _any_clamped(spec, setting)
    low = max(
        attained.attained_delta(exact, item.noise, clamped, d, epsilon * (d if item.metric else 1))
        for d in _probes(item)
    )
    total = epsilon * (item.d_max if item.metric else 1)
    pairs = _compared(spec, setting.honest, item.d_max) if total > FROM else ()
    low = max(low, *(pair.delta(total) for pair in pairs), 0.0)
    return Bounds(item.delta(epsilon), downward(low), None, _BASIS)


@epsilon_bounds.register
def _(spec: GeoShuffle, setting: Setting, delta: float) -> Bounds:
    check_delta(delta, pure=True)
    item = noisy_sum(spec, setting)
    exact, clamped = _exact(spec, setting.honest, item.d_max), _any_clamped(spec, setting)
    certified, low = item.epsilon(delta), 0.0
    if delta > 0.0:
        steps = _probes(item)
        totals = attained.attained_totals(exact, item.noise, clamped, steps, delta)
        low = max(total / (d if item.metric else 1) for total, d in zip(totals, steps, strict=True))
        units = item.d_max if item.metric else 1
        near = min(certified * units, item.local(item.d_max))
        pairs = _compared(spec, setting.honest, item.d_max) if near > FROM else ()
        low = max(low, *(pair.epsilon(delta) / units for pair in pairs), 0.0)
    published = (
        published_epsilon(spec.epsilon_geo, setting.users, delta)
        if item.metric and delta > 0
        else None
    )
    return Bounds(certified, downward(low), published, _BASIS, _FORMULA)


@corrupted_bounds.register
def _(spec: GeoShuffle, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG001
    d_max = distances(spec.max_value, setting)
    total = math.nextafter(float(spec.epsilon_geo), math.inf) * (1 if is_metric(setting) else d_max)
    return CorruptedBounds(
        math.nextafter(total, math.inf), 0.0, ("S8: one clamped report, pure ε_geo per unit",)
    )


@standard_error.register
def _(spec: GeoShuffle, users: int) -> float:
    """Root of the mean squared error at worst: sqrt(2 n φ)/(1 - φ), and clamping's bias
    (docs/accounting.md, S17).
    """
    rate = float(spec.epsilon_geo)
    return math.hypot(
        math.sqrt(2.0 * users) * math.exp(-rate / 2) / -math.expm1(-rate), users * spec.bias
    )


@certified_curve.register
def _(spec: GeoShuffle, setting: Setting, distance: int, epsilons: Floats) -> Floats:
    item = noisy_sum(spec, setting)
    if not 1 <= distance <= spec.max_value:
        raise UsageError(f"distance must be from 1 to {spec.max_value}, not {distance}")
    return item.points(distance, epsilons)


def published_padding(epsilon_geo: Fraction, users: int, delta: float) -> int:
    """Padding c as printed in Algorithm 3 of Athanasiou et al.

    2025; sound for δ1 <= δ/2 (its Proposition 2).
    """
    rate = float(epsilon_geo)
    share = -math.expm1(math.log1p(-delta / 2) / users)
    return max(0, math.ceil(-math.log((1 + math.exp(-rate)) * share / 2) / rate))


def published_epsilon(
    epsilon_geo: Fraction, users: int, delta: float, steepness: float = 2.0
) -> float | None:
    """ε of Theorem 4.1 of Athanasiou et al.

    2025 as evaluated there, at d = 1; NO guarantee (docs/accounting.md, S12).

    ln P(r)/P(r + 1) at r = ceil(α), α the Chernoff quantile with t = 2 ε_geo/sqrt(n); None where
    the formula has no value: t >= ε_geo, that is n <= 4, or none in double precision. `steepness`
    is the 2 in t.
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
