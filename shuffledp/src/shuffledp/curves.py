"""Certified and attained δ(ε) of one plan, with more points where the curves bend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.guarantees import Guarantee, guarantee_of
from shuffledp.notebook import check_installed, data_frame, html_table
from shuffledp.plans import DEFAULT_DELTA, Plan, Planned, as_plan
from shuffledp_core.errors import CannotCertify, NotInstalledError, UsageError
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
from shuffledp_privacy.rounds.remembered import times_counted
from shuffledp_privacy.sums import geo

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

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
    GeoShuffle: (
        lambda spec, setting, delta: geo.published_epsilon(spec.epsilon_geo, setting.users, delta),
        25,
    ),
    SGDLShuffle: (_by_analysis, 2),
    RRShuffle: (_by_analysis, 7),
}
"""Published ε for a δ, and at how many δ: where the analysis has no δ for ε. SGDL's is the same for
every δ.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Certified and attained δ(ε) of one plan, over all its rounds.

    Attributes:
        guarantee: the plan's guarantee at its own δ.
        epsilons: shape (points,), rising, nats, per unit of distance under metric adjacency.
        certified: shape (points,), δ never below the truth; 1 where nothing can be certified.
        attained: shape (points,), δ that a concrete pair of datasets reaches in one round; never
            above the truth.
        published: shape (2, points of its own), (ε, δ) of the paper's formula; empty where there is
            none.
        floor: smallest δ of interest.
    """

    guarantee: Guarantee
    epsilons: Floats
    certified: Floats
    attained: Floats
    published: Floats
    floor: float

    @property
    def plan(self) -> Plan:
        """The plan with this guarantee."""
        return self.guarantee.plan

    def local(self) -> Floats:
        """Certified δ of one unshuffled report, at each of `epsilons`.

        Empty for several rounds.

        This guarantee holds even if every node is corrupt.
        """
        plan = self.plan
        if plan.rounds > 1 or plan.all_corrupt:
            return np.empty(0)
        least = math.inf if self.guarantee.corrupted is None else self.guarantee.corrupted
        setting = _alone(plan.setting)

        def delta(epsilon: float) -> float:
            if epsilon >= least:
                return self.guarantee.corrupted_delta
            try:
                return delta_bounds(plan.spec, setting, epsilon).certified
            except CannotCertify:
                return 1.0

        return np.array([delta(epsilon) for epsilon in self.epsilons.tolist()])

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the certified and the attained curve; on new axes if none are given.

        Raises:
            NotInstalledError: without matplotlib, the extra `plot`.
        """
        check_installed("matplotlib", "shuffledp[plot]", "a plot")
        from shuffledp.drawing import draw_curve, legend_below, new_axes

        drawn = new_axes() if axes is None else axes
        draw_curve(drawn, self)
        if axes is None:
            legend_below(drawn)
        else:
            drawn.legend(frameon=False)
        return drawn

    def to_dict(self) -> dict[str, Any]:
        """The plan and the points as lists."""
        points = {
            name: getattr(self, name).tolist() for name in ("epsilons", "certified", "attained")
        }
        return {**self.plan.to_dict(), **points}

    def to_pandas(self) -> Any:
        """One row for each point; raises `NotInstalledError` without pandas."""
        return data_frame(
            {"epsilon": self.epsilons, "certified": self.certified, "attained": self.attained}
        )

    def _repr_html_(self) -> str:
        try:
            axes = self.plot()
        except NotInstalledError:
            rows = zip(self.epsilons, self.certified, self.attained, strict=True)
            return html_table(
                f"δ(ε) of {self.plan.kind}",
                [
                    (f"ε = {epsilon:.4g}", f"{high:.3g}", f"attained {low:.3g}")
                    for epsilon, high, low in rows
                ],
            )
        from shuffledp.drawing import figure_of

        picture = StringIO()
        figure_of(axes).savefig(picture, format="svg")
        return picture.getvalue()


def curve(
    plan: Planned,
    setting: Setting | None = None,
    epsilons: ArrayLike | None = None,
    *,
    delta: float | None = None,
    rounds: int | None = None,
) -> Curve:
    """δ(ε) of a plan as arrays: certified never below, attained never above the truth.

    δ is the hockey-stick divergence of the worst two neighbouring datasets (Balle et al. 2018;
    docs/accounting.md).

    Args:
        plan: a plan, a certificate, or a mechanism's parameters, which need `setting`.
        setting: in place of the plan's own.
        epsilons: shape (points,), rising, nats, >= 0, per unit of distance under metric adjacency;
            None for points around the guarantee at δ, closest where the curves bend.
        delta: δ of that guarantee, in place of the plan's own; 1e-6 for parameters alone.
        rounds: how often the round is run on the same people, in place of the plan's own.

    Raises:
        UsageError: a parameter is missing, or outside the analysis' range.

    >>> from fractions import Fraction
    >>> import shuffledp as sdp
    >>> spec = sdp.KRRHistogram(symbols=10, blanket=Fraction(1, 2))
    >>> found = sdp.curve(spec, sdp.Setting(users=1000, honest=1000), [0.1, 0.2, 0.3])
    >>> found.certified.shape, bool((found.attained <= found.certified).all())
    ((3,), True)
    """
    if delta is None and getattr(plan, "delta", None) is None:
        delta = DEFAULT_DELTA
    guarantee = guarantee_of(as_plan(plan, setting, delta=delta, rounds=rounds))
    if epsilons is None:
        return curve_of(guarantee)
    given = np.atleast_1d(np.asarray(epsilons))
    if given.dtype.kind not in "iuf":
        raise UsageError("epsilons must be a list of finite numbers, at least 0")
    grid = given.astype(np.float64)
    if grid.ndim != 1 or not grid.size or not np.all(np.isfinite(grid) & (grid >= 0)):
        raise UsageError("epsilons must be a list of finite numbers, at least 0")
    if np.any(np.diff(grid) < 0):
        raise UsageError("epsilons must be in ascending order")
    certified = _certified_at(guarantee)
    return _curve(guarantee, [_point(guarantee, certified, epsilon) for epsilon in grid.tolist()])


@dataclass(frozen=True, slots=True)
class _Point:
    epsilon: float
    certified: float
    attained: float
    published: float | None


def curve_of(guarantee: Guarantee) -> Curve:
    """The curve around a guarantee's point, up to a little beyond ε_L. Raises as `curve`."""
    return _curve(guarantee, _refine(guarantee, _certified_at(guarantee), _floor(guarantee)))


def _floor(guarantee: Guarantee) -> float:
    return max(guarantee.plan.delta * 1e-3, 1e-12)


def _curve(guarantee: Guarantee, points: list[_Point]) -> Curve:
    return Curve(
        guarantee=guarantee,
        epsilons=np.array([point.epsilon for point in points]),
        certified=np.array([point.certified for point in points]),
        attained=np.array([point.attained for point in points]),
        published=_published_curve(guarantee, points, _floor(guarantee)),
        floor=_floor(guarantee),
    )


def _refine(guarantee: Guarantee, certified: Certified, floor: float) -> list[_Point]:
    """Evenly spaced points and the guarantee's own, then more where a curve falls steeply."""
    seen = {value for value in (guarantee.certified, guarantee.attained) if value}
    right = _right(guarantee)
    even = set(np.linspace(0.0, right, FIRST_POINTS).tolist())
    points = [_point(guarantee, certified, epsilon) for epsilon in sorted(seen | even)]
    while len(points) < MOST_POINTS:
        index = _steepest(points, floor, right)
        if index is None:
            break
        middle = (points[index].epsilon + points[index + 1].epsilon) / 2
        points.insert(index + 1, _point(guarantee, certified, middle))
    return points


def _right(guarantee: Guarantee) -> float:
    seen = [
        value for value in (guarantee.certified, guarantee.attained, guarantee.published) if value
    ]
    right = 1.5 * max(seen, default=guarantee.corrupted or 1.0)
    # Beyond ε_L nothing changes any more.
    return right if guarantee.corrupted is None else min(right, 1.08 * guarantee.corrupted)


def _steepest(points: list[_Point], floor: float, right: float) -> int | None:
    """Index of the gap in which a curve falls most; None if all gaps look smooth."""

    def fall(index: int) -> float:
        left, after = points[index], points[index + 1]
        # A jump stays steep however close its points are: it would use up all points.
        if after.epsilon - left.epsilon < 2e-3 * right:
            return 0.0
        return max(
            _fall(left.certified, after.certified, floor),
            _fall(left.attained, after.attained, floor),
        )

    worst = max(range(len(points) - 1), key=fall)
    return worst if fall(worst) > _SMOOTH else None


def _fall(left: float, right: float, floor: float) -> float:
    return math.log10(max(left, floor)) - math.log10(max(right, floor))


Certified = Callable[[float, Bounds], float]
"""δ over all rounds at an ε, given the bounds of one round there."""


def _point(guarantee: Guarantee, certified: Certified, epsilon: float) -> _Point:
    plan = guarantee.plan
    setting = plan.setting
    if plan.all_corrupt:
        setting = _alone(setting)
    try:
        single = delta_bounds(plan.spec, setting, epsilon)
    except CannotCertify:
        single = Bounds(1.0, 0.0, None, ())
    published = single.published if plan.rounds == 1 and not plan.all_corrupt else None
    return _Point(epsilon, certified(epsilon, single), single.attained, published)


def _alone(setting: Setting) -> Setting:
    # Without a shuffle the others' messages are known: it is as if this user were alone.
    return Setting(setting.users, 1, setting.adjacency, setting.max_distance)


def _certified_at(guarantee: Guarantee) -> Certified:
    plan = guarantee.plan
    local = math.inf if guarantee.corrupted is None else guarantee.corrupted
    if plan.all_corrupt:
        return lambda epsilon, _: guarantee.corrupted_delta if epsilon >= local else 1.0
    if plan.rounds == 1:
        return lambda _, single: single.certified
    if plan.setting.adjacency is Adjacency.METRIC:
        return _staircase(guarantee, local)
    try:
        # Any δ will do for the grid, and a pure plan names none.
        rounds = Repeated(_any_distance(plan), times_counted(plan.spec, plan.rounds))
        composed = compose_curves([rounds], plan.delta or 1e-6)
    except CannotCertify:
        return lambda epsilon, _: guarantee.corrupted_delta if epsilon >= local else 1.0
    return lambda epsilon, _: (
        guarantee.corrupted_delta if epsilon >= local else composed.delta(epsilon)
    )


def _any_distance(plan: Plan) -> Callable[[Floats], Floats]:
    """Function from total ε >= 0 to one round's δ at the worst distance (proposition C7)."""
    top = plan.max_distance or 1
    distances = [top] if grows_with_distance(plan.spec) else list(range(1, top + 1))

    def curve(epsilons: Floats) -> Floats:
        every = [
            certified_curve(plan.spec, plan.setting, distance, epsilons) for distance in distances
        ]
        return np.asarray(np.max(every, axis=0), dtype=np.float64)

    return curve


def _staircase(guarantee: Guarantee, local: float) -> Certified:
    """Step curve from one certified point: δ from its ε on, and δ_L from ε_L on.

    Each further step would take a certification of its own.
    """
    steps = [(local, guarantee.corrupted_delta)]
    if guarantee.certified is not None:
        steps.append((guarantee.certified, guarantee.plan.delta))
    return lambda epsilon, _: min(
        (delta for least, delta in steps if epsilon >= least), default=1.0
    )


def _published_curve(guarantee: Guarantee, points: list[_Point], floor: float) -> Floats:
    plan = guarantee.plan
    printed = [(point.epsilon, point.published) for point in points if point.published is not None]
    if len(printed) > 1:
        return np.array(printed, dtype=np.float64).T
    form = _FORMS.get(type(plan.spec))
    if form is None or guarantee.published is None:
        return np.empty((2, 0))
    formula, count = form
    deltas = np.geomspace(floor, 0.1, count)
    pairs = [(formula(plan.spec, plan.setting, float(delta)), delta) for delta in deltas]
    return (
        np.array([pair for pair in pairs if pair[0] is not None], dtype=np.float64).reshape(-1, 2).T
    )
