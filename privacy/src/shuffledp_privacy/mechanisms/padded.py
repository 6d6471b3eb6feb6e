"""Code that the analyses of geo-shuffle and sgdl-shuffle share: attained bounds, likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import PaddedSpec
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import Analysis
from shuffledp_privacy.calibration.proposal import clamping, noise_law, noise_of
from shuffledp_privacy.calibration.target import (
    AIM,
    LOWEST,
    Target,
    composed_epsilon,
)
from shuffledp_privacy.primitives.contour import Floats
from shuffledp_privacy.primitives.table import NoiseTable
from shuffledp_privacy.rounds.subsampling import Curve
from shuffledp_privacy.sums import attained
from shuffledp_privacy.sums.attained_tilted import FROM, ComparedReports
from shuffledp_privacy.sums.common import NoisySum
from shuffledp_privacy.sums.sgdl import share_law
from shuffledp_privacy.sums.worst import tried_distances

DEEP = 20.0
"""Total ε plus -ln δ from which a transform without a tilt has too few digits left."""


class PaddedAnalysis(Analysis):
    """Analysis of noise that is added to a value, which is then clamped and unary-coded."""

    __slots__ = ()
    spec: PaddedSpec

    def excess(self, target: Target) -> float | None:
        """Excess by the estimates of `proposal`, a hundred times faster than the certificate."""
        law = noise_law(noise_of(self.spec, target.honest), target.reach)
        if law is None:
            return None
        noise, lost = (
            noise_of(self.spec, target.honest),
            clamping(noise_of(self.spec, target.honest), self.spec.padding),
        )

        def curve(distance: int) -> Curve:
            about, pure = (
                law.curve(distance),
                noise.rate * distance if noise.share == 1 else math.inf,
            )

            def clamped_deltas(epsilons: Floats) -> Floats:
                # δ falls, so that the bound at any smaller ε is a bound too.
                points = np.append(epsilons, np.linspace(0.0, float(np.max(epsilons)), 65))
                order = np.argsort(points)
                bound = about(points[order]) + lost * (1 + np.exp(np.minimum(points[order], 700.0)))
                falling = np.empty_like(points)
                falling[order] = np.minimum.accumulate(np.minimum(bound, 1.0))
                return np.where(epsilons >= pure, 0.0, falling[: epsilons.size])

            return clamped_deltas

        worst = LOWEST
        for distance in _probes(target):
            goal = target.epsilon * AIM * (distance if target.adjacency is Adjacency.METRIC else 1)
            if target.rounds == 1:
                ratio = float(curve(distance)(np.array([goal]))[0]) / target.delta
            else:
                ratio = composed_epsilon(curve(distance), target) / goal
            worst = max(worst, math.log(ratio) if ratio > 0 else LOWEST)
        return worst

    def log_likelihood(self, answers: NDArray[np.int64]) -> Floats:
        """Log-probability of noise from x + c to the answer; at either end, of all clamped noise.

        One discrete Laplace noise is the share of one (docs/accounting.md, Proposition S2).
        """
        law = noise_table(self.spec.noise_rate, self.spec.noise_shares)
        shifted = np.arange(self.spec.domain, dtype=np.float64) + self.spec.padding
        last = self.spec.messages_per_user
        table = law.mass(answers[:, None] - shifted).low
        table[answers == 0] = law.at_least(shifted).low
        table[answers == last] = law.at_least(last - shifted).low
        return table


def attained_delta(
    item: NoisySum,
    exact: attained.ClampedSum | None,
    clamped: float,
    compare: Callable[[int], Sequence[ComparedReports]],
    epsilon: float,
) -> float:
    """Lower bound of δ at `epsilon` (per unit if metric), from the best dataset tried.

    Args:
        item: the round.
        exact: the exact law of the clamped sum; None if it is too wide (S9).
        clamped: δ1, the probability that some honest noise is clamped, rounded up.
        compare: tilted laws of a change by a distance, which resolve δ at large totals.
        epsilon: nats, at least 0.
    """
    low = max(
        attained.attained_delta(exact, item.noise, clamped, d, epsilon * (d if item.metric else 1))
        for d in tried_distances(item)
    )
    total = epsilon * (item.d_max if item.metric else 1)
    pairs = compare(item.d_max) if total > FROM else ()
    return max(low, *(pair.delta(total) for pair in pairs), 0.0)


def attained_epsilon(
    item: NoisySum,
    exact: attained.ClampedSum | None,
    clamped: float,
    compare: Callable[[int], Sequence[ComparedReports]],
    delta: float,
    near: float,
) -> float:
    """Lower bound of ε at `delta` > 0, per unit under metric adjacency; see `attained_delta`.

    `near` is an upper bound of the total ε: tilted laws are compared where it is large.
    """
    steps = tried_distances(item)
    totals = attained.attained_totals(exact, item.noise, clamped, steps, delta)
    low = max(total / (d if item.metric else 1) for total, d in zip(totals, steps, strict=True))
    units = item.d_max if item.metric else 1
    pairs = compare(item.d_max) if near > FROM or near - math.log(delta) > DEEP else ()
    return max(low, *(pair.epsilon(delta) / units for pair in pairs), 0.0)


def _probes(target: Target) -> list[int]:
    """Distances that a search tries: the largest for standard adjacency, several for metric."""
    if target.adjacency is Adjacency.STANDARD:
        return [target.reach]
    return sorted({round(x) for x in np.geomspace(1, target.reach, min(target.reach, 12))})


def noise_table(noise_epsilon: Fraction, shares: int) -> NoiseTable:
    """Table of the law of one share of noise.

    Raises:
        UsageError: the law is too wide, or too narrow, for a table.
    """
    law = share_law(noise_epsilon, shares)
    if law is None:
        raise UsageError(
            f"the distribution of the noise at epsilon {noise_epsilon} is too wide, or too "
            "narrow, to tabulate, so this view cannot be computed"
        )
    return law
