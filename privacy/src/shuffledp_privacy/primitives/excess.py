"""Bounds of the mean positive part of a sum of many equal draws, 𝔼[(V_1 + ... + V_h)_+].

The number h of draws may be large.

The sum (1/T) Σ_j 𝔼[e^{s_j S}]/s_j², s_j = η + 2πij/T, is the target mean plus aliases, which are
positive. It ends quickly because S gets a little Gaussian noise G of mean 0: by Jensen 𝔼[(S + G)_+]
is never below 𝔼[(S)_+], and never more than σ 𝔼[φ(S/σ)] above it, which the same sum gives. No grid
is used, so V may have any values (docs/accounting.md, K12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_privacy.numerics.rounding import UNIT
from shuffledp_privacy.numerics.search import bisect_magnitude
from shuffledp_privacy.primitives.work import spend_work

Floats = NDArray[np.float64]


SMALL_NOISE = 0.005
"""First σ as a share of the tilted sum's deviation: adds 2.5e-5 to a variance, about 1e-5 to ε."""

SMALL_SHIFT = 0.01
"""First σ as a share of 1/c: changes δ by half the square, 5e-5 of itself."""

GOOD = 4e-4
"""Relative width of the bracket at which σ is small enough."""

MOST_POINTS = 20_000
"""Most nodes of a contour sum."""

MOST_WORK = 6_000_000
"""Most nodes times values: decides how small σ becomes."""

ONE_THREAD = 200_000
"""Most products of one product of matrices: a larger one would be shared out to threads, which wait
for each other.
"""

FEW = 100
"""Most draws that are enumerated."""

MOST_OUTCOMES = 60_000
"""Most numbers of draws of each value for which all are summed, exactly."""

LOST = 30.0
"""-ln of the share of the integrand where the sum ends."""

ALIAS = 21.0
"""-ln of the share that an alias may add."""

LARGEST_EXPONENT = 600.0

MOST_ROUNDING = 0.01
"""Most that rounding may move hK(c): where one value is far larger than the others, a smaller tilt
is taken.
"""

CALL_COST = 35_000
"""Work of one contour besides its nodes: its tilt, period and aliases."""

NODE_COST = 14.0
"""Work of a node of a contour."""

VALUE_COST = 0.6
"""Work of a node times a value, of an outcome, or of an exponential, as `work` counts it."""

UNDERFLOWN = 1e-130
"""What products below the least float may add up to in an enumeration: 100! times 60,000 times the
least float.
"""


@dataclass(frozen=True, slots=True)
class Draw:
    """The law of one V: `values` with `masses`, and 0 with the remaining probability.

    Shapes equal; masses in (0, 1].
    """

    masses: Floats
    values: Floats

    def log_moment(self, tilt: float) -> float:
        """ln 𝔼[e^(ηV)]."""
        # At most all of it cancels; `rounding` is then so large that the tilt is not used.
        return math.log1p(max(float(self.masses @ np.expm1(tilt * self.values)), -1 + UNIT))

    def rounding(self, tilt: float) -> float:
        """Bound on the rounding error of `log_moment`."""
        spread = float(self.masses @ _size_of_growth(tilt * self.values))
        return (
            (self.values.size + 16) * 2 * UNIT * spread / math.exp(min(0.0, self.log_moment(tilt)))
        )

    def tilted_moments(self, tilt: float) -> tuple[float, float]:
        """Mean and variance of V under the tilt."""
        weights = self.masses * np.exp(tilt * self.values - self.log_moment(tilt))
        mean = float(weights @ self.values)
        # The value 0 has the rest of the mass.
        return mean, max(float(weights @ self.values**2) - mean * mean, 0.0)


def _size_of_growth(exponent: Floats) -> Floats:
    """Scale of the rounding errors of e^x - 1: |x| e^x for x > 0, else |x|.

    Below 0 it is at most |x| or 1.
    """
    return np.asarray(
        np.where(exponent > 0.0, exponent * np.exp(exponent), np.minimum(-exponent, 1.0))
    )


@dataclass(frozen=True, slots=True)
class _Contour:
    """Contour for the sum: tilt c, period T, noise σ, nodes beyond 0, ln of the largest term."""

    tilt: float
    period: float
    noise: float
    nodes: int
    log_top: float


def mean_excess(
    draw: Draw, trials: int, goal: float = 0.0, coarse: float = 1.0
) -> tuple[float, float]:
    """Lower and upper bound of 𝔼[(V_1 + ... + V_h)_+]/h.

    Args:
        draw: the law of V.
        trials: h, 1 to 1e9.
        goal: no further refinement once both bounds are below it, or both above.
        coarse: factor of the noise at the start, above 1 for a looser bound in less time.
    """
    largest = float(draw.values.max(initial=0.0))
    if largest <= 0.0:
        return 0.0, 0.0
    if trials <= FEW and math.comb(trials + draw.values.size, draw.values.size) <= MOST_OUTCOMES:
        return _enumerate(draw, trials)
    low, high, shrink = 0.0, math.inf, coarse
    for _ in range(4):
        contour = _contour(draw, trials, shrink)
        below, above = _evaluate(draw, trials, contour)
        low, high = max(low, below), min(high, above)
        done = high - low <= GOOD * high or coarse > 1.0 or not low <= goal <= high
        if (
            done
            or 4 * contour.nodes > MOST_POINTS
            or 4 * contour.nodes * draw.values.size > MOST_WORK
        ):
            break
        shrink /= 4
    return low, high


def _enumerate(draw: Draw, trials: int) -> tuple[float, float]:
    """Both bounds, by summing over the multinomial law of how often each value occurs."""
    outcomes = math.comb(trials + draw.values.size, draw.values.size)
    spend_work(CALL_COST + 10 * VALUE_COST * outcomes)
    used = np.zeros(1, dtype=np.int64)
    total = np.zeros(1)
    weight = np.ones(1)
    size = np.zeros(1)
    for mass, value in zip(draw.masses.tolist(), draw.values.tolist(), strict=True):
        room = trials - used + 1
        state = np.repeat(np.arange(used.size), room)
        count = np.arange(state.size) - np.repeat(np.cumsum(room) - room, room)
        chance = np.cumprod(np.append(1.0, mass / np.arange(1.0, trials + 1)))
        used, weight = used[state] + count, weight[state] * chance[count]
        total, size = total[state] + count * value, size[state] + count * abs(value)
    # The rounding of the masses' sum is absolute: what is left of 1 is moved by it.
    rest = 1.0 - math.fsum(draw.masses.tolist())
    slack = 2 * UNIT * (draw.masses.size + 1)
    sides, ways = [], float(math.factorial(trials)) / trials
    for side in (-1, 1):
        left = np.cumprod(
            np.append(1.0, max(0.0, rest + side * slack) / np.arange(1.0, trials + 1))
        )
        value = np.maximum(total + side * 4 * UNIT * trials * size, 0.0)
        sides.append(float((weight * left[trials - used] * value).sum()) * ways)
    margin = (draw.masses.size + 8) * 8 * UNIT * (trials + 8)
    return sides[0] * (1 - margin), sides[1] * (1 + margin) + UNDERFLOWN * float(draw.values.max())


def many_chernoff(masses: Floats, values: Floats, trials: int) -> Floats:
    """Upper bounds e^(h K(c) - 1)/(c h) of `mean_excess` for many laws, each at a suitable c.

    Args:
        masses: common to all, shape (values,).
        values: shape (laws, values).
        trials: h.
    """
    spend_work(CALL_COST + 20 * VALUE_COST * values.size)
    largest = values.max(axis=1, initial=0.0)
    bounds = np.zeros(len(values))
    some = np.flatnonzero(largest > 0.0)
    if not some.size:
        return bounds
    values, largest = values[some], largest[some]
    most = LARGEST_EXPONENT / largest
    with np.errstate(over="ignore"):
        deviation = np.sqrt(trials * np.maximum(values**2 @ masses, 1e-290))
    low = np.minimum(1e-2 / deviation, most)
    high = np.minimum(1e2 / deviation, most)
    for _ in range(9):  # to about 2% of c; any c is sound
        middle = np.sqrt(low * high)
        grown = np.exp(middle[:, np.newaxis] * values)
        rising = (
            trials * middle * ((grown * values) @ masses)
            > 1 + np.expm1(middle[:, np.newaxis] * values) @ masses
        )
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    size = high[:, np.newaxis] * values
    log_moment = np.log1p(np.expm1(size) @ masses)
    spread = _size_of_growth(size) @ masses / np.exp(np.minimum(log_moment, 0.0))
    exponent = trials * (log_moment + (masses.size + 16) * 2 * UNIT * spread) - 1.0
    bounds[some] = np.exp(np.minimum(exponent, 700.0)) / (high * trials) * (1 + 1e-9)
    return bounds


def saddle(draw: Draw, trials: int) -> float:
    """The tilt c at which e^(h K(c))/c² is nearly least."""
    largest = float(draw.values.max())
    steepest = LARGEST_EXPONENT / largest

    def is_past_least(tilt: float) -> bool:
        weights = draw.masses * draw.values * np.exp(tilt * draw.values)
        return trials * tilt * float(weights.sum()) > 2 * math.exp(draw.log_moment(tilt))

    return bisect_magnitude(is_past_least, steepest, smallest=steepest * 1e-14, shrink=16)


def _contour(draw: Draw, trials: int, shrink: float) -> _Contour:
    tilt = saddle(draw, trials)
    while trials * draw.rounding(tilt) > MOST_ROUNDING:
        tilt /= 2
    deviation = math.sqrt(trials * draw.tilted_moments(tilt)[1])
    noise = shrink * min(max(SMALL_NOISE * deviation, 1e-6 / tilt), SMALL_SHIFT / tilt)
    top = trials * draw.log_moment(tilt) + 0.5 * (tilt * noise) ** 2
    about = top - 2 * math.log(tilt) - math.log(max(deviation, noise) * math.sqrt(2 * math.pi))
    period = _period(draw, trials, tilt, max(deviation, 1.0 / tilt), about)
    nodes = math.ceil(math.sqrt(2 * LOST) / noise * period / (2 * math.pi))
    allowed = max(64, min(MOST_POINTS, MOST_WORK // draw.values.size))
    if nodes > allowed:  # more noise is a looser bound, and no less sound
        noise, nodes = noise * nodes / allowed, allowed
        top = trials * draw.log_moment(tilt) + 0.5 * (tilt * noise) ** 2
    return _Contour(tilt, period, noise, nodes, top)


def _period(draw: Draw, trials: int, tilt: float, deviation: float, about: float) -> float:
    """Period T at which the nearest aliases on both sides are negligible against e^`about`."""
    left = 30.0 / tilt
    for _ in range(3):
        left = max(0.0, math.log(left + deviation) - about + ALIAS) / tilt
    rights = []
    for step in (1.0, 2.0, 4.0, 8.0, 16.0):
        more = step / deviation
        if (tilt + more) * float(draw.values.max()) < LARGEST_EXPONENT:
            beyond = trials * draw.log_moment(tilt + more) - math.log(tilt + more)
            rights.append((beyond - about + ALIAS) / more)
    return max(left, min(rights, default=0.0), 4.0 * deviation)


def _evaluate(draw: Draw, trials: int, contour: _Contour) -> tuple[float, float]:
    """Both bounds from one contour, divided by h; aliases are subtracted from the lower one."""
    spend_work(CALL_COST + contour.nodes * (NODE_COST + VALUE_COST * draw.values.size))
    frequency = 2 * math.pi / contour.period * np.arange(contour.nodes + 1)
    moment, error = _moments(draw, contour.tilt, 2 * math.pi / contour.period, contour.nodes)
    size = np.abs(1 + moment)
    with np.errstate(divide="ignore"):
        log_size = np.where(
            size > 0.5, 0.5 * np.log1p(2 * moment.real + np.abs(moment) ** 2), np.log(size)
        )
    phase = trials * np.arctan2(moment.imag, 1 + moment.real)
    damping = -0.5 * (contour.noise * frequency) ** 2
    turn = contour.noise**2 * contour.tilt * frequency
    # e^(h K(c)) and (c noise)²/2 are left out here: they are `log_top`.
    values = np.exp(trials * log_size + damping) * np.exp(1j * (phase + turn))
    reach = trials * np.log(np.minimum(size + error, 1.0)) + damping
    relative = trials * error / np.maximum(size, 1e-300)
    relative += (
        8
        * UNIT
        * (np.abs(phase) + np.abs(turn) + np.minimum(trials * np.abs(log_size), 800.0) + 64)
    )
    relative += frequency.size * UNIT  # of the sum
    wrong = np.where(
        relative < 0.1, 2 * relative * np.abs(values), 2 * np.exp(np.minimum(reach, 0.0))
    )
    square = (contour.tilt + 1j * frequency) ** 2
    weight = np.full(frequency.size, 2.0)
    weight[0] = 1.0
    mean = float(weight @ (values / square).real)
    mean_error = float(weight @ (wrong / np.abs(square)))
    bump = contour.noise**2 * float(weight @ (values.real + wrong))
    return _sides(draw, trials, contour, mean, mean_error, bump)


def _sides(
    draw: Draw, trials: int, contour: _Contour, mean: float, error: float, bump: float
) -> tuple[float, float]:
    noise, top = contour.noise, 2 * math.pi / contour.period * contour.nodes
    # What lies beyond the last node: a geometric series of ratio below e^(-σ² top η).
    decay = 1 - math.exp(-(noise**2) * top * 2 * math.pi / contour.period)
    rest = 2 * math.exp(-0.5 * (noise * top) ** 2) / decay
    wrong = trials * draw.rounding(contour.tilt) + 8 * UNIT * (abs(contour.log_top) + 8)
    scale = math.exp(min(contour.log_top, 700.0)) / contour.period / trials
    high = (mean + error + rest / top**2) * math.exp(wrong) * scale
    low = (
        (mean - error - rest / top**2 - (bump + noise**2 * rest) * (1 + 1e-9))
        * math.exp(-wrong)
        * scale
    )
    return max(0.0, low * (1 - 1e-12) - _aliases(draw, trials, contour) / trials), high * (
        1 + 1e-12
    )


def _aliases(draw: Draw, trials: int, contour: _Contour) -> float:
    """Σ over l ≠ 0 of 𝔼[(S + G - lT)_+] e^(ηlT), bounded from above."""
    tilt, period = contour.tilt, contour.period
    total = trials * float(draw.masses @ np.abs(draw.values)) + contour.noise
    left = math.exp(-tilt * period)
    rest = total * left / (1 - left) + period * left / (1 - left) ** 2
    deviation = max(math.sqrt(trials * draw.tilted_moments(tilt)[1]), 1 / tilt)
    rights = [math.inf]
    for step in (1.0, 2.0, 4.0, 8.0, 16.0):
        more = step / deviation
        if (tilt + more) * float(draw.values.max()) < LARGEST_EXPONENT:
            exponent = trials * (draw.log_moment(tilt + more) + draw.rounding(tilt + more))
            exponent += 0.5 * ((tilt + more) * contour.noise) ** 2 - 1 - more * period
            rights.append(
                math.exp(min(exponent, 700.0)) / (tilt + more) / -math.expm1(-more * period)
            )
    return (rest + min(rights)) * (1 + 1e-9)


def _moments(
    draw: Draw, tilt: float, step: float, nodes: int
) -> tuple[NDArray[np.complex128], Floats]:
    """𝔼[e^((η + iν)V)]/𝔼[e^(ηV)] - 1 at ν = 0, step, ..., and a bound on its error.

    With z(u) = e^(iuv) - 1 it is the weighted sum of z, and z(u + u') = z(u) z(u') + z(u) + z(u'):
    one product of matrices gives all nodes from about 2 √nodes of them, and small u lose no digits.
    """
    weights = draw.masses * np.exp(tilt * draw.values - draw.log_moment(tilt))
    block = math.isqrt(nodes) + 1
    coarse = _turns(np.multiply.outer(step * block * np.arange(nodes // block + 1), draw.values))
    fine = _turns(np.multiply.outer(step * np.arange(block), draw.values))
    weighted = coarse * weights
    both = weighted.sum(axis=1)[:, np.newaxis] + (fine * weights).sum(axis=1)[np.newaxis, :]
    rows = max(1, ONE_THREAD // fine.size)
    for start in range(0, len(both), rows):
        both[start : start + rows] += weighted[start : start + rows] @ fine.T
    frequency = step * np.arange(nodes + 1)
    # |z(u)| is at most |uv|, and 2; a phase u v is known to 4 roundings of itself.
    spread = float(weights @ np.abs(draw.values))
    error = np.asarray(16 * (draw.values.size + 16) * UNIT * spread * frequency, dtype=np.float64)
    return both.ravel()[: nodes + 1], error


def _turns(angle: Floats) -> NDArray[np.complex128]:
    """e^(ix) - 1, with a relative error of a few units of roundoff."""
    half = np.sin(0.5 * angle)
    return np.asarray(2 * half * (1j * np.cos(0.5 * angle) - half), dtype=np.complex128)
