"""Findings from counted trials, compared with a guarantee.

A finding is a lower bound on ε, or a share of right guesses.
"""

from __future__ import annotations

import math
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp_adversary.attacks.findings import ClaimedLimit, Finding
from shuffledp_adversary.evidence import EpsilonBound, clopper_pearson
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import Spec
from shuffledp_privacy.calibration.calibrate import Target, calibrate

FEWEST_TRIALS: Final = 20
"""Fewest trials: below it no interval says anything."""

SpecT = TypeVar("SpecT", bound=Spec)


def check_trials(trials: int, confidence: float, fewest: int = FEWEST_TRIALS) -> None:
    """Raise `UsageError` for fewer trials than `fewest`, or a confidence outside (0, 1)."""
    if trials < fewest:
        raise UsageError(f"trials must be at least {fewest}, not {trials}")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must be above 0 and below 1, not {confidence}")


def calibrate_spec(kind: type[SpecT], target: Target) -> SpecT:
    """The mechanism of this kind that the accountant calibrates. Raises as `calibrate`."""
    spec = calibrate(kind.kind, target)
    if not isinstance(spec, kind):
        raise TypeError(
            f"calibrating {kind.kind} returned a {type(spec).__name__}, not a {kind.__name__}"
        )
    return spec


def guess_limit(epsilon: float, delta: float) -> float:
    """Largest probability of guessing which of two equally likely values a user holds.

    With a, b the chances to be right about either value, (ε, δ) says a <= e^ε (1 - b) + δ and the
    same with a and b exchanged; adding both gives (a + b)/2 <= (e^ε + δ)/(1 + e^ε). For a pure
    guarantee the limit is reached by randomised response.

    Args:
        epsilon: total ε, nats, >= 0.
        delta: in [0, 1].
    """
    return min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)))


def epsilon_finding(
    scenario: str,
    bound: EpsilonBound,
    claim: ClaimedLimit,
    *,
    defended: bool,
    unit: int = 1,
    note: str = "",
) -> Finding:
    """Finding: a lower bound on ε from counted trials, against a claimed ε at the same δ.

    `unit` is the distance between the two datasets where the claim is per unit of it, as under
    metric adjacency.
    """
    return Finding(
        scenario=scenario,
        quantity=f"ε{' per unit' if unit > 1 else ''} at δ = {bound.delta:.3g} (nats)",
        claim=claim,
        measured=max(0.0, bound.estimate) / unit,
        low=bound.lower / unit,
        high=math.inf,
        trials=bound.trials,
        defended=defended,
        confidence=bound.confidence,
        note=note,
    )


def guess_finding(
    scenario: str,
    right: NDArray[np.bool_],
    claim: ClaimedLimit,
    confidence: float,
    *,
    defended: bool,
    quantity: str = "of the guesses are right",
    note: str = "",
) -> Finding:
    """Finding: a share of right guesses, against the share allowed by a guarantee or chance.

    Args:
        scenario: the experiment.
        right: shape (trials,). The chance to be right may differ between trials when the number of
            each kind is fixed: the sum of such counts spreads less than a binomial, so that the
            interval is only too wide (Hoeffding 1956).
        claim: the share that is claimed to be the most.
        confidence: confidence of the interval.
        defended: whether the defence was in place.
        quantity: the counted quantity.
        note: further facts for a reader.
    """
    return share_finding(
        scenario,
        (int(right.sum()), len(right)),
        claim,
        confidence,
        defended=defended,
        quantity=quantity,
        note=note,
    )


def share_finding(
    scenario: str,
    counted: tuple[int, int],
    claim: ClaimedLimit,
    confidence: float,
    *,
    defended: bool,
    quantity: str,
    note: str = "",
) -> Finding:
    """Finding from `counted` = (successes, independent trials), with the exact interval."""
    low, high = clopper_pearson(*counted, confidence)
    return Finding(
        scenario=scenario,
        quantity=quantity,
        claim=claim,
        measured=counted[0] / counted[1],
        low=low,
        high=high,
        trials=counted[1],
        defended=defended,
        confidence=confidence,
        note=note,
    )
