"""From the counts of the shuffled messages to an unbiased estimate with an interval; one estimator per mechanism.

Every estimator is a function of the counts alone: shuffling loses nothing here. Intervals cover the truth with
probability 0.95 over the randomness of the clients, if every accepted report follows the protocol (computed exactly
in the tests: never below 0.95 for sums, 0.949 for histograms, whose counts may be small). They are cut to what is
possible at all (0 to n, or 0 to n k), which cannot lose the truth. An unbiased estimate may lie outside of what is
possible, hence outside its interval: `projection.project` repairs histograms for display.

Messages that a round lost (docs/protocol.md, "Lost messages") make n smaller: n = messages that count / messages per
user, not always whole. A report that is lost whole then never was. One that lost d of its m messages, whichever, counts
for the share 1 - d/m of its value on average over which; what a user can do to a sum by spoiling some of its own
messages, it could do by sending others, for its share of a sum stays within -c .. k + c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import singledispatch
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_core import noise
from shuffledp_core.documents.models import Estimate
from shuffledp_core.errors import CountMismatchError, UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, Mechanism, RRShuffle, SGDLShuffle

COVERAGE: Final = 0.95
"""Of every interval; a histogram's intervals hold for each symbol by itself, not for all at once."""

_Z: Final = NormalDist().inv_cdf((1 + COVERAGE) / 2)

Counts = Sequence[int] | NDArray[np.int64]
"""How often each symbol 0..alphabet-1 occurs on the board."""


Present = Fraction
"""n: reports that count, a lost message being the m-th part of one. At least one message counts."""


@singledispatch
def _estimate(spec: Mechanism, counts: Counts, users: Present) -> Estimate:
    del counts, users
    raise ValueError(f"no estimator for {type(spec).__name__}")


def estimate(spec: Mechanism, counts: Counts, users: int, lost: int = 0) -> Estimate:
    """The debiased answer to a round: a histogram or sum over the reports that count, and a mean of them.

    Args:
        spec: the mechanism that every client ran.
        counts: messages per symbol, of length `spec.alphabet`.
        users: number of accepted reports, at least 1.
        lost: messages of theirs that do not count.

    Raises:
        CountMismatchError: the counts are not those of so many users, or nothing is left to count.
        UsageError: the mechanism sends only noise.
    """
    check_informative(spec)
    if len(counts) != spec.alphabet or min(counts) < 0:
        raise ValueError(f"expected {spec.alphabet} counts, none negative")
    total = int(sum(int(count) for count in counts))
    if users < 1 or total < 1 or total != users * spec.messages_per_user - lost:
        raise CountMismatchError(
            f"{total} messages are not {users} reports of {spec.messages_per_user}, less {lost} lost ones; the round "
            "cannot be evaluated"
        )
    return _estimate(spec, counts, Fraction(total, spec.messages_per_user))


@singledispatch
def check_informative(spec: Mechanism) -> None:
    """Raises `UsageError` for parameters under which messages do not depend on values, so that nothing is learnt."""
    raise ValueError(f"no estimator for {type(spec).__name__}")


@check_informative.register
def _(spec: KRRHistogram) -> None:
    _refuse_pure_noise("blanket", spec.blanket)


@check_informative.register
def _(spec: RRShuffle) -> None:
    _refuse_pure_noise("randomise", spec.randomise)


@check_informative.register(GeoShuffle)
@check_informative.register(SGDLShuffle)
def _(spec: GeoShuffle | SGDLShuffle) -> None:
    """Additive noise always leaves information."""


def _refuse_pure_noise(name: str, probability: Fraction) -> None:
    if probability == 1:
        raise UsageError(f"{name} is 1: every message would be pure noise; ask for a larger epsilon or more reports")


@_estimate.register
def _(spec: KRRHistogram, counts: Counts, users: Present) -> Estimate:
    """k-RR by matrix inversion: (c_s - n q) / (p - q), unbiased for every symbol.

    A count is Bin(n_s, p) + Bin(n - n_s, q); its variance n_s p(1-p) + (n - n_s) q(1-q) is taken at the estimate
    for the standard error, and at each candidate n_s for the interval (a score interval, with continuity
    correction), which stays honest where counts are small.
    """
    n = int(users)
    blanket, q = float(spec.blanket), float(spec.blanket / spec.symbols)
    slope, p = float(1 - spec.blanket), 1 - blanket + q
    observed = np.asarray(counts, dtype=np.float64)
    values = (observed - n * q) / slope
    variance_p, variance_q = p * (1 - p), q * (1 - q)
    plug_in = np.clip(values, 0, n)
    errors = np.sqrt(np.maximum(plug_in * variance_p + (n - plug_in) * variance_q, 0)) / slope
    lows = _score_end(observed - 0.5, n, slope, q, (variance_p, variance_q), -1)
    highs = _score_end(observed + 0.5, n, slope, q, (variance_p, variance_q), 1)
    return Estimate(
        quantity="histogram",
        values=tuple(values.tolist()),
        standard_errors=tuple(errors.tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
    )


def _score_end(
    observed: NDArray[np.float64], users: int, slope: float, q: float, variances: tuple[float, float], side: int
) -> NDArray[np.float64]:
    """The root, on one side, of (observed - E(x))² = z² Var(x) in the true count x, cut to [0, users].

    E(x) = users q + slope x and Var(x) = users v_q + x (v_p - v_q) are linear, so it is a quadratic in x.
    """
    variance_p, variance_q = variances
    centre = (observed - users * q) / slope
    growth = _Z**2 * (variance_p - variance_q) / slope**2
    base = _Z**2 * users * variance_q / slope**2
    middle = centre + growth / 2
    spread = np.sqrt(np.maximum(middle**2 - centre**2 + base, 0))
    ends: NDArray[np.float64] = np.clip(middle + side * spread, 0, users)
    return ends


@_estimate.register
def _(spec: RRShuffle, counts: Counts, users: Present) -> Estimate:
    """z = (Σ B - nk p/2) / (1 - p): Algorithm 2 of Athanasiou et al. 2025, with its λ = p n k.

    Every bit is flipped with probability p/2 whatever its value, so that the variance n k (p/2)(1 - p/2) is known
    exactly; the interval is normal with continuity correction.
    """
    bits = int(users * spec.max_value)
    value = (Fraction(int(counts[1])) - bits * spec.randomise / 2) / (1 - spec.randomise)
    flip, slope = float(spec.randomise / 2), float(1 - spec.randomise)
    deviation = math.sqrt(bits * flip * (1 - flip))
    return _sum_estimate(spec, float(value), deviation / slope, (_Z * deviation + 0.5) / slope, users)


@_estimate.register
def _(spec: GeoShuffle, counts: Counts, users: Present) -> Estimate:
    """Σ B - n c; n discrete Laplace noises. Clamping is rarer than the certificate's δ and left out of the law."""
    return _additive(spec, counts, users, float(users), float(spec.epsilon_geo))


@_estimate.register
def _(spec: SGDLShuffle, counts: Counts, users: Present) -> Estimate:
    """Σ B - n c; n shares of noise, of shape n β together. Clamping as for Geo-Shuffle."""
    return _additive(spec, counts, users, float(users / spec.shares), float(spec.noise_epsilon))


def _additive(spec: GeoShuffle | SGDLShuffle, counts: Counts, users: Present, shape: float, epsilon: float) -> Estimate:
    value = int(counts[1]) - users * spec.padding
    width = noise.half_width(shape, epsilon, COVERAGE)
    return _sum_estimate(spec, float(value), noise.standard_deviation(shape, epsilon), width, users)


def _sum_estimate(
    spec: RRShuffle | GeoShuffle | SGDLShuffle, value: float, error: float, half_width: float, users: Present
) -> Estimate:
    largest, n = float(users * spec.max_value), float(users)
    return Estimate(
        quantity="sum",
        values=(float(value),),
        standard_errors=(error,),
        lows=(min(max(value - half_width, 0.0), largest),),
        highs=(min(max(value + half_width, 0.0), largest),),
        mean=value / n,
        mean_standard_error=error / n,
    )
