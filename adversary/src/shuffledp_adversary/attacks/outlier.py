"""Outlier: numbers instead of bits are shuffled (Athanasiou et al. 2025, section 4.1).

What the adversary knows: what leaves the last node, as everyone does; and that all users but one
hold small values.

What it does: every user adds discrete Laplace noise to its value and sends the noisy *number*
through the shuffle. The adversary takes the largest number of the shuffled multiset. If it is far
from 0, someone holds a large value, and the number itself says which, up to one user's noise. (The
likelihood ratio of the whole multiset would tell a little more; the largest number is enough.)

Why it works: the shuffle hides who sent a message, not what the message says. A message that only
one user could have sent needs no name. The noise of one user is small beside the distance, so the
value shines through: what is left of the guarantee is the user's own report, ε_geo for each unit of
distance.

What stops it: sending the same noisy number as unary bits and shuffling the bits of all users. One
far value is then no different from many values that are each a little larger; all that can be seen
is the sum, and the noises of all users hide in it. This is Geo-Shuffle, and what the certificate is
about.

How sensitive the measurement is: a few hundred rounds cannot detect an ε of 1 at a δ of 1e-6, so a
bound of 0 alone would say little. The control applies the same measurement to the sum of only two
users: the noise of the others is missing, and the measurement detects it.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_adversary.attacks.attack import CONFIDENCE, TRIALS, USERS, Attack, whole_number
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import (
    calibrate_spec,
    check_trials,
    epsilon_finding,
    guess_finding,
    guess_limit,
)
from shuffledp_adversary.attacks.trials import Trials
from shuffledp_adversary.attacks.views import outlier_rounds
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, epsilon_bound
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_privacy.bounds import Setting, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target

LARGEST = 0
SUM = 1
SUM_OF_TWO = 2
"""Columns of a view: the largest shuffled number, and the sum of the shuffled bits, of all users or
of two.
"""


def run_outlier(
    *,
    users: int = 2000,
    max_value: int = 20,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    trials: int = 400,
    confidence: float = DEFAULT_CONFIDENCE,
) -> AttackReport:
    """Run the attack: guess whether one user among zeros holds `max_value` or 0.

    Args:
        users: all of them honest; at least 2.
        max_value: k, the far value; at least 2.
        epsilon: total ε (nats) that Geo-Shuffle is calibrated for, standard adjacency.
        delta: its δ.
        trials: rounds that are simulated for each of the two datasets.
        confidence: confidence of the intervals.

    Raises:
        UsageError: a parameter is out of range.
        CannotCertify: no Geo-Shuffle meets the target.
    """
    check_trials(trials, confidence)
    if users < 2:
        raise UsageError(
            f"users must be at least 2, so that the outlier differs from others, not {users}"
        )
    if max_value < 2:
        raise UsageError(
            f"max-value must be at least 2, or no value is far from the others, not {max_value}"
        )
    began = time.monotonic()
    spec = calibrate_spec(GeoShuffle, Target(epsilon, delta, users, users, max_value=max_value))
    certified = epsilon_bounds(spec, Setting(users, users), delta).certified
    with Trials() as work:
        near, far = (
            work.run_trials(
                f"far user at {value}", partial(outlier_rounds, spec, users, value), trials
            )
            for value in (0, max_value)
        )
    numbers = _both(
        spec, users, certified, near[:, LARGEST], far[:, LARGEST], (delta, confidence), bits=False
    )
    bits = _both(spec, users, certified, near[:, SUM], far[:, SUM], (delta, confidence), bits=True)
    control = epsilon_finding(
        f"control: bits shuffled, the sum is seen, but {users - 2} of {users} users stay away",
        epsilon_bound(near[:, SUM_OF_TWO], far[:, SUM_OF_TWO], delta, confidence),
        ClaimedLimit("certificate of geo-shuffle", certified),
        defended=False,
    )
    named = np.abs(far[:, LARGEST] - max_value)
    return AttackReport(
        attack="outlier",
        lesson="Numbers that only one user would send need no name. As bits, the same noisy values "
        "show only their sum.",
        findings=(*numbers, *bits, control),
        seconds=time.monotonic() - began,
        details={
            "mechanism": spec.kind,
            "epsilon_geo": str(spec.epsilon_geo),
            "users": users,
            "far_value": max_value,
            "far_value_named_exactly": float((named == 0).mean()),
            "far_value_named_within_2": float((named <= 2).mean()),
        },
    )


def _both(
    spec: GeoShuffle,
    users: int,
    certified: float,
    near: NDArray[np.int64],
    far: NDArray[np.int64],
    evidence: tuple[float, float],
    *,
    bits: bool,
) -> tuple[Finding, Finding]:
    """Findings for one way of shuffling: its empirical ε, and the share of right guesses."""
    delta, confidence = evidence
    how = "bits shuffled, the sum is seen" if bits else "numbers shuffled, the largest is seen"
    bound = epsilon_bound(near, far, delta, confidence)
    # From the laws, before the trials are seen: a threshold fitted to them would make the interval
    # too narrow.
    threshold = spec.max_value / 2 if bits else _threshold(spec, users)
    right = np.concatenate((near < threshold, far >= threshold))
    limit = ClaimedLimit(
        "certificate of geo-shuffle: right guesses at most (e^ε + δ)/(1 + e^ε)",
        guess_limit(certified, delta),
    )
    return (
        epsilon_finding(
            how, bound, ClaimedLimit("certificate of geo-shuffle", certified), defended=bits
        ),
        guess_finding(
            f"{how}: does the far user hold 0 or k?", right, limit, confidence, defended=bits
        ),
    )


def _threshold(spec: GeoShuffle, users: int) -> int:
    """Threshold of the largest number, above which the adversary guesses k.

    It has the least error under the exact law of the noise.
    """
    points = np.arange(1, spec.max_value + 1, dtype=np.float64)
    # In logarithms and with expm1: far out each user's probability is nearly 1, and 1 - p^n would
    # cancel.
    others = (users - 1) * np.log(_below(spec, points))
    # P(largest >= point | far user at 0) + P(largest < point | far user at k)
    wrong = -np.expm1(others + np.log(_below(spec, points))) + np.exp(others) * _below(
        spec, points - spec.max_value
    )
    return int(points[int(np.argmin(wrong))])


def _below(spec: GeoShuffle, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribution function P(N < point) of one user's noise, a discrete Laplace."""
    ratio = math.exp(-float(spec.epsilon_geo))
    tail = ratio ** np.abs(points) / (1 + ratio)
    return np.where(points > 0, 1 - tail, ratio * tail)


ATTACK: Final = Attack(
    name="outlier",
    summary="Find outliers when whole numbers are shuffled instead of bits.",
    run=run_outlier,
    options={
        "users": USERS,
        "max_value": whole_number("Largest value k, which the outlier holds."),
        "trials": TRIALS,
        "confidence": CONFIDENCE,
    },
)
