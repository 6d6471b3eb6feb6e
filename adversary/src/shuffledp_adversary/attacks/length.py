"""Length: messages only for ones, seen on the wire (Athanasiou et al. 2025, section 8).

What the adversary knows: who talks to node 1, and how many bytes each submission has. Anyone on
the network between users and node 1 sees that: no node is corrupt, no key is known, nothing is
opened.

What it does: a submission is one envelope around all messages of a user, and its length is a fixed
part plus a fixed number of bytes for each message. The adversary divides.

Why it works: it is tempting to send one message for every one of the unary code and none for the
zeros; the shuffled sum is the same and the traffic is half. But then the number of messages *is*
the randomised answer, and it is sent with the sender's address before any shuffling: only the
user's local guarantee remains.

What stops it: m = k + 2c messages from everyone, ones and zeros, whatever the value. The length is
then a public parameter of the round (docs/protocol.md, "Onions"), and a node refuses an envelope of
any other.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_adversary.attacks.attack import CONFIDENCE, TRIALS, Attack
from shuffledp_adversary.attacks.findings import AttackReport, ClaimedLimit, Finding
from shuffledp_adversary.attacks.measuring import (
    calibrate_spec,
    check_trials,
    epsilon_finding,
    guess_finding,
)
from shuffledp_adversary.attacks.trials import Trials
from shuffledp_adversary.attacks.views import envelopes
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, epsilon_bound
from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.suites import SUITES, suite_named
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds
from shuffledp_privacy.calibration.calibrate import Target

HOPS: Final = 3
"""Number of nodes on the route."""

ANSWER = 0
BYTES = 1
"""Columns of a view: the user's randomised answer, and the length of its envelope on the wire."""


def run_length(
    *,
    users: int = 1000,
    max_value: int = 20,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    trials: int = 200,
    confidence: float = DEFAULT_CONFIDENCE,
) -> AttackReport:
    """Run the attack on the lengths of real sealed envelopes of both encodings.

    Args:
        users: number of users of the round that the mechanism is calibrated for.
        max_value: k.
        epsilon: total ε (nats) of that round, standard adjacency.
        delta: its δ.
        trials: users who hold 0, and as many who hold k, that send only the ones; a quarter of them
            also seal as clients do with the default suite, a tenth with each of the others.
        confidence: confidence of the intervals.

    Raises:
        UsageError: a parameter is out of range.
        CannotCertify: no Geo-Shuffle meets the target.
    """
    check_trials(trials, confidence)
    began = time.monotonic()
    spec = calibrate_spec(GeoShuffle, Target(epsilon, delta, users, users, max_value=max_value))
    setting = Setting(users, users)
    certified = epsilon_bounds(spec, setting, delta).certified
    with Trials() as work:
        ones = [
            _draw_views(work, spec, "sealed-box", value, trials, padded=False)
            for value in (0, max_value)
        ]
        fixed = [
            _draw_views(work, spec, "sealed-box", value, -(-trials // 4), padded=True)
            for value in (0, max_value)
        ]
        lengths = {"sealed-box": np.concatenate(fixed)[:, BYTES]}
        for suite in SUITES.keys() - lengths.keys():
            both = [
                _draw_views(work, spec, suite, value, -(-trials // 10), padded=True)
                for value in (0, max_value)
            ]
            lengths[suite] = np.concatenate(both)[:, BYTES]
    claim = ClaimedLimit("certificate", certified)
    local = corrupted_bounds(spec, setting, delta).epsilon
    bounds = [
        epsilon_bound(pair[0][:, BYTES], pair[1][:, BYTES], delta, confidence)
        for pair in (ones, fixed)
    ]
    only = "only the ones are sent"
    note = f"the local guarantee is what is left: ε_L = {local:.4g}"
    return AttackReport(
        attack="length",
        lesson="A length that depends on the value is the value, with the sender's address on it, "
        "before any shuffle.",
        findings=(
            _read_off(spec, np.concatenate(ones), confidence),
            epsilon_finding(only, bounds[0], claim, defended=False, note=note),
            *(_distinct(suite, sizes) for suite, sizes in sorted(lengths.items())),
            epsilon_finding(
                f"{spec.messages_per_user} messages from everybody", bounds[1], claim, defended=True
            ),
        ),
        seconds=time.monotonic() - began,
        details={
            "messages_per_user": spec.messages_per_user,
            "epsilon_certified": certified,
            "epsilon_corrupted": local,
            "envelope_bytes": {
                suite: np.unique(sizes).tolist() for suite, sizes in sorted(lengths.items())
            },
            "envelope_bytes_only_ones": [
                int(end(np.concatenate(ones)[:, BYTES])) for end in (np.min, np.max)
            ],
        },
    )


def _draw_views(
    work: Trials, spec: GeoShuffle, suite: str, value: int, trials: int, *, padded: bool
) -> NDArray[np.int64]:
    """Simulated envelopes of users who hold `value`, sealed to fresh keys: answers and lengths.

    Shape (trials, 2).
    """
    keys = tuple(suite_named(suite).generate()[1] for _ in range(HOPS))
    how = "fixed length" if padded else "ones only"
    draw = partial(envelopes, spec, Geometry.of(spec, suite, HOPS), keys, value, padded=padded)
    return work.run_trials(f"{suite}, {how}, value {value}", draw, trials)


def _read_off(spec: GeoShuffle, seen: NDArray[np.int64], confidence: float) -> Finding:
    """Finding on the share of answers that the lengths reveal.

    The number of messages is (length - fixed part) / bytes of a message.
    """
    geometry = Geometry.of(spec, "sealed-box", HOPS)
    messages = (seen[:, BYTES] - suite_named(geometry.suite).overhead) // geometry.record_bytes(2)
    return guess_finding(
        "only the ones are sent",
        messages == seen[:, ANSWER],
        ClaimedLimit("guessing without looking: the likeliest answer", _chance(spec)),
        confidence,
        defended=False,
        quantity="of the randomised answers named, each with its sender",
    )


def _chance(spec: GeoShuffle) -> float:
    """Probability of the likeliest answer, without noise, if a user holds 0 or k equally likely."""
    ratio = math.exp(-float(spec.epsilon_geo))
    # A user who holds the value itself gives it by noise 0; one who holds the other end needs noise
    # k, r^k as likely.
    return (1 - ratio) / (1 + ratio) * (1 + ratio**spec.max_value) / 2


def _distinct(suite: str, lengths: NDArray[np.int64]) -> Finding:
    count = float(len(np.unique(lengths)))
    return Finding(
        scenario=f"values 0 and k, suite {suite}",
        quantity="different lengths of an envelope",
        claim=ClaimedLimit("docs/protocol.md: every length is a public parameter", 1.0),
        measured=count,
        low=count,
        high=count,
        trials=len(lengths),
        defended=True,
    )


ATTACK: Final = Attack(
    name="length",
    summary="Infer a value from the length of its encrypted message.",
    run=run_length,
    options={"trials": TRIALS, "confidence": CONFIDENCE},
)
