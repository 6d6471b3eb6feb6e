"""Unary codes in steps of Q: what rounding at random to a step does to privacy.

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
from shuffledp_privacy.primitives.bits import BitPair
from shuffledp_privacy.primitives.inversion import certified_epsilon
from shuffledp_privacy.primitives.pairs import Divergence, hockey_stick, least_epsilon
from shuffledp_privacy.rounds.subsampling import subsampled_epsilon
from shuffledp_privacy.sums import rr
from shuffledp_privacy.sums.common import (
    chord,
    distances,
    downward,
    is_metric,
    probes,
)

Floats = NDArray[np.float64]

NODES = 65
"""Points at which the curve of one step is computed for a search over distances below it."""

CELLS = 2_000
"""Intervals that cover the distances between two numbers of steps, or below one; each loses less
than a thousandth.
"""

LOOKED_AT = 12
"""Numbers of steps that are looked at one by one; beyond, the bound for all of them is loose by
less than η/100.
"""

TABLE_NODES = 96
"""Points of a code's curve that is read off chords; they add about a tenth of a percent to ε."""

TABLE_TAIL = 1e-22
"""δ at which such a table ends, about."""

SLACK = 2e-4
"""Relative gap below which no smaller certificate is searched for."""

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

    Errors as above.
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
        """(a, b) of a change by d = Q (a + b)."""
        full_steps, rest = divmod(distance * self.code.max_value, self.max_value)
        return full_steps, Fraction(rest, self.max_value)

    def units(self, distance: int) -> int:
        """Factor that makes ε total."""
        return distance if self.metric else 1

    def of_code(self, steps: int, *, metric: bool = False) -> rr.BitShuffle:
        """The code's own analysis, for changes by at most this number of steps."""
        adjacency = Adjacency.METRIC if metric else Adjacency.STANDARD
        return rr.bit_shuffle(self.code, Setting(self.honest, self.honest, adjacency, steps))

    @property
    def step(self) -> float:
        """ε0 = ln((2-p)/p), of one step at δ = 0 whatever the others do."""
        return rr.local_epsilon(self.code)

    def pure(self, distance: int) -> float:
        """a ε0 + ln(1 + b (e^ε0 - 1)), total ε of one report at δ = 0, rounded up."""
        full_steps, share = self.steps(distance)
        rest = subsampled_epsilon(self.step, share) if share and self.step > 0 else 0.0
        return up(full_steps * self.step + rest)

    def local(self) -> float:
        """ε at δ = 0, whatever the others do, as the adjacency counts it.

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
        """The same on two datasets, from both sides; None where it is 0."""
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
        """About that: the others' bits being all 0, or all 1."""

        def code(steps: int, total: float) -> float:
            divergence = self.code_known(steps, total)
            return 0.0 if divergence is None else float(divergence.upper.max())

        return self._mix_steps(code, distance, epsilon)

    def ends_curve(self, distance: int, epsilons: Floats) -> Floats:
        """The same at many total ε, shape alike."""
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

    def delta(self, epsilon: float) -> float:
        """Certified δ at ε as the adjacency counts it."""
        if epsilon >= self.local():
            return 0.0
        largest = self.certified_delta(self.d_max, down(epsilon * self.units(self.d_max)))
        if not self.metric or self.d_max == 1:
            return largest
        return min(1.0, self._between_steps(epsilon, max(largest, self._below_a_step(epsilon))))

    def epsilon(self, delta: float) -> float:
        """Certified ε at δ as the adjacency counts it."""
        if delta == 0.0 or self.step == 0.0:
            return self.local()
        largest = self.certified_epsilon(self.d_max, delta) / self.units(self.d_max)
        if self.metric and self.d_max > 1:
            largest = self._farther(delta, max(largest, self._nearer(delta)))
        return min(up(largest), self.local())

    def _first(self, nodes: Floats) -> Floats:
        """Certified δ of the code for a change by one step, at rising ε >= 0."""
        return np.minimum.accumulate(
            certified_curve(self.code, Setting(self.honest, self.honest), 1, nodes)
        )

    def _shares(self) -> tuple[Floats, Floats]:
        """First and last b of each interval that covers distances below one step, up to d_max."""
        last = min(self.d_max, math.ceil(Fraction(self.max_value, self.code.max_value)) - 1)
        lows, highs = _cover(last)
        scale = self.code.max_value / self.max_value
        return lows * scale, np.minimum(highs * scale, 1.0)

    def _below_a_step(self, epsilon: float) -> float:
        """δ at ε per unit of all changes by less than a step."""
        lows, highs = self._shares()
        if not lows.size:
            return 0.0
        per_step = epsilon * self.max_value / self.code.max_value
        # δ rises with b and falls with ε: the farthest change at the smallest total covers an
        # interval.
        with np.errstate(over="ignore"):
            totals = down(
                np.log1p(np.expm1(np.minimum(per_step * lows, 700.0)) / highs), 4 * ELEMENTARY
            )
        totals = np.minimum(totals, self.step)
        nodes = np.unique(
            np.concatenate([np.linspace(totals.min(), totals.max(), NODES), totals[[0, -1]]])
        )
        deltas = chord(nodes, self._first(nodes), totals) * highs
        return up(float(deltas.max()), 4 * ELEMENTARY)

    def _nearer(self, delta: float) -> float:
        """ε per unit at δ of changes by less than a step: ln(1 + b (e^E_1 - 1)).

        E_1 is the ε of one step at δ/b.
        """
        lows, highs = self._shares()
        if not lows.size:
            return 0.0
        nodes = np.linspace(0.0, self.code_epsilon(1, delta), NODES)
        values = self._first(nodes)
        values[-1] = min(values[-1], delta)
        # Chords in e^E between the nodes are above the curve, and so the point where a chord has
        # δ/b is sound.
        grown = np.interp(down(delta / highs, 4 * ELEMENTARY), values[::-1], np.expm1(nodes)[::-1])
        return up(
            float((np.log1p(grown * highs) / lows).max()) * self.code.max_value / self.max_value,
            4 * ELEMENTARY,
        )

    def _rests(self) -> tuple[Floats, Floats]:
        """First and last b of each interval of a cover of all that occur, and of 1."""
        parts = Fraction(self.code.max_value, self.max_value).denominator
        if parts <= CELLS:
            return (points := np.arange(parts + 1) / parts), points
        edges = np.linspace(0.0, 1.0, CELLS + 1)
        return edges[:-1], edges[1:]

    def _worst_between(self, full_steps: int, low: float, high: float) -> float:
        """Largest ε per step for a + b steps, 0 <= b <= 1, from the totals of a and a + 1."""
        first, last = self._rests()
        return float((between(low, high, last) / (full_steps + first)).max())

    def _whole(self) -> int:
        """Steps of the largest distance, rounded up."""
        full_steps, share = self.steps(self.d_max)
        return full_steps + bool(share)

    def _farther(self, delta: float, least: float) -> float:
        """ε per unit at δ of all changes by a step or more, from the code's at each number.

        `least` if that is more.
        """
        most = self._whole()
        if most < 2:
            return least
        per_step = self.of_code(most, metric=True).epsilon(delta)[0]
        scale = self.code.max_value / self.max_value
        few = min(most, LOOKED_AT)
        # At every number of steps ε is at most that of `per_step` for each.
        totals = np.minimum(
            self._totals(few, delta, least / scale), per_step * np.arange(1, few + 1)
        )
        worst = least / scale
        for full_steps in range(1, few):
            low, high = np.minimum.accumulate(totals[[full_steps, full_steps - 1]])[::-1].tolist()
            if (bound := self._worst_between(full_steps, low, high)) > worst * (1 + SLACK):
                high = min(high, self.code_epsilon(full_steps + 1, delta))
                bound = self._worst_between(
                    full_steps, min(low, high, self.code_epsilon(full_steps, delta)), high
                )
            worst = max(worst, bound)
        if most > few:
            worst = max(worst, self._worst_between(few, few * per_step, (few + 1) * per_step))
        return worst * scale

    def _totals(self, few: int, delta: float, aim: float) -> Floats:
        """Certified total ε of the code at δ for a change by 1, .., `few` steps.

        Not the least where mixtures of neighbouring numbers of steps are seen to cost no more than
        `aim` per step.
        """
        steps = np.arange(1, few + 1)
        pairs, blocks = self.of_code(few).covering_pairs(steps)
        totals = np.asarray(steps * max(aim - self._excess(aim), 0.0), dtype=np.float64)
        upper = hockey_stick(pairs, np.repeat(totals, blocks)).upper
        rows = np.flatnonzero(np.repeat(upper.reshape(-1, blocks).max(axis=1) > delta, blocks))
        if rows.size:
            least = least_epsilon(pairs.rows(rows), delta)[0].reshape(-1, blocks).max(axis=1)
            totals[rows[::blocks] // blocks] = least
        return totals

    def _excess(self, per_step: float) -> float:
        """Upper bound, in nats, of (1-b) e^(η a) + b e^(η (a+1)) over e^(η (a+b))."""
        first, last = self._rests()
        return float((between(0.0, per_step, last) - per_step * first).max())

    def _between_steps(self, epsilon: float, least: float) -> float:
        """δ at ε per unit of all changes by a step or more; `least` if that is more."""
        most = self._whole()
        if most < 2:
            return least
        per_step = epsilon * self.max_value / self.code.max_value
        # Asked so much below η j for j steps, the code's curves are asked where S20 allows it.
        excess = self._excess(per_step)
        few = min(most, LOOKED_AT)
        steps = np.arange(1, few + 1)
        totals_of_steps = np.maximum(steps * per_step - excess, 0.0)
        pairs, blocks = self.of_code(few).covering_pairs(steps)
        bounds = (
            hockey_stick(pairs, np.repeat(totals_of_steps, blocks))
            .upper.reshape(-1, blocks)
            .max(axis=1)
        )
        worst = least
        for at in np.argsort(-bounds).tolist():
            if bounds[at] <= worst:
                break
            worst = max(worst, self.code_delta(at + 1, float(totals_of_steps[at])))
        if most > few:
            rest = per_step - excess / few
            beyond = (
                self.of_code(most, metric=True).delta(rest)[0]
                if 0 < rest < self.step
                else float(rest <= 0)
            )
            worst = max(worst, beyond)
        return up(worst)

    # Attained.

    def attained_delta(self, epsilon: float) -> float:
        """δ at ε as the adjacency counts it of some dataset, never above the truth."""
        divergences = [
            self.code_known(j, up(epsilon * self.units(self._reaching(j))))
            for j in self._tried_steps()
        ]
        values = [float(divergence.lower.max()) for divergence in divergences if divergence]
        distances, shares = self._short()
        totals = np.minimum(
            epsilon * (distances if self.metric else np.ones_like(distances)), 700.0
        )
        with np.errstate(over="ignore"):  # beyond the step, where nothing is seen
            inner = up(np.log1p(np.expm1(totals) / shares))
        if (seen := inner < self.step).any():
            lower = hockey_stick(
                self._raised_pair(int(seen.sum())), np.repeat(inner[seen], 2)
            ).lower
            values.append(float((np.repeat(shares[seen], 2) * lower).max()))
        return downward(max(values, default=0.0))

    def attained_epsilon(self, delta: float) -> float:
        """ε at δ as the adjacency counts it that some dataset is known to cost."""
        tried = np.array(self._tried_steps(), dtype=np.int64)
        candidates = [0.0]
        if tried.size:
            totals = self.of_code(int(tried.max())).attained_epsilons(tried, delta)
            candidates += (
                totals / np.array([self.units(self._reaching(int(j))) for j in tried])
            ).tolist()
        distances, shares = self._short()
        if (seen := delta < shares).any():
            distances, shares = distances[seen], shares[seen]
            goal = np.repeat(up(delta / shares), 2)
            inner = (
                least_epsilon(self._raised_pair(shares.size), goal)[1].reshape(-1, 2).max(axis=1)
            )
            totals = np.log1p(shares * np.expm1(inner))
            candidates.append(float((totals / distances if self.metric else totals).max()))
        return downward(max(candidates))

    def _raised_pair(self, times: int) -> BitPair:
        """One step: the least value of whole steps is lowered, all others hold k, or 0.

        `times` alike.

        To raise the largest such value below k is the mirror image.
        """
        bits, others = self.code.max_value, (self.honest - 1) * self.code.max_value
        raised_bits = bits // math.gcd(bits, self.max_value)
        zeros = np.array([bits - raised_bits, others + bits - raised_bits])
        ones = np.array([others + raised_bits - 1, raised_bits - 1])
        zeros, ones = (np.tile(bits.astype(np.float64), times) for bits in (zeros, ones))
        return BitPair(zeros, ones, np.ones(2 * times), self.of_code(1).flip)

    def _reaching(self, steps: int) -> int:
        """The smallest distance of `steps` steps.

        Some dataset changes by them, and what is more shows more.
        """
        return -(-steps * self.max_value // self.code.max_value)

    def _tried_steps(self) -> list[int]:
        """Numbers of steps at which datasets are tried.

        The largest alone under standard adjacency.
        """
        most = self.steps(self.d_max)[0]
        if most == 0:
            return []
        return probes(most) if self.metric else [most]

    def _short(self) -> tuple[Floats, Floats]:
        """Distances below a step and their b: a whole number of steps lowered by them shows b δ_1.

        Exactly.
        """
        below = min(self.d_max, self._reaching(1) - 1)
        if below < 1 or (not self.metric and self.d_max > below):
            return np.empty(0), np.empty(0)
        tried = probes(below) if self.metric else [below]
        return np.array(tried, dtype=np.float64), np.array([float(self.steps(d)[1]) for d in tried])


def _cover(last: int) -> tuple[Floats, Floats]:
    """First and last distance of each interval of a cover of 1..last, empty for 0."""
    lows = (
        np.arange(1.0, last + 1)
        if last <= CELLS
        else np.unique(np.geomspace(1, last, 4 * CELLS).round())
    )
    return lows, np.append(lows[1:] - 1, float(last))[: lows.size]


def split_total(full_steps: int, share: Fraction, epsilons: Floats) -> tuple[Floats, Floats]:
    """Split of e^E = (1-b) e^low + b e^high at which the curves for a and a + 1 steps are used.

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
    """Points and the code's curve there for a change by whole steps, shared by all distances."""
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
