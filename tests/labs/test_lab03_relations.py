"""Relations of output and input order: found where there is one, and not reported of uniform
orders."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import pytest

from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import CheckFailure
from shuffledp_labs.lab03_node import onions
from shuffledp_labs.lab03_node.joining import ORDER_CHANCE, judge_orders
from shuffledp_labs.lab03_node.relations import find_relation, threshold
from shuffledp_labs.lab03_node.student_node import _append_order

COUNT = 24
PLACES = list(range(COUNT))
SCRAMBLED = list(Draws(b"scrambled").permute(PLACES))


def turned(order: list[int], step: int) -> list[int]:
    return order[step:] + order[:step]


@pytest.mark.parametrize(
    "order",
    [
        PLACES,
        PLACES[::-1],
        turned(PLACES, 7),
        turned(PLACES[::-1], 11),
        [(7 * place + 3) % COUNT for place in PLACES],
    ],
    ids=["kept", "reversed", "rotated", "reversed and rotated", "strides"],
)
def test_one_real_batch_shows_an_order_that_was_kept_turned_or_taken_in_strides(
    order: list[int],
) -> None:
    with pytest.raises(CheckFailure, match="follows from their order of arrival"):
        judge_orders([order])


@pytest.mark.parametrize(
    "second",
    [
        SCRAMBLED,
        turned(SCRAMBLED, 9),
        [(place + 5) % COUNT for place in SCRAMBLED],
        [*SCRAMBLED[:-2], SCRAMBLED[-1], SCRAMBLED[-2]],
    ],
    ids=["the same", "rotated output", "rotated input", "nearly the same"],
)
def test_two_batches_show_any_other_fixed_relation(second: list[int]) -> None:
    with pytest.raises(CheckFailure, match="two batches"):
        judge_orders([SCRAMBLED, second])


def test_uniform_orders_are_not_reported() -> None:
    """40 times with chance 1e-11: this test fails of itself with probability at most 4e-10."""
    for _ in range(40):
        orders = [random.SystemRandom().sample(PLACES, COUNT) for _ in range(6)]
        assert find_relation(orders, 1e-11) == ""
    assert find_relation([SCRAMBLED], ORDER_CHANCE) == ""


@pytest.mark.parametrize("rule", ["step", "place"])
def test_the_bound_holds_for_all_orders_of_six(rule: str) -> None:
    """Against every permutation, counted: the bound is never below the truth."""
    first = (2, 5, 0, 3, 1, 4)
    hits = [0] * 4
    for order in permutations(range(6)):
        if rule == "place":
            hits[sum(one == other for one, other in zip(order[:3], first, strict=False))] += 1
        else:
            hits[sum((order[at + 1] - order[at]) % 6 == 1 for at in range(3))] += 1
    events = [Fraction(1, 6 - at - (rule == "step")) for at in range(3)]
    for number in range(1, 4):
        truth = sum(hits[number:]) / 720
        assert threshold(events, truth * (1 - 1e-9)) > number or truth == 0


def test_the_node_writes_down_the_places_of_what_leaves(tmp_path: Path) -> None:
    keys, batch, inner = onions.real_batch(Draws(b"a"), 5)
    file = tmp_path / "orders.jsonl"
    leaving = [inner[3], inner[0], bytes(65), inner[4]]
    _append_order(file, keys.private, [*batch, batch[0], bytes(len(batch[0]))], leaving)
    _append_order(file, keys.private, batch, inner)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        [1, 0, 2],
        [0, 1, 2, 3, 4],
    ]
