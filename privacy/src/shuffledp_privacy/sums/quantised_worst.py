"""Bounds for quantised-rr over all distances, from bounds at single distances.

Per unit of distance the worst change may be any: below a step, a whole number of steps, or between
two numbers of steps (docs/accounting.md, Propositions S14 and S20).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shuffledp_privacy.bounds import Setting, certified_curve
from shuffledp_privacy.numerics.chords import falling_chord
from shuffledp_privacy.numerics.rounding import ELEMENTARY, down, up
from shuffledp_privacy.primitives.pairs import hockey_stick, least_epsilon
from shuffledp_privacy.sums.common import chord
from shuffledp_privacy.sums.quantised import Floats, QuantisedRound, between

NODES = 65
"""Points at which the curve of one step is computed for a search over distances below it."""

CELLS = 2_000
"""Intervals that cover the distances between two numbers of steps, or below one; each loses less
than a thousandth.
"""

LOOKED_AT = 12
"""Numbers of steps that are looked at one by one; beyond, the bound for all of them is loose by
less than η/100.
"""

SLACK = 2e-4
"""Relative gap below which no smaller certificate is searched for."""


def worst_delta(item: QuantisedRound, epsilon: float) -> float:
    """Certified δ at ε over all distances; ε is per unit if metric, else total."""
    if epsilon >= item.local():
        return 0.0
    largest = item.certified_delta(item.d_max, down(epsilon * item.units(item.d_max)))
    if not item.metric or item.d_max == 1:
        return largest
    return min(1.0, _between_steps(item, epsilon, max(largest, _below_a_step(item, epsilon))))


def worst_epsilon(item: QuantisedRound, delta: float) -> float:
    """Certified ε at δ over all distances; ε is per unit if metric, else total."""
    if delta == 0.0 or item.step == 0.0:
        return item.local()
    largest = item.certified_epsilon(item.d_max, delta) / item.units(item.d_max)
    if item.metric and item.d_max > 1:
        largest = _farther(item, delta, max(largest, _nearer(item, delta)))
    return min(up(largest), item.local())


def _first(item: QuantisedRound, nodes: Floats) -> Floats:
    """Certified δ of the code for a change by one step, at rising ε >= 0."""
    return np.minimum.accumulate(
        certified_curve(item.code, Setting(item.honest, item.honest), 1, nodes)
    )


def _shares(item: QuantisedRound) -> tuple[Floats, Floats]:
    """First and last b of each interval that covers the distances below one step, up to d_max."""
    last = min(item.d_max, math.ceil(Fraction(item.max_value, item.code.max_value)) - 1)
    lows, highs = _cover(last)
    scale = item.code.max_value / item.max_value
    return lows * scale, np.minimum(highs * scale, 1.0)


def _below_a_step(item: QuantisedRound, epsilon: float) -> float:
    """Largest δ, at ε per unit, over all changes of the value by less than a step."""
    lows, highs = _shares(item)
    if not lows.size:
        return 0.0
    per_step = epsilon * item.max_value / item.code.max_value
    # δ rises with b and falls with ε: the farthest change at the smallest total covers an
    # interval.
    with np.errstate(over="ignore"):
        totals = down(
            np.log1p(np.expm1(np.minimum(per_step * lows, 700.0)) / highs), 4 * ELEMENTARY
        )
    totals = np.minimum(totals, item.step)
    nodes = np.unique(
        np.concatenate([np.linspace(totals.min(), totals.max(), NODES), totals[[0, -1]]])
    )
    deltas = chord(nodes, _first(item, nodes), totals) * highs
    return up(float(deltas.max()), 4 * ELEMENTARY)


def _nearer(item: QuantisedRound, delta: float) -> float:
    """ε per unit at δ for changes by less than a step: ln(1 + b (e^E_1 - 1)).

    E_1 is the ε of one step at δ/b.
    """
    lows, highs = _shares(item)
    if not lows.size:
        return 0.0
    nodes = np.linspace(0.0, item.code_epsilon(1, delta), NODES)
    values = _first(item, nodes)
    values[-1] = min(values[-1], delta)
    # Chords in e^E between the nodes are above the curve, and so the point where a chord has
    # δ/b is sound.
    grown = falling_chord(down(delta / highs, 4 * ELEMENTARY), values[::-1], np.expm1(nodes)[::-1])
    return up(
        float((np.log1p(grown * highs) / lows).max()) * item.code.max_value / item.max_value,
        4 * ELEMENTARY,
    )


def _rests(item: QuantisedRound) -> tuple[Floats, Floats]:
    """First and last b of each interval of a cover of all b that occur, and of 1."""
    parts = Fraction(item.code.max_value, item.max_value).denominator
    if parts <= CELLS:
        return (points := np.arange(parts + 1) / parts), points
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    return edges[:-1], edges[1:]


def _worst_between(item: QuantisedRound, full_steps: int, low: float, high: float) -> float:
    """Largest ε per step for a + b steps, 0 <= b <= 1; `low`, `high`: total ε for a and a + 1."""
    first, last = _rests(item)
    return float((between(low, high, last) / (full_steps + first)).max())


def _whole(item: QuantisedRound) -> int:
    """Number of steps of the largest distance, rounded up."""
    full_steps, share = item.steps(item.d_max)
    return full_steps + bool(share)


def _farther(item: QuantisedRound, delta: float, least: float) -> float:
    """ε per unit at δ for all changes by a step or more, computed from the code's ε at whole steps.

    Returns `least` if that is larger.
    """
    most = _whole(item)
    if most < 2:
        return least
    per_step = item.of_code(most, metric=True).epsilon(delta)[0]
    scale = item.code.max_value / item.max_value
    few = min(most, LOOKED_AT)
    # At every number of steps ε is at most that of `per_step` for each.
    totals = np.minimum(_totals(item, few, delta, least / scale), per_step * np.arange(1, few + 1))
    worst = least / scale
    for full_steps in range(1, few):
        low, high = np.minimum.accumulate(totals[[full_steps, full_steps - 1]])[::-1].tolist()
        if (bound := _worst_between(item, full_steps, low, high)) > worst * (1 + SLACK):
            high = min(high, item.code_epsilon(full_steps + 1, delta))
            bound = _worst_between(
                item, full_steps, min(low, high, item.code_epsilon(full_steps, delta)), high
            )
        worst = max(worst, bound)
    if most > few:
        worst = max(worst, _worst_between(item, few, few * per_step, (few + 1) * per_step))
    return worst * scale


def _totals(item: QuantisedRound, few: int, delta: float, aim: float) -> Floats:
    """Certified total ε of the code at δ for a change by 1, .., `few` steps.

    Where a total of about `aim` per step is found to suffice, it is returned without searching for
    a smaller one.
    """
    steps = np.arange(1, few + 1)
    pairs, blocks = item.of_code(few).covering_pairs(steps)
    totals = np.asarray(steps * max(aim - _excess(item, aim), 0.0), dtype=np.float64)
    upper = hockey_stick(pairs, np.repeat(totals, blocks)).upper
    rows = np.flatnonzero(np.repeat(upper.reshape(-1, blocks).max(axis=1) > delta, blocks))
    if rows.size:
        least = least_epsilon(pairs.rows(rows), delta)[0].reshape(-1, blocks).max(axis=1)
        totals[rows[::blocks] // blocks] = least
    return totals


def _excess(item: QuantisedRound, per_step: float) -> float:
    """Upper bound, in nats, of (1-b) e^(η a) + b e^(η (a+1)) over e^(η (a+b))."""
    first, last = _rests(item)
    return float((between(0.0, per_step, last) - per_step * first).max())


def _between_steps(item: QuantisedRound, epsilon: float, least: float) -> float:
    """δ at ε per unit for all changes by a step or more, but at least `least`."""
    most = _whole(item)
    if most < 2:
        return least
    per_step = epsilon * item.max_value / item.code.max_value
    # Asked so much below η j for j steps, the code's curves are asked where S20 allows it.
    excess = _excess(item, per_step)
    few = min(most, LOOKED_AT)
    steps = np.arange(1, few + 1)
    totals_of_steps = np.maximum(steps * per_step - excess, 0.0)
    pairs, blocks = item.of_code(few).covering_pairs(steps)
    bounds = (
        hockey_stick(pairs, np.repeat(totals_of_steps, blocks))
        .upper.reshape(-1, blocks)
        .max(axis=1)
    )
    worst = least
    for at in np.argsort(-bounds).tolist():
        if bounds[at] <= worst:
            break
        worst = max(worst, item.code_delta(at + 1, float(totals_of_steps[at])))
    if most > few:
        rest = per_step - excess / few
        beyond = (
            item.of_code(most, metric=True).delta(rest)[0]
            if 0 < rest < item.step
            else float(rest <= 0)
        )
        worst = max(worst, beyond)
    return up(worst)


def _cover(last: int) -> tuple[Floats, Floats]:
    """First and last distance of each interval of a cover of 1..last; none for 0."""
    lows = (
        np.arange(1.0, last + 1)
        if last <= CELLS
        else np.unique(np.geomspace(1, last, 4 * CELLS).round())
    )
    return lows, np.append(lows[1:] - 1, float(last))[: lows.size]
