"""Formulas of Athanasiou et al. 2025 as printed, and those in the released scripts.

They are for comparison and never a guarantee.
Every function names the statement it evaluates. "Released" ones follow what those scripts compute,
in code of our own.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Final, TypeVar

from scipy.optimize import brentq

from shuffledp_core.mechanisms import GeoShuffle, RRShuffle, SGDLShuffle
from shuffledp_privacy.sums.errors import ErrorLaw, bits_error, sgdl_error
from shuffledp_privacy.sums.geo import published_epsilon as theorem_4_1
from shuffledp_privacy.sums.geo import published_padding as geo_padding
from shuffledp_privacy.sums.sgdl import published_padding as sgdl_padding

T = TypeVar("T")

LARGEST: Final = 1000
"""k: values are 0..1000 in both experiments of the paper, unless a figure says otherwise."""

RELEASED_DELTA: Final = 1e-3
"""δ in the commands stated beside the released scripts; the paper says 1e-4."""

RELEASED_TOLERANCE: Final = 0.01
"""The script for numbers takes the first parameter whose ε is within this of the target: ε + .01 in
effect.
"""

PRINTED_STEEPNESS: Final = 2.0
RELEASED_STEEPNESS: Final = 1.0
"""Theorem 4.1 has t = 2 ε_geo/sqrt(n), the released scripts half of it."""

LARGEST_RATE: Final = 20.0
"""No ε_geo above this is taken: such noise is 0 but for one user in a hundred million."""


def expected_random_bits(epsilon: float, delta: float) -> float:
    """Least λ for which Theorem 3.1 gives ε: solves ε² (λ - sqrt(2λ ln(2/δ))) = 32 ln(4/δ).

    At least 14 ln(4/δ).
    """
    root = math.sqrt(2 * math.log(2 / delta))
    needed = 32 * math.log(4 / delta) / epsilon**2
    return max(14 * math.log(4 / delta), ((root + math.sqrt(root**2 + 4 * needed)) / 2) ** 2)


def randomise(epsilon: float, delta: float, users: int, largest: int = LARGEST) -> float | None:
    """p = λ/(nk) of RR-Shuffle by Theorem 3.1.

    None if it needs more than nk random bits, or all of them.
    """
    share = expected_random_bits(epsilon, delta) / (users * largest)
    return share if share < 1 else None


def fewest_users(epsilon: float, delta: float, largest: int = LARGEST) -> int:
    """Fewest users at whom Theorem 3.1 applies to ε: the least n with λ <= nk."""
    return math.ceil(expected_random_bits(epsilon, delta) / largest)


@cache
def geo_parameter(
    epsilon: float, delta: float, users: int, steepness: float = PRINTED_STEEPNESS
) -> float | None:
    """ε_geo for which Theorem 4.1 gives ε, evaluated at d = 1 as in the paper.

    None if it has no value.

    `steepness` is the factor in its t = 2 ε_geo/sqrt(n), which needs n > 4.
    """

    def excess(rate: float) -> float:
        published = theorem_4_1(Fraction(rate), users, delta, steepness)
        return math.nan if published is None else published - epsilon

    # The printed ε is below ε_geo, and rises with it.
    low = epsilon / 2
    high = 2 * epsilon
    while excess(high) < 0:
        high *= 2
    if not excess(high) >= 0 or high > LARGEST_RATE:
        return None
    return float(brentq(excess, low, high, rtol=1e-6))


def present(value: T | None) -> T:
    """Return a value that the parameters guarantee to exist; raise `ValueError` if it is None."""
    if value is None:
        raise ValueError("the paper's theorem has no value for these parameters; use more users")
    return value


def rational(value: float) -> Fraction:
    """A nearby fraction with few digits, as mechanisms require; off by less than 1e-12."""
    return Fraction(value).limit_denominator(10**6)


def rr_spec(epsilon: float, delta: float, users: int, largest: int = LARGEST) -> RRShuffle | None:
    """RR-Shuffle with the paper's parameters for ε; None if Theorem 3.1 has no such plan."""
    share = randomise(epsilon, delta, users, largest)
    return None if share is None else RRShuffle(max_value=largest, randomise=rational(share))


def geo_spec(epsilon: float, delta: float, users: int, largest: int = LARGEST) -> GeoShuffle | None:
    """Geo-Shuffle with the paper's parameters for ε, and the padding of Algorithm 3.

    None if Theorem 4.1 has no value.
    """
    rate = geo_parameter(epsilon, delta, users)
    if rate is None:
        return None
    return GeoShuffle(
        max_value=largest,
        epsilon_geo=rational(rate),
        padding=geo_padding(rational(rate), users, delta),
    )


def sgdl_spec(epsilon: float, delta: float, users: int, largest: int = LARGEST) -> SGDLShuffle:
    """SGDL-Shuffle with the paper's parameters for ε, and Lemma C.1's padding (too small: S13)."""
    rate = rational(epsilon)
    return SGDLShuffle(
        max_value=largest,
        noise_epsilon=rate,
        shares=users,
        padding=sgdl_padding(rate, users, delta),
    )


def released_laws(
    epsilon: float, users: int, ones: int, *, largest: int = LARGEST
) -> dict[str, ErrorLaw | None]:
    """Laws of the sum's error as the released script for numbers runs each mechanism at ε.

    δ = 1e-3; RR and Geo meet ε + .01; Geo with half the printed t; SGDL's noise on the sum has ε n.
    Nothing is clamped.
    """
    goal = epsilon + RELEASED_TOLERANCE
    share = randomise(goal, RELEASED_DELTA, users, largest)
    rate = geo_parameter(goal, RELEASED_DELTA, users, RELEASED_STEEPNESS)
    return {
        "RR-Shuffle": None if share is None else bits_error(users * largest, ones, share),
        "Geo-Shuffle": None if rate is None else sgdl_error(float(users), rate),
        "SGDL-Shuffle": sgdl_error(1.0, min(epsilon * users, 30.0)),
    }


def theorem_7_1(randomise: float, delta: float, largest: int = LARGEST) -> float | None:
    """ε_L of RR-Shuffle by Theorem 7.1, which ignores that unary bits are ordered.

    None if λ_L < 14 ln(4/δ).
    """
    expected = randomise * largest
    if not largest >= expected >= 14 * math.log(4 / delta):
        return None
    return math.sqrt(
        32 * math.log(4 / delta) / (expected - math.sqrt(2 * expected * math.log(2 / delta)))
    )


def theorem_3_2(randomise: float, users: int, beta: float, largest: int = LARGEST) -> float:
    """Error of the sum that Theorem 3.2 allows with probability β: (nk/(nk-λ)) sqrt(2λ ln(2/β))."""
    bits = users * largest
    expected = randomise * bits
    return bits / (bits - expected) * math.sqrt(2 * expected * math.log(2 / beta))
