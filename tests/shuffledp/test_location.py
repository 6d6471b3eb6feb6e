"""Locations: squares and their middles, what two rounds guarantee for two points of the map, and
the command."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.location import METRES_A_DEGREE
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers
from shuffledp_core.privacy import Adjacency

Points = NDArray[np.float64]
"""Latitude and longitude in degrees, shape (points, 2)."""

PARIS = sdp.Grid(south=48.82, west=2.28, north=48.88, east=2.40, side=250)


@pytest.fixture(scope="module")
def plan() -> sdp.LocationPlan:
    return sdp.plan_location(PARIS, radius=1000, epsilon=1, delta=1e-6, users=2000)


def test_every_square_contains_its_middle_and_middles_are_a_side_apart() -> None:
    middles = np.array([PARIS.point(column, 3) for column in range(PARIS.columns)])
    squares, outside = PARIS.squares(middles[:-1])  # the last may reach beyond the map
    assert squares[:, 0].tolist() == list(range(PARIS.columns - 1))
    assert set(squares[:, 1].tolist()) == {3}
    assert outside == 0
    metres = np.diff(middles[:, 1]) * METRES_A_DEGREE * math.cos(math.radians(48.88))
    assert metres == pytest.approx(np.full(PARIS.columns - 1, 250.0))


def test_points_outside_go_to_the_nearest_square_and_are_counted() -> None:
    squares, outside = PARIS.squares([(48.0, 2.0), (49.0, 3.0), (48.85, 2.3)])
    assert squares[:2].tolist() == [[0, 0], [PARIS.columns - 1, PARIS.rows - 1]]
    assert outside == 2


def test_no_two_points_within_the_radius_cost_more_than_epsilon(plan: sdp.LocationPlan) -> None:
    """Pairs at every angle and offset in a square: ε1 dx + ε2 dy of the axes' certified ε, written
    out anew."""
    east, north = (sdp.certify(axis).certified for axis in (plan.columns, plan.rows))
    assert east is not None
    assert north is not None
    costs = []
    for angle in np.linspace(0, math.pi / 2, 61):
        for offset in np.linspace(0, 0.999, 25):
            steps = [
                math.floor(offset + plan.radius / PARIS.side * part)
                for part in (math.cos(angle), math.sin(angle))
            ]
            costs.append(east * steps[0] + north * steps[1])
    assert max(costs) <= plan.epsilon <= 1
    assert max(costs) >= 0.7 * plan.epsilon, (
        "a radius so small against the squares wastes at most this"
    )
    assert plan.columns.delta + plan.rows.delta <= plan.delta <= 1e-6 * (1 + 1e-12)


LAND: Final = [
    sdp.Grid(south=35, west=-10, north=70, east=40, side=20_000),  # Europe
    sdp.Grid(south=55, west=4, north=71, east=32, side=10_000),  # Scandinavia
    sdp.Grid(south=25, west=-125, north=49, east=-66, side=20_000),  # the contiguous United States
    sdp.Grid(south=-80, west=90, north=-60, east=180, side=20_000),  # a part of Antarctica
    sdp.Grid(south=-0.5, west=-180, north=0.5, east=-179, side=50),  # the equator at the date line
]


def great_circle(first: Points, second: Points) -> NDArray[np.float64]:
    """Metres between points on a sphere of the Earth's mean radius, from the angle between their
    unit vectors."""

    def vectors(points: Points) -> Points:
        lat, lon = np.radians(points).T
        return np.stack((np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)), axis=1)

    a, b = vectors(first), vectors(second)
    angle = np.arctan2(np.linalg.norm(np.cross(a, b), axis=1), (a * b).sum(axis=1))
    return np.asarray(6_371_008.8 * angle)


def steps(grid: sdp.Grid, first: Points, second: Points) -> NDArray[np.float64]:
    """Squares between points, as the crow flies."""
    moved = grid.squares(first)[0] - grid.squares(second)[0]
    return np.asarray(np.hypot(*moved.T))


def pairs_of(grid: sdp.Grid, rng: np.random.Generator, number: int) -> tuple[Points, Points]:
    """Random pairs of points of a map, half of them on one parallel, a third on the edge nearest a
    pole."""
    low, high = (grid.south, grid.west), (grid.north, grid.east)
    first, second = rng.uniform(low, high, (2, number, 2))
    second[::2, 0] = first[::2, 0]
    first[::3, 0] = second[::3, 0] = max(grid.south, grid.north, key=abs)
    # Half of the seconds are brought near the first, at distances of every size.
    near = rng.random(number) < 0.5
    second[near] = first[near] + (second[near] - first[near]) * 10 ** rng.uniform(
        -4, 0, (int(near.sum()), 1)
    )
    return first, second


def random_box(rng: np.random.Generator) -> sdp.Grid:
    """A map somewhere on the globe, many at the date line or at the largest latitudes."""
    south, north = np.sort(rng.uniform(-80, 80, 2))
    if rng.random() < 0.3:
        south, north = (60.0, 80.0) if rng.random() < 0.5 else (-80.0, -60.0)
    width = 10 ** rng.uniform(-1, math.log10(180))
    west = rng.choice([-180.0, 180.0 - width, rng.uniform(-180, 180 - width)])
    size = min(width * math.cos(math.radians(max(abs(south), abs(north)))), north - south) * 111_000
    return sdp.Grid(south, west, north, min(west + width, 180.0), size / rng.integers(3, 3000))


@pytest.mark.parametrize("seed", range(40))
def test_points_of_any_map_are_no_more_squares_apart_than_their_distance_allows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for grid in (random_box(rng) for _ in range(5)):
        first, second = pairs_of(grid, rng, 3000)
        allowed = np.array([grid.reach(radius) for radius in great_circle(first, second)])
        assert np.all(steps(grid, first, second) <= allowed)


def test_the_reach_is_attained_by_the_corners_nearest_a_pole() -> None:
    """Small squares, so that rounding to them is nothing: the bound is what two points really do,
    but for 0.6%."""
    for grid in LAND[:4]:
        small = replace(grid, side=20)
        edge = max(small.south, small.north, key=abs)
        corners = np.array([[edge, small.west]]), np.array([[edge, small.east]])
        reach = small.reach(float(great_circle(*corners)[0]))
        assert 0.994 * reach <= steps(small, *corners)[0] <= reach


def test_distances_are_those_of_the_ellipsoid() -> None:
    """A degree of latitude is shorter at the equator than on a sphere: by chords of WGS 84, 1e-7
    short of geodesics."""

    def position(lat: float) -> tuple[float, float]:
        squared = 0.00669437999014  # of the eccentricity
        across = 6_378_137.0 / math.sqrt(1 - squared * math.sin(math.radians(lat)) ** 2)
        return across * math.cos(math.radians(lat)), across * (1 - squared) * math.sin(
            math.radians(lat)
        )

    grid = sdp.Grid(south=-0.5, west=10, north=0.5, east=11, side=1)
    metres = math.dist(position(-0.05), position(0.05)) * (1 + 1e-6)
    moved = steps(grid, np.array([[-0.05, 10.5]]), np.array([[0.05, 10.5]]))[0]
    assert 0.999 * grid.reach(metres) <= moved <= grid.reach(metres)


def axis_laws(
    plan: sdp.Plan, first: int, second: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact laws of an axis's sum where one user is at `first` or at `second` and all others in the
    middle.

    The others are so far from the ends that clamping does not touch them; the user's own report is
    clamped."""
    spec = plan.spec
    assert isinstance(spec, sdp.GeoShuffle)
    phi, size = math.exp(-float(spec.epsilon_geo)), 2**14
    others = plan.setting.honest - 1
    turns = np.exp(2j * np.pi * np.arange(size) / size)
    noise = ((1 - phi) ** 2 / np.abs(1 - phi * turns) ** 2) ** others

    def law(value: int) -> NDArray[np.float64]:
        places = np.arange(-2 * size, 2 * size + 1)
        one = (1 - phi) / (1 + phi) * phi ** np.abs(places)
        ends = np.clip(value + places, -spec.padding, spec.max_value + spec.padding)
        report = np.bincount((ends % size).astype(np.int64), weights=one, minlength=size)
        summed = np.fft.ifft(np.fft.fft(report) * noise).real
        return np.roll(np.maximum(summed, 0.0), size // 2)

    return law(first), law(second)


def two_axis_delta(
    plan: sdp.LocationPlan, first: NDArray[np.int64], second: NDArray[np.int64]
) -> float:
    """Exact δ of both rounds together at the claimed ε, for a user in the first square or in the
    second."""
    (p, p_moved), (q, q_moved) = (
        axis_laws(axis, int(a), int(b))
        for axis, a, b in zip((plan.columns, plan.rows), first, second, strict=True)
    )
    growth = math.exp(plan.epsilon)
    # Columns of less than 1e-18 add less than 1e-13 together.
    likely = np.flatnonzero(p > 1e-18)
    rows = zip(p[likely], p_moved[likely], strict=True)
    return math.fsum(float(np.maximum(a * q - growth * b * q_moved, 0).sum()) for a, b in rows)


@pytest.mark.parametrize("grid", LAND[:2], ids=["Europe", "Scandinavia"])
def test_the_exact_delta_of_both_rounds_keeps_the_claim_on_a_large_map(grid: sdp.Grid) -> None:
    """The pairs of points that cost most among 20,000 within the radius, all near the edge nearest
    the pole."""
    radius, users = 50 * grid.side, 2000
    plan = sdp.plan_location(grid, radius=radius, epsilon=1, delta=1e-6, users=users)
    rng = np.random.default_rng(3)
    first = np.stack(
        (np.full(20_000, grid.north - 1e-6), np.full(20_000, grid.west + 1e-3)), axis=1
    )
    bearing = rng.uniform(0, math.pi / 2, 20_000)
    # Straight on the sphere, south-east from the north-western corner.
    angle, lat = radius / 6_371_008.8 * (1 - 1e-9), np.radians(first[:, 0])
    south = np.sin(lat) * math.cos(angle) - np.cos(lat) * math.sin(angle) * np.sin(bearing)
    turned = np.arctan2(
        np.cos(bearing) * math.sin(angle) * np.cos(lat), math.cos(angle) - np.sin(lat) * south
    )
    second = np.degrees(np.stack((np.arcsin(south), np.radians(first[:, 1]) + turned), axis=1))
    assert great_circle(first, second).max() <= radius
    (here, _), (there, _) = grid.squares(first), grid.squares(second)
    epsilons = [sdp.certify(axis).certified for axis in (plan.columns, plan.rows)]
    costs = np.abs(there - here) @ np.array(epsilons, dtype=np.float64)
    worst = int(np.argmax(costs))
    assert costs[worst] <= plan.epsilon
    assert two_axis_delta(plan, here[worst], there[worst]) <= plan.delta


def test_two_points_of_northern_europe_cost_no_more_than_the_plan_says() -> None:
    """Once certified as 1 and really 1.11 for these two: they are as many columns apart as farther
    points in Spain."""
    plan = sdp.plan_location(LAND[0], radius=1e6, epsilon=1, delta=1e-6, users=2000)
    squares, _ = plan.grid.squares([(69.999999, -9.99), (69.999999, 16.4)])
    moved = int(squares[1, 0] - squares[0, 0])
    group = sdp.Setting(2000, 2000, Adjacency.METRIC, max_distance=moved)
    attained = sdp.certify(replace(plan.columns, setting=group, delta=plan.delta)).attained
    assert attained is not None
    assert attained * moved <= plan.epsilon <= 1


def test_a_map_wider_than_half_the_globe_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 180 degrees of longitude"):
        sdp.Grid(south=-60, west=-180, north=60, east=180, side=50_000)


def test_a_point_beyond_the_date_line_goes_to_the_nearest_edge() -> None:
    alaska = sdp.Grid(south=51, west=-180, north=71, east=-130, side=20_000)
    squares, outside = alaska.squares([(52, 179.5), (52, -180.5), (52, -179.99), (52, 180.01)])
    assert squares[:, 0].tolist() == [0, 0, 0, 0]
    assert outside == 2


def test_the_centroid_is_as_near_as_it_says(plan: sdp.LocationPlan) -> None:
    """Fails for a sound program once in 1e9: 6.5 standard errors of near-normal noise in the
    plane."""
    points = np.random.default_rng(5).uniform((48.83, 2.3), (48.87, 2.38), (2000, 2))
    found = sdp.simulate_location(plan, points, seed=8)
    assert 0 < found.error < 6.5 * found.standard_error
    assert found.outside == 0
    (south, west), (north, east) = found.box
    assert south < found.point[0] < north
    assert west < found.point[1] < east
    assert found.truth == pytest.approx(points.mean(axis=0), abs=0.002)
    again = sdp.simulate_location(plan, points, seed=8)
    assert again.to_dict() == found.to_dict()


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ((48.9, 2.2, 48.8, 2.4, 100), "south below north"),
        ((48.8, 2.2, 48.9, 2.4, 0), "at least 0.001 metres, not 0"),
        ((48.8, 2.2, 48.9, 2.4, 1e-320), "at least 0.001 metres, not 9.99989e-321"),
        ((48.8, 2.2, 48.9, 2.4, 20_000), "columns"),
    ],
)
def test_a_map_that_is_none_is_refused(
    edges: tuple[float, float, float, float, float], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        sdp.Grid(*edges)


def test_the_command_tells_and_draws(tmp_path: Path) -> None:
    file, picture = tmp_path / "people.csv", tmp_path / "map.png"
    file.write_text("id,lat,lon\n1,48.85,2.33\n2,48.86,2.35\n3,48.99,2.35\n")
    command = [
        "location",
        str(file),
        "--box",
        "48.82,2.28,48.88,2.40",
        "--side",
        "500",
        "--radius",
        "2000",
    ]
    ran = CliRunner().invoke(
        app, [*command, "--seed", "1", "--format", "json", "--plot", str(picture)]
    )
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["epsilon"]["certified"] <= 1
    assert told["outside"] > 0
    assert told["error_metres"] < 6.5 * told["standard_error_metres"]
    assert picture.stat().st_size > 10_000
    shown = CliRunner().invoke(app, [*command, "--seed", "1"])
    assert "certified, for points" in shown.output
    assert "went to its nearest square" in shown.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,lat\n1,2\n", "no column 'lon'"),
        ("lat,lon\n", "no rows"),
        ("lat,lon\n48,x\n", "must be degrees"),
    ],
)
def test_a_file_without_points_is_explained(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(text)
    ran = CliRunner().invoke(app, ["location", str(file), "--box", "48.82,2.28,48.88,2.40"])
    assert isinstance(ran.exception, UsageError)
    assert said in str(ran.exception)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--epsilon -1", "epsilon must be above 0 and at most 100, not -1"),
        ("--epsilon nan", "epsilon must be above 0 and at most 100, not nan"),
        ("--epsilon 101", "epsilon must be above 0 and at most 100, not 101"),
        ("--delta 0", "delta of both rounds must be from 2e-12 to below 1, not 0"),
        ("--delta 1e-12", "delta of both rounds must be from 2e-12 to below 1, not 1e-12"),
        ("--delta 1", "delta of both rounds must be from 2e-12 to below 1, not 1"),
        ("--radius 0", "radius must be above 0 and at most"),
        ("--radius 1e308", "radius must be above 0 and at most"),
        ("--side 1e-320", "side of a square must be at least"),
        ("--seed -1", "seed must be a whole number from 0, not -1"),
        ("--honest 3000", "honest must be from 1 to the number of users, 2000, not 3000"),
        ("--users 99999999999999", "users must be from 1 to 1,000,000,000, not 99999999999999"),
    ],
)
def test_a_refusal_names_what_was_typed(typed: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("lat,lon\n48.85,2.33\n")
    option, value = typed.split()
    command = [
        "location",
        str(file),
        "--box",
        "48.82,2.28,48.88,2.40",
        "--side",
        "500",
        "--radius",
        "2000",
    ]
    ran = CliRunner().invoke(app, [*command, option, value])
    assert isinstance(ran.exception, UsageError)
    assert said in str(ran.exception)


def test_only_mechanisms_that_answer_a_sum_find_a_middle() -> None:
    sums = {kind for kind, spec in MECHANISMS.items() if spec.answers is Answers.SUM}
    for kind in {*MECHANISMS} - sums:
        with pytest.raises(UsageError) as refused:
            sdp.plan_location(PARIS, radius=1000, epsilon=1, delta=1e-6, users=2000, mechanism=kind)
        assert kind in str(refused.value)
        assert set(str(refused.value).rpartition("choose one of ")[2].split(", ")) == sums
    with pytest.raises(UsageError, match="unknown mechanism 'none'"):
        sdp.plan_location(PARIS, radius=1000, epsilon=1, delta=1e-6, users=2000, mechanism="none")
