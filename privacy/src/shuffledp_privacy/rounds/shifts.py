"""Composition of rounds whose largest distance is proved the worst under metric adjacency.

These are rounds that add log-concave noise to a sum, or flip bits. They are composed only at d_max,
either with unclamped noise plus the cost of clamping, or with the noise that remains after clamping
(docs/accounting.md, Proposition C12). No other distance needs to be considered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from shuffledp_core.errors import CannotCertify
from shuffledp_privacy.analyses import analysis_of
from shuffledp_privacy.bounds import Setting, domain_of
from shuffledp_privacy.numerics.rounding import up
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.rounds.tilted import Composed
from shuffledp_privacy.splitting import left_of

NOTHING: Final = 1e-3
"""Share of δ that clamping may cost before the noise that it leaves is composed instead of the
whole one.
"""

COSTLY: Final = 0.4
"""Share of δ from which on what clamping costs is too much: a calibrated plan leaves a quarter."""


class Farthest(Protocol):
    """A round at its largest distance, as C12 composes it; see `NoisySum` for its members."""

    @property
    def d_max(self) -> int:
        """The largest distance."""

    @property
    def kept(self) -> object | None:
        """The noise that remains after clamping; None if no bound follows from it."""

    def unclamped_deltas(self, epsilons: Floats) -> Floats:
        """Certified δ at total ε >= 0 without clamping."""

    def remaining_deltas(self, epsilons: Floats) -> Floats:
        """Certified δ at total ε >= 0, from the noise that clamping leaves."""

    def least_delta(self) -> float:
        """δ that clamping costs a round composed with `unclamped_deltas`."""


@dataclass(frozen=True, slots=True)
class Shifts:
    """Several rounds with repetitions, all at the same largest distance."""

    sums: tuple[Farthest, ...]
    times: tuple[int, ...]

    def _losses(self, delta: float) -> tuple[float, ...]:
        """δ that clamping costs all repetitions of each round, rounded up.

        0 if the remaining noise is composed instead.
        """
        # What is lost as a small share of δ is cheaper than knowing whose noise was clamped, and
        # quicker.
        most = NOTHING * delta / len(self.sums)
        losses = []
        for item, times in zip(self.sums, self.times, strict=True):
            lost = up(times * item.least_delta())
            losses.append(lost if item.kept is None or lost <= most else 0.0)
        return tuple(losses)

    def is_costly(self, delta: float) -> bool:
        """True if clamping uses so much of δ that other bounds may be far smaller."""
        return math.fsum(self._losses(delta)) > COSTLY * delta

    def compose(self, delta: float, losses: tuple[float, ...], steps: int) -> Composed:
        """Compose the noises at d_max, finely near δ; unclamped if δ pays for clamping."""
        curves = [
            item.unclamped_deltas if lost > 0 else item.remaining_deltas
            for item, lost in zip(self.sums, losses, strict=True)
        ]
        return compose_curves(
            [Repeated(curve, times) for curve, times in zip(curves, self.times, strict=True)],
            delta,
            steps,
        )

    def epsilon(self, delta: float, steps: int) -> float:
        """Least certified ε per unit at δ for all distances, rounded up; `math.inf` for none.

        Raises:
            CannotCertify: clamping alone costs δ, or δ is too small to be resolved.
        """
        # Clamping is paid once, in δ; the rest is for the noises as if no one were clamped (C12).
        losses = self._losses(delta)
        left = left_of(delta, up(math.fsum(losses)))
        if left <= 0:
            raise CannotCertify(
                f"clamping alone costs more than delta {delta:g}; take more padding"
            )
        total = self.compose(left, losses, steps).epsilon(left)
        return up(total / self.sums[0].d_max, units=4)


def shifts_of(rounds: Sequence[tuple[object, Setting, int]], d_max: int) -> Shifts | None:
    """The rounds (spec, setting, times) as shifted sums, each for a change by d_max.

    None if d_max is not known to be the worst distance.
    """
    sums = []
    for spec, setting, _ in rounds:
        # C12 shifts all rounds by the same distance; a smaller domain ends before it.
        if (domain_of(spec) or 1) - 1 < d_max:
            return None
        item = analysis_of(spec).farthest(replace(setting, max_distance=d_max))
        if item is None:
            return None
        sums.append(item)
    return Shifts(tuple(sums), tuple(times for _, _, times in rounds))
