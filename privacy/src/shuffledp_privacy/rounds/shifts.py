"""Composition of rounds that add log-concave noise to a sum: under metric adjacency the largest distance is worst.

The unclamped noises of all rounds are composed at d_max alone; what clamping costs is added once
(docs/accounting.md, Proposition C12). No other distance has to be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.registry import registered
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.rounds.tilted import Composed
from shuffledp_privacy.splitting import left_of
from shuffledp_privacy.sums import geo, sgdl
from shuffledp_privacy.sums.common import NoisySum


@singledispatch
def noisy_sum(spec: object, setting: Setting) -> NoisySum | None:
    """Noise of a round that adds log-concave noise to a sum; None for any other round."""
    found = registered(noisy_sum, spec)
    return None if found is None else found(spec, setting)


@noisy_sum.register
def _(spec: GeoShuffle, setting: Setting) -> NoisySum | None:
    return geo.noisy_sum(spec, setting)


@noisy_sum.register
def _(spec: SGDLShuffle, setting: Setting) -> NoisySum | None:
    found = sgdl.noisy_sum(spec, setting)
    # Less than one whole noise has a spike at 0, and its largest distance need not be the worst.
    return found if found.log_concave else None


@dataclass(frozen=True, slots=True)
class Shifts:
    """Several such rounds with their repetitions, all at the same largest distance."""

    sums: tuple[NoisySum, ...]
    times: tuple[int, ...]

    @property
    def lost(self) -> float:
        """Sum of the δ that clamping costs each run at most, rounded up; may be 1 or more."""
        each = [times * item.least_delta() for item, times in zip(self.sums, self.times, strict=True)]
        return sum(each) * (1 + 2.0**-50 * (len(each) + 1))

    def composed(self, delta: float, steps: int) -> Composed:
        """Composition of the unclamped noises at d_max, resolved well at δ."""
        return compose_curves(
            [Repeated(item.unclamped, times) for item, times in zip(self.sums, self.times, strict=True)], delta, steps
        )

    def epsilon(self, delta: float, steps: int) -> float:
        """ε per unit for every distance at δ, rounded up; `math.inf` where there is none.

        Raises:
            CannotCertify: clamping alone costs δ, or δ is too small to be resolved.
        """
        # Clamping is paid once, in δ; the rest is for the noises as if nobody were clamped (C12).
        left = left_of(delta, self.lost)
        if left <= 0:
            raise CannotCertify(f"clamping alone costs more than delta {delta:g}; take more padding")
        return self.composed(left, steps).epsilon(left) / self.sums[0].d_max * (1 + 2.0**-51)

    def delta(self, epsilon: float, resolved: float, steps: int) -> float:
        """δ for every distance at ε per unit, rounded up; `resolved` is the δ at which the grid is good."""
        # Down: the δ of a smaller ε is larger.
        total = epsilon * self.sums[0].d_max * (1 - 2.0**-51)
        return min(1.0, (self.composed(resolved, steps).delta(total) + self.lost) * (1 + 2.0**-51))


def shifts_of(rounds: Sequence[tuple[object, Setting, int]], d_max: int) -> Shifts | None:
    """The rounds (spec, setting, times) as log-concave noise at d_max; None where one of them is something else."""
    sums = []
    for spec, setting, _ in rounds:
        # C12 shifts all rounds by the same distance; a smaller domain ends before it.
        if int(getattr(spec, "domain", 1)) - 1 < d_max:
            return None
        found = noisy_sum(spec, Setting(setting.users, setting.honest, setting.adjacency, d_max))
        if found is None:
            return None
        sums.append(found)
    return Shifts(tuple(sums), tuple(times for _, _, times in rounds))
