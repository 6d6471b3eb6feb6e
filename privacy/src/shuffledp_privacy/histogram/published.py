"""Published bounds for k-RR, for comparison: not guarantees unless a docstring says so.

Theorem 1 of Biswas, Jung and Palamidessi 2023 as printed and corrected (docs/accounting.md,
K8), the closed form of Balle et al. 2019, and the adversaries of Koskela et al. 2021 (K9).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram
from shuffledp_privacy.histogram.blanket import (
    ExactCells,
    Law,
    exact_cells,
    grid_blanket,
    law_of,
    tail_of,
)
from shuffledp_privacy.numerics.special import log_gamma
from shuffledp_privacy.primitives.tails import Floats, outward
from shuffledp_privacy.primitives.trinomial import trinomial_table

LARGEST_PRINTED = 2000
"""Most users for which the printed double sum is evaluated; beyond, it has no practical use."""


def published_theorem_1(
    users: int, at_x0: int, symbols: int, epsilon0: float, epsilon: float
) -> float:
    """δ(ε) as Theorem 1 of Biswas et al. 2023 prints it.

    NOT a guarantee: its v_s is wrong (K8), far below the truth.

    Args:
        users: n, 2..2000, the changed user included.
        at_x0: n_x0, others that hold the primary symbol, 0..n-1 (the paper's tables use 0.8 n).
        symbols: k >= 2.
        epsilon0: local parameter in nats, (0, 20].
        epsilon: > 0, nats.

    Raises:
        UsageError: an argument outside its range.
    """
    loss, _, mass = _theorem_1(users, at_x0, symbols, epsilon0)
    return _sum_of_excess(loss, mass, epsilon)


def corrected_marginal(
    users: int, at_x0: int, symbols: int, epsilon0: float, epsilon: float
) -> float:
    """δ(ε) of ONE bin of ONE dataset: Theorem 1 with the corrected binomial identity (K8).

    A diagnostic, no guarantee: the histogram has k bins and the dataset need not be the worst. For
    k = 2 it is the exact δ of that dataset in that direction. Arguments and errors as in
    `published_theorem_1`.
    """
    _, loss, mass = _theorem_1(users, at_x0, symbols, epsilon0)
    return _sum_of_excess(loss, mass, epsilon)


def _sum_of_excess(loss: Floats, mass: Floats, epsilon: float) -> float:
    if not epsilon > 0.0:
        raise UsageError(f"epsilon must be above 0, not {epsilon}")
    above = loss > epsilon
    return float(mass[above] @ -np.expm1(epsilon - loss[above]))


@lru_cache(maxsize=8)
def _theorem_1(
    users: int, at_x0: int, symbols: int, epsilon0: float
) -> tuple[Floats, Floats, Floats]:
    """ln v_s as printed, ln v_s as corrected, and the probability P(M_x0(x0) = s), for s = 0..n.

    κ1 to κ3 are those of the paper.
    """
    if not 2 <= users <= LARGEST_PRINTED:
        raise UsageError(f"users must be from 2 to {LARGEST_PRINTED} here, not {users}")
    if not 0 <= at_x0 <= users - 1:
        raise UsageError(f"at_x0 must be from 0 to {users - 1}, not {at_x0}")
    if symbols < 2 or not 0.0 < epsilon0 <= 20.0:
        raise UsageError(f"need symbols >= 2 and 0 < epsilon0 <= 20, not {symbols} and {epsilon0}")
    growth = math.exp(epsilon0)
    rest = users - at_x0
    kappa1 = growth * (growth + symbols - 2) / (symbols - 1)
    kappa2 = (symbols - 1) / (growth + symbols - 2)
    first = _log_choose(at_x0) + np.arange(at_x0 + 1) * math.log(kappa1)
    sizes = np.arange(rest + 1)
    full = _convolve(first, _log_choose(rest))
    # C(N-1, j-1), hence shifted by one place and 0 at j = 0.
    hit = _convolve(first, np.append(-np.inf, _log_choose(rest - 1)))
    with np.errstate(divide="ignore"):
        weighted = _convolve(first, np.append(-np.inf, _log_choose(rest - 1)) + np.log(sizes))
    slope = growth - kappa2
    printed = np.log(kappa2 + slope / rest * np.exp(weighted - full))
    corrected = np.log(kappa2 + slope * np.exp(hit - full))
    log_kappa3 = (
        at_x0 * math.log(symbols - 1)
        + (rest - np.arange(users + 1)) * math.log(growth + symbols - 2)
        - users * math.log(growth + symbols - 1)
    )
    return printed, corrected, np.exp(log_kappa3 + full + corrected)


def _log_choose(size: int) -> Floats:
    factorials = log_gamma(np.arange(1.0, size + 2.0))
    return np.asarray(factorials[-1] - factorials - factorials[::-1], dtype=np.float64)


def _convolve(left: Floats, right: Floats) -> Floats:
    """Logarithm of the convolution of two positive sequences given by their logarithms."""
    total = np.full(left.size + right.size - 1, -np.inf)
    for index, value in enumerate(left):
        part = slice(index, index + right.size)
        total[part] = np.logaddexp(total[part], value + right)
    return total


def balle_2019(symbols: int, blanket: float, users: int, delta: float) -> float | None:
    """ε of k-RR by Balle et al. 2019, Theorem 3.1; None outside its range, ε > 1.

    Source: Koskela et al. 2021, section 4.

    γ >= max(14 k ln(2/δ) / ((n-1) ε²), 27 k / ((n-1) ε)) gives (ε, δ) for ε <= 1. A true bound,
    very loose.
    """
    if users < 2 or not 0.0 < blanket <= 1.0 or not 0.0 < delta < 1.0:
        raise UsageError(
            f"need users >= 2, 0 < blanket <= 1, 0 < delta < 1: {users}, {blanket}, {delta}"
        )
    scale = symbols / ((users - 1) * blanket)
    epsilon = max(math.sqrt(14 * math.log(2 / delta) * scale), 27 * scale)
    return epsilon if epsilon <= 1.0 else None


def weak_adversary_delta(spec: KRRHistogram, honest: int, epsilon: float) -> float:
    """δ(ε) against Koskela et al.'s weak adversary (2021), who knows others' values and flags.

    It is the blanket's (K1, K9).

    The result is never below the truth: a certificate. ε >= 0 nats, honest 1..1e9.
    """
    return min(1.0, outward(_blanket(law_of(spec), honest, epsilon)))


def strong_adversary_delta(spec: KRRHistogram, honest: int, epsilon: float) -> float:
    """δ(ε) against Koskela et al.'s strong adversary (2021), who knows this user's flag, too.

    Sound but loose (K9).

    The result is never below the truth: (1-γ) HS of (a + 1, b) against (a, b + 1) = (p - q) 𝔼[(a -
    e^ε b)_+] / (h
    q).
    """
    law = law_of(spec)
    table = trinomial_table(honest, law.q, law.ratio, law.ratio_rest, tail_of(honest))
    value = table.upper(np.array([1.0]), np.array([math.exp(epsilon)]), np.array([0.0]))
    return min(1.0, outward((law.p - law.q) * (float(value[0]) / (honest * law.q) + table.outer)))


def _blanket(law: Law, honest: int, epsilon: float) -> float:
    if epsilon >= law.epsilon0:
        return 0.0
    if ExactCells.affordable(law, honest):
        return exact_cells(law, honest).blanket(epsilon)
    return float(grid_blanket(law, honest).upper(np.array([epsilon]))[0])
