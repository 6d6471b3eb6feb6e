"""A guarantee as Rényi divergence, trade-off function, Gaussian or group privacy.

All of it is read from one table of upper bounds of δ(ε), which hold for every dataset and for both
orders of the two neighbours (`filters.DeltaCurve`): docs/accounting.md, propositions C18 to C20.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.central import gaussian_delta
from shuffledp_privacy.numerics.chords import falling_chord
from shuffledp_privacy.numerics.rounding import UNIT, down, up
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.numerics.special import normal_quantile
from shuffledp_privacy.rounds.composition import Round, curve_of
from shuffledp_privacy.rounds.filters import QUANTILE_ROUNDING, DeltaCurve
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves, reach
from shuffledp_privacy.rounds.subsampling import Curve, reflect_curve
from shuffledp_privacy.tabulated import read_epsilon

Floats: TypeAlias = NDArray[np.float64]

LARGEST_ORDER: Final = 10_000.0
"""Highest Rényi order: the formula's logarithms keep their digits up to it."""

LARGEST_GROUP: Final = 100
"""Most reports of one user: beyond, hardly any guarantee is left."""

LARGEST_NODE: Final = 300.0
"""No table goes further: a pure ε above it counts as none."""

ZONES: Final = ((1e-6, 240), (1e-15, 120), (1e-40, 80))
"""Where the curve falls to how much, and nodes up to there: high orders look far out."""

LARGEST_TOTAL: Final = 350.0
"""No table of a group goes further: its numbers stay finite."""

TAIL_NODES: Final = 64
"""Nodes from there to the pure ε."""

MARGIN: Final = 128
"""Units of `rounding.up` and `rounding.down`: more than the roundings of each formula here."""

UNDERFLOW: Final = 1e-150
"""More than all terms that floating point lost for being too small (C18)."""


def table_of(item: Round) -> DeltaCurve:
    """Upper bounds of δ(ε) of a round and its repetitions, for any change up to the largest.

    A change is by at most the largest distance.

    It ends at δ = 0 if a pure ε is known. Raises `UsageError` under metric adjacency, because these
    views are not per unit of distance, and as `certified_curve`.
    """
    if item.setting.adjacency is not Adjacency.STANDARD:
        raise UsageError(
            "this view covers any change up to a distance: use standard adjacency with max-distance"
        )
    curve, pure = curve_of(item)
    if item.times > 1:
        # Any δ will do for the grid: it affects no soundness.
        composed = compose_curves([Repeated(curve, item.times)], 1e-9)
        curve = _pointwise(composed.delta)
    return _tabulate(curve, up(pure * item.times, MARGIN))


def _pointwise(delta: Callable[[float], float]) -> Curve:
    return lambda epsilons: np.array(
        [delta(epsilon) for epsilon in epsilons.tolist()], dtype=np.float64
    )


def _tabulate(curve: Curve, pure: float) -> DeltaCurve:
    is_pure = pure <= LARGEST_NODE
    ends = [0.0, *(min(reach(curve, tail), pure) for tail, _ in ZONES)]
    zones = [
        np.linspace(low, high, count)
        for low, high, (_, count) in zip(ends, ends[1:], ZONES, strict=False)
    ]
    if is_pure:
        zones.append(np.linspace(ends[-1], pure, TAIL_NODES))
    epsilons = np.unique(np.concatenate(zones))
    deltas = np.clip(curve(epsilons), 0.0, 1.0)
    if is_pure:
        deltas[-1] = 0.0
    # Nodes are moved up: since the curve falls, a bound at ε holds at anything above it.
    return DeltaCurve(up(np.expm1(epsilons), MARGIN), np.minimum.accumulate(deltas))


def renyi_divergence(table: DeltaCurve, order: float) -> float:
    """Rényi divergence of any two neighbours, in either order.

    Nats, rounded up, `math.inf` for no bound.

    Source: proposition C18 (Liese and Vajda 2006; Zhu, Dong and Wang 2022 for the pair that the
    curve defines).

    Args:
        table: table of the round.
        order: 1 (Kullback-Leibler) to 10,000, or `math.inf` for the pure ε.
    """
    if not (1 <= order <= LARGEST_ORDER or order == math.inf):
        raise UsageError(
            f"a Rényi order must be from 1 to {LARGEST_ORDER:,.0f}, or inf, not {order}"
        )
    if table.deltas[-1] > 0:
        return math.inf
    pure = up(math.log1p(float(table.excess[-1])), MARGIN)
    if not table.deltas.any():
        return 0.0
    if order == math.inf:
        return pure
    margin = (order * pure + 1000) * (MARGIN * UNIT)
    log_integral = (
        float(np.logaddexp(_log_rising(table, order), math.log(_falling(table, order + 1))))
        + margin
    )
    if order == 1:
        return min(pure, math.exp(log_integral)) if log_integral < 700 else pure
    log_excess = math.log(order) + math.log(order - 1) + log_integral
    return min(pure, up(float(np.logaddexp(0.0, log_excess)) / (order - 1), MARGIN))


def _log_rising(table: DeltaCurve, order: float) -> float:
    """Logarithm of an upper bound of ∫ v^(α-2) t(v) dv over v >= 1."""
    if order <= 2:
        return math.log(_falling(table, 2 - order))
    logs = np.log1p(table.excess)
    widths = np.diff(table.excess)
    grown = (order - 1) * np.log1p(widths / (1 + table.excess[:-1]))
    with np.errstate(divide="ignore"):  # the logarithm of no mass
        # Chebyshev: one factor rises, the other falls, so the product's mean is at most the means'
        # product.
        terms = (order - 1) * logs[:-1] + np.log(-np.expm1(-grown)) + grown
        terms += np.log((table.deltas[:-1] + table.deltas[1:]) / 2)
    return float(np.logaddexp.reduce(terms)) - math.log(order - 1)


def _falling(table: DeltaCurve, power: float) -> float:
    """Upper bound of ∫ v^-power t(v) dv over v >= 1 for power >= 0, by chords of both factors."""
    kernel = np.exp(-power * np.log1p(table.excess))
    left, right = table.deltas[:-1], table.deltas[1:]
    cells = kernel[:-1] * (2 * left + right) + kernel[1:] * (left + 2 * right)
    return float(np.sum(cells * np.diff(table.excess))) / 6 + UNDERFLOW


def trade_off_bound(table: DeltaCurve, false_positives: Floats) -> Floats:
    """Lower bound of the false negative rate for each false positive rate; never ABOVE the truth.

    Shape: as `false_positives`, in [0, 1]. Every test of which of two neighbouring datasets was
    used errs at least that often. Source: proposition C19 (Dong, Roth and Su 2022, Proposition 6).
    """
    alphas = np.asarray(false_positives, dtype=np.float64)
    if not np.all((alphas >= 0) & (alphas <= 1)):
        raise UsageError("false positive rates must be numbers from 0 to 1")
    grown, column = 1 + table.excess, alphas[..., None]
    outward = MARGIN * UNIT
    first = 1 - table.deltas - grown * column - outward
    second = (1 - table.deltas - column - outward) / up(grown, MARGIN)
    return np.asarray(np.maximum(np.maximum(first, second).max(axis=-1), 0.0), dtype=np.float64)


def gaussian_shift(table: DeltaCurve, leak: float) -> float:
    """μ of a Gaussian mechanism with leak `leak` that is nowhere more private than the table.

    Rounded up, or `math.inf`.

    With probability `leak` the mechanism reveals everything. Source: propositions C14 and C19.
    """
    if not 0 <= leak < 1:
        raise UsageError(f"a leak must be from 0 to below 1, not {leak}")
    slopes, intercepts = table.lines()
    above = up((intercepts - leak) / (1 - leak), MARGIN)
    # A line with b <= 0 lies below the leak itself.
    binding = above > 0
    if not table.deltas.any() or not binding.any():
        return 0.0
    high = normal_quantile(np.minimum(above[binding], 1.0))
    low = normal_quantile(np.minimum(slopes[binding] / (1 - leak), 1.0))
    with np.errstate(invalid="ignore"):  # both infinite: a line that nothing finite is above
        apart = high - low + QUANTILE_ROUNDING * (np.abs(high) + np.abs(low))
    worst = float(np.max(np.where(np.isnan(apart), math.inf, apart)))
    return max(0.0, worst)


def gaussian_shift_attained(epsilon: float, attained: float, leak: float) -> float:
    """Lower bound of μ for any such Gaussian mechanism, from a dataset that costs δ at ε.

    δ = `attained`; rounded down.
    """
    delta = (attained - leak) / (1 - leak) * (1 - 1e-9)
    if not delta > 0:
        return 0.0
    return bisect(
        lambda shift: gaussian_delta(1 / shift, 1.0, epsilon) < delta,
        passing=0.0,
        failing=64.0,
        steps=60,
    )


def group_table(table: DeltaCurve, reports: int) -> DeltaCurve:
    """Upper bounds of δ(ε) if `reports` reports of one round change together.

    Source: proposition C20.

    Args:
        table: table of one report's change.
        reports: 1 to 100, all of them among the honest ones.
    """
    if not 1 <= reports <= LARGEST_GROUP:
        raise UsageError(f"a user must have 1 to {LARGEST_GROUP} reports in a round, not {reports}")
    single = up(np.log1p(table.excess), MARGIN)
    # A part may be negative as well: the other parts then make up for it.
    parts = np.concatenate((-single[:0:-1], single))
    costs = np.concatenate((reflect_curve(table.deltas, single)[:0:-1], table.deltas))
    joint = table
    for size in range(2, reports + 1):
        epsilons = size * single[size * single < LARGEST_TOTAL]
        deltas = _join(parts, costs, joint, epsilons)
        if table.deltas[-1] == 0:
            deltas[epsilons >= size * single[-1]] = 0.0  # a pure ε for each
        joint = DeltaCurve(up(np.expm1(epsilons), MARGIN), np.minimum.accumulate(deltas))
    return joint


def _join(parts: Floats, costs: Floats, rest: DeltaCurve, epsilons: Floats) -> Floats:
    """δ at each ε with one more report: the best split of ε between it and the rest."""
    left = (epsilons[:, None] - parts) - 32 * UNIT * (epsilons[:, None] + np.abs(parts))
    sizes = np.abs(left)
    # Read a little to the left, where the curve is no lower.
    upper = falling_chord(down(np.expm1(sizes), MARGIN), rest.excess, rest.deltas)
    upper = np.minimum(upper, 1.0)
    upper = np.where(left < 0, reflect_curve(upper, sizes), upper)
    sums = up(costs + up(np.exp(parts), MARGIN) * upper, MARGIN)
    return np.asarray(np.minimum(sums.min(axis=1), 1.0), dtype=np.float64)


def epsilon_at(table: DeltaCurve, delta: float) -> float:
    """ε at δ, from the table's chords.

    Nats, rounded up, `math.inf` where it does not fall so far.
    """
    try:
        return read_epsilon(table, delta)
    except CannotCertify:
        return math.inf
