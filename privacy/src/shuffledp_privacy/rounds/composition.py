"""Composition of several rounds on the same people.

Each round's certified curve is put on a grid as a privacy loss distribution and convolved
(docs/accounting.md, propositions C1 to C4); subsampled rounds use C5; guarantees may also simply be
added (C6). The result is the smallest of these bounds. A round's question may depend on earlier
answers; its spec and setting may not.

The changed user's value moves by the same distance d in every round, as far as the round's domain
goes, and the worst d in 1..d_max counts; under metric adjacency ε is per unit of d. d_max is common
to all rounds: one that was certified for smaller distances leaks at the larger ones as well, so it
is analysed afresh for them (C7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.analyses import analysis_of
from shuffledp_privacy.bounds import (
    SMALLEST_DELTA,
    Bounds,
    Setting,
    certified_curve,
    certified_epsilon,
    corrupted_bounds,
    domain_of,
    epsilon_bounds,
)
from shuffledp_privacy.numerics.rounding import ELEMENTARY, up
from shuffledp_privacy.rounds.cover import worst_over_distances
from shuffledp_privacy.rounds.loss_distribution import (
    STEPS,
    Repeated,
    compose_curves,
)
from shuffledp_privacy.rounds.remembered import AllReports, remembered_by
from shuffledp_privacy.rounds.shifts import Shifts, shifts_of
from shuffledp_privacy.rounds.subsampling import (
    Curve,
    check_rate,
    subsampled_curve,
    subsampled_epsilon,
)
from shuffledp_privacy.rounds.tilted import Composed
from shuffledp_privacy.splitting import among_rounds

METRIC_STEPS = 100
"""Grid steps per interval of distances: about 1 part in 1000 of ε, below `cover.COVER_TOLERANCE`.
"""

MOST_SHARES = 64
"""Most rounds for which δ is split equally; beyond, it is never worth its evaluations."""

LARGEST_TIMES = 10**6
"""Most repetitions of one round."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round with its mechanism and setting, and its repetitions.

    Attributes:
        spec: any spec whose analysis has a `curve`.
        setting: who reports in one round; with subsampling, the users drawn.
        times: how often the round is run on the same people, 1 to 1,000,000.
        rate: γ in (0, 1], the chance that the changed user is drawn, as in
            `subsampling.subsampled_curve`.
        scope: deployment and population within which devices keep a memoised response; "" is a
            separate scope.
    """

    spec: object
    setting: Setting
    times: int = 1
    rate: Fraction = Fraction(1)
    scope: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.times <= LARGEST_TIMES:
            raise UsageError(
                f"a round must be repeated 1 to {LARGEST_TIMES:,} times, not {self.times}"
            )
        check_rate(self.rate)


def grows_with_distance(spec: object) -> bool:
    """True if δ at distance d + 1 is nowhere below δ at d (proposition C7).

    Where it is not known, every distance is evaluated and the curves' pointwise maximum is used.
    """
    return analysis_of(spec).grows_with_distance


def largest_distance(rounds: Sequence[Round]) -> int:
    """Largest |x - x'| that any round's domain and setting allow, at least 1."""
    return max(_largest_change(item) for item in rounds)


def _largest_change(item: Round) -> int:
    """Largest |x - x'| that the round's domain and setting allow, at least 1.

    1 where the spec has no domain: then distances do not matter.
    """
    domain, limit = domain_of(item.spec), item.setting.max_distance
    changes = 1 if domain is None else domain - 1
    return max(1, changes if limit is None else min(changes, limit))


def kept_together(rounds: Sequence[Round]) -> list[Round]:
    """Merge rounds that share a memoised response into one: together they reveal no more (K14).

    This holds for any number of runs and any users.

    The merged round is stated for the largest distance among them, which covers the others
    (proposition C7).
    """
    groups: dict[tuple[str, str], list[Round]] = {}
    others: list[Round] = []
    for item in rounds:
        name = remembered_by(item.spec)
        (others if name is None else groups.setdefault((item.scope, name), [])).append(item)
    return [_once(group) for group in groups.values()] + others


def _once(group: Sequence[Round]) -> Round:
    limits = [item.setting.max_distance for item in group]
    widest = max((limit for limit in limits if limit is not None), default=None)
    setting = replace(group[-1].setting, max_distance=None if None in limits else widest)
    return Round(AllReports(group[-1].spec), setting)


def at_common_distance(rounds: Sequence[Round]) -> tuple[Round, ...]:
    """Restate each round for the largest common distance within its own domain (C7)."""
    rounds = kept_together(rounds)
    d_max = largest_distance(rounds)
    alike = dict[tuple[object, Setting, Fraction], int]()
    for item in rounds:
        stated = _stated_for(item, min(d_max, _widest(item, d_max)))
        key = (stated.spec, stated.setting, stated.rate)
        alike[key] = alike.get(key, 0) + stated.times
    # Rounds that are alike now are one, repeated: one curve for all of them.
    return tuple(
        Round(spec, setting, min(LARGEST_TIMES, times - done), rate)
        for (spec, setting, rate), times in alike.items()
        for done in range(0, times, LARGEST_TIMES)
    )


def _stated_for(item: Round, distance: int) -> Round:
    if item.setting.max_distance in {None, distance}:
        return item
    return replace(item, setting=replace(item.setting, max_distance=distance))


def _widest(item: Round, otherwise: int) -> int:
    """Largest |x - x'| in the round's domain.

    `otherwise` where the spec has none and distances do not matter.
    """
    domain = domain_of(item.spec)
    return max(1, otherwise if domain is None else domain - 1)


def _curve(item: Round, low: int, high: int) -> Curve:
    """Curve of one round for ε >= 0 and any change by low..high within its domain."""
    widest = _widest(item, high)
    near = _without_sampling(item, low if low <= widest else 1, min(high, widest))
    if item.rate == 1:
        return near
    # Who is drawn in the changed user's place may hold any value, however near the change is.
    covers_all = high >= widest and (low == 1 or grows_with_distance(item.spec))
    return subsampled_curve(
        near, item.rate, None if covers_all else _without_sampling(item, 1, widest)
    )


def curve_of(item: Round) -> tuple[Curve, float]:
    """Curve of one run for total ε >= 0 that covers every change, and the pure ε.

    The pure ε is `math.inf` where there is none. For standard adjacency: ε is not per unit of
    distance.
    """
    _adjacency([item])
    return _curve(item, 1, largest_distance([item])), _pure(item)


def _without_sampling(item: Round, low: int, high: int) -> Curve:
    distances = range(high, high + 1) if grows_with_distance(item.spec) else range(low, high + 1)

    def curve(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        values = certified_curve(item.spec, item.setting, distances[0], epsilons)
        for distance in distances[1:]:
            values = np.maximum(
                values, certified_curve(item.spec, item.setting, distance, epsilons)
            )
        return values

    return curve


def _compose(
    rounds: Sequence[Round], low: int, high: int, delta: float, steps: int = STEPS
) -> Composed:
    return compose_curves([Repeated(_curve(r, low, high), r.times) for r in rounds], delta, steps)


def _adjacency(rounds: Sequence[Round]) -> Adjacency:
    if not rounds:
        raise UsageError("composition needs at least one round")
    for r in rounds:
        if not analysis_of(r.spec).composes:
            raise UsageError(
                f"rounds of {type(r.spec).__name__} cannot be composed, because their privacy "
                "curve is not known"
            )
    kinds = {r.setting.adjacency for r in rounds}
    if len(kinds) > 1:
        raise UsageError("all rounds of a composition must have the same adjacency")
    return kinds.pop()


def _by_distribution(
    rounds: Sequence[Round], adjacency: Adjacency, delta: float, steps: int
) -> float:
    d_max = largest_distance(rounds)
    if adjacency is Adjacency.STANDARD:
        return _compose(rounds, 1, d_max, delta, steps).epsilon(delta)
    # C12: for log-concave noise alone one composition, at the largest distance, takes the place of
    # all.
    shifts = _shifts(rounds, d_max)
    if shifts is not None and not shifts.is_costly(delta):
        return shifts.epsilon(delta, steps)
    # The cover is looser than the grid: a coarser one is good enough for each of its many
    # intervals.
    coarse = min(steps, METRIC_STEPS)
    near, settled = _near_distance(rounds, d_max, delta, coarse)
    totals: dict[tuple[int, int], float] = {}

    def ceiling(low: int, high: int) -> float:
        key = _interval(rounds, low, high)
        if key not in totals:
            totals[key] = _compose(rounds, *key, delta, coarse).epsilon(delta)
        return up(totals[key] / low, units=2)

    return worst_over_distances(ceiling, d_max, near, settled)


def _near_distance(
    rounds: Sequence[Round], d_max: int, delta: float, steps: int
) -> tuple[int, float]:
    """A distance below d_max up to which C12 is tight, and its ε per unit; 0 and 0 without one."""

    def is_cheap(distance: int) -> bool:
        shifts = _shifts(rounds, distance)
        return shifts is not None and not shifts.is_costly(delta)

    if _shifts(rounds, d_max) is None or not is_cheap(1):
        return 0, 0.0
    low, high = 1, d_max
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        if is_cheap(middle):
            low = middle
        else:
            high = middle
    shifts = _shifts(rounds, low)
    return (0, 0.0) if shifts is None else (low, shifts.epsilon(delta, steps))


def _shifts(rounds: Sequence[Round], d_max: int) -> Shifts | None:
    if any(r.rate != 1 for r in rounds):
        return None
    return shifts_of([(r.spec, r.setting, r.times) for r in rounds], d_max)


def _interval(rounds: Sequence[Round], low: int, high: int) -> tuple[int, int]:
    """The distances on which an interval's curve depends: its end if all curves grow."""
    return (high, high) if all(grows_with_distance(r.spec) for r in rounds) else (low, high)


def _by_shares(rounds: Sequence[Round], delta: float) -> float:
    """Sum of the rounds' ε at an equal share of δ (proposition C6).

    For few rounds it can beat the grid.
    """
    total = sum(r.times for r in rounds)
    share = among_rounds(delta, total)
    # Below it no single round is certified.
    if total > MOST_SHARES or share < SMALLEST_DELTA or any(r.rate != 1 for r in rounds):
        return math.inf
    try:
        summed = sum(r.times * certified_epsilon(r.spec, r.setting, share) for r in rounds)
    except (CannotCertify, UsageError):
        return math.inf
    return up(summed, ELEMENTARY * (len(rounds) + 2))


def _pure(item: Round) -> float:
    """Pure ε of one round, amplified if it runs on a random subset.

    `math.inf` for none (proposition C6).
    """
    pure = _pure_unsampled(item.spec, item.setting)
    # Per unit of distance the amplified ε is no longer proportional to d: leave it as it is.
    if item.rate == 1 or item.setting.adjacency is Adjacency.METRIC:
        return pure
    # Another user may be drawn in the changed one's place, with any value (C5).
    anyone = _pure_unsampled(item.spec, replace(item.setting, max_distance=None))
    return min(pure, subsampled_epsilon(anyone, item.rate))


def _pure_unsampled(spec: object, setting: Setting) -> float:
    """Pure ε from the round's own analysis or its ε_L; `math.inf` without one."""
    pure = math.inf
    for question in (epsilon_bounds, corrupted_bounds):
        try:
            answer = question(spec, setting, 0.0)
        except (CannotCertify, UsageError):
            continue
        if isinstance(answer, Bounds):
            pure = min(pure, answer.certified)
        elif answer.delta == 0:
            pure = min(pure, answer.epsilon)
    return pure


def _by_addition(rounds: Sequence[Round]) -> float:
    """Sum of the rounds' pure ε (proposition C6); `math.inf` if a round has none."""
    return up(sum(r.times * _pure(r) for r in rounds), ELEMENTARY * (len(rounds) + 2))


def _is_single(rounds: Sequence[Round]) -> bool:
    return len(rounds) == 1 and rounds[0].times == 1 and rounds[0].rate == 1


def _basis(name: str, adjacency: Adjacency, rounds: Sequence[Round]) -> tuple[str, ...]:
    basis = [name]
    if any(r.rate < 1 for r in rounds):
        basis.append("C5: fixed-size subsampling")
    if any(isinstance(r.spec, AllReports) for r in rounds):
        basis.append(
            "K14: rounds that share a kept response, charged once for all that it can show"
        )
    if adjacency is Adjacency.METRIC:
        basis.append(
            f"C7: the same distance in every round, worst of 1..{largest_distance(rounds)}"
        )
    return tuple(basis)


def _certified_epsilon(
    rounds: Sequence[Round], delta: float, steps: int = STEPS
) -> tuple[float, tuple[str, ...]]:
    adjacency = _adjacency(rounds)
    if not 0 <= delta <= 1:
        raise UsageError(f"delta must be from 0 to 1, not {delta}")
    added, convolved = _by_addition(rounds), math.inf
    reason = "the tails of the rounds already exceed delta; ask for a larger delta"
    try:
        convolved = _by_distribution(rounds, adjacency, delta, steps)
    except CannotCertify as refusal:
        reason = str(refusal)
    shared = _by_shares(rounds, delta)
    # Each holds for these rounds at this δ, so the least does (C6).
    best = min(added, shared, convolved)
    if math.isinf(best):
        raise CannotCertify(
            f"no finite epsilon at delta {delta:g} for the composed rounds: {reason}"
        )
    names = {
        added: "C6: pure guarantees added",
        shared: "C6: guarantees at equal shares of delta added",
        convolved: "C1-C4: privacy loss distributions convolved",
    }
    return best, _basis(names[best], adjacency, rounds)


def compose_bounds(rounds: Sequence[Round], delta: float) -> Bounds:
    """Certified and attained ε of all rounds together at δ.

    Certified: the smallest of the sound bounds (module docstring), rounded up. Attained: the
    largest that one round alone attains without subsampling, hence far below for many rounds. Nats,
    >= 0, per unit of distance under metric adjacency.

    Args:
        rounds: at least one, all with the same adjacency.
        delta: in [0, 1]; 0 asks for a pure guarantee.

    Raises:
        UsageError: there are no rounds, their adjacency differs, or δ is outside [0, 1].
        CannotCertify: no bound is finite; the message has the reason.
    """
    if _is_single(rounds):
        return epsilon_bounds(rounds[0].spec, rounds[0].setting, delta)
    _adjacency(rounds)
    # A round on a subset attains less than its analysis says: the changed user may not be drawn.
    attained = [
        epsilon_bounds(r.spec, r.setting, delta).attained
        for r in rounds
        if r.rate == 1 and delta > 0
    ]
    best, basis = _certified_epsilon(at_common_distance(rounds), delta)
    return Bounds(best, min(best, max(attained, default=0.0)), None, basis)


def compose_epsilon(rounds: Sequence[Round], delta: float, steps: int = STEPS) -> float:
    """Certified ε of all rounds together at δ; arguments, unit and errors as in `compose_bounds`.

    Fewer `steps` are faster and looser, never unsound (`loss_distribution.compose_curves`).
    """
    if _is_single(rounds):
        return certified_epsilon(rounds[0].spec, rounds[0].setting, delta)
    _adjacency(rounds)
    return _certified_epsilon(at_common_distance(rounds), delta, steps)[0]
