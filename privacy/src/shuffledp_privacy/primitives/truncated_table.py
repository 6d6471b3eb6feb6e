"""Tables of the law of W_g for whole curves: each piece from one transform at its own tilt.

Under the tilt whose mean is in the middle of a piece, the transform's error is far below the law
there, so that the logarithms are known to many digits at any depth (docs/accounting.md,
Propositions S3 and S6b).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.primitives.contour import NEGLIGIBLE, Floats
from shuffledp_privacy.primitives.losses import tabulated_divergence
from shuffledp_privacy.primitives.pairs import TINY
from shuffledp_privacy.primitives.truncated import TruncatedLaw, TruncatedNoise

LONGEST = 8000
"""Most points of a table; a curve takes time in proportion to it."""

LONGEST_TRANSFORM = 2**14
"""Most points of a transform."""

ERROR = 1e-8
"""Relative error up to which a point is taken from a transform."""

_LOST = 95.0
"""-ln of the mass beyond a table, which is charged to `pairs.TINY`."""

_MOST_PIECES = 64


@dataclass(frozen=True, slots=True)
class KeptTable:
    """ln P(0), .., ln P(W) of W_g, which is symmetric, with one common error `margin`.

    `lost` is the mass beyond the table, rounded up.
    """

    logs: Floats
    margin: float
    lost: float = TINY

    def divergence(self, distance: int, epsilon: Floats) -> Floats:
        """HS_E(W_g‖W_g+d) at each E >= 0, never below the truth."""
        last = self.logs.size - 1
        points = np.arange(-last, last + 1)
        near = self.logs[np.abs(points)]
        moved = np.abs(points - distance)
        # What is moved to a point from beyond the table counts as nothing.
        far = np.where(moved <= last, self.logs[np.minimum(moved, last)], -np.inf)
        above = tabulated_divergence(near + self.margin, far - self.margin, epsilon)
        return np.asarray(np.minimum(above + self.lost, 1.0), dtype=np.float64)


@lru_cache(maxsize=64)
def kept_table(noise: TruncatedNoise, count: int, distance: int) -> KeptTable | None:
    """The table for changes up to `distance`.

    None if it would be too long or digits are lost.
    """
    law = TruncatedLaw(noise, np.array([float(count)]))
    support = count * noise.padding
    # Up to 12 deviations beyond the largest change, at least.
    first = float(law.variance(np.zeros(1))[0]) ** 0.5
    reach = min(support, distance + math.ceil(15 * first) + 40)
    if reach > LONGEST // 2:
        return None
    pieces: list[Floats] = []
    covered, tilt, margin = -1, 0.0, 0.0
    while covered < reach:
        piece = _piece(law, tilt, covered + 1) if len(pieces) < _MOST_PIECES else None
        if piece is None:
            break
        logs, error = piece
        logs = logs[: support - covered]
        pieces.append(logs)
        margin, covered = max(margin, error), covered + logs.size
        middle = float(law.mean(np.array([tilt]))[0])
        tilt = float(law.saddle(np.array([covered + 0.7 * max(covered - middle, 1.0)]))[0])
    # Tilts end before the support does: then next to nothing may be left.
    if covered < support and not _beyond(law, covered + 1 - distance):
        return None
    return KeptTable(np.concatenate(pieces), margin + float(noise.slack(law.count)[0]))


def _beyond(law: TruncatedLaw, threshold: int) -> bool:
    """True if, by Chernoff's bound, practically no mass lies from `threshold` on."""
    tilts = np.linspace(0.05, 1.0, 20) * law.noise.widest_tilt
    every = TruncatedLaw(law.noise, np.full(tilts.shape, law.count[0]))
    return bool((every.cumulant(tilts) - tilts * threshold).min() < -_LOST)


def _piece(law: TruncatedLaw, tilt: float, start: int) -> tuple[Floats, float] | None:
    """Logarithms from `start` on, as far as this tilt resolves them, and their error.

    None if the tilt resolves nothing.
    """
    at = np.array([tilt])
    middle = max(start, round(float(law.mean(at)[0])))
    size = _transform_size(law, at, middle)
    if size is None:
        return None
    angles: Floats = (2 * np.pi / size) * np.arange(size // 2 + 1, dtype=np.float64)[None, :]
    phase, parts = law.phase(at[:, None], angles)
    weights = np.exp(law.log_modulus(at[:, None], angles))[0]
    turned = (phase - middle * angles)[0]
    slack = (
        UNIT
        * float(law.condition(at)[0])
        * (64 + 8 * (parts[0] + middle * angles[0]) + 16 * NEGLIGIBLE)
    )
    # The conjugate of the sum over e^(iθy): what numpy calls a transform.
    masses = np.fft.irfft(weights * np.exp(-1j * turned), size)
    error = 2 * float(weights @ slack) / size + 16 * UNIT * math.log2(size) * float(
        np.linalg.norm(masses)
    )
    error += 4 * math.exp(-NEGLIGIBLE)
    points = np.arange(start, middle + size // 2)
    shown = masses[(points - middle) % size]
    good = shown * ERROR >= error
    length = good.size if good.all() else int(np.argmin(good))
    if length == 0:
        return None
    scale = float(law.cumulant(at)[0])
    logs = scale - tilt * points[:length] + np.log(shown[:length])
    rounding = (
        8
        * UNIT
        * (abs(scale) + abs(tilt) * float(points[length - 1]) + 4 + float(np.abs(logs).max()))
    )
    return np.asarray(logs, dtype=np.float64), 2 * ERROR + rounding + float(
        law.cumulant_error(at)[0]
    )


def _transform_size(law: TruncatedLaw, tilt: Floats, middle: int) -> int | None:
    """A power of two at which the wrapped-around mass is below e^-42 under the tilt."""
    start, deviation = law.cumulant(tilt), np.sqrt(law.variance(tilt))
    widest, reach = law.noise.widest_tilt, 0.0
    for sign in (1.0, -1.0):
        room = 0.95 * (widest - sign * tilt)
        best = math.inf
        for share in (3.0 / deviation, 8.0 / deviation, room):
            move = np.minimum(share, room)
            growth = law.cumulant(tilt + sign * move) - start - sign * move * middle
            best = min(best, float(((NEGLIGIBLE + np.maximum(growth, 0.0)) / move)[0]))
        reach = max(reach, best)
    # Nothing lies beyond g c on either side.
    width = min(2 * reach + 4, 2 * float(law.count[0]) * law.noise.padding + 4 + 2 * middle)
    size = 1 << max(4, math.ceil(math.log2(width)))
    return size if size <= LONGEST_TRANSFORM else None
