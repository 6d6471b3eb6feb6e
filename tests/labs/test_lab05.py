"""Lab 5: its oracles against other computations, and every number of its handout."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab05_again import LAB, layers
from shuffledp_labs.lab05_again.budget import DELTA, LedgerDoor, days_allowed, one_day, real_ledger
from shuffledp_labs.lab05_again.guessing import (
    best_success,
    draw_truths,
    majority_success,
    success,
)
from shuffledp_labs.lab05_again.memory import (
    Branch,
    QuestionOnDay,
    chance_of_truth,
    chance_that,
    joint_law,
    largest_ratio,
)
from shuffledp_privacy.bounds import epsilon_bounds
from shuffledp_privacy.local.rappor import RapporPermanent, RapporReport, rappor_epsilon
from shuffledp_privacy.rounds.composition import Round, compose_epsilon

HANDOUT = " ".join(LAB.file("handout.md").read_text(encoding="utf-8").split())
INSTRUCTOR = " ".join(LAB.file("instructor.md").read_text(encoding="utf-8").split())
OTHER = Path(__file__).with_name("other_work_05.py")
TRUTH = Fraction(3, 4)
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


def both_say(text: str) -> None:
    assert text in HANDOUT
    assert text in INSTRUCTOR


@pytest.mark.parametrize("days", [1, 3, 9])
def test_for_days_that_are_alike_the_optimum_is_the_majority(days: int) -> None:
    assert best_success([TRUTH] * days) == majority_success(TRUTH, days)


def test_the_shares_of_days_are_computed() -> None:
    assert float(majority_success(TRUTH, 101)) > 1 - 1e-7
    for days, share in ((1, ".750"), (3, ".844"), (9, ".951"), (21, ".994")):
        assert f"{float(majority_success(TRUTH, days)):.3f}" == f"0{share}"
        assert f"{share} after {days}" in INSTRUCTOR


def test_the_handout_does_not_print_the_answers_of_its_predictions() -> None:
    assert ".951" not in HANDOUT
    assert "refuses day" not in HANDOUT


def test_counting_votes_and_trusting_the_best_day_are_worse_on_every_drawn_instance() -> None:
    for seed in range(20):
        three, nine = (draw_truths(Draws(bytes([seed, days])), days) for days in (3, 9))
        assert success(
            three, lambda days: int(sum(answer for answer, _ in days) > 1)
        ) < best_success(three)
        assert success(nine, lambda days: max(days, key=lambda day: day[1])[0]) < best_success(nine)


@pytest.mark.parametrize("hashes", [1, 2, 3])
def test_the_odds_of_rappor_are_those_of_the_product(hashes: int) -> None:
    report, kept = layers.odds(hashes, HALF, QUARTER, TRUTH)
    assert math.log(report) == pytest.approx(
        rappor_epsilon(RapporReport(hashes, 0.5, 0.25, 0.75)), rel=1e-9
    )
    assert math.log(kept) == pytest.approx(rappor_epsilon(RapporPermanent(hashes, 0.5)), rel=1e-9)


def test_the_numbers_of_rappor() -> None:
    report, kept = layers.odds(1, HALF, QUARTER, TRUTH)
    assert report == Fraction(25, 9)
    assert kept == 9
    assert "these are 25/9 and 9." in HANDOUT
    both_say(f"{math.log(report):.2f}")
    both_say(f"ε {math.log(kept):.2f}")
    # What all reports together can tell is the kept answer: the best guess from it is right with
    # probability 3/4.
    yes, no = layers.kept_law((0, 1), HALF), layers.kept_law((1, 0), HALF)
    assert sum(max(yes[bits], no[bits]) for bits in yes) / 2 == TRUTH
    assert "tend to .75 right" in INSTRUCTOR
    assert f"ε = ln 3 = {math.log(3):.2f}" in HANDOUT


def test_the_numbers_of_the_ledger() -> None:
    cost = one_day(20)
    daily = epsilon_bounds(cost.mechanism, cost.setting, DELTA).certified
    hundred = compose_epsilon([Round(cost.mechanism, cost.setting, 100)], DELTA)
    both_say(f"ε {daily:.2f}".replace("0.", "."))
    both_say(f"{hundred:.1f}")
    assert round(math.exp(12.1), -4) == 180_000
    assert days_allowed(3.0, 20, 100) == 11
    assert days_allowed(3.0, 20, 100, adaptive=True) == 7
    assert "day 12 is refused with fixed parameters, day 8 with adaptive ones" in INSTRUCTOR


def remembering(history: tuple[QuestionOnDay, ...], coins: Branch) -> tuple[int, ...]:
    kept: dict[QuestionOnDay, int] = {}
    return tuple(
        kept.setdefault(asked, asked.value if coins.flip(TRUTH) else 1 - asked.value)
        if asked not in kept
        else kept[asked]
        for asked in history
    )


def test_a_client_that_remembers_both_answers_reaches_both_bounds_of_step_c_exactly() -> None:
    laws = {}
    for values in ((0, 1, 0, 1), (1, 0, 1, 0)):
        history = tuple(QuestionOnDay("?", value) for value in values)
        law = laws[values] = joint_law(lambda _, coins: remembering(history, coins))  # noqa: B023
        assert all(chance_of_truth(law, history, day) == TRUTH for day in range(4))
        assert (
            chance_that(law, lambda answers: answers[0] != answers[1])
            == TRUTH**2 + (1 - TRUTH) ** 2
        )
    assert largest_ratio(*laws.values()) == (TRUTH / (1 - TRUTH)) ** 2


def test_the_walk_gives_the_joint_law_of_uneven_branches() -> None:
    def play(_: int, coins: Branch) -> tuple[int, ...]:
        first = coins.below(3)
        return (first, coins.flip(QUARTER)) if first else (first,)

    third = Fraction(1, 3)
    wanted = {(a, b): third * (QUARTER if b else TRUTH) for a, b in product((1, 2), (0, 1))}
    assert joint_law(play) == {(0,): third} | {(a, bool(b)): p for (a, b), p in wanted.items()}


def test_memory_outside_of_the_file_is_noticed() -> None:
    seen: list[int] = []

    def play(_: int, coins: Branch) -> tuple[int, ...]:
        if not seen:
            seen.append(coins.below(2))
        return tuple(seen)

    with pytest.raises(CheckFailure, match="memory"):
        joint_law(play)


def test_chance_from_elsewhere_is_noticed() -> None:
    turns = iter(range(100))
    with pytest.raises(CheckFailure, match="randomness"):
        joint_law(lambda _, coins: (int(coins.flip(TRUTH)), int(next(turns) > 10)))


def test_the_door_notices_a_question_without_a_certificate_and_one_that_is_put_twice() -> None:
    with real_ledger(3.0) as ledger:
        door = LedgerDoor(ledger, 20, {0: True, 1: False})
        assert [door.reserve("a")[0], door.reserve("a")[0]] == ["no answer", "no answer"]
        kind, certificate = door.reserve("a")
        assert kind == "certificate"
        assert door.reserve("a") == (kind, certificate)
        assert len(ledger.entries("class")) == 1
        with pytest.raises(CheckFailure, match="no certificate yet"):
            door.ask("b", certificate)
        door.ask("a", certificate)
        with pytest.raises(CheckFailure, match="twice"):
            door.ask("a", certificate)
        with pytest.raises(CheckFailure, match="one text"):
            door.reserve(7)


def test_a_solution_of_another_form_passes() -> None:
    result = run_checks(LabRun(LAB, OTHER, Draws(b"another form")), Watcher())
    assert {check.name: check.message for check in result.checks if check.outcome != "passed"} == {}
