"""Analysis of quantised-rr (Athanasiou et al. 2025, Algorithm 8); bounds: `sums.quantised`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import QuantisedRR
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis, analyses
from shuffledp_privacy.bounds import (
    Bounds,
    CorruptedBounds,
    Setting,
    check_delta,
)
from shuffledp_privacy.calibration.families import Family, deviations
from shuffledp_privacy.calibration.target import (
    AIM,
    Target,
    excess_of_delta,
    excess_of_rounds,
)
from shuffledp_privacy.mechanisms.rr import RRAnalysis
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.rounds.subsampling import reflect_curve
from shuffledp_privacy.sums import rr
from shuffledp_privacy.sums.common import alone, check_epsilon, probes
from shuffledp_privacy.sums.quantised import Floats, code_curve, quantised_round, split_total
from shuffledp_privacy.sums.quantised_attained import attained_delta, attained_epsilon
from shuffledp_privacy.sums.quantised_worst import worst_delta, worst_epsilon

_BASIS = (
    "S20: a change by d = Q (a + b) is one by a + 1 steps with chance b, by a otherwise; proved",
    "S10: the bits of each number of steps, every number of ones among the others, both directions",
)

ROUNDED = 0.45
"""Standard deviation that rounding to steps may add at worst, as a share of the noise's: a tenth to
the error.
"""


@analyses(QuantisedRR)
@dataclass(frozen=True, slots=True)
class QuantisedAnalysis(Analysis):
    """Analysis of a short unary code with flipped bits, shuffled."""

    spec: QuantisedRR
    grows_with_distance = True  # a larger change of the sum is easier to see (C7)

    def delta(self, setting: Setting, epsilon: float) -> Bounds:
        """Certified and attained δ of one round."""
        check_epsilon(epsilon)
        item = quantised_round(self.spec, setting)
        certified = worst_delta(item, epsilon)
        return Bounds(
            certified,
            min(attained_delta(item, epsilon), certified) if certified > 0 else 0.0,
            None,
            _BASIS,
        )

    def epsilon(self, setting: Setting, delta: float) -> Bounds:
        """Certified and attained ε of one round."""
        check_delta(delta, pure=True)
        item = quantised_round(self.spec, setting)
        certified = worst_epsilon(item, delta)
        if delta == 0.0 or certified == 0.0:
            return Bounds(certified, 0.0, None, _BASIS)
        return Bounds(certified, min(attained_epsilon(item, delta), certified), None, _BASIS)

    def certified_epsilon(self, setting: Setting, delta: float) -> float:
        """Only the certified ε, without the work for the attained one."""
        check_delta(delta, pure=True)
        return worst_epsilon(quantised_round(self.spec, setting), delta)

    def corrupted_bounds(self, setting: Setting, delta: float) -> CorruptedBounds:
        """ε_L of the number of ones in a report; the bits' order is hidden (S10)."""
        pure = quantised_round(self.spec, setting).local()
        report = quantised_round(self.spec, alone(setting))
        worth = rr.WORTH_A_DELTA * pure
        # Where this δ is not certified a little below the pure ε, or some dataset needs nearly that
        # one, there is no smaller one to search for.
        if (
            delta > 0.0
            and attained_delta(report, worth) <= delta
            and worst_delta(report, worth) <= delta
        ):
            epsilon = worst_epsilon(report, delta)
            if epsilon < worth:
                return CorruptedBounds(
                    epsilon,
                    delta,
                    ("S20: one report is a number of ones, analysed as one user's sum",),
                )
        basis = (
            "S20: one report, pure, a ε0 + ln(1 + b (e^ε0 - 1)) for a change by a + b steps, ε0 = "
            "ln((2-p)/p)"
        )
        return CorruptedBounds(pure, 0.0, (basis,))

    def standard_error(self, users: int) -> float:
        """Standard error Q sqrt(n (r (p/2)(1 - p/2)/(1 - p)² + s (1 - s))) at the worst s.

        Infinite at p = 1.
        """
        p = float(self.spec.randomise)
        if p == 1.0:
            return math.inf
        variance = self.spec.bits * p / 2 * (1 - p / 2) / (1 - p) ** 2 + float(self.spec.rounding)
        return self.spec.max_value / self.spec.bits * math.sqrt(users * variance)

    def curve(self, setting: Setting, distance: int, epsilons: Floats) -> Floats:
        """δ at each total ε: a mixture of the curves for a and for a + 1 steps.

        It holds for both orders of the datasets (S20), so that C2 gives negative ε.
        """
        if not 1 <= distance <= self.spec.max_value:
            raise UsageError(f"distance must be from 1 to {self.spec.max_value}, not {distance}")
        item = quantised_round(self.spec, setting)
        sizes = np.abs(np.asarray(epsilons, dtype=np.float64))
        full_steps, share = item.steps(distance)
        totals = np.minimum(sizes, 700.0)
        if share:
            low, high = split_total(full_steps, share, totals)
            upper = float(share) * code_curve(item.code, setting.honest, full_steps + 1, high)
            if full_steps:
                upper = upper + (1 - float(share)) * code_curve(
                    item.code, setting.honest, full_steps, low
                )
            upper = np.minimum(up(upper), 1.0)
        else:
            upper = code_curve(item.code, setting.honest, full_steps, totals)
        upper = np.where(sizes >= item.pure(distance), 0.0, upper)
        return np.asarray(np.where(epsilons >= 0.0, upper, reflect_curve(upper, sizes)))

    def excess(self, target: Target) -> float:
        """Excess on the datasets in which all bits of others are 0, or all are 1."""
        item = quantised_round(self.spec, target.setting)
        if target.rounds > 1:
            return excess_of_rounds(item.ends_curve, item.pure, target)
        goal = target.epsilon * AIM / (1 + rr.SLACK)
        delta = max(
            item.quick(d, goal * item.units(d))
            for d in (probes(item.d_max) if item.metric else [item.d_max])
        )
        return excess_of_delta(delta, target)

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log of the mean likelihood of the two steps that a value may be rounded to."""
        steps, rest = np.divmod(np.arange(self.spec.domain) * self.spec.bits, self.spec.max_value)
        share = rest / self.spec.max_value
        of_steps = np.exp(RRAnalysis(self.spec.code).log_likelihood(answers))
        # The largest value is the last step, with no share left for one above it.
        above = of_steps[:, np.minimum(steps + 1, self.spec.bits)]
        with np.errstate(divide="ignore"):
            return np.log((1 - share) * of_steps[:, steps] + share * above)

    @staticmethod
    def family(target: Target) -> Family:
        """The family of specs along p, with the fewest bits that add little error."""
        units = target.reach if target.adjacency is Adjacency.STANDARD else 1
        need = deviations(target) * units / target.epsilon
        # One user's rounding has a standard deviation of half a step at worst.
        step = 2 * ROUNDED * need / math.sqrt(target.users)
        # Half as many as rr-shuffle at most: with all of them it is rr-shuffle.
        bits = max(1, min(target.largest // 2, math.ceil(target.largest / step)))
        # Pure: a change by `units` is one by so many steps, and costs their ε0 each, or less where
        # it is below one (S20).
        steps = units * bits / target.largest
        local = target.epsilon / target.rounds
        per_step = (
            local / math.ceil(steps)
            if steps >= 1
            else math.log1p(math.expm1(min(local, 50.0)) / steps)
        )
        return Family(
            lambda p: QuantisedRR(
                max_value=target.largest, bits=bits, randomise=min(p, Fraction(1))
            ),
            2 * (need * bits / target.largest) ** 2 / (target.honest * bits),
            min(1.0, 2 / (1 + math.exp(min(per_step, 700.0))) * (1 + 1e-4)),
            rising=True,
        )
