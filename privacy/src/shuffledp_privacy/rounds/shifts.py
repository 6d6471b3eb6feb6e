"""Composition of rounds that add log-concave noise to a sum: under metric adjacency the largest distance is worst.

The noises of all rounds are composed at d_max alone: the unclamped ones, what clamping costs being added once, or those
that clamping leaves (docs/accounting.md, Proposition C12). No other distance has to be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Final

from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import GeoShuffle, SGDLShuffle, SplitMix
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.registry import registered
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.rounds.tilted import Composed
from shuffledp_privacy.splitting import left_of
from shuffledp_privacy.sums import geo, sgdl, split
from shuffledp_privacy.sums.common import NoisySum

NOTHING: Final = 1e-3
"""Share of δ that clamping may cost before the noise that it leaves is composed instead of the whole one."""


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


@noisy_sum.register
def _(spec: SplitMix, setting: Setting) -> NoisySum | None:
    found = split.noisy_sum(spec, setting)
    return found if found.log_concave else None


@dataclass(frozen=True, slots=True)
class Shifts:
    """Several such rounds with their repetitions, all at the same largest distance."""

    sums: tuple[NoisySum, ...]
    times: tuple[int, ...]

    def _losses(self, delta: float) -> tuple[float, ...]:
        """δ that clamping costs all runs of each item, rounded up; 0 where the noise that it leaves is composed."""
        # What is lost as a small share of δ is cheaper than knowing whose noise was clamped, and quicker.
        most = NOTHING * delta / len(self.sums)
        each = []
        for item, times in zip(self.sums, self.times, strict=True):
            lost = times * item.least_delta() * (1 + 2.0**-50)
            each.append(lost if item.kept is None or lost <= most else 0.0)
        return tuple(each)

    def composed(self, delta: float, losses: tuple[float, ...], steps: int) -> Composed:
        """Composition of the noises at d_max, resolved well at δ: unclamped ones where something is lost besides."""
        curves = [item.unclamped if lost > 0 else item.left for item, lost in zip(self.sums, losses, strict=True)]
        return compose_curves(
            [Repeated(curve, times) for curve, times in zip(curves, self.times, strict=True)], delta, steps
        )

    def epsilon(self, delta: float, steps: int) -> float:
        """ε per unit for every distance at δ, rounded up; `math.inf` where there is none.

        Raises:
            CannotCertify: clamping alone costs δ, or δ is too small to be resolved.
        """
        # Clamping is paid once, in δ; the rest is for the noises as if nobody were clamped (C12).
        losses = self._losses(delta)
        left = left_of(delta, math.fsum(losses) * (1 + 2.0**-50))
        if left <= 0:
            raise CannotCertify(f"clamping alone costs more than delta {delta:g}; take more padding")
        return self.composed(left, losses, steps).epsilon(left) / self.sums[0].d_max * (1 + 2.0**-51)

    def delta(self, epsilon: float, resolved: float, steps: int) -> float:
        """δ for every distance at ε per unit, rounded up; `resolved` is the δ at which the grid is good."""
        # Down: the δ of a smaller ε is larger.
        total, losses = epsilon * self.sums[0].d_max * (1 - 2.0**-51), self._losses(resolved)
        try:
            found = self.composed(resolved, losses, steps).delta(total) + math.fsum(losses)
        except CannotCertify:
            # Some round's kept noise hides nothing, such as one that is shorter than the distance.
            return 1.0
        return min(1.0, found * (1 + 2.0**-50))


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
