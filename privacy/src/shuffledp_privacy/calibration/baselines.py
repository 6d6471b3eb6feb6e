"""Errors at the same target without a shuffler, and with a trusted curator, for comparison.

Each is the least error of some well-known mechanisms that meet (ε, δ) over all rounds; others may
do better. docs/accounting.md, propositions C8, K7, K13, S1 and S16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shuffledp_core.bounds import noise
from shuffledp_core.mechanisms import Answers
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import standard_error
from shuffledp_privacy.calibration.target import Target
from shuffledp_privacy.central import gaussian_sigma
from shuffledp_privacy.local.lecture import OneBitMean

_MOST_VALUES = 10**6
"""Largest domain of the one-bit report's analysis."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Errors of one round without a shuffler: of a sum, or of a histogram's worst count.

    Errors are in the units of the values, or in users.

    Attributes:
        answers: the kind of answer.
        local: standard error without a trusted party or a shuffle.
        local_by: the mechanism that has it.
        central: standard error where one party sees every value and adds noise once.
        central_by: the mechanism that has it.
    """

    answers: Answers
    local: float
    local_by: str
    central: float
    central_by: str


def baseline(target: Target, answers: Answers) -> Baseline:
    """The errors with which to compare a shuffled answer.

    Pure mechanisms compose by adding up, Gaussian noise exactly.

    Raises:
        UsageError: a sum of a target without `max_value`.
    """
    local, central = (_sums if answers is Answers.SUM else _histograms)(target)
    central = {**local, **central}  # whoever is trusted may also do what each would have done alone
    local_by, central_by = min(local, key=local.__getitem__), min(central, key=central.__getitem__)
    return Baseline(answers, local[local_by], local_by, central[central_by], central_by)


def _sums(target: Target) -> tuple[dict[str, float], dict[str, float]]:
    """Errors of sums, with noise for the largest change.

    Under metric adjacency ε is of one unit, so noise for one unit serves all.
    """
    epsilon = target.epsilon / target.rounds
    metric = target.adjacency is Adjacency.METRIC
    reach = 1 if metric else target.reach
    central = {"discrete Laplace": noise.standard_deviation(1.0, epsilon / reach)}
    if not metric:  # Gaussian noise has no bound per unit that is linear in the distance
        central["Gaussian"] = gaussian_sigma(
            reach * math.sqrt(target.rounds), target.epsilon, target.delta
        )
    local = {name: error * math.sqrt(target.users) for name, error in central.items()}
    if not metric and target.largest <= _MOST_VALUES:
        local["one bit"] = math.sqrt(target.users) * standard_error(
            OneBitMean(epsilon, target.largest), 1
        )
    return local, central


def _histograms(target: Target) -> tuple[dict[str, float], dict[str, float]]:
    """Errors of histograms: a change moves one user, so that two counts change by one."""
    epsilon = target.epsilon / target.rounds
    spread = math.sqrt(2 * target.rounds)
    central = {
        "discrete Laplace": noise.standard_deviation(1.0, epsilon / 2),
        "Gaussian": gaussian_sigma(spread, target.epsilon, target.delta),
    }
    users = math.sqrt(target.users)
    local = {
        "k-ary randomised response": users * _randomised_response(epsilon, target.bins),
        # √n/(1 - γ) with ε_L = ln((2 - γ)/γ).
        "Hadamard response": users / math.tanh(epsilon / 2),
    }
    return local, central


def _randomised_response(epsilon: float, symbols: int) -> float:
    """Worst error of one user's count: p = e^ε/(e^ε + k - 1), q = 1/(e^ε + k - 1)."""
    below = math.exp(-epsilon)
    total = 1 + (symbols - 1) * below
    p, q = 1 / total, below / total
    return math.sqrt(max(p * (1 - p), q * (1 - q))) / (p - q)
