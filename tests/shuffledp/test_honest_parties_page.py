"""The page "How few honest parties do you need?" states what the library computes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp_core.mechanisms.base import Spec

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "how-few-honest-parties.md"
EVERYONE = sdp.Setting(10_000, 10_000)
ALONE = sdp.Setting(10_000, 1)


def plan_of(kind: str) -> sdp.Plan:
    return sdp.calibrate(kind, epsilon=1, delta=1e-6, setting=EVERYONE, symbols=21)


def row_of(kind: str) -> list[str]:
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{kind}`"))
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("kind", ["krr-histogram", "dummy-histogram", "node-histogram"])
def test_messages_and_errors_are_those_of_the_calibrated_plan(kind: str) -> None:
    plan = plan_of(kind)
    error = sdp.certify(plan).error
    assert error is not None
    assert isinstance(plan.spec, Spec)
    row = row_of(kind)
    assert row[2] == str(plan.spec.messages_per_user)
    assert row[3] == str(plan.spec.dummies_per_node)
    assert f"{error:.1f}" in row[4]


def test_three_nodes_have_three_times_the_variance_of_one() -> None:
    guarantee = sdp.certify(plan_of("node-histogram"))
    assert guarantee.error is not None
    assert guarantee.error_of_one_node is not None
    assert guarantee.error == pytest.approx(guarantee.error_of_one_node * math.sqrt(3))
    stated = f"{guarantee.error:.1f} with three nodes, {guarantee.error_of_one_node:.1f} with one"
    assert stated in row_of("node-histogram")[4]


@pytest.mark.parametrize("kind", ["dummy-histogram", "node-histogram"])
def test_the_price_of_a_finite_local_epsilon_is_that_of_the_calibrated_plan(kind: str) -> None:
    plan = sdp.calibrate(kind, epsilon=1, delta=1e-6, setting=EVERYONE, symbols=21, epsilon_local=8)
    guarantee = sdp.certify(plan)
    assert guarantee.corrupted is not None
    assert guarantee.corrupted <= 8
    assert guarantee.error is not None
    assert f"ε_L ≤ 8: {guarantee.error:.1f}" in row_of(kind)[5]


def test_one_honest_person_is_enough_for_node_noise_alone() -> None:
    alone = sdp.certify(plan_of("node-histogram"), ALONE).certified
    assert alone is not None
    assert alone <= 1
    local = sdp.certify(plan_of("krr-histogram"), ALONE).certified
    assert f"ε0 = {local:.1f}" in PAGE.read_text()


def test_dummies_of_less_than_a_third_of_the_people_certify_nothing() -> None:
    plan = plan_of("dummy-histogram")
    assert sdp.certify(plan, sdp.Setting(10_000, 3_000)).certified is None
    assert sdp.certify(plan, sdp.Setting(10_000, 3_600)).certified is not None
