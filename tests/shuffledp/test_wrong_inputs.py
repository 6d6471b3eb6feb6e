"""Arguments of a wrong type or without a meaning: one typed error each, and never a number for
something else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp_core.errors import UsageError

GROUP = sdp.Setting(users=2000, honest=1900)
HALF = Fraction(1, 2)
QUARTER = Fraction(1, 4)
KRR = sdp.KRRHistogram(symbols=4, blanket=HALF)
GEO = sdp.GeoShuffle(max_value=20, epsilon_geo=Fraction(1, 4), padding=60)
SGDL = sdp.SGDLShuffle(max_value=3, noise_epsilon=Fraction(1, 2), shares=1900, padding=30)
PLAN = sdp.Plan(KRR, GROUP, 1e-6)
PARIS = sdp.Grid(south=48.82, west=2.28, north=48.88, east=2.40, side=200)

ANY: Any = sdp
"""The library as a caller without a type checker sees it."""


def calibrated(**changed: object) -> object:
    wanted: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "setting": GROUP, "symbols": 4}
    return sdp.calibrate("krr-histogram", **(wanted | changed))


def planned(**changed: object) -> object:
    wanted: dict[str, Any] = {"spec": KRR, "setting": GROUP, "delta": 1e-6}
    return ANY.Plan(**(wanted | changed))


def located(**changed: object) -> object:
    wanted: dict[str, Any] = {"radius": 1000.0, "epsilon": 1.0, "delta": 1e-6, "users": 2000}
    return ANY.plan_location(PARIS, **(wanted | changed))


def test_an_adjacency_by_name_is_that_adjacency() -> None:
    """Any text was once taken for another adjacency than it names, and certified as standard."""
    by_name = ANY.Setting(2000, 1900, "metric")
    assert by_name == sdp.Setting(2000, 1900, sdp.Adjacency.METRIC)
    assert by_name.adjacency is sdp.Adjacency.METRIC
    wanted = sdp.certify(GEO, sdp.Setting(2000, 1900, sdp.Adjacency.METRIC), delta=1e-6)
    standard = sdp.certify(GEO, sdp.Setting(2000, 1900), delta=1e-6)
    assert sdp.certify(GEO, by_name, delta=1e-6).certified == wanted.certified != standard.certified


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    setting = ANY.Setting(np.int64(2000), np.int32(1900), max_distance=np.uint8(3))
    assert setting == sdp.Setting(2000, 1900, max_distance=3)
    assert all(
        type(number) is int for number in (setting.users, setting.honest, setting.max_distance)
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: ANY.Setting(2000, 1900, "nonsense"),
            "adjacency must be 'standard' or 'metric', not 'nonsense'",
        ),
        (
            lambda: ANY.Setting(2000, 1900, None),
            "adjacency must be 'standard' or 'metric', not None",
        ),
        (lambda: ANY.Setting("2000", 1900), "users must be a whole number, not '2000'"),
        (lambda: ANY.Setting(2000, "1900"), "honest must be a whole number, not '1900'"),
        (lambda: ANY.Setting(2000.0, 1900.0), "users must be a whole number, not 2000.0"),
        (lambda: ANY.Setting(users=True, honest=True), "users must be a whole number, not True"),
        (lambda: ANY.Setting(None, 1), "users must be a whole number, not None"),
        (
            lambda: ANY.Setting(9, 9, max_distance="3"),
            "max-distance must be a whole number, not '3'",
        ),
        (
            lambda: ANY.Setting(9, 9, max_distance=3.0),
            "max-distance must be a whole number, not 3.0",
        ),
        (lambda: calibrated(epsilon="1"), "epsilon must be a number, not '1'"),
        (lambda: calibrated(epsilon=None), "epsilon must be a number, not None"),
        (lambda: calibrated(delta="1e-6"), "delta must be a number, not '1e-6'"),
        (lambda: calibrated(symbols="4"), "symbols must be a whole number, not '4'"),
        (lambda: calibrated(symbols=4.5), "symbols must be a whole number, not 4.5"),
        (
            lambda: calibrated(symbols=None, max_value=4.0),
            "max-value must be a whole number, not 4.0",
        ),
        (lambda: calibrated(rounds=2.5), "rounds must be a whole number, not 2.5"),
        (lambda: calibrated(setting=2000), "setting must be a Setting"),
        (lambda: ANY.certify(KRR, 2000, delta=1e-6), "setting must be a Setting"),
        (lambda: ANY.certify(KRR, GROUP, delta="1e-6"), "delta must be a number, not '1e-6'"),
        (
            lambda: ANY.certify(KRR, GROUP, delta=1e-6, rounds=2.5),
            "rounds must be a whole number, not 2.5",
        ),
        (lambda: ANY.compose([PLAN], delta="1e-6"), "delta must be a number, not '1e-6'"),
        (lambda: planned(nodes="3"), "nodes must be a whole number, not '3'"),
        (lambda: planned(nodes=2.5, corrupt={1, 2}), "nodes must be a whole number, not 2.5"),
        (lambda: planned(corrupt={1, 2, 9}), "corrupt must be numbers of nodes from 1 to 3"),
        (lambda: planned(corrupt={0}), "corrupt must be numbers of nodes from 1 to 3"),
        (
            lambda: ANY.advise(epsilon=1, delta=1e-6, setting=GROUP, symbols=4, max_error="3"),
            "max-error must be a num",
        ),
        (
            lambda: sdp.advise(
                epsilon=1, delta=1e-6, setting=GROUP, symbols=4, max_error=float("nan")
            ),
            "above 0",
        ),
        (lambda: ANY.simulate(KRR, [1], seed="1"), "seed must be a whole number, not '1'"),
        (lambda: ANY.simulate(KRR, [1], seed=1.5), "seed must be a whole number, not 1.5"),
        (lambda: ANY.simulate(KRR, [[1], [1, 2]]), "one whole number per user"),
        (lambda: ANY.Grid("48", 2.28, 48.88, 2.40, 200), "south must be a number, not '48'"),
        (lambda: ANY.Grid(48.82, 2.28, 48.88, 2.40, None), "side must be a number, not None"),
        (lambda: located(radius="1000"), "radius must be a number, not '1000'"),
        (lambda: located(users="2000"), "users must be a whole number, not '2000'"),
        (lambda: ANY.KRRHistogram(symbols=4, blanket=0.2), "blanket must be a Fraction, not 0.2"),
        (
            lambda: ANY.KRRHistogram(symbols=4, blanket="1/2"),
            "blanket must be a Fraction, not '1/2'",
        ),
        (lambda: ANY.KRRHistogram(symbols=4, blanket=None), "blanket must be a Fraction, not None"),
        (
            lambda: ANY.KRRHistogram(symbols="4", blanket=HALF),
            "symbols must be a whole number from 2 to 2147483647, not '4'",
        ),
        (lambda: ANY.KRRHistogram(symbols=1, blanket=HALF), "symbols must be a whole number from"),
        (
            lambda: ANY.KRRHistogram(symbols=True, blanket=HALF),
            "symbols must be a whole number from 2 to 2147483647, not True",
        ),
        (
            lambda: sdp.GeoShuffle(max_value=20, epsilon_geo=HALF, padding=-1),
            "padding must be a whole number from 0 to 2147483647, not -1",
        ),
        (
            lambda: ANY.GeoShuffle(max_value=20, epsilon_geo=0.25, padding=6),
            "epsilon_geo must be a Fraction, not 0.25",
        ),
        (
            lambda: sdp.RapporHistogram(symbols=4, fake=HALF, when_zero=HALF, when_one=QUARTER),
            "need when_zero <= when_one < 1, not 1/2 and 1/4",
        ),
        (
            lambda: calibrated(max_value=3),
            "name one domain: either max-value, for a sum, or symbols, for a",
        ),
        (
            lambda: calibrated(symbols=None),
            "a target needs either max-value (for a sum) or symbols",
        ),
        (lambda: calibrated(epsilon=float("nan")), "epsilon must be above 0 and at most 100"),
        (lambda: calibrated(delta=1.0), "delta must be from 1e-12 to below 1, not 1.0"),
        (
            lambda: ANY.calibrate("nothing", epsilon=1, delta=1e-6, setting=GROUP, symbols=4),
            "unknown mechanism 'nothing'; choose one of",
        ),
        (lambda: sdp.Setting(10, 11), "honest must be from 1 to the number of users, 10, not 11"),
        (
            lambda: ANY.certify(KRR, GROUP),
            "do not state a delta: give it as an argument, or pass a plan",
        ),
        (lambda: ANY.certify(None, GROUP, delta=1e-6), "None is neither a plan nor a mechanism's"),
        (lambda: ANY.compose(PLAN, delta=1e-6), "plans must be a list with one plan per round"),
        (lambda: ANY.compose([1, 2], delta=1e-6), "1 is neither a plan nor a mechanism's"),
        (lambda: sdp.compose([], delta=1e-6), "composition needs at least one round"),
        (lambda: planned(spec="krr"), "spec must be the parameters of a mechanism, not 'krr'"),
        (lambda: planned(corrupt=1), "corrupt must be a set of node numbers, not 1"),
        (lambda: sdp.simulate(KRR, [1.5], seed=1), "values must be whole numbers, not float64"),
        (lambda: sdp.simulate(KRR, [4], seed=1), "values must be from 0 to 3, the mechanism's"),
        (lambda: ANY.curve(PLAN, epsilons=["1"]), "epsilons must be a list of finite numbers"),
        (lambda: ANY.group(PLAN, "2"), "reports must be a whole number, not '2'"),
        (lambda: ANY.subsampled(PLAN, ".5"), "rate must be a number, not '.5'"),
        (
            lambda: ANY.LocalMatrix(np.array([[0.5, 0.5], [0.25, 0.75]])),
            "rows must be a tuple of rows of fractions, not a ndarray",
        ),
        (
            lambda: ANY.LocalMatrix([[0.5, 0.5]]),
            "row 1, column 1 must be a Fraction, not 0.5",
        ),
        (lambda: ANY.verify(None), "document must be the path of a file or a folder, not None"),
        (
            lambda: ANY.privacy_loss_distribution(KRR, GROUP, interval="1e-3"),
            "interval must be a number, not '1e-3'",
        ),
        (
            lambda: ANY.SubsetSelection(symbols=4, size="1", own=HALF),
            "size must be a whole number, not '1'",
        ),
        (
            lambda: ANY.UnaryEncoding(symbols=4, when_one=HALF, when_zero="1/4"),
            "when-zero must be a number, not '1/4'",
        ),
        (
            lambda: ANY.plan_location("Paris", radius=1000, epsilon=1, delta=1e-6, users=9),
            "grid must be a Grid, not 'Paris'",
        ),
    ],
    ids=range(68),
)
def test_a_wrong_argument_is_refused_in_one_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        call()
    assert said in str(refused.value)


@pytest.mark.parametrize("spec", [KRR, SGDL], ids=lambda spec: spec.kind)
def test_a_plan_is_not_simulated_with_fewer_users_than_its_guarantee_needs(
    spec: sdp.KRRHistogram,
) -> None:
    """A hundred users of a plan for 2,000 have another guarantee than the plan's."""
    plan = sdp.Plan(spec, GROUP, 1e-6)
    with pytest.raises(
        UsageError, match=r"100 values are fewer than the 1,900 honest users .* allow_fewer=True"
    ):
        sdp.simulate(plan, [1] * 100, seed=1)
    assert sdp.simulate(plan, [1] * 100, seed=1, allow_fewer=True).users == 100
    assert sdp.simulate(plan, [1] * 1900, seed=1).users == 1900
    assert sdp.simulate(spec, [1] * 100, seed=1).users == 100


def test_too_few_points_of_a_map_are_refused_alike() -> None:
    plan = sdp.plan_location(PARIS, radius=1000, epsilon=1, delta=1e-6, users=50)
    points = [(48.85, 2.33)] * 20
    with pytest.raises(UsageError, match="20 values are fewer than the 50 honest users"):
        sdp.simulate_location(plan, points, seed=1)
    assert len(sdp.simulate_location(plan, points, seed=1, allow_fewer=True).squares) == 20
