"""Tables of the law of a sum of equal, symmetric variables bounded by [-c, c].

ln P is tabulated piece by piece. Each piece comes from one transform under an exponential tilt
whose mean lies in it, so that the logarithms have many digits at any depth (docs/accounting.md,
Proposition S6b, "Shares").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.numerics.search import bisect
from shuffledp_privacy.primitives.contour import NEGLIGIBLE, Floats
from shuffledp_privacy.primitives.truncated_table import KeptTable
from shuffledp_privacy.primitives.work import spend_work

LONGEST = 2**17
"""Most points on one side of a table."""

LONGEST_TRANSFORM = 2**19
"""Most points of a transform."""

ERROR = 1e-8
"""Relative error up to which a point is taken from a transform."""

LARGEST_MARGIN = 1e-3
"""Largest error of ln P that a table may have."""

POINT_COST = 6.0
"""Work of a point of a transform, as `work` counts it."""

_LOST = 60.0
"""-ln of the mass beyond either end of a table."""

_LARGEST_POWER = 300.0
"""Largest tilt times c: twice as much is still a double."""

_MOST_PIECES = 64


@dataclass(frozen=True, slots=True)
class EvenSum:
    """Sum of `count` independent variables with P(-j) = P(j), |j| <= c.

    Attributes:
        pmf: P(0), ..., P(c) of one variable.
        inexact: relative error of each of them.
        count: number of variables.
        rate: about how fast they fall, nats per unit; where tilts are looked for.
    """

    pmf: Floats
    inexact: float
    count: int
    rate: float

    @property
    def support(self) -> int:
        """Largest value of the sum."""
        return self.count * (self.pmf.size - 1)

    def tilts(self, around: float, sign: float) -> Floats:
        """Tilts beyond `around`, from which the mass far away is bounded."""
        widest = _LARGEST_POWER / max(self.pmf.size - 1, 1)
        moves = self.rate * np.geomspace(0.01, 8.0, 28)
        tilts = around + sign * moves
        return np.asarray(tilts[np.abs(tilts) <= widest], dtype=np.float64)

    def cumulant(self, tilt: Floats) -> Floats:
        """ln E exp(s W) at each tilt s, from positive terms alone."""
        steps = np.arange(1, self.pmf.size)
        squares = np.sinh(0.5 * np.multiply.outer(tilt, steps)) ** 2
        return np.asarray(self.count * np.log1p(4.0 * (squares @ self.pmf[1:])), dtype=np.float64)

    def mean(self, tilt: float) -> float:
        """Approximate mean under the tilt."""
        steps = np.arange(1, self.pmf.size)
        slope = 2.0 * float((steps * np.sinh(tilt * steps)) @ self.pmf[1:])
        return self.count * slope / math.exp(float(self.cumulant(np.array([tilt]))[0]) / self.count)

    def saddle(self, middle: float) -> float:
        """The tilt with about the mean `middle`, within the range of tilts."""
        widest = _LARGEST_POWER / max(self.pmf.size - 1, 1)
        return bisect(
            lambda tilt: self.mean(tilt) <= middle,
            passing=0.0,
            failing=min(widest, 8.0 * self.rate),
            steps=24,
        )

    def edge(self, tilt: float, sign: float, lost: float) -> int:
        """Distance from 0 beyond which at most e^-lost of the tilted law lies."""
        tilts = self.tilts(tilt, sign)
        if not tilts.size:  # at the widest tilt nothing bounds the sum but its support
            return self.support
        start = float(self.cumulant(np.array([tilt]))[0])
        moves = np.abs(tilts - tilt)
        bounds = (lost + self.cumulant(tilts) - start) / moves
        return min(math.ceil(float(bounds.min())), self.support)


def tabulate_even_sum(law: EvenSum, distance: int) -> KeptTable | None:
    """Tabulate the sum's law for changes up to `distance`.

    None if the table would be too long, or where too many digits are lost.
    """
    margin = law.count * (law.inexact + 8 * UNIT * law.pmf.size)
    reach = law.support
    if law.tilts(0.0, 1.0).size:
        reach = min(reach, law.edge(0.0, 1.0, _LOST) + distance)
    if reach > LONGEST or margin > LARGEST_MARGIN:
        return None
    pieces: list[Floats] = []
    covered = -1
    largest = 0.0
    tilt = 0.0
    while covered < reach:
        piece = _piece(law, tilt, covered + 1) if len(pieces) < _MOST_PIECES else None
        if piece is None:
            return None
        logs, error = piece
        logs = logs[: reach - covered]
        pieces.append(logs)
        largest = max(largest, error)
        covered += logs.size
        middle = law.mean(tilt)
        tilt = law.saddle(covered + 0.7 * max(covered - middle, 1.0))
    return KeptTable(np.concatenate(pieces), margin + largest, 4 * math.exp(-_LOST))


def _piece(law: EvenSum, tilt: float, start: int) -> tuple[Floats, float] | None:
    """Logarithms from `start` on, as far as this tilt resolves them, and their error.

    None for no point, or where the transform would be too long.
    """
    high = law.edge(tilt, 1.0, NEGLIGIBLE)
    low = law.edge(tilt, -1.0, NEGLIGIBLE)
    padding = law.pmf.size - 1
    size = 1 << max(4, math.ceil(math.log2(high + low + 2 * padding + 2)))
    if size > LONGEST_TRANSFORM:
        return None
    spend_work(POINT_COST * size)
    scale = float(law.cumulant(np.array([tilt]))[0])
    steps = np.arange(1, padding + 1)
    row = np.zeros(size)
    row[steps] = law.pmf[1:] * np.exp(tilt * steps - scale / law.count)
    row[size - steps] = law.pmf[1:] * np.exp(-tilt * steps - scale / law.count)
    away = float(row.sum())
    # 𝔼 e^(iθN) - 1 as a difference that is as small as the chance of a noise other than 0.
    step = np.fft.rfft(row) - away
    length = float(np.linalg.norm(row))
    growth = 16 * UNIT * math.log2(size)
    relative = (2 * tilt * padding + 64 + 2 * math.log2(size)) * UNIT
    blur = growth * math.sqrt(size) * length + relative * away
    modulus = np.abs(1.0 + step)
    logs = np.log1p(2 * step.real + step.real**2 + step.imag**2) / 2 + 1j * np.arctan2(
        step.imag, 1.0 + step.real
    )
    power = np.exp(law.count * logs)
    masses = np.fft.irfft(power, size)
    nearly = np.exp((law.count - 1) * np.log(modulus + blur))
    # Both halves of the spectrum: twice the half that is computed, at most.
    error = law.count * growth * length * math.sqrt(2 * float(nearly @ nearly) / size)
    error += law.count * relative * away * 2 * float(nearly.sum()) / size
    sizes = 16 + 8 * law.count * np.abs(logs)
    error += UNIT * 2 * float(np.abs(power) @ sizes) / size
    error += growth * float(np.linalg.norm(masses)) + 4 * math.exp(-NEGLIGIBLE)
    points = np.arange(start, high + 1)
    shown = masses[points % size]
    good = shown * ERROR >= error
    extent = good.size if good.all() else int(np.argmin(good))
    if extent == 0:
        return None
    tilted = tilt * points[:extent]
    logarithms = scale - tilted + np.log(shown[:extent])
    largest = abs(scale) * (padding + 16) + float(tilted.max(initial=0.0))
    rounding = 8 * UNIT * (largest + 4 + float(np.abs(logarithms).max()))
    return np.asarray(logarithms, dtype=np.float64), 2 * ERROR + rounding
