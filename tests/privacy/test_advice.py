"""Advice: the rows are right, sorted, within the limits, and quick."""

from __future__ import annotations

from fractions import Fraction

import pytest
from counted_work import count_calls

from shuffledp import simulate
from shuffledp_core.errors import CannotCertify
from shuffledp_core.mechanisms import MECHANISMS, KRRHistogram
from shuffledp_privacy.analysis import CostAnalysis
from shuffledp_privacy.bounds import corrupted_bounds, epsilon_bounds, standard_error
from shuffledp_privacy.calibration import advice
from shuffledp_privacy.calibration import calibrate as calibration
from shuffledp_privacy.calibration.advice import advise, describe
from shuffledp_privacy.calibration.calibrate import Target, calibrate
from shuffledp_privacy.calibration.target import certified_epsilon_of, excess

TARGET = Target(1.0, 1e-6, users=2000, honest=1800, max_value=20)
NODES = 3


RANKED = {
    kind
    for kind, mechanism in MECHANISMS.items()
    if not (mechanism.for_ranges or mechanism.counts_columns)
}
"""Mechanisms that answer with a sum, or with the counts of one question."""


@pytest.fixture(scope="module")
def rows() -> list[CostAnalysis]:
    return advise(TARGET, NODES)


def test_every_mechanism_has_a_row_that_meets_the_target(rows: list[CostAnalysis]) -> None:
    assert {row.kind for row in rows} == RANKED
    for row in rows:
        assert 0 <= row.attained <= row.certified <= 1.0


def test_rows_come_cheapest_first(rows: list[CostAnalysis]) -> None:
    assert [row.messages for row in rows] == sorted(row.messages for row in rows)


def test_rows_repeat_what_the_analyses_say_of_the_mechanism(rows: list[CostAnalysis]) -> None:
    for row in rows:
        spec = row.mechanism
        assert row.certified == epsilon_bounds(spec, TARGET.setting, TARGET.delta).certified
        assert row.error == standard_error(spec, TARGET.users, NODES)
        assert row.corrupted_epsilon == corrupted_bounds(spec, TARGET.setting, TARGET.delta).epsilon
        assert row.messages == spec.messages_per_user


def test_the_error_has_the_noise_of_all_nodes_and_names_that_of_one(
    rows: list[CostAnalysis],
) -> None:
    by_nodes = {row.kind for row in rows if row.error != row.error_of_one_node}
    assert by_nodes == {"node-histogram", "node-sum"}
    for row in rows:
        if row.kind in by_nodes:
            estimate = simulate(row.mechanism, [3] * TARGET.users, nodes=NODES).estimate
            assert row.error == pytest.approx(max(estimate.standard_errors))
            assert row.error_of_one_node == pytest.approx(row.error / NODES**0.5)


def test_sums_and_counts_are_told_apart(rows: list[CostAnalysis]) -> None:
    assert {row.kind for row in rows if row.estimates != "sum"} == {
        "bloom-rappor",
        "dummy-histogram",
        "krr-histogram",
        "hadamard-histogram",
        "node-histogram",
        "rappor-histogram",
    }


def test_limits_leave_out_what_exceeds_them(rows: list[CostAnalysis]) -> None:
    cheapest = rows[0]
    assert [row.kind for row in advise(TARGET, NODES, max_messages=cheapest.messages)] == [
        row.kind for row in rows if row.messages <= cheapest.messages
    ]
    finest = min(rows, key=lambda row: row.error)
    assert finest.kind in {row.kind for row in advise(TARGET, NODES, max_error=finest.error)}


def test_nothing_left_is_refused_with_every_reason() -> None:
    with pytest.raises(CannotCertify, match=r"krr-histogram.*standard error"):
        advise(Target(1.0, 1e-6, users=100, honest=100, symbols=4), NODES, max_error=1e-3)


def test_a_histogram_target_gets_histograms_only() -> None:
    found = advise(Target(1.0, 1e-6, users=1000, honest=1000, symbols=12), NODES)
    assert [row.kind for row in found] == [
        "node-histogram",
        "krr-histogram",
        "bloom-rappor",
        "rappor-histogram",
        "hadamard-histogram",
        "dummy-histogram",
    ]


def test_several_rounds_are_described_by_their_composition() -> None:
    target = Target(2.0, 1e-6, users=500, honest=500, symbols=5, rounds=4)
    row = describe(calibrate("krr-histogram", target), target, NODES)
    assert row.attained < row.certified <= 2.0
    assert row.certified > 1.9


def test_advice_for_the_demo_certifies_little_and_tries_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = (
        (calibration, "excess"),
        (calibration, "certified_epsilon_of"),
        (advice, "epsilon_bounds"),
    )
    calls = count_calls(monkeypatch, *places)
    found = advise(Target(1.1, 1e-6, users=2000, honest=1800, max_value=20), NODES)
    assert calls.count("epsilon_bounds") == len(found) == len(RANKED)
    assert calls.count("certified_epsilon_of") <= 5 * len(found)
    assert calls.count("excess") <= 25 * len(found)


def test_a_search_that_meets_an_epsilon_of_zero_goes_on() -> None:
    noisy = KRRHistogram(
        symbols=2, blanket=Fraction(1)
    )  # nothing but noise: its rounds cost nothing
    target = Target(0.5, 1e-6, users=100, honest=100, symbols=2, rounds=2)
    assert certified_epsilon_of(noisy, target) == 0
    assert excess(noisy, target) < 0
