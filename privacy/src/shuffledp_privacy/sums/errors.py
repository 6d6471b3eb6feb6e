"""Laws of the error of a debiased sum, and of its noise, to compare mechanisms.

Exact up to rounding where no user is clamped. With a calibrated padding clamping moves a mean by at
most its bias (docs/accounting.md, S17), which `standard_error` includes and these laws do not. No
guarantee uses them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shuffledp_core.bounds.noise import probabilities
from shuffledp_core.bounds.windows import binomial_law
from shuffledp_core.errors import UsageError
from shuffledp_privacy.analyses import analysis_of
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.noise import table_length
from shuffledp_privacy.primitives.table import build_table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ErrorLaw:
    """A law of the error with finitely many values.

    Attributes:
        errors: shape (points,), rising, in units of the sum.
        mass: their probabilities, shape (points,); their sum is 1 up to 1e-9.
    """

    errors: Floats
    mass: Floats

    def mean_absolute(self) -> float:
        """Expected |error|."""
        return float(self.mass @ np.abs(self.errors))

    def root_mean_square(self) -> float:
        """Root of the expected squared error."""
        return math.sqrt(float(self.mass @ self.errors**2))

    def quantile(self, level: float) -> float:
        """Least error size e with P(|error| <= e) >= level, up to 1e-9 of probability.

        Raises:
            UsageError: level outside [0, 1].
        """
        if not 0 <= level <= 1:
            raise UsageError(f"level must be from 0 to 1, not {level}")
        size = np.abs(self.errors)
        order = np.argsort(size, kind="stable")
        reached = np.cumsum(self.mass[order])
        at = int(np.searchsorted(reached, min(level, 1 - 1e-9) - 1e-12))
        return float(size[order[min(at, size.size - 1)]])

    def sample(self, runs: int, generator: np.random.Generator) -> Floats:
        """Independent errors, shape (runs,), by inversion."""
        reached = np.cumsum(self.mass)
        at = np.searchsorted(reached, generator.random(runs) * reached[-1], side="right")
        return np.asarray(self.errors[np.minimum(at, self.errors.size - 1)], dtype=np.float64)


def sgdl_error(shape: float, epsilon: float) -> ErrorLaw:
    """Law of SGDL(r, exp(-epsilon)): n discrete Laplace noises for r = n, one for r = 1.

    Args:
        shape: r > 0.
        epsilon: ε of the noise, above 0, nats per unit.

    Raises:
        UsageError: an argument out of range, or a law with more than two million points.
    """
    if not (shape > 0 and epsilon > 0):
        raise UsageError(f"shape and epsilon must be above 0, not {shape} and {epsilon}")
    half = probabilities(shape, epsilon)
    if half is None:
        raise UsageError(
            f"the distribution of the noise with shape {shape:g} and epsilon {epsilon:g} is too "
            "wide to tabulate"
        )
    reach = np.arange(half.size, dtype=np.float64)
    return ErrorLaw(np.concatenate([-reach[:0:-1], reach]), np.concatenate([half[:0:-1], half]))


def sgdl_log_mass(shape: float, epsilon: float, points: NDArray[np.int64]) -> Floats:
    """ln P(Y = m) of Y ~ SGDL(r, exp(-epsilon)), far tails included; same shape as `points`.

    Within 1e-9 of the truth for laws of up to a million points, by the recurrence of
    `primitives.table` (S3).

    Raises:
        UsageError: shape or epsilon not above 0, or a point beyond a million.
    """
    if not (shape > 0 and epsilon > 0):
        raise UsageError(f"shape and epsilon must be above 0, not {shape} and {epsilon}")
    farthest = int(np.max(np.abs(points), initial=1))
    if farthest > 10**6:
        raise UsageError(f"points must be at most a million from 0, not {farthest}")
    ratio = math.exp(-epsilon)
    # A table has to reach beyond the bulk; a power of two, so that requests with like points share
    # the cached one.
    length = max(farthest, table_length(shape, ratio))
    table = build_table(float(shape), ratio, 1 << length.bit_length())
    return np.asarray(table.log_pmf[np.abs(points)], dtype=np.float64)


def bits_error(bits: int, ones: int, randomise: float) -> ErrorLaw:
    """Law of the error of the debiased sum of randomised bits: (T - bits p/2)/(1 - p) - ones.

    Args:
        bits: n k.
        ones: number of bits that are 1, which is the true sum.
        randomise: p, in [0, 1).

    Raises:
        UsageError: an argument out of range.
    """
    if not (0 <= ones <= bits and 0 <= randomise < 1):
        raise UsageError(
            f"there must be 0 <= ones <= bits and 0 <= p < 1, not {ones}, {bits} and {randomise}"
        )
    flip = randomise / 2
    first, unflipped = binomial_law(ones, 1 - Fraction(flip))
    second, flipped = binomial_law(bits - ones, Fraction(flip))
    points = unflipped.size + flipped.size - 1
    length = 1 << (points - 1).bit_length()
    product = np.fft.rfft(unflipped, length) * np.fft.rfft(flipped, length)
    # No true entry is negative, so 0 is nearer to it than what rounding left.
    mass = np.maximum(np.fft.irfft(product, length)[:points], 0.0)
    counts = first + second + np.arange(points, dtype=np.float64)
    return ErrorLaw((counts - bits * flip) / (1 - randomise) - ones, mass / mass.sum())


def error_law(spec: object, users: int, total: int) -> ErrorLaw:
    """Law of the error of the debiased sum of `users` reports with true sum `total`, unclamped.

    Raises:
        UsageError: no such law is known for this mechanism, or it is too wide.
    """
    law = analysis_of(spec).error_law(users, total)
    if law is not None:
        return law
    raise UsageError(
        f"no distribution of the error is known for {type(spec).__name__}, whatever the number of "
        "users"
    )
