"""Mechanisms at one certified (ε, δ), and the cost of each: error, messages, bytes, and ε_L."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final, cast

import numpy as np

from shuffledp_core.mechanisms import (
    DummyHistogram,
    KRRHistogram,
    RRShuffle,
    SGDLShuffle,
    SplitMix,
)
from shuffledp_core.mechanisms.installed import Mechanism
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.vocabulary import DEFAULT_SUITE
from shuffledp_experiments.beyond.common import DELTA, standard
from shuffledp_privacy.bounds import corrupted_bounds, standard_error
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.calibration.padding import sgdl_padding
from shuffledp_privacy.local.lecture import OneBitMean
from shuffledp_privacy.sums.mixing import published_pieces
from shuffledp_privacy.sums.split import mixing_security

HOPS: Final = 3

GRAIN: Final = 2**24
"""Denominator of the noise of shared sums: ε is met within 1e-5 of itself."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Cost and error of one mechanism for a sum of values in {0..k}.

    Attributes:
        error: standard error of the sum, in the values' unit.
        messages: per user; 0 without a shuffler.
        size: bytes of one user's envelope for `HOPS` nodes; 0 where there is none.
        corrupted: ε_L with every node corrupt, nats; infinite for none.
    """

    error: float
    messages: int
    size: int
    corrupted: float


def offers(users: int, largest: int, epsilon: float) -> dict[str, Offer]:
    """Cost and error of all mechanisms for a sum of values in {0..largest}, at certified (ε, δ).

    Standard adjacency.
    """
    offered = {
        name: _offer(spec, users)
        for name, spec in (
            ("rr-shuffle", calibrated_spec("rr-shuffle", users, largest, epsilon)),
            ("geo-shuffle", calibrated_spec("geo-shuffle", users, largest, epsilon)),
            ("sgdl-shuffle", shared(users, largest, epsilon)),
            ("split-mix", calibrated_spec("split-mix", users, largest, epsilon)),
        )
    }
    spread = krr(users, largest + 1, epsilon)
    offered["k-RR histogram"] = _offer(spread, users, math.sqrt(users * sum_variance(spread)))
    # One bit, honest or not: no shuffler is counted on.
    local = OneBitMean(epsilon, largest)
    offered["local, one bit"] = Offer(standard_error(local, users), 1, 0, epsilon)
    offered["central"] = Offer(central_error(epsilon / largest), 0, 0, math.inf)
    return offered


@cache
def calibrated_spec(
    kind: str, users: int, largest: int, epsilon: float, rounds: int = 1
) -> Mechanism:
    """The mechanism with least error at certified (ε, δ): all honest, standard adjacency."""
    return calibrate(kind, Target(epsilon, DELTA, users, users, max_value=largest, rounds=rounds))


def krr(users: int, symbols: int, epsilon: float) -> KRRHistogram:
    """k-RR with least error at certified (ε, δ)."""
    return cast("KRRHistogram", calibrated_spec("krr-histogram", users, symbols - 1, epsilon))


@cache
def dummies(users: int, symbols: int, epsilon: float) -> DummyHistogram:
    """The dummy histogram with least error and fewest messages at certified (ε, δ)."""
    spec = calibrated_spec("dummy-histogram", users, symbols - 1, epsilon)
    return cast("DummyHistogram", spec)


def bits(users: int, epsilon: float) -> RRShuffle:
    """RR-Shuffle with one bit per bin: a changed value changes two bins, which compose."""
    return cast("RRShuffle", calibrated_spec("rr-shuffle", users, 1, epsilon, rounds=2))


@cache
def shared(users: int, largest: int, epsilon: float, honest: int | None = None) -> SGDLShuffle:
    """SGDL-Shuffle at a pure ε: shares for all honest users, padding within the rest of δ.

    Quicker than a calibration, whose error it has within 1e-4.
    """
    counted = users if honest is None else honest
    noise = Fraction(math.floor(epsilon / largest * GRAIN), GRAIN)
    setting = standard(counted)
    padding = sgdl_padding(noise, counted, largest, setting, DELTA)
    return SGDLShuffle(max_value=largest, noise_epsilon=noise, shares=counted, padding=padding)


def _offer(spec: Mechanism, users: int, error: float | None = None) -> Offer:
    setting = standard(users)
    return Offer(
        standard_error(spec, users) if error is None else error,
        spec.messages_per_user,
        envelope_bytes(spec),
        corrupted_bounds(spec, setting, DELTA).epsilon,
    )


def traffic(users: int, largest: int, epsilon: float) -> dict[str, tuple[int, int]]:
    """Messages and bytes per user of each mechanism for a sum, without computing its error."""
    specs: dict[str, Mechanism] = {
        "rr-shuffle": RRShuffle(
            max_value=largest, randomise=Fraction(1, 2)
        ),  # a bit for each unit at any p
        "geo-shuffle": calibrated_spec("geo-shuffle", users, largest, epsilon),
        "sgdl-shuffle": shared(users, largest, epsilon),
        "split-mix": calibrated_spec("split-mix", users, largest, epsilon),
    }
    return {name: (spec.messages_per_user, envelope_bytes(spec)) for name, spec in specs.items()}


def pieces(users: int, largest: int, epsilon: float) -> tuple[int, int]:
    """Messages per user of split-mix: as certified, and by the formula of Balle et al. 2020.

    Both numbers are for the same security.
    """
    spec = cast("SplitMix", calibrated_spec("split-mix", users, largest, epsilon))
    security = mixing_security(epsilon, DELTA, 1)
    return spec.pieces, published_pieces(users, spec.modulus, security)


def envelope_bytes(spec: Mechanism) -> int:
    """Length in bytes of one user's envelope on a route of `HOPS` nodes."""
    return Geometry.of(spec, DEFAULT_SUITE, HOPS).envelope_bytes


def sum_variance(spec: KRRHistogram) -> float:
    """Variance that one report contributes to the sum Σ s c_s of the debiased counts.

    Users are spread evenly over the values.
    """
    values = np.arange(spec.symbols, dtype=np.float64)
    blanket = float(spec.blanket)
    mean = values.mean()
    square = (values**2).mean()
    seen = (1 - blanket) * values + blanket * mean
    return (
        float(((1 - blanket) * values**2 + blanket * square - seen**2).mean()) / (1 - blanket) ** 2
    )


def central_error(rate: float) -> float:
    """Standard deviation of discrete Laplace noise with ε = `rate` per unit (S16)."""
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)
