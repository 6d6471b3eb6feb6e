"""The two curves everybody computes, written down as plainly as the formulas: an independent check,
and the yardstick
that `make bench` measures against. Windows of 12 standard deviations; nothing is proved about
rounding here.
"""

import math

import numpy as np
from scipy.special import betainc, gammaln


def _binomial(trials: int, probability: float) -> tuple[np.ndarray, np.ndarray]:
    spread = 12 * math.sqrt(trials * probability * (1 - probability)) + 12
    low = max(0, math.floor(trials * probability - spread))
    high = min(trials, math.ceil(trials * probability + spread))
    count = np.arange(low, high + 1, dtype=np.float64)
    log_pmf = gammaln(trials + 1) - gammaln(count + 1) - gammaln(trials - count + 1)
    if 0 < probability < 1:
        log_pmf += count * math.log(probability) + (trials - count) * math.log1p(-probability)
    return count, np.exp(log_pmf)


def blanket_delta(symbols: int, epsilon0: float, honest: int, epsilon: float) -> float:
    """δ of the k-RR blanket, hidden flag (ACCOUNTING, "k-RR histogram"): a sum over M, T and a
    closed form in a."""
    p = math.exp(epsilon0) / (math.exp(epsilon0) + symbols - 1)
    q = (1 - p) / (symbols - 1)
    total = 0.0
    for others, mass in zip(*_binomial(honest - 1, symbols * q), strict=True):
        if mass < 1e-18:
            continue
        blanket = int(others) + 1
        pair, pair_mass = _binomial(blanket, 2 / symbols)
        threshold = ((math.exp(epsilon) - 1) * q * blanket / (p - q) + math.exp(epsilon) * pair) / (
            1 + math.exp(epsilon)
        )
        first = np.floor(threshold) + 1  # the summand is positive from here on
        above = _fair_tail(pair, first)
        above_mean = pair / 2 * _fair_tail(pair - 1, first - 1)
        slope = (p - q) * (1 + math.exp(epsilon))
        base = (p - q) * math.exp(epsilon) * pair + (math.exp(epsilon) - 1) * q * blanket
        total += mass * symbols / blanket * float(pair_mass @ (slope * above_mean - base * above))
    return total


def clones_delta(epsilon0: float, honest: int, epsilon: float) -> float:
    """δ of the pair of docs/accounting.md, K10: a sum over the number C of clones and closed forms
    in A."""
    kept = math.exp(epsilon0) / (1 + math.exp(epsilon0))
    total = 0.0
    for clones, mass in zip(*_binomial(honest - 1, 2 / (1 + math.exp(epsilon0))), strict=True):
        if mass < 1e-18:
            continue
        c = int(clones)
        a = np.arange(c + 2, dtype=np.float64)
        _, fair = _binomial(c, 0.5) if c > 4000 else (None, None)
        if fair is None:
            fair = np.exp(
                gammaln(c + 1) - gammaln(a[:-1] + 1) - gammaln(c - a[:-1] + 1) - c * math.log(2)
            )
        else:
            a = np.arange(len(fair) + 1, dtype=np.float64)
        one = np.concatenate(([0.0], fair))  # A + 1
        zero = np.concatenate((fair, [0.0]))
        p, q = kept * one + (1 - kept) * zero, kept * zero + (1 - kept) * one
        total += mass * float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
    return total


def _fair_tail(trials: np.ndarray, least: np.ndarray) -> np.ndarray:
    """P(Bin(trials, 1/2) >= least)."""
    inside = (least > 0) & (least <= trials)
    first, room = np.where(inside, least, 1.0), np.where(inside, trials - least + 1, 1.0)
    return np.where(least <= 0, 1.0, np.where(inside, betainc(first, room, 0.5), 0.0))
