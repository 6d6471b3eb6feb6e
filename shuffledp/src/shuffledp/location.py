"""People's mean location: points of a map as two sums with metric privacy, one per axis.

Near points are hard to tell apart, far ones easier (Andrés et al. 2013; Athanasiou et al. 2025,
Appendix D). The map is a grid of squares; a device sends the number of its column in one round, and
of its row in another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.choosing import calibrate, kind_of
from shuffledp.guarantees import guarantee_of, number
from shuffledp.notebook import check_installed, html_table
from shuffledp.plans import Plan
from shuffledp.simulation import Answer, check_seed, simulate
from shuffledp_core.errors import CannotCertify, UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.mechanisms.base import MAX_DOMAIN
from shuffledp_core.privacy import Adjacency
from shuffledp_core.runtime.arguments import check_number
from shuffledp_privacy.bounds import Setting
from shuffledp_privacy.sums.planar import axis_budget, plane_guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

EARTH_RADIUS: Final = 6_371_008.8
"""Metres, mean (IUGG); for distances that are reported."""

LEAST_RADIUS: Final = 6_335_439.3
"""Metres, rounded down: a(1 - e²), the least radius of curvature of the WGS 84 ellipsoid.

No two points are nearer on the ellipsoid than on a sphere of this radius, whose distances are at
most 0.6% shorter than those of the mean sphere; for distances that are guaranteed
(docs/accounting.md, S15). """

METRES_A_DEGREE: Final = math.pi / 180 * LEAST_RADIUS
"""Along a meridian of the sphere of least radius."""

WIDEST: Final = 180.0
"""Degrees of longitude: the edges of a wider map approach each other on the far side of the Earth.
"""

SHORTEST: Final = 1e-3
"""Metres: no receiver is better, and the number of squares stays one that can be counted."""

FARTHEST: Final = math.pi * EARTH_RADIUS
"""Metres between two opposite points of the Earth: no radius needs to be larger."""

MOST_EPSILON: Final = 100.0
"""Nats; an axis gets less of it, and calibrations end there."""

LEAST_DELTA: Final = 2e-12
"""Each axis gets half, and calibrations begin at 1e-12."""

_OFFSET_ERROR: Final = 2.0**-19
"""Squares by which two offsets of at most `MAX_DOMAIN` squares may be wrong in double precision."""

_COVERAGE: Final = "95% for each axis"


@dataclass(frozen=True, slots=True)
class Grid:
    """A box of the map between two parallels and two meridians, cut into columns and rows.

    All columns span the same number of degrees. They are `side` metres wide on the parallel nearest
    a pole and wider elsewhere, so that no two points are more columns apart than their distance
    allows.

    Attributes:
        south, west, north, east: edges in degrees; at most 80 degrees from the equator, at most 180
            degrees wide, and not across the date line.
        side: metres, least width of a column and height of a row.

    Raises:
        UsageError: edges in the wrong order, too wide or too near a pole, or a grid of fewer than 2
            or too many squares along an axis.
    """

    south: float
    west: float
    north: float
    east: float
    side: float

    def __post_init__(self) -> None:
        for name in ("south", "west", "north", "east", "side"):
            check_number(name, getattr(self, name))
        if not (-80 <= self.south < self.north <= 80 and -180 <= self.west < self.east <= 180):
            raise UsageError(
                "a box must be south, west, north and east in degrees, south below north, west "
                f"below east, and at most 80 degrees from the equator; got {self.south:g}, "
                f"{self.west:g}, {self.north:g}, {self.east:g}"
            )
        if self.east - self.west > WIDEST:
            raise UsageError(
                f"the map is {self.east - self.west:g} degrees wide; a map may span at most "
                f"{WIDEST:g} degrees of longitude, because the edges of a wider one approach each "
                "other on the far side of the Earth"
            )
        if not SHORTEST <= self.side < math.inf:
            raise UsageError(
                f"the side of a square must be at least {SHORTEST:g} metres, not {self.side:g}"
            )
        if not all(2 <= count <= MAX_DOMAIN for count in (self.columns, self.rows)):
            raise UsageError(
                f"squares of {self.side:g} m divide this box into {self.columns:,} columns and "
                f"{self.rows:,} rows; choose a side that makes 2 to {MAX_DOMAIN:,} squares"
            )

    @property
    def metres_a_degree(self) -> tuple[float, float]:
        """Metres per degree of longitude (at the parallel nearest a pole) and of latitude."""
        return METRES_A_DEGREE * self._shrinking, METRES_A_DEGREE

    @property
    def _shrinking(self) -> float:
        """Cosine c of the latitude nearest a pole, where a degree of longitude is shortest."""
        return math.cos(math.radians(max(abs(self.south), abs(self.north))))

    @property
    def stretch(self) -> float:
        """κ >= 1: distances on the grid, in metres, are at most κ times as long as on the Earth.

        The length of the parallel nearest a pole from the western to the eastern edge, over the
        great circle distance of its ends; rounded up. docs/accounting.md, Proposition S15.
        """
        half = math.radians(self.east - self.west) / 2
        return self._shrinking * half / math.asin(self._shrinking * math.sin(half)) * (1 + 2.0**-40)

    def reach(self, radius: float) -> float:
        """Largest distance, in squares, between points at most `radius` metres apart.

        The distance on the Earth is the great-circle distance.

        The result is never below the truth: κ radius/side, and √2 for rounding to whole columns and
        rows
        (docs/accounting.md, S15).
        """
        return self.stretch * radius / self.side + math.sqrt(2) * (1 + _OFFSET_ERROR)

    def width_at(self, latitude: float) -> float:
        """Width in metres, from west to east, of a square at this latitude.

        For a latitude outside the map: at the nearest one inside.
        """
        inside = min(max(latitude, self.south), self.north)
        return self.side * math.cos(math.radians(inside)) / self._shrinking

    @property
    def columns(self) -> int:
        """Number of squares from west to east."""
        return math.ceil((self.east - self.west) * self.metres_a_degree[0] / self.side)

    @property
    def rows(self) -> int:
        """Number of squares from south to north."""
        return math.ceil((self.north - self.south) * self.metres_a_degree[1] / self.side)

    def squares(self, points: ArrayLike) -> tuple[NDArray[np.int64], int]:
        """The square of each point, and the number of points outside the map.

        A point outside the map counts as the nearest point of it in latitude and in longitude.

        Args:
            points: shape (users, 2), latitude and longitude in degrees.

        Returns:
            Shape (users, 2), column and row, each from 0 up.

        Raises:
            UsageError: the array has another shape, or its numbers are not finite.
        """
        try:
            positions = np.asarray(points, dtype=np.float64)
        except (TypeError, ValueError):
            raise UsageError("points must be numbers: latitude and longitude in degrees") from None
        if (
            positions.ndim != 2
            or positions.shape[1] != 2
            or not positions.size
            or not np.all(np.isfinite(positions))
        ):
            raise UsageError(
                "points must be an array of latitude and longitude per user, of shape (users, "
                f"2), not {positions.shape}"
            )
        # East of the date line a longitude may be given as 181 or as -179: the one nearest the map
        # is taken.
        turns = np.round((positions[:, 1] - (self.west + self.east) / 2) / 360)
        positions = positions - 360.0 * np.stack((np.zeros(len(positions)), turns), axis=1)
        offsets = (positions[:, ::-1] - (self.west, self.south)) * self.metres_a_degree / self.side
        cells = np.clip(np.floor(offsets), 0, (self.columns - 1, self.rows - 1)).astype(np.int64)
        inside = (positions >= (self.south, self.west)) & (positions <= (self.north, self.east))
        return cells, int((~inside.all(axis=1)).sum())

    def point(self, column: float, row: float) -> tuple[float, float]:
        """Latitude and longitude of a square's centre; fractions are between centres."""
        east, north = ((offset + 0.5) * self.side for offset in (column, row))
        across, up = self.metres_a_degree
        return self.south + north / up, self.west + east / across


@dataclass(frozen=True, slots=True)
class LocationPlan:
    """Two rounds, one for each axis, and their joint guarantee.

    Attributes:
        grid: the map.
        columns: the plan of the round that asks for a user's column, with metric adjacency.
        rows: the plan of the round that asks for a user's row.
        radius: metres within which points are protected with `epsilon`.
        epsilon: nats, certified for any two points of the map at most `radius` metres apart; twice
            as far costs at most twice. A point outside the map is protected as the nearest point of
            the map.
        delta: δ of both rounds together.
    """

    grid: Grid
    columns: Plan
    rows: Plan
    radius: float
    epsilon: float
    delta: float

    def _repr_html_(self) -> str:
        return html_table("location", self.table())

    def table(self) -> list[tuple[str, str, str]]:
        """The plan in words: name, value, remark."""
        axes = (("columns", self.columns), ("rows", self.rows))
        plans = [
            (
                "map",
                f"{self.grid.columns:,} x {self.grid.rows:,} squares",
                f"of {self.grid.side:g} m or more",
            ),
            (
                "ε",
                number(self.epsilon),
                f"certified, for points of the map at most {self.radius:g} m apart",
            ),
            ("δ", f"{self.delta:g}", "of both rounds"),
        ]
        for name, plan in axes:
            messages = guarantee_of(plan).messages
            settings = ", ".join(f"{key} = {value}" for key, value in plan.parameters.items())
            plans.append(
                (f"round for {name}", plan.kind, f"{settings}; {messages:,} messages a user")
            )
        return plans


def plan_location(
    grid: Grid,
    *,
    radius: float,
    epsilon: float,
    delta: float,
    users: int,
    honest: int | None = None,
    mechanism: str = "geo-shuffle",
) -> LocationPlan:
    """The two rounds with least error that keep ε for points at most `radius` metres apart.

    Two such points are at most `grid.reach(radius)` squares apart; ε per square is divided between
    the axes by √2, δ by 2 (docs/accounting.md, S15).

    Args:
        grid: the map.
        radius: metres, above 0, at most half the Earth's circumference.
        epsilon: nats for points `radius` apart, above 0, at most 100.
        delta: δ of both rounds, in [2e-12, 1): each has half of it.
        users: n of each round.
        honest: users who follow the protocol; None for all.
        mechanism: a mechanism whose rounds answer a sum.

    Raises:
        UsageError: a value outside its range, or a mechanism that answers no sum.
        CannotCertify: no parameters meet the target.
    """
    _check_target(radius, epsilon, delta, mechanism)
    if not isinstance(grid, Grid):
        raise UsageError(f"grid must be a Grid, not {grid!r}")
    reach = grid.reach(radius)
    axis_epsilon, axis_delta = axis_budget(epsilon / reach * (1 - 2.0**-50), delta)
    setting = Setting(users, users if honest is None else honest, Adjacency.METRIC)
    columns, rows = (
        calibrate(
            mechanism, epsilon=axis_epsilon, delta=axis_delta, setting=setting, max_value=count - 1
        )
        for count in (grid.columns, grid.rows)
    )
    plane_epsilon, plane_delta = plane_guarantee(_certify_axis(columns), _certify_axis(rows))
    return LocationPlan(
        grid, columns, rows, radius, plane_epsilon * reach * (1 + 2.0**-50), plane_delta
    )


def _check_target(radius: float, epsilon: float, delta: float, mechanism: str) -> None:
    """Check the arguments as given, before each axis gets its computed share."""
    for name, value in (("radius", radius), ("epsilon", epsilon), ("delta", delta)):
        check_number(name, value)
    if not 0 < radius <= FARTHEST:
        raise UsageError(
            f"radius must be above 0 and at most {FARTHEST:,.0f} metres, not {radius:g}"
        )
    if not 0 < epsilon <= MOST_EPSILON:
        raise UsageError(f"epsilon must be above 0 and at most {MOST_EPSILON:g}, not {epsilon:g}")
    if not LEAST_DELTA <= delta < 1:
        raise UsageError(
            f"delta of both rounds must be from {LEAST_DELTA:g} to below 1, not {delta:g}"
        )
    if MECHANISMS[kind_of(mechanism)].answers is not Answers.SUM:
        sums = ", ".join(kind for kind, spec in MECHANISMS.items() if spec.answers is Answers.SUM)
        raise UsageError(
            f"{mechanism} does not answer sums, and a mean location consists of two sums; choose "
            f"one of {sums}"
        )


def _certify_axis(plan: Plan) -> tuple[float, float]:
    epsilon = guarantee_of(plan).certified
    if epsilon is None:
        raise CannotCertify(f"no ε is certified for {plan.kind}; choose a larger radius or δ")
    return epsilon, plan.delta


@dataclass(frozen=True, slots=True, eq=False)
class Centroid:
    """The estimated mean location of simulated people, with the true one.

    Attributes:
        plan: the two rounds.
        columns: the answer of the round for columns, rows: of that for rows; in squares.
        squares: shape (users, 2), the true square of every simulated user.
        outside: users who were outside the map and went to its nearest square.
    """

    plan: LocationPlan
    columns: Answer
    rows: Answer
    squares: NDArray[np.int64]
    outside: int

    @property
    def point(self) -> tuple[float, float]:
        """Estimated latitude and longitude; unbiased, so it may lie outside the map."""
        return self.plan.grid.point(float(self.columns.mean), float(self.rows.mean))

    @property
    def truth(self) -> tuple[float, float]:
        """The mean of all users' squares."""
        return self.plan.grid.point(float(self.columns.truth), float(self.rows.truth))

    @property
    def box(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """South-west and north-east corners of both axes' 95% intervals; jointly 90%."""
        low, high = zip(
            self.columns.mean_interval.tolist(), self.rows.mean_interval.tolist(), strict=True
        )
        return self.plan.grid.point(*low), self.plan.grid.point(*high)

    @property
    def error(self) -> float:
        """Metres between estimate and truth, on a sphere with the Earth's mean radius."""
        return self._metres(
            *(float(axis.mean) - float(axis.truth) for axis in (self.columns, self.rows))
        )

    @property
    def standard_error(self) -> float:
        """Root of the expected squared distance, in metres."""
        return self._metres(
            *(float(axis.mean_standard_error) for axis in (self.columns, self.rows))
        )

    def _metres(self, columns: float, rows: float) -> float:
        """Length in metres of a step of columns and rows, at the estimated latitude."""
        grid = self.plan.grid
        scale = EARTH_RADIUS / LEAST_RADIUS
        return scale * math.hypot(columns * grid.width_at(self.point[0]), rows * grid.side)

    def to_dict(self) -> dict[str, Any]:
        """The keys of `shuffledp location --format json`."""
        grid = self.plan.grid
        return {
            "centroid": list(self.point),
            "box_95": [list(corner) for corner in self.box],
            "truth": list(self.truth),
            "error_metres": self.error,
            "standard_error_metres": self.standard_error,
            "users": len(self.squares),
            "outside": self.outside,
            "squares": [grid.columns, grid.rows],
            "epsilon": {"certified": self.plan.epsilon, "radius_metres": self.plan.radius},
            "delta": self.plan.delta,
            "rounds": [self.plan.columns.to_dict(), self.plan.rows.to_dict()],
        }

    def table(self) -> list[tuple[str, str, str]]:
        """The answer in words: name, value, remark."""
        south_west, north_east = self.box
        return [
            ("centroid", _degrees(self.point), f"± {self.standard_error:,.0f} m"),
            ("box", f"{_degrees(south_west)} .. {_degrees(north_east)}", _COVERAGE),
            ("truth", _degrees(self.truth), f"{self.error:,.0f} m away"),
        ]

    def _repr_html_(self) -> str:
        return html_table(f"{len(self.squares):,} users", self.table())

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the map: density of people, their true mean, the estimate and its box.

        On new axes if none are given.

        Raises:
            NotInstalledError: without matplotlib, the extra `plot`.
        """
        check_installed("matplotlib", "shuffledp[plot]", "a plot")
        from shuffledp.drawing import draw_centroid, new_axes

        axes = new_axes() if axes is None else axes
        draw_centroid(axes, self)
        return axes


def simulate_location(
    plan: LocationPlan, points: ArrayLike, seed: int | None = None, *, allow_fewer: bool = False
) -> Centroid:
    """Simulate both rounds with people who follow the protocol.

    Args:
        plan: the two rounds.
        points: shape (users, 2), latitude and longitude in degrees; those outside the map go to its
            nearest square.
        seed: see `simulate`.
        allow_fewer: see `simulate`.

    Raises:
        UsageError: no points, fewer than the plan's honest users, no finite numbers, or a negative
            seed.

    >>> import shuffledp as sdp
    >>> grid = sdp.Grid(south=48.82, west=2.28, north=48.88, east=2.40, side=200)
    >>> plan = sdp.plan_location(grid, radius=1000, epsilon=1, delta=1e-6, users=2000)
    >>> round(plan.epsilon, 3) <= 1, (grid.columns, grid.rows)
    (True, (44, 34))
    >>> found = sdp.simulate_location(plan, [(48.85, 2.33), (48.87, 2.36)] * 1000, seed=1)
    >>> found.error < 6 * found.standard_error
    True
    """
    check_seed(seed)
    squares, outside = plan.grid.squares(points)
    seeds = (None, None) if seed is None else (2 * seed, 2 * seed + 1)
    columns = simulate(plan.columns, squares[:, 0], seeds[0], allow_fewer=allow_fewer)
    rows = simulate(plan.rows, squares[:, 1], seeds[1], allow_fewer=allow_fewer)
    return Centroid(plan, columns, rows, squares, outside)


def _degrees(point: tuple[float, float]) -> str:
    return f"{point[0]:.5f}, {point[1]:.5f}"
