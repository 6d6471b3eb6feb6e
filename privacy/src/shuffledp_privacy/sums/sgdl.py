"""Bounds for sgdl-shuffle (Athanasiou et al.

2025, Algorithm 4): every user adds a share of one discrete Laplace noise.

Certified: the exact law SGDL(h/shares, φ) of the honest noise, also where too few honest users are
left, plus clamping (docs/accounting.md, Propositions S1-S9). Published: Theorem 5.1 claims ε =
noise_epsilon per unit at any δ; it neglects that clamping changes both datasets and rests on a
wrong padding (S13): no guarantee.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import SGDLShuffle
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
from shuffledp_privacy.primitives.noise import (
    LONGEST_SMALL_TABLE,
    SumNoise,
    rounded_ratio,
    rounded_shape,
    sum_noise,
    table_length,
)
from shuffledp_privacy.primitives.table import NoiseTable, build_table
from shuffledp_privacy.sums import attained
from shuffledp_privacy.sums.attained_tilted import FROM, Compared, Reports, two_datasets
from shuffledp_privacy.sums.clamping import log_any_clamped, sgdl_any_clamped, sgdl_tail
from shuffledp_privacy.sums.common import (
    NoisySum,
    check_epsilon,
    distances,
    downward,
    is_metric,
    probes,
)
from shuffledp_privacy.sums.kept_shares import LARGE, KeptShares, kept_shares

_FORMULA = (
    "Theorem 5.1 of Athanasiou et al. 2025, false for larger distances and with its padding (S13)"
)


def share_law(noise_epsilon: Fraction, shares: int) -> NoiseTable | None:
    """Law SGDL(1/shares, φ) of one user's noise, φ and 1/shares rounded down.

    None where φ = 0 or ε is too small.
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
    """Law SGDL(h/shares, φ) of so many honest shares together."""
    return sum_noise(Fraction(honest, shares), noise_epsilon)


def pure_unit(noise_epsilon: Fraction, shares: int, honest: int) -> float:
    """ε per unit of these shares at δ = 0, rounded up.

    Inf where they are less than one whole noise.
    """
    # One whole noise is pure per unit, and the rest is independent of it; fewer shares are not
    # log-concave (S2).
    return local_total(noise_epsilon, 1, 1) if honest >= shares else math.inf


def noise_basis(shares: int, honest: int) -> str:
    """What the certificate rests on as to the noise, in words."""
    if honest >= shares:
        return (
            "S2: at least one whole discrete Laplace noise from honest users, and its exact excess"
        )
    return f"S2: only {honest} honest of {shares} shares; recomputed for the noise that is there"


def noisy_sum(spec: SGDLShuffle, setting: Setting) -> NoisySum:
    """Parameters of an sgdl-shuffle round for the analysis."""
    return NoisySum(
        noise=honest_noise(spec.noise_epsilon, spec.shares, setting.honest),
        # What one user alone reports is a function of x + N: clamping costs nothing (S6).
        clamped=0.0 if setting.honest == 1 else _any_clamped(spec, setting),
        local=lambda d: local_total(spec.noise_epsilon, spec.shares, d),
        pure=pure_unit(spec.noise_epsilon, spec.shares, setting.honest),
        d_max=distances(spec.max_value, setting),
        metric=is_metric(setting),
        log_clamped=log_any_clamped(
            spec.noise_epsilon, -(-setting.honest // spec.shares), spec.padding
        ),
    )


def _any_clamped(spec: SGDLShuffle, setting: Setting) -> float:
    return sgdl_any_clamped(spec.noise_epsilon, spec.shares, spec.padding, setting.honest)


@lru_cache(maxsize=8)
def _kept(spec: SGDLShuffle, honest: int) -> KeptShares | None:
    law = share_law(spec.noise_epsilon, spec.shares)
    if law is None or honest == 1:
        return None
    return kept_shares(
        law, spec.padding, honest, sgdl_tail(spec.noise_epsilon, spec.shares, spec.padding)
    )


def _certified_delta(spec: SGDLShuffle, setting: Setting, item: NoisySum, epsilon: float) -> float:
    found = item.delta(epsilon)
    kept = _kept(spec, setting.honest) if found >= LARGE else None
    return (
        found if kept is None else min(found, kept.delta(item.d_max, epsilon, metric=item.metric))
    )


def _certified_epsilon(spec: SGDLShuffle, setting: Setting, item: NoisySum, delta: float) -> float:
    found = item.epsilon(delta)
    kept = _kept(spec, setting.honest) if delta >= LARGE else None
    return found if kept is None else kept.epsilon(item.d_max, delta, found, metric=item.metric)


def _basis(spec: SGDLShuffle, setting: Setting) -> tuple[str, ...]:
    return (
        noise_basis(spec.shares, setting.honest),
        "S1-S5: exact divergence, worst distance",
        "S6-S7: clamping, δ1 (1 + e^E), honest users only; S6b: at large δ the shares that are "
        "not clamped alone",
        "S8: never more than one clamped report alone",
    )


@lru_cache(maxsize=8)
def _exact(spec: SGDLShuffle, honest: int, d_max: int) -> attained.ClampedSum | None:
    law = share_law(spec.noise_epsilon, spec.shares)
    if law is None or 4 * law.last > attained.LONGEST:
        return None
    half = np.exp(law.log_pmf)
    pmf = np.concatenate([half[:0:-1], half])
    # Weights err relative to P(0), so that only the mass off 0 is uncertain.
    relative = law.margin + 16 * UNIT * (2 + 1 / float(spec.noise_epsilon))
    inexact = 4 * relative * (1 - float(half[0])) + 16 * UNIT
    return attained.clamped_sum(
        attained.Clamped(pmf, spec.padding, spec.max_value), honest, d_max, inexact
    )


@lru_cache(maxsize=8)
def _compared(spec: SGDLShuffle, honest: int, distance: int) -> tuple[Compared, ...]:
    """Tilted laws of a change by this distance, others at 0 or in the middle.

    None where they are too wide.
    """
    law, reach = share_law(spec.noise_epsilon, spec.shares), spec.max_value + spec.padding
    if law is None or 4 * max(reach, law.last) > attained.LONGEST:
        return ()
    if reach > law.last:
        law = build_table(law.shape, law.ratio, reach)
    rate = float(spec.noise_epsilon)
    relative = law.margin + UNIT * (16 + 4 * rate * reach)
    user = Reports(law.log_pmf, law.log_tail, spec.padding, spec.max_value, rate, relative)
    return two_datasets(user, honest, distance)


def _probes(item: NoisySum) -> list[int]:
    return probes(item.d_max) if item.metric else [item.d_max]


@delta_bounds.register
def _(spec: SGDLShuffle, setting: Setting, epsilon: float) -> Bounds:
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
    return Bounds(
        _certified_delta(spec, setting, item, epsilon), downward(low), None, _basis(spec, setting)
    )


@epsilon_bounds.register
def _(spec: SGDLShuffle, setting: Setting, delta: float) -> Bounds:
    check_delta(delta, pure=True)
    item = noisy_sum(spec, setting)
    exact, clamped = _exact(spec, setting.honest, item.d_max), _any_clamped(spec, setting)
    certified, low = _certified_epsilon(spec, setting, item, delta), 0.0
    if delta > 0.0:
        steps = _probes(item)
        totals = attained.attained_totals(exact, item.noise, clamped, steps, delta)
        low = max(total / (d if item.metric else 1) for total, d in zip(totals, steps, strict=True))
        units = item.d_max if item.metric else 1
        pairs = _compared(spec, setting.honest, item.d_max) if certified * units > FROM else ()
        low = max(low, *(pair.epsilon(delta) / units for pair in pairs), 0.0)
    published = float(spec.noise_epsilon) * (1 if item.metric else item.d_max)
    return Bounds(certified, downward(low), published, _basis(spec, setting), _FORMULA)


@corrupted_bounds.register
def _(spec: SGDLShuffle, setting: Setting, delta: float) -> CorruptedBounds:  # noqa: ARG001
    d_max = distances(spec.max_value, setting)
    epsilon = local_total(spec.noise_epsilon, spec.shares, 1 if is_metric(setting) else d_max)
    return CorruptedBounds(
        epsilon, 0.0, ("S8: one clamped report, ln P(N=0)/P(N=d), largest per unit at d = 1",)
    )


@standard_error.register
def _(spec: SGDLShuffle, users: int) -> float:
    """Root of the mean squared error at worst: sqrt(2 n β φ)/(1 - φ), and clamping's bias
    (docs/accounting.md, S17).
    """
    rate = float(spec.noise_epsilon)
    deviation = math.sqrt(2.0 * users / spec.shares) * math.exp(-rate / 2) / -math.expm1(-rate)
    return math.hypot(deviation, users * spec.bias)


@certified_curve.register
def _(spec: SGDLShuffle, setting: Setting, distance: int, epsilons: Floats) -> Floats:
    item = noisy_sum(spec, setting)
    if not 1 <= distance <= spec.max_value:
        raise UsageError(f"distance must be from 1 to {spec.max_value}, not {distance}")
    return item.points(distance, epsilons)


def published_padding(noise_epsilon: Fraction, users: int, delta: float) -> int:
    """Padding c as printed in Lemma C.1 of Athanasiou et al.

    2025; too small (docs/accounting.md, S13), to compare.
    """
    w = 2 * users * math.log(-math.expm1(math.log1p(-delta) / users) / 2)
    u = 1 + (math.sqrt(w * (w - 4)) - w) / 2
    return math.ceil(u * -math.expm1(-float(noise_epsilon)) / users)
