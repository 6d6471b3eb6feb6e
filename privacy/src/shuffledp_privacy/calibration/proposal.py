"""Fast, unproved estimates of the protection by noise, used only to propose parameters.

Nothing here is a guarantee. The law of the summed noise comes from one inverse Fourier transform of
its characteristic function [(1-φ)² / (1 - 2φ cos θ + φ²)]^r and, far out, from its saddle points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import MAX_DOMAIN, PaddedSpec
from shuffledp_privacy.numerics.search import bisect_whole
from shuffledp_privacy.numerics.special import log_beta, log_incomplete_beta
from shuffledp_privacy.primitives.noise import SgdlLaw
from shuffledp_privacy.rounds.subsampling import Curve

Floats = NDArray[np.float64]

LARGEST_TRANSFORM = 2**22
"""Points of the transform, about half a second; wider noise is left to the analysis itself."""

TRUSTED = 1e-10
"""Probabilities above this come from the transform, smaller ones from the saddle point of the law.
"""


@dataclass(frozen=True, slots=True)
class NoiseShares:
    """A user's noise SGDL(share, exp(-rate)) and the number of honest users."""

    rate: float
    share: float
    honest: int


def noise_of(spec: PaddedSpec, honest: int) -> NoiseShares:
    """The noise of a spec in terms of shares; every kind of noise is in this family."""
    return NoiseShares(float(spec.noise_rate), 1 / spec.noise_shares, honest)


def clamping(noise: NoiseShares, padding: int) -> float:
    """Approximate probability that some honest user's noise leaves [-padding, padding]."""
    ratio = math.exp(-noise.rate)
    # One side's negative binomial exceeds the padding with the chance I_φ(padding + 1, share).
    first, second = np.array([padding + 1.0]), np.array([noise.share])
    logit = np.array([-noise.rate - math.log(-math.expm1(-noise.rate))])
    log_beyond, _ = log_incomplete_beta(first, second, logit, log_beta(first, second))
    tail = 2 * math.exp(float(log_beyond[0]) - noise.share * math.log1p(ratio))
    return min(1.0, noise.honest * tail)


def log_clamping(noise: NoiseShares, padding: int) -> float:
    """Logarithm of `clamping`.

    If it is too small for a float, the logarithm of a bound on it (docs/accounting.md, S7).
    """
    probability = clamping(noise, padding)
    groups = math.ceil(noise.honest * noise.share * (1 - 1e-9))
    if probability > 0:
        return math.log(probability)
    return math.log(2 * groups) - noise.rate * (padding + 1)


def least_padding(noise: NoiseShares, total: float, delta: float, largest: int) -> int:
    """The smallest padding with clamping (1 + e^total) at most about `delta`.

    Raises:
        CannotCertify: the padding does not fit in a message vector for values up to `largest`.
    """
    goal = math.log(delta) - max(total, 0.0) - math.log1p(math.exp(-abs(total)))
    high = max(1, math.ceil((math.log(2 * noise.honest) - goal) / noise.rate))
    if largest + 2 * high > MAX_DOMAIN:
        raise CannotCertify(
            f"noise of {noise.rate:g} per unit would need about {largest + 2 * high} messages per "
            f"user, above {MAX_DOMAIN}; take a larger epsilon or fewer values"
        )
    return bisect_whole(lambda padding: log_clamping(noise, padding) <= goal, high, failing=-1)


def total_needed(noise: NoiseShares, distance: int, delta: float) -> float:
    """Approximate smallest E with HS_E(Y‖Y + distance) <= delta.

    If the law is too wide, the pure bound.
    """
    pure = noise.rate * distance
    law = noise_law(noise, distance) if noise.share * noise.honest >= 1 else None
    if law is None:
        return pure
    curve, low, high = law.curve(distance), 0.0, pure
    for _ in range(12):
        grid = np.linspace(low, high, 9)
        first = int(np.argmax(np.append(curve(grid) <= delta, True)))
        low, high = float(grid[max(first - 1, 0)]), float(grid[min(first, 8)])
        if high - low <= 1e-4 * high:
            break
    return high


@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Logarithms of the summed noise's probabilities at -half..half."""

    log_masses: Floats

    def curve(self, distance: int) -> Curve:
        """Approximate HS_E(Y‖Y + distance), E >= 0."""
        losses = self.log_masses[distance:] - self.log_masses[:-distance]
        order = np.argsort(losses)
        ranked, log_masses = losses[order], self.log_masses[distance:][order]
        # Sums over all losses above one, P and, in logarithms that nothing overflows, Q = Σ P
        # e^-loss; then 0.
        above = np.append(np.cumsum(np.exp(log_masses[::-1]))[::-1], 0.0)
        other = np.append(np.logaddexp.accumulate((log_masses - ranked)[::-1])[::-1], -np.inf)

        def about(epsilons: Floats) -> Floats:
            start = np.searchsorted(ranked, epsilons, side="right")
            deltas = above[start] - np.exp(np.minimum(epsilons + other[start], 0.0))
            return np.asarray(np.clip(deltas, 0.0, 1.0), dtype=np.float64)

        return about


def next_fast_length(length: int) -> int:
    """Least number 2^a 3^b 5^c from `length` on, a length of fast Fourier transforms."""
    best = 1 << (length - 1).bit_length()
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << max(0, (-(-length // odd) - 1).bit_length()))
            odd *= 3
        five *= 5
    return best


def noise_law(noise: NoiseShares, distance: int) -> NoiseLaw | None:
    """The law on a window wide enough for changes by `distance`.

    None below one share, or where it takes too long.
    """
    ratio, shape = math.exp(-noise.rate), noise.share * noise.honest
    deviation = math.sqrt(2 * shape * ratio) / -math.expm1(-noise.rate)
    half = math.ceil(9 * deviation + 42 / noise.rate) + distance + 2
    if 2 * half + 1 > LARGEST_TRANSFORM or shape < 1 - 1e-9:
        return None
    points = np.arange(-half, half + 1)
    # One whole noise is a discrete Laplace law, which is known in closed form.
    if shape <= 1 + 1e-9:
        return NoiseLaw(math.log(math.tanh(noise.rate / 2)) - noise.rate * np.abs(points))
    length = next_fast_length(2 * half + 1)
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    # 1 - 2φ cos θ + φ² = (1-φ)² + 4φ sin²(θ/2), without cancellation near θ = 0.
    spread = 4 * ratio * np.sin(angles / 2) ** 2 / np.expm1(-noise.rate) ** 2
    masses = np.fft.irfft(np.exp(-shape * np.log1p(spread)), length)
    center = np.concatenate((masses[-half:], masses[: half + 1]))
    law = SgdlLaw(shape, ratio)
    tilt = law.saddle(points.astype(np.float64))
    far = law.cumulant(tilt) - tilt * points - 0.5 * np.log(2 * np.pi * law.variance(tilt))
    return NoiseLaw(np.where(center > TRUSTED, np.log(np.maximum(center, TRUSTED)), far))
