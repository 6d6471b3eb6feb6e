"""Unary codes in steps of Q: effect of random rounding to a step on privacy.

Source: Athanasiou et al. 2025, Algorithm 8.

x = Q (w + s) is rounded to w + 1 with probability s, to w otherwise, and the result is made
private. A change of x by d = Q (a + b), 0 <= b < 1, is then one by a + 1 steps with probability b,
by a otherwise. With λ and λ' at which the code shows (1-b) λ + b λ' = e^E, and δ_j its curve for a
change by j steps,

    δ(E) <= (1 - b) δ_a(ln λ) + b δ_{a+1}(ln λ')

(docs/accounting.md, Propositions S14 and S20). Bounds for quantised-rr follow from those of
rr-shuffle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import QuantisedRR, RRShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Setting,
    certified_curve,
)
from shuffledp_privacy.numerics.rounding import ELEMENTARY, UNIT, down, up
from shuffledp_privacy.primitives.inversion import certified_epsilon
from shuffledp_privacy.primitives.pairs import Divergence
from shuffledp_privacy.rounds.subsampling import subsampled_epsilon
from shuffledp_privacy.sums import rr
from shuffledp_privacy.sums.common import (
    chord,
    distances,
    is_metric,
)

Floats = NDArray[np.float64]

TABLE_NODES = 96
"""Points of a code's curve that is read off chords; they add about a tenth of a percent to ε."""

TABLE_TAIL = 1e-22
"""δ at which such a table ends, about."""

_OUTWARD = 32


def _check(epsilon: float, granularity: int) -> None:
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise UsageError(f"epsilon must be above 0 and finite, not {epsilon}")
    if granularity < 1:
        raise UsageError(f"granularity must be at least 1, not {granularity}")


def quantised_epsilon(epsilon_q: float, granularity: int) -> float:
    """Pure ε = ln(1 + (e^ε_Q - 1)/Q) per unit of x, in nats, rounded up; between ε_Q/Q and ε_Q.

    Exact for the geometric mechanism. Source: docs/accounting.md, Proposition S14.

    Args:
        epsilon_q: pure ε per step of the quantised value, nats, > 0.
        granularity: Q >= 1, units of x per step.

    Raises:
        UsageError: an argument out of range.
    """
    _check(epsilon_q, granularity)
    if epsilon_q > 30:
        # e^ε_Q - 1 + Q = e^ε_Q (1 + (Q - 1) e^-ε_Q)
        value = (
            epsilon_q + math.log1p((granularity - 1) * math.exp(-epsilon_q)) - math.log(granularity)
        )
        return min(epsilon_q, value + _OUTWARD * UNIT * (1 + epsilon_q))
    return min(epsilon_q, up(math.log1p(math.expm1(epsilon_q) / granularity), _OUTWARD))


def quantised_parameter(epsilon: float, granularity: int) -> float:
    """Largest ε_Q that gives ε per unit of x: ln(1 + Q (e^ε - 1)), rounded down.

    Raises the same errors as `quantised_epsilon`.
    """
    _check(epsilon, granularity)
    if epsilon > 30:
        value = (
            epsilon
            + math.log(granularity)
            + math.log1p(-math.exp(-epsilon) * (granularity - 1) / granularity)
        )
        return max(epsilon, down(value, _OUTWARD))
    return max(epsilon, down(math.log1p(granularity * math.expm1(epsilon)), _OUTWARD))


def between(low: float, high: float, share: Floats | float) -> Floats:
    """ln((1 - b) e^low + b e^high), rounded up: ε of a change by a + b steps. Any shape.

    From those of a and a + 1 steps.
    """
    # 1 + b (e^gap - 1), written so that nothing overflows.
    gap = high - low
    mixed = np.where(
        gap < 30.0,
        np.log1p(share * np.expm1(min(gap, 30.0))),
        gap + np.log(np.maximum(share, 1e-300) + (1 - np.asarray(share)) * math.exp(-gap)),
    )
    return np.asarray(up(low + np.clip(mixed, 0.0, gap)), dtype=np.float64)


@dataclass(frozen=True)
class QuantisedRound:
    """A quantised-rr round for the analysis.

    Attributes:
        code: rr-shuffle on the number of steps.
        honest: h.
        max_value: k.
        d_max: largest distance, in units.
        metric: whether ε counts per unit of distance.
    """

    code: RRShuffle
    honest: int
    max_value: int
    d_max: int
    metric: bool

    def steps(self, distance: int) -> tuple[int, Fraction]:
        """(a, b) with d = Q (a + b), for a change by d: whole steps a, and a fraction b of one."""
        full_steps, rest = divmod(distance * self.code.max_value, self.max_value)
        return full_steps, Fraction(rest, self.max_value)

    def units(self, distance: int) -> int:
        """Factor that converts ε into total ε: the distance if metric, else 1."""
        return distance if self.metric else 1

    def of_code(self, steps: int, *, metric: bool = False) -> rr.BitShuffle:
        """The rr-shuffle round of the code itself, for changes by at most `steps` steps."""
        adjacency = Adjacency.METRIC if metric else Adjacency.STANDARD
        return rr.bit_shuffle(self.code, Setting(self.honest, self.honest, adjacency, steps))

    @property
    def step(self) -> float:
        """ε0 = ln((2-p)/p) of one step at δ = 0, whatever the others do."""
        return rr.local_epsilon(self.code)

    def pure(self, distance: int) -> float:
        """a ε0 + ln(1 + b (e^ε0 - 1)), total ε of one report at δ = 0, rounded up."""
        full_steps, share = self.steps(distance)
        rest = subsampled_epsilon(self.step, share) if share and self.step > 0 else 0.0
        return up(full_steps * self.step + rest)

    def local(self) -> float:
        """ε at δ = 0 whatever the others do, per unit if metric, else total.

        Per unit the largest is at d = 1.
        """
        return self.pure(1) if self.metric else self.pure(self.d_max)

    # Certified.

    def code_delta(self, steps: int, epsilon: float) -> float:
        """δ of the code at total ε for a change by `steps` steps."""
        if steps == 0 or epsilon >= steps * self.step:
            return 0.0
        return self.of_code(steps).delta(max(epsilon, 0.0))[0]

    def code_known(self, steps: int, epsilon: float) -> Divergence | None:
        """Bounds of the code's δ on two datasets, upper and lower; None if δ is 0."""
        if steps == 0 or epsilon >= steps * self.step:
            return None
        return self.of_code(steps).known_divergence(
            np.array([steps]), np.array([max(epsilon, 0.0)])
        )

    def code_epsilon(self, steps: int, delta: float) -> float:
        """Total ε of the code at δ for a change by `steps` steps."""
        if steps == 0 or delta >= 1.0:
            return 0.0
        return min(self.of_code(steps).epsilon(delta)[0], steps * self.step)

    def certified_delta(self, distance: int, epsilon: float) -> float:
        """δ at total ε = E for a change by d, never below the truth."""
        return self._mix_steps(self.code_delta, distance, epsilon)

    def quick(self, distance: int, epsilon: float) -> float:
        """Approximate δ: the larger of two datasets', the others' bits all 0 or all 1."""

        def code(steps: int, total: float) -> float:
            divergence = self.code_known(steps, total)
            return 0.0 if divergence is None else float(divergence.upper.max())

        return self._mix_steps(code, distance, epsilon)

    def ends_curve(self, distance: int, epsilons: Floats) -> Floats:
        """`quick` at many total ε, same shape."""
        (full_steps, share), item = (
            self.steps(distance),
            self.of_code(min(self.steps(distance)[0] + 1, self.code.max_value)),
        )
        if not share:
            return np.where(
                epsilons < self.pure(distance), item.ends_curve(full_steps, epsilons), 0.0
            )
        low, high = split_total(full_steps, share, epsilons)
        curve = float(share) * item.ends_curve(full_steps + 1, high)
        if full_steps:
            curve = curve + (1 - float(share)) * item.ends_curve(full_steps, low)
        return np.where(epsilons < self.pure(distance), np.minimum(curve, 1.0), 0.0)

    def _mix_steps(
        self, code: Callable[[int, float], float], distance: int, epsilon: float
    ) -> float:
        if epsilon >= self.pure(distance):
            return 0.0
        full_steps, share = self.steps(distance)
        if not share:
            return code(full_steps, epsilon)
        low, high = (float(at[0]) for at in split_total(full_steps, share, np.array([epsilon])))
        return min(
            1.0,
            up(
                (1 - float(share)) * code(full_steps, low)
                + float(share) * code(full_steps + 1, high)
            ),
        )

    def certified_epsilon(self, distance: int, delta: float) -> float:
        """Total ε at δ for a change by d, never below the truth."""
        full_steps, share = self.steps(distance)
        if not share:
            epsilon = self.code_epsilon(full_steps, delta)
        elif full_steps == 0:
            epsilon = float(
                between(0.0, self.code_epsilon(1, down(delta / float(share))), float(share))
            )
        else:
            epsilon = certified_epsilon(
                partial(self.certified_delta, distance), delta, self.pure(distance)
            )
        return min(epsilon, self.pure(distance))


def split_total(full_steps: int, share: Fraction, epsilons: Floats) -> tuple[Floats, Floats]:
    """Split of e^E = (1-b) e^low + b e^high: arguments for the curves of a and a + 1 steps.

    0 < b < 1 (S20).

    ln λ and ln λ' are in the ratio of a to a + 1, about; of no step nothing is seen at λ = 1, and
    λ' has the rest.
    """
    b = float(share)
    if full_steps == 0:
        with np.errstate(over="ignore"):
            high = np.log1p(np.expm1(np.minimum(epsilons, 700.0)) / b)
        return np.zeros_like(epsilons), down(high, 4 * ELEMENTARY)
    per_step = epsilons / (full_steps + b)
    low = epsilons - np.array([float(between(0.0, step, b)) for step in per_step.tolist()])
    return np.maximum(low - ELEMENTARY * UNIT * epsilons, 0.0), np.maximum(
        low + per_step - ELEMENTARY * UNIT * epsilons, 0.0
    )


def quantised_round(spec: QuantisedRR, setting: Setting) -> QuantisedRound:
    """Parameters of a round for the analysis."""
    return QuantisedRound(
        spec.code,
        setting.honest,
        spec.max_value,
        distances(spec.max_value, setting),
        is_metric(setting),
    )


@lru_cache(maxsize=1024)
def _code_table(code: RRShuffle, honest: int, steps: int) -> tuple[Floats, Floats]:
    """Points, and the code's curve there, for a change by whole steps; shared by all distances."""
    item = rr.bit_shuffle(code, Setting(honest, honest, max_distance=steps))
    reach = min(
        1.1 * float(item.attained_epsilons(np.array([steps]), TABLE_TAIL)[0]) + 1e-9,
        item.per_unit * steps,
    )
    nodes = np.linspace(0.0, reach, TABLE_NODES)
    return nodes, np.minimum.accumulate(
        certified_curve(code, Setting(honest, honest), steps, nodes)
    )


def code_curve(code: RRShuffle, honest: int, steps: int, epsilons: Floats) -> Floats:
    """The code's curve at ε >= 0 from chords, which are above it.

    Beyond the table its last value, as it falls.
    """
    nodes, values = _code_table(code, honest, steps)
    deltas = chord(nodes, values, np.minimum(epsilons, nodes[-1]))
    return np.asarray(
        np.where(epsilons >= steps * rr.local_epsilon(code), 0.0, deltas), dtype=np.float64
    )
