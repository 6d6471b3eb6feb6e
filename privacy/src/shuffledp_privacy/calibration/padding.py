"""The default padding: the least at which clamping adds hardly any error. Pure.

For geo-shuffle it is the least padding whose certificate is close to that of unclamped noise
(docs/accounting.md, Proposition S6b), and whose bias is small. For sgdl-shuffle a share of δ pays
for clamping and the rest for the noise; the total ε of the largest change under the noise
determines the padding (S6). The choice affects only tightness, because the certificate is computed
for the chosen padding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import GeoShuffle
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.calibration.clamped import biased_at_most
from shuffledp_privacy.primitives.noise import sum_noise
from shuffledp_privacy.splitting import CLAMPING, between_clamping_and_noise
from shuffledp_privacy.sums.clamping import least_padding_geo, least_padding_sgdl
from shuffledp_privacy.sums.geo import noisy_sum
from shuffledp_privacy.sums.worst import worst_epsilon

WASTED: Final = 0.01
"""Share of ε that clamping may cost where a padding is chosen: a tenth of the messages of one that
costs nothing.
"""


def geo_padding(epsilon_geo: Fraction, max_value: int, setting: Setting, delta: float) -> int:
    """Padding c of geo-shuffle, bits on each side, that raises ε and error by at most 1%.

    `delta` is one round's.

    Raises:
        UsageError: `delta` is 0, or the padding would be beyond every domain.
    """
    plenty = unnoticed_geo_padding(epsilon_geo, max_value, setting, delta)
    least = biased_at_most(float(epsilon_geo), setting.users, max_value)

    def certified_epsilon_of(padding: int) -> float:
        spec = GeoShuffle(max_value=max_value, epsilon_geo=epsilon_geo, padding=padding)
        return worst_epsilon(noisy_sum(spec, setting), delta)

    # So many that no one is ever clamped.
    goal = certified_epsilon_of(2 * plenty + 1) * (1 + WASTED)
    low, high = min(least, plenty) - 1, plenty
    while high - low > 1:
        middle = (low + high) // 2
        if certified_epsilon_of(middle) <= goal:
            high = middle
        else:
            low = middle
    return high


def unnoticed_geo_padding(
    epsilon_geo: Fraction, max_value: int, setting: Setting, delta: float
) -> int:
    """Padding c of geo-shuffle at which clamping is very unlikely.

    Arguments and errors as `geo_padding`.
    """
    _check(epsilon_geo, delta)
    total = _total(epsilon_geo, Fraction(setting.honest), max_value, setting, delta)
    share = between_clamping_and_noise(delta).clamping
    return least_padding_geo(epsilon_geo, setting.honest, share, total)


def sgdl_padding(
    noise_epsilon: Fraction, shares: int, max_value: int, setting: Setting, delta: float
) -> int:
    """Padding c of sgdl-shuffle; arguments and errors as `geo_padding`."""
    _check(noise_epsilon, delta)
    if shares < 1:
        raise UsageError(f"shares must be at least 1, not {shares}")
    total = _total(noise_epsilon, Fraction(setting.honest, shares), max_value, setting, delta)
    share = between_clamping_and_noise(delta).clamping
    return least_padding_sgdl(noise_epsilon, shares, setting.honest, share, total)


def geo_padding_note(padding: int) -> str:
    """Describe the chosen padding."""
    return (
        f"padding = {padding} was chosen: the least that costs at most {WASTED:.0%} of epsilon, "
        "with little bias"
    )


def padding_note(padding: int) -> str:
    """Describe the chosen padding of shared noise."""
    return (
        f"padding = {padding} was chosen: the least that leaves clamping {CLAMPING:.0%} of delta, "
        "so that the guarantee is that of unclamped noise at the rest"
    )


def _check(epsilon: Fraction, delta: float) -> None:
    if epsilon <= 0:
        raise UsageError(f"the noise's epsilon must be above 0, not {float(epsilon):g}")
    if not 0 < delta < 1:
        raise UsageError(
            f"to choose a padding, delta must be above 0 and below 1, not {delta}; or give "
            "--padding"
        )


def _total(
    epsilon: Fraction, shape: Fraction, max_value: int, setting: Setting, delta: float
) -> float:
    """Total ε of the largest change, with unclamped noise at the δ that clamping leaves."""
    reach = min(setting.max_distance or max_value, max_value)
    rest = between_clamping_and_noise(delta).noise
    total = float(sum_noise(shape, epsilon).least(np.array([reach]), rest, 0.0)[0][0])
    return min(total, float(epsilon) * reach) if shape >= 1 else total
