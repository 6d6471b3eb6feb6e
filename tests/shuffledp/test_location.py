"""Locations: squares and their middles, what two rounds guarantee for two points of the map, and the command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.location import METRES_A_DEGREE
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import MECHANISMS, Answers

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
    metres = np.diff(middles[:, 1]) * METRES_A_DEGREE * math.cos(math.radians(48.85))
    assert metres == pytest.approx(np.full(PARIS.columns - 1, 250.0))


def test_points_outside_go_to_the_nearest_square_and_are_counted() -> None:
    squares, outside = PARIS.squares([(48.0, 2.0), (49.0, 3.0), (48.85, 2.3)])
    assert squares[:2].tolist() == [[0, 0], [PARIS.columns - 1, PARIS.rows - 1]]
    assert outside == 2


def test_no_two_points_within_the_radius_cost_more_than_epsilon(plan: sdp.LocationPlan) -> None:
    """Pairs at every angle and offset in a square: ε1 dx + ε2 dy of the axes' certified ε, written out anew."""
    east, north = (sdp.certify(axis).certified for axis in (plan.columns, plan.rows))
    assert east is not None
    assert north is not None
    costs = []
    for angle in np.linspace(0, math.pi / 2, 61):
        for offset in np.linspace(0, 0.999, 25):
            steps = [
                math.floor(offset + plan.radius / PARIS.side * part) for part in (math.cos(angle), math.sin(angle))
            ]
            costs.append(east * steps[0] + north * steps[1])
    assert max(costs) <= plan.epsilon <= 1
    assert max(costs) >= 0.7 * plan.epsilon, "a radius so small against the squares wastes at most this"
    assert plan.columns.delta + plan.rows.delta <= plan.delta <= 1e-6 * (1 + 1e-12)


def test_the_centroid_is_as_near_as_it_says(plan: sdp.LocationPlan) -> None:
    """Fails for a sound program once in 1e9: 6.5 standard errors of near-normal noise in the plane."""
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
def test_a_map_that_is_none_is_refused(edges: tuple[float, float, float, float, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        sdp.Grid(*edges)


def test_the_command_tells_and_draws(tmp_path: Path) -> None:
    file, picture = tmp_path / "people.csv", tmp_path / "map.png"
    file.write_text("id,lat,lon\n1,48.85,2.33\n2,48.86,2.35\n3,48.99,2.35\n")
    command = ["location", str(file), "--box", "48.82,2.28,48.88,2.40", "--side", "500", "--radius", "2000"]
    ran = CliRunner().invoke(app, [*command, "--seed", "1", "--format", "json", "--plot", str(picture)])
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
    [("id,lat\n1,2\n", "no column 'lon'"), ("lat,lon\n", "no rows"), ("lat,lon\n48,x\n", "need degrees")],
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
        ("--seed -1", "seed must be a whole number from 0 up, not -1"),
        ("--honest 3000", "honest must be from 1 to the number of users, 2000, not 3000"),
        ("--users 99999999999999", "users must be from 1 to 1,000,000,000, not 99999999999999"),
    ],
)
def test_a_refusal_names_what_was_typed(typed: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("lat,lon\n48.85,2.33\n")
    option, value = typed.split()
    command = ["location", str(file), "--box", "48.82,2.28,48.88,2.40", "--side", "500", "--radius", "2000"]
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
