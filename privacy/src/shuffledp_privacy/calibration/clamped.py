"""The padding of geo-shuffle: the fewest messages that add hardly any noise and bias.

These closed forms only propose a padding.

Nothing here is a guarantee: `calibrate` certifies the result. Noise restricted to the padding has a
smaller variance than complete noise, most of all under the tilt at which δ is evaluated
(docs/accounting.md, S6b), and clamping has a bias (S17).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import MAX_DOMAIN
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.primitives.truncated import TruncatedLaw, TruncatedNoise
from shuffledp_privacy.sums.clamping import geo_tail

LESS_NOISE = 0.006
"""Share of the noise that clamping may waste: it has to be made up for, so that the error grows by
as much.
"""

BIAS = 0.06
"""Largest bias, as a share of the noise's standard deviation: it adds a fifth of a percent to the
error.
"""


def refuse_too_wide(rate: float, largest: int) -> None:
    """Raise `CannotCertify` if noise with ε_geo about `rate` does not fit into a message vector."""
    # Before its law is looked at, which would take as long as it is wide.
    if largest + 2 / rate > MAX_DOMAIN:
        raise _too_wide()


def biased_at_most(rate: float, users: int, largest: int) -> int:
    """Least padding at which all users' bias is at most `BIAS` of their noise at ε_geo `rate`."""
    allowed = BIAS * math.sqrt(2.0 / users) * math.exp(-rate / 2) / -math.expm1(-rate)
    # φ^(c+1) (1 - φ^k)/(1 - φ²) <= allowed (S17).
    scale = math.expm1(-rate * largest) / math.expm1(-2 * rate) / allowed
    return max(0, math.ceil(math.log(scale) / rate) - 1)


def wasting_little(epsilon: Fraction, tilt: float, largest: int) -> int:
    """Least padding at which the tilted noise keeps most of its variance (`LESS_NOISE`)."""
    rate = float(epsilon)
    tilt = min(tilt, 0.9 * rate)
    unclamped = 0.25 / math.sinh((rate - tilt) / 2) ** 2 + 0.25 / math.sinh((rate + tilt) / 2) ** 2

    def enough(padding: int) -> bool:
        noise = TruncatedNoise.of(epsilon, padding)
        if padding == 0 or noise.widest_tilt < tilt:
            return False
        clamped = float(TruncatedLaw(noise, np.ones(1)).variance(np.array([tilt]))[0])
        return clamped * (1 - geo_tail(epsilon, padding)) >= (1 - 2 * LESS_NOISE) * unclamped

    return _least(enough, largest)


def _least(enough: Callable[[int], bool], largest: int) -> int:
    """Smallest sufficient padding, by doubling and bisection.

    Raises:
        CannotCertify: with such a padding, a user would send more than `MAX_DOMAIN` messages.
    """
    low, high = -1, 1
    while not enough(high):
        low, high = high, 2 * high
        if largest + 2 * high > MAX_DOMAIN:
            raise _too_wide()
    return bisect_whole(enough, passing=high, failing=low)


def _too_wide() -> CannotCertify:
    return CannotCertify(
        f"the noise would need more than {MAX_DOMAIN} messages per user; take a larger epsilon or "
        "fewer values"
    )
