"""Several rounds on the same people: what they leak together.

Each round's certified curve is put on a grid as a privacy loss distribution and convolved (docs/accounting.md,
propositions C1 to C4); subsampled rounds use C5; guarantees with δ = 0 may also simply be added (C6). The
answer is the smallest of these sound bounds. Rounds may differ and may be chosen adaptively, as long as the
sequence of settings and specs was fixed (or each was charged) beforehand.

Under metric adjacency the changed user's value moves by the same distance d in every round, ε is per unit of d,
and the worst d in 1..d_max counts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import GeoShuffle, KRRHistogram, SGDLShuffle
from shuffledp_core.privacy import Adjacency

from shuffledp_accountant.numerics.bounds import Bounds, Setting, certified_curve, epsilon_bounds
from shuffledp_accountant.numerics.loss_distribution import Composed, Repeated, compose_curves
from shuffledp_accountant.numerics.subsampling import Curve, check_rate, subsampled_curve, subsampled_epsilon

COVER_TOLERANCE = 0.005
"""Relative slack at which the search over distances stops refining its cover."""

LARGEST_TIMES = 10**6
"""Most repetitions of one round."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round, repeated.

    Attributes:
        spec: any spec that registers `certified_curve`.
        setting: who reports in one round; with subsampling, the users drawn.
        times: how often the round is run on the same people, 1 to 1,000,000.
        rate: γ in (0, 1], the chance that the changed user is drawn, as in `subsampling.subsampled_curve`.
    """

    spec: object
    setting: Setting
    times: int = 1
    rate: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not 1 <= self.times <= LARGEST_TIMES:
            raise UsageError(f"a round is repeated 1 to {LARGEST_TIMES:,} times, not {self.times}")
        check_rate(self.rate)


@singledispatch
def grows_with_distance(spec: object) -> bool:  # noqa: ARG001
    """Whether the curve at distance d + 1 is nowhere below the one at d (proposition C7).

    Where it is not known, every distance is evaluated and the curves' pointwise maximum is used.
    """
    return False


@grows_with_distance.register(KRRHistogram)
@grows_with_distance.register(GeoShuffle)
@grows_with_distance.register(SGDLShuffle)
def _(spec: object) -> bool:  # noqa: ARG001
    return True


def largest_distance(rounds: Sequence[Round]) -> int:
    """d_max: the largest |x - x'| that some round's domain and setting allow, at least 1."""
    limits = [r.setting.max_distance for r in rounds]
    domains = [int(getattr(r.spec, "domain", 2)) - 1 for r in rounds]
    return max(1, *(min(d, m) if m is not None else d for d, m in zip(domains, limits, strict=True)))


def _curve(item: Round, low: int, high: int) -> Curve:
    """δ at ε >= 0 of one round for a change by any distance in low..high that its domain allows."""
    top = max(1, min(high, int(getattr(item.spec, "domain", high + 1)) - 1))
    distances = range(top, top + 1) if grows_with_distance(item.spec) else range(min(low, top), top + 1)

    def curve(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        values = certified_curve(item.spec, item.setting, distances[0], epsilons)
        for distance in distances[1:]:
            values = np.maximum(values, certified_curve(item.spec, item.setting, distance, epsilons))
        return values

    return subsampled_curve(curve, item.rate)


def _composed(rounds: Sequence[Round], low: int, high: int, delta: float) -> Composed:
    return compose_curves([Repeated(_curve(r, low, high), r.times) for r in rounds], delta)


def _adjacency(rounds: Sequence[Round]) -> Adjacency:
    if not rounds:
        raise UsageError("composition needs at least one round")
    kinds = {r.setting.adjacency for r in rounds}
    if len(kinds) > 1:
        raise UsageError("all rounds that are composed must have the same adjacency")
    return kinds.pop()


def _split(low: int, high: int) -> list[tuple[int, int]]:
    middle = (low + high) // 2
    return [(low, middle), (middle + 1, high)]


def _worst_over_distances(ceiling: Callable[[int, int], float], d_max: int) -> float:
    """An upper bound of max over d in 1..d_max of v(d), from bounds on intervals (proposition C7).

    `ceiling(low, high)` bounds v on all of low..high. Intervals are refined, the worst first, until the
    worst one is a single distance or no more than `COVER_TOLERANCE` above what its own end shows.
    """
    intervals, low = [], 1
    while low <= d_max:
        intervals.append((low, min(2 * low - 1, d_max)))
        low *= 2
    heap = [(-ceiling(a, b), a, b) for a, b in intervals]
    heapq.heapify(heap)
    while True:
        worst, a, b = heap[0]
        if math.isinf(worst) or b <= a * (1 + COVER_TOLERANCE):
            return -worst
        heapq.heappop(heap)
        for c, d in _split(a, b):
            heapq.heappush(heap, (-ceiling(c, d), c, d))


def _by_distribution(rounds: Sequence[Round], adjacency: Adjacency, delta: float) -> float:
    d_max = largest_distance(rounds)
    if adjacency is Adjacency.STANDARD:
        return _composed(rounds, 1, d_max, delta).epsilon(delta)
    return _worst_over_distances(lambda a, b: _composed(rounds, a, b, delta).epsilon(delta) / a, d_max)


def _by_addition(rounds: Sequence[Round]) -> float:
    """Sum of the rounds' pure ε (proposition C6), `math.inf` where a round has none."""
    total = 0.0
    for r in rounds:
        try:
            pure = epsilon_bounds(r.spec, r.setting, 0.0).certified
        except (CannotCertify, UsageError):
            return math.inf
        if r.setting.adjacency is Adjacency.STANDARD:
            pure = subsampled_epsilon(pure, r.rate)
        total += r.times * pure
    return total * (1 + 1e-15 * (len(rounds) + 1))


def _single(rounds: Sequence[Round], delta: float) -> float:
    """The round's own analysis, where there is just one."""
    if len(rounds) > 1 or rounds[0].times > 1 or rounds[0].rate != 1:
        return math.inf
    return epsilon_bounds(rounds[0].spec, rounds[0].setting, delta).certified


def compose_bounds(rounds: Sequence[Round], delta: float) -> Bounds:
    """ε of all rounds together at δ, from both sides.

    Certified: the smallest of the sound bounds (module docstring), rounded up. Attained: the largest that
    one round alone attains without subsampling, hence far below for many rounds. Nats, >= 0, per unit of
    distance under metric adjacency.

    Args:
        rounds: at least one, all with the same adjacency.
        delta: in [0, 1]; 0 asks for a pure guarantee.

    Raises:
        UsageError: for no rounds, mixed adjacency, or δ outside [0, 1].
        CannotCertify: where no bound is finite, with the reason.
    """
    adjacency = _adjacency(rounds)
    if not 0 <= delta <= 1:
        raise UsageError(f"delta must be from 0 to 1, not {delta}")
    single, added = _single(rounds, delta), _by_addition(rounds)
    reason = "the distributions' tails already exceed delta; ask for a larger delta"
    convolved = math.inf
    if math.isinf(single):
        try:
            convolved = _by_distribution(rounds, adjacency, delta)
        except CannotCertify as refusal:
            reason = str(refusal)
    best = min(single, added, convolved)
    if math.isinf(best):
        raise CannotCertify(f"no finite epsilon at delta {delta:g} for the composed rounds: {reason}")
    attained = [epsilon_bounds(r.spec, r.setting, delta).attained for r in rounds if r.rate == 1]
    return Bounds(best, min(best, max(attained, default=0.0)), None, _basis(best, added, single, adjacency, rounds))


def _basis(
    best: float, added: float, single: float, adjacency: Adjacency, rounds: Sequence[Round]
) -> tuple[str, ...]:
    if best == single:
        return epsilon_bounds_basis(rounds[0])
    basis = ["C6: pure guarantees added"] if best == added else ["C1-C4: privacy loss distributions convolved"]
    if any(r.rate < 1 for r in rounds):
        basis.append("C5: fixed-size subsampling")
    if adjacency is Adjacency.METRIC:
        basis.append(f"C7: the same distance in every round, worst of 1..{largest_distance(rounds)}")
    return tuple(basis)
