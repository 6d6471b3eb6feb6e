"""Statistics of an audit: exact confidence intervals, and a lower bound on ε.

The attacks and the audit share this. Nothing here is asymptotic, so a test may ask for a confidence
of 1 - 1e-9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.special import log_beta, log_incomplete_beta

DEFAULT_CONFIDENCE: Final = 0.95

_ROUNDING: Final = 1e-13
"""Relative outward margin of an interval's end, above the roundings of a logit's inverse."""

_MOST_STEPS: Final = 100
"""Newton's steps; about six settle."""

_MOST_EVENTS: Final = 20_000
"""Candidate events per family; beyond it, evenly spaced ones are tried."""


def clopper_pearson(
    successes: int, trials: int, confidence: float = DEFAULT_CONFIDENCE
) -> tuple[float, float]:
    """The exact two-sided interval of a success probability (Clopper and Pearson 1934).

    Args:
        successes: number of successes, from 0 to `trials`.
        trials: number of independent trials, at least 1.
        confidence: confidence of the whole interval; each side errs with at most half of 1 -
            confidence.

    Raises:
        ValueError: counts or confidence out of range.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"no interval can be computed from {successes} successes in {trials} trials"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, not {confidence}")
    side = (1 - confidence) / 2
    counts = np.array([successes])
    low, high = _ends(counts, counts, trials, side)
    return float(low[0]), float(high[0])


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on ε, as evidence against every smaller claim.

    Attributes:
        lower: ε (nats) such that (ε', δ) with ε' < lower is refuted at `confidence`; 0 if nothing
            is.
        estimate: the event's ε without the confidence margins; -inf if the event never happened.
        delta: the δ to which the bound applies.
        confidence: probability that a true guarantee is not refuted.
        trials: number of trials of each dataset, both halves together.
        hits: numbers of times that the event happened in the measuring half, on the likelier and on
            the other dataset.
    """

    lower: float
    estimate: float
    delta: float
    confidence: float
    trials: int
    hits: tuple[int, int]


def epsilon_bound(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    delta: float,
    confidence: float = DEFAULT_CONFIDENCE,
) -> EpsilonBound:
    """A lower bound on ε at `delta`, from the outcomes of a mechanism on two neighbouring datasets.

    The event that tells the datasets apart best is chosen on the first half of the trials, among
    both tails and the likelihood-ratio events, in both directions; only the second half measures
    it, so the choice costs no confidence. Each of the two probabilities gets half of 1 -
    confidence. Any (ε, δ) guarantee of the mechanism exceeds the bound with at least the stated
    confidence.

    Args:
        first: shape (trials,), outcomes as whole numbers; equal numbers are equal outcomes.
        second: outcomes on the neighbouring dataset, from the same number of trials.
        delta: from 0 to below 1.
        confidence: above 0 and below 1.

    Raises:
        ValueError: the shapes differ, fewer than two trials, or a number is out of range.
    """
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise ValueError(
            f"both samples must have the same number of trials, at least 2, not {first.shape} "
            f"and {second.shape}"
        )
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be from 0 to below 1, not {delta}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, not {confidence}")
    half = len(first) // 2
    side = (1 - confidence) / 2
    values, codes = number_outcomes(np.concatenate((first, second)))
    left = codes[: len(first)]
    right = codes[len(first) :]
    chosen, swapped = _best_event(left[:half], right[:half], len(values), delta, side)
    likely, other = (right, left) if swapped else (left, right)
    hits = (int(chosen[likely[half:]].sum()), int(chosen[other[half:]].sum()))
    measured = len(first) - half
    # The unfavourable end of both: with P at least the one and Q at most the other, (ε, δ) needs ε
    # >= ln((P - δ) / Q).
    low, high = _ends(np.array([hits[0]]), np.array([hits[1]]), measured, side)
    bound = _log_ratio(low, high, delta)
    plain = (hits[0] / measured - delta, hits[1] / measured)
    estimate = (
        -math.inf if plain[0] <= 0 else math.inf if plain[1] == 0 else math.log(plain[0] / plain[1])
    )
    return EpsilonBound(max(0.0, float(bound[0])), estimate, delta, confidence, len(first), hits)


def number_outcomes(outcomes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct outcomes in ascending order, and the index of each outcome among them.

    Args:
        outcomes: shape (n,), n > 0.
    """
    low = int(outcomes.min())
    span = int(outcomes.max()) - low + 1
    if span > outcomes.size:
        return np.unique(outcomes, return_inverse=True)
    # Counted, not sorted: of millions of trials ten times faster.
    seen = np.bincount(outcomes - low, minlength=span) > 0
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[outcomes - low]


def _best_event(
    left: NDArray[np.int64], right: NDArray[np.int64], outcomes: int, delta: float, side: float
) -> tuple[NDArray[np.bool_], bool]:
    """The best event as a mask over outcomes, and whether it is likelier on the right dataset.

    Candidates compete by their own lower bounds, with the error shared among all of them: otherwise
    a rare event that happened to look strong would win, and measure nothing in the other half.
    """
    # Two directions, three orders, at most `outcomes` events in each: a union bound over all
    # candidates.
    side /= 6 * outcomes
    counts = (np.bincount(left, minlength=outcomes), np.bincount(right, minlength=outcomes))
    trials = len(left)
    up = np.arange(outcomes)
    # Candidates left out cost strength and never soundness: whichever wins is measured on the
    # other half.
    ends = np.unique(np.linspace(0, outcomes - 1, min(outcomes, _MOST_EVENTS)).astype(np.intp))
    families: list[tuple[bool, NDArray[np.intp]]] = []
    likely_hits: list[NDArray[np.int64]] = []
    other_hits: list[NDArray[np.int64]] = []
    for swap in (False, True):
        likely, other = counts[::-1] if swap else counts
        # Half a count more: an outcome seen once, on one side alone, would otherwise rank before
        # all that are frequent.
        ratio = np.argsort(-(likely + 0.5) / (other + 0.5), kind="stable")
        for order in (up, up[::-1], ratio):
            families.append((swap, order))
            likely_hits.append(np.cumsum(likely[order])[ends])
            other_hits.append(np.cumsum(other[order])[ends])
    # All at once: for a few outcomes, a call of numpy takes longer than its arithmetic.
    low, high = _ends(np.concatenate(likely_hits), np.concatenate(other_hits), trials, side)
    family, end = divmod(int(np.argmax(_log_ratio(low, high, delta))), len(ends))
    swapped, order = families[family]
    chosen = np.zeros(outcomes, dtype=bool)
    chosen[order[: ends[end] + 1]] = True
    return chosen, swapped


def _log_ratio(
    low: NDArray[np.float64], high: NDArray[np.float64], delta: float
) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        result: NDArray[np.float64] = np.where(
            low > delta, np.log(np.maximum(low - delta, 0)) - np.log(high), -np.inf
        )
    return result


def _ends(
    at_least: NDArray[np.int64], at_most: NDArray[np.int64], trials: int, side: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Confidence limits of a probability: lower ones for `at_least` successes, upper for `at_most`.

    Rounded outward.
    """
    # The maximum only spares the beta law a parameter of 0; those cases have exact ends below. An
    # upper end is one minus the lower end for the failures, of which the logit keeps all digits.
    successes = np.maximum(at_least, 1)
    failures = np.maximum(trials - at_most, 1)
    counts, places = np.unique(np.concatenate((successes, failures)), return_inverse=True)
    logits = _lower_logit(counts, trials, side)[places]
    low = np.exp(-np.logaddexp(0.0, -logits[: len(successes)])) * (1 - _ROUNDING)
    high = np.exp(-np.logaddexp(0.0, logits[len(successes) :])) * (1 + _ROUNDING)
    return (
        np.where(at_least == 0, 0.0, low),
        np.where(at_most == trials, 1.0, np.minimum(high, 1.0)),
    )


def _lower_logit(successes: NDArray[np.int64], trials: int, side: float) -> NDArray[np.float64]:
    """Logit u of the p at which Bin(trials, p) reaches `successes` with probability `side`.

    Rounded down. P(X >= k) = I_p(k, n - k + 1), whose logarithm is concave in u, as the logistic
    beta law is log-concave: Newton's steps settle from any start, from the left after the first.

    Args:
        successes: from 1 to trials, shape (n,).
        trials: at least 1.
        side: above 0, at most 1/2.
    """
    reached = successes.astype(np.float64)
    left = trials - reached + 1.0
    scale = log_beta(reached, left)
    # Roundings of the logarithms' sizes; the goal is lower by all of them, so the end is outward.
    slack = 2.0**-48 * (1.0 + trials * math.log(trials + 1.0))
    goal = math.log(side) - slack
    deviations = math.sqrt(-2.0 * math.log(2.0 * side))
    logit = np.log(reached / left) - deviations * np.sqrt(1.0 / reached + 1.0 / left)
    for _ in range(_MOST_STEPS):
        tail, slope = log_incomplete_beta(reached, left, logit, scale)
        if np.all(np.abs(tail - goal) <= slack / 2):
            return logit
        logit -= (tail - goal) / slope
    raise ArithmeticError("the search for the ends of a confidence interval did not converge")
