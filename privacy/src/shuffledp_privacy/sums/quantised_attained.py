"""Lower bounds for quantised-rr, reached by concrete datasets.

A change by whole steps is one of the code, and a change below a step that ends at a whole number of
steps shows b δ_1 exactly (docs/accounting.md, Propositions S10 and S20).
"""

from __future__ import annotations

import math

import numpy as np

from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.primitives.bits import BitPair
from shuffledp_privacy.primitives.pairs import hockey_stick, least_epsilon
from shuffledp_privacy.sums.common import downward, probes
from shuffledp_privacy.sums.quantised import Floats, QuantisedRound


def attained_delta(item: QuantisedRound, epsilon: float) -> float:
    """Lower bound of δ at ε, from concrete datasets; ε is per unit if metric, else total."""
    divergences = [
        item.code_known(j, up(epsilon * item.units(_reaching(item, j)))) for j in _tried_steps(item)
    ]
    values = [float(divergence.lower.max()) for divergence in divergences if divergence]
    distances, shares = _short(item)
    totals = np.minimum(epsilon * (distances if item.metric else np.ones_like(distances)), 700.0)
    with np.errstate(over="ignore"):  # beyond the step, where nothing is seen
        inner = up(np.log1p(np.expm1(totals) / shares))
    if (seen := inner < item.step).any():
        lower = hockey_stick(_raised_pair(item, int(seen.sum())), np.repeat(inner[seen], 2)).lower
        values.append(float((np.repeat(shares[seen], 2) * lower).max()))
    return downward(max(values, default=0.0))


def attained_epsilon(item: QuantisedRound, delta: float) -> float:
    """Lower bound of ε at δ, from concrete datasets; ε is per unit if metric, else total."""
    tried = np.array(_tried_steps(item), dtype=np.int64)
    candidates = [0.0]
    if tried.size:
        totals = item.of_code(int(tried.max())).attained_epsilons(tried, delta)
        candidates += (
            totals / np.array([item.units(_reaching(item, int(j))) for j in tried])
        ).tolist()
    distances, shares = _short(item)
    if (seen := delta < shares).any():
        distances, shares = distances[seen], shares[seen]
        goal = np.repeat(up(delta / shares), 2)
        inner = least_epsilon(_raised_pair(item, shares.size), goal)[1].reshape(-1, 2).max(axis=1)
        totals = np.log1p(shares * np.expm1(inner))
        candidates.append(float((totals / distances if item.metric else totals).max()))
    return downward(max(candidates))


def _raised_pair(item: QuantisedRound, times: int) -> BitPair:
    """Pairs of datasets: one value falls by a whole step, all others hold k, or 0.

    Both are repeated `times` times. The value is the least one of whole steps; raising the largest
    such value below k is the mirror image.
    """
    bits, others = item.code.max_value, (item.honest - 1) * item.code.max_value
    raised_bits = bits // math.gcd(bits, item.max_value)
    zeros = np.array([bits - raised_bits, others + bits - raised_bits])
    ones = np.array([others + raised_bits - 1, raised_bits - 1])
    zeros, ones = (np.tile(bits.astype(np.float64), times) for bits in (zeros, ones))
    return BitPair(zeros, ones, np.ones(2 * times), item.of_code(1).flip)


def _reaching(item: QuantisedRound, steps: int) -> int:
    """The smallest distance that spans `steps` steps.

    Some dataset changes by exactly these steps, and a larger change reveals more.
    """
    return -(-steps * item.max_value // item.code.max_value)


def _tried_steps(item: QuantisedRound) -> list[int]:
    """Numbers of steps at which attained bounds are computed.

    The largest alone under standard adjacency.
    """
    most = item.steps(item.d_max)[0]
    if most == 0:
        return []
    return probes(most) if item.metric else [most]


def _short(item: QuantisedRound) -> tuple[Floats, Floats]:
    """Distances tried below one step, with their b; some dataset attains exactly b δ_1 there."""
    below = min(item.d_max, _reaching(item, 1) - 1)
    if below < 1 or (not item.metric and item.d_max > below):
        return np.empty(0), np.empty(0)
    tried = probes(below) if item.metric else [below]
    return np.array(tried, dtype=np.float64), np.array([float(item.steps(d)[1]) for d in tried])
