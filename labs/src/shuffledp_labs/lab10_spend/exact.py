"""Step B of lab 10: the exact ε of several pure rounds, and textbook bounds on it.

The worst case of ε_i-differentially private rounds is randomised response in each (Kairouz, Oh and
Viswanath, "The Composition Theorem for Differential Privacy", 2015, Theorem 3.4): loss ε_i with
probability e^ε_i/(1 + e^ε_i), else -ε_i. Rounds of the same ε are counted, so that the outcomes are
few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product


def outcomes(rounds: Sequence[float]) -> list[tuple[float, float]]:
    """Privacy loss and probability of every outcome, the largest loss first."""
    laws = [_binomial(epsilon, count) for epsilon, count in Counter(rounds).items()]
    both = [
        (math.fsum(loss for loss, _ in parts), math.prod(chance for _, chance in parts))
        for parts in product(*laws)
    ]
    return sorted(both, reverse=True)


def exact_epsilon(rounds: Sequence[float], delta: float) -> float:
    """The smallest ε >= 0 at which all rounds together are (ε, δ)-differentially private.

    δ(ε) is the sum over the losses L above ε of P (1 - e^(ε - L)); between two losses it is a - e^ε
    b, which is solved for ε.
    """
    above, weighted = 0.0, 0.0
    ordered = outcomes(rounds)
    for index, (loss, chance) in enumerate(ordered):
        above += chance
        weighted += chance * math.exp(-loss)
        below = ordered[index + 1][0] if index + 1 < len(ordered) else -math.inf
        if above - delta <= 0:
            continue
        epsilon = math.log((above - delta) / weighted)
        if epsilon >= below:
            return max(0.0, epsilon)
    return 0.0


def basic(rounds: Sequence[float]) -> float:
    """The sum of all ε, valid for every δ."""
    return math.fsum(rounds)


def textbook(rounds: Sequence[float], delta: float) -> float:
    """Advanced composition as in Dwork and Roth, Theorem 3.20, for rounds of one ε or several."""
    growth = math.fsum(epsilon * math.expm1(epsilon) for epsilon in rounds)
    return growth + _deviation(rounds, delta)


def sharper(rounds: Sequence[float], delta: float) -> float:
    """The sharper closed form: the mean loss and Hoeffding's tail.

    Kairouz, Oh and Viswanath 2015, Theorem 3.5.
    """
    mean = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon in rounds)
    return mean + _deviation(rounds, delta)


def _deviation(rounds: Sequence[float], delta: float) -> float:
    if delta <= 0:
        return math.inf
    return math.sqrt(2 * math.log(1 / delta) * math.fsum(epsilon**2 for epsilon in rounds))


def _binomial(epsilon: float, count: int) -> list[tuple[float, float]]:
    high = 1 / (1 + math.exp(-epsilon))
    low = 1 / (1 + math.exp(epsilon))
    return [
        ((2 * plus - count) * epsilon, math.comb(count, plus) * high**plus * low ** (count - plus))
        for plus in range(count + 1)
    ]
