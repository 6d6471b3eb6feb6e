"""δ(ε) of one question from both sides, at points where the curves bend. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.commands.answers import Answer
from shuffledp.commands.questions import Question
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import GeoShuffle, RRShuffle, SGDLShuffle
from shuffledp_core.privacy import Adjacency
from shuffledp_privacy.bounds import (
    Bounds,
    Setting,
    certified_curve,
    delta_bounds,
    epsilon_bounds,
)
from shuffledp_privacy.local import clones
from shuffledp_privacy.rounds.composition import grows_with_distance
from shuffledp_privacy.rounds.loss_distribution import Repeated, compose_curves
from shuffledp_privacy.sums import geo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FIRST_POINTS: Final = 9
MOST_POINTS: Final = 36

_SMOOTH: Final = 0.35
"""Steps of log10 δ between neighbouring points that look like a curve."""


def _by_analysis(spec: object, setting: Setting, delta: float) -> float | None:
    return epsilon_bounds(spec, setting, delta).published


Form = Callable[[Any, Setting, float], float | None]

_FORMS: Final[dict[type, tuple[Form, int]]] = {
    clones.LocalRandomiser: (
        lambda spec, setting, delta: clones.feldman_2021(spec.epsilon0, setting.honest, delta),
        25,
    ),
    GeoShuffle: (lambda spec, setting, delta: geo.published_epsilon(spec.epsilon_geo, setting.users, delta), 25),
    SGDLShuffle: (_by_analysis, 2),
    RRShuffle: (_by_analysis, 7),
}
"""Published ε for a δ, and at how many δ: where the analysis has no δ for ε. SGDL's is the same for every δ."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Three curves.

    Attributes:
        epsilons: rising, nats, for the first two.
        certified: δ, never below the truth; 1 where nothing can be certified.
        attained: δ that a concrete dataset is known to cost.
        published: (ε, δ) points of the paper's formula, two rows; empty where there is none.
        floor: smallest δ of interest.
    """

    epsilons: Floats
    certified: Floats
    attained: Floats
    published: Floats
    floor: float


@dataclass(frozen=True, slots=True)
class _Point:
    epsilon: float
    certified: float
    attained: float
    published: float | None


def curves(found: Answer) -> Curves:
    """The curves around the asked point, not far beyond ε_L.

    Raises:
        UsageError: a parameter is outside the analysis' range.
    """
    floor = max(found.question.delta * 1e-3, 1e-12)
    points = _refined(found, _certified_at(found), floor)
    return Curves(
        epsilons=np.array([point.epsilon for point in points]),
        certified=np.array([point.certified for point in points]),
        attained=np.array([point.attained for point in points]),
        published=_published(found, points, floor),
        floor=floor,
    )


def _refined(found: Answer, certified: Certified, floor: float) -> list[_Point]:
    """Even points and the answer's own, then more where a curve falls most."""
    seen = {value for value in (found.certified, found.attained) if value}
    right = _right(found)
    even = set(np.linspace(0.0, right, FIRST_POINTS).tolist())
    points = [_point(found, certified, epsilon) for epsilon in sorted(seen | even)]
    while len(points) < MOST_POINTS:
        index = _steepest(points, floor, right)
        if index is None:
            break
        middle = (points[index].epsilon + points[index + 1].epsilon) / 2
        points.insert(index + 1, _point(found, certified, middle))
    return points


def _right(found: Answer) -> float:
    seen = [value for value in (found.certified, found.attained, found.published) if value]
    right = 1.5 * max(seen, default=found.corrupted_epsilon or 1.0)
    return right if found.corrupted_epsilon is None else min(right, 1.08 * found.corrupted_epsilon)


def _steepest(points: list[_Point], floor: float, right: float) -> int | None:
    """The gap in which a curve falls most; None where all look smooth."""

    def fall(index: int) -> float:
        left, after = points[index], points[index + 1]
        if after.epsilon - left.epsilon < 2e-3 * right:
            return 0.0
        return max(_fall(left.certified, after.certified, floor), _fall(left.attained, after.attained, floor))

    worst = max(range(len(points) - 1), key=fall)
    return worst if fall(worst) > _SMOOTH else None


def _fall(left: float, right: float, floor: float) -> float:
    return math.log10(max(left, floor)) - math.log10(max(right, floor))


Certified = Callable[[float, Bounds], float]
"""δ over all rounds at an ε, given the bounds of one round there."""


def _point(found: Answer, certified: Certified, epsilon: float) -> _Point:
    asked = found.question
    setting = asked.setting
    if asked.all_corrupt:
        setting = Setting(setting.users, 1, setting.adjacency, setting.max_distance)
    try:
        single = delta_bounds(asked.spec, setting, epsilon)
    except CannotCertify:
        single = Bounds(1.0, 0.0, None, ())
    published = single.published if asked.rounds == 1 and not asked.all_corrupt else None
    return _Point(epsilon, certified(epsilon, single), single.attained, published)


def _certified_at(found: Answer) -> Certified:
    asked = found.question
    local = math.inf if found.corrupted_epsilon is None else found.corrupted_epsilon
    if asked.all_corrupt:
        return lambda epsilon, _: found.corrupted_delta if epsilon >= local else 1.0
    if asked.rounds == 1:
        return lambda _, single: single.certified
    if asked.setting.adjacency is Adjacency.METRIC:
        return _staircase(found, local)
    try:
        composed = compose_curves([Repeated(_any_distance(asked), asked.rounds)], asked.delta or 1e-6)
    except CannotCertify:
        return lambda epsilon, _: found.corrupted_delta if epsilon >= local else 1.0
    return lambda epsilon, _: found.corrupted_delta if epsilon >= local else composed.delta(epsilon)


def _any_distance(asked: Question) -> Callable[[Floats], Floats]:
    """δ at total ε >= 0 of one round for the worst distance (proposition C7)."""
    top = asked.max_distance or 1
    distances = [top] if grows_with_distance(asked.spec) else list(range(1, top + 1))

    def curve(epsilons: Floats) -> Floats:
        every = [certified_curve(asked.spec, asked.setting, distance, epsilons) for distance in distances]
        return np.asarray(np.max(every, axis=0), dtype=np.float64)

    return curve


def _staircase(found: Answer, local: float) -> Certified:
    """What the answer alone says: δ from its ε on, δ_L from ε_L on. Each further ε would cost a whole answer."""
    steps = [(local, found.corrupted_delta)]
    if found.certified is not None:
        steps.append((found.certified, found.question.delta))
    return lambda epsilon, _: min((delta for least, delta in steps if epsilon >= least), default=1.0)


def _published(found: Answer, points: list[_Point], floor: float) -> Floats:
    asked = found.question
    printed = [(point.epsilon, point.published) for point in points if point.published is not None]
    if len(printed) > 1:
        return np.array(printed, dtype=np.float64).T
    form = _FORMS.get(type(asked.spec))
    if form is None or found.published is None:
        return np.empty((2, 0))
    formula, count = form
    deltas = np.geomspace(floor, 0.1, count)
    pairs = [(formula(asked.spec, asked.setting, float(delta)), delta) for delta in deltas]
    return np.array([pair for pair in pairs if pair[0] is not None], dtype=np.float64).reshape(-1, 2).T
