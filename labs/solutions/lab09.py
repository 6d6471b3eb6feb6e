"""Reference solution of lab 9: half of the trials choose the event, the others measure it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def at_least(successes: int, trials: int, p: float) -> float:
    """P(Bin(trials, p) >= successes), 0 < p < 1, by logarithms."""
    if successes <= 0:
        return 1.0
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    hits = np.arange(successes, trials + 1)
    terms = (
        logs[trials]
        - logs[hits]
        - logs[trials - hits]
        + hits * math.log(p)
        + (trials - hits) * math.log1p(-p)
    )
    return float(np.exp(terms).sum())


def lower(successes: int, trials: int, side: float) -> float:
    """The largest p at which `successes` or more have a probability of at most `side`."""
    if successes == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if at_least(successes, trials, middle) <= side:
            low = middle
        else:
            high = middle
    return low


def interval(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson interval; each end errs with probability at most (1 - confidence) / 2."""
    side = (1 - confidence) / 2
    return lower(successes, trials, side), 1.0 - lower(trials - successes, trials, side)


def count_outcomes(sample: NDArray[Any], outcomes: int) -> NDArray[Any]:
    """Count how often each outcome occurred."""
    return np.bincount(sample, minlength=outcomes)


def choose(
    likely: NDArray[Any], other: NDArray[Any], delta: float, confidence: float
) -> tuple[float, NDArray[Any]]:
    """The best likelihood-ratio event in this direction, and its score.

    The score depends on the confidence.
    """
    # As wide as the interval that will measure it, about: with fewer deviations an event would win
    # that is too rare.
    trials = likely.sum()
    square = 2 * math.log(2 / (1 - confidence))
    order = np.argsort(-(likely + 0.5) / (other + 0.5), kind="stable")
    p = np.cumsum(likely[order]) / trials
    q = np.cumsum(other[order]) / trials
    low = p - np.sqrt(square * p * (1 - p) / trials) - delta
    high = q + np.sqrt(square * q * (1 - q) / trials) + square / trials
    scores = np.where(low > 0, np.maximum(low, 1e-12) / high, 0.0)
    best = int(np.argmax(scores))
    return float(scores[best]), order[: best + 1]


def audit(first: Sequence[int], second: Sequence[int], delta: float, confidence: float) -> float:
    """Choose the event on the first half of the trials, and measure it on the second half."""
    first_outcomes = np.asarray(first)
    second_outcomes = np.asarray(second)
    outcomes = int(max(first_outcomes.max(), second_outcomes.max())) + 1
    half = len(first_outcomes) // 2
    a = count_outcomes(first_outcomes[:half], outcomes)
    b = count_outcomes(second_outcomes[:half], outcomes)
    (score, event) = choose(a, b, delta, confidence)
    (other_score, other_event) = choose(b, a, delta, confidence)
    if other_score > score:
        first_outcomes, second_outcomes, event = second_outcomes, first_outcomes, other_event
    hits = int(np.isin(first_outcomes[half:], event).sum())
    false_hits = int(np.isin(second_outcomes[half:], event).sum())
    low, _ = interval(hits, len(first_outcomes) - half, confidence)
    _, high = interval(false_hits, len(first_outcomes) - half, confidence)
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def liars(
    ask: Callable[[str, int, int], tuple[int, ...]],
    claims: dict[str, tuple[int, int, float, float]],
    trials: int,
    confidence: float,
) -> tuple[str, ...]:
    """Names of the clients whose claimed ε is below the lower bound of their audit."""
    named = []
    for name, (value, changed, epsilon, delta) in claims.items():
        if audit(ask(name, value, trials), ask(name, changed, trials), delta, confidence) > epsilon:
            named.append(name)
    return tuple(named)
