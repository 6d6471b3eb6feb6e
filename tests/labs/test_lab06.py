"""Lab 6: its oracle against plain enumeration and the product, and every number of its texts."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.resources import files
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from wrong_programs import LABS

from shuffledp_core.vocabulary import Mix
from shuffledp_labs.checking import LabRun, Watcher, run_checks
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.installed import lab
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab06_surrounded import checks, crowds, entry, policy, rounds, show
from shuffledp_labs.lab06_surrounded.guessing import Flood
from shuffledp_privacy.bounds import Setting, corrupted_bounds, epsilon_bounds, standard_error
from shuffledp_privacy.calibration.calibrate import Target, calibrate

FOLDER = files("shuffledp_labs.lab06_surrounded")
HANDOUT, GUIDE = (
    " ".join(FOLDER.joinpath(name).read_text().split()) for name in ("handout.md", "instructor.md")
)
"""Without their line breaks."""

PRIOR = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))


def example(honest: int) -> Flood:
    """The one of step A."""
    return Flood(20, 20 - honest, 3, Fraction(4, 5), PRIOR)


def shown(number: float | Fraction, digits: int) -> str:
    """A number as the texts write it: without a leading zero."""
    return f"{float(number):.{digits}f}".removeprefix("0")


def enumerated(flood: Flood) -> dict[tuple[int, ...], list[Fraction]]:
    """Probability of each board and value of the victim, by all values and all messages of the
    honest users."""
    found: dict[tuple[int, ...], list[Fraction]] = {}
    symbols = range(flood.symbols)
    for values in product(symbols, repeat=flood.honest):
        held = math.prod((flood.prior[value] for value in values), start=Fraction(1))
        for sent in product(symbols, repeat=flood.honest):
            chances = (
                flood.sends(value, symbol) for value, symbol in zip(values, sent, strict=True)
            )
            board = tuple(sent.count(symbol) for symbol in symbols)
            found.setdefault(board, [Fraction(0)] * flood.symbols)[values[0]] += math.prod(
                chances, start=held
            )
    return found


@pytest.mark.parametrize("honest", [1, 2, 4])
def test_the_oracle_is_the_plain_enumeration(honest: int) -> None:
    flood = example(honest)
    found = enumerated(flood)
    assert set(found) == set(flood.boards())
    assert all(list(flood.joint(board)) == chances for board, chances in found.items())
    assert flood.success() == sum(max(chances) for chances in found.values())
    assert sum(sum(chances) for chances in found.values()) == 1


def test_drawn_floods_have_one_best_guess_on_every_board_and_no_wrong_rule_finds_it() -> None:
    for seed in range(5):
        for left in checks.LEFT:
            flood = checks.draw_flood(Draws(bytes([seed])), left)
            best = {board: flood.best(board) for board in flood.boards()}
            assert all(len(values) == 1 for values in best.values())
            assert len(set(best.values())) > 1
            assert flood.honest == left


def test_drawn_manifests_are_refused_for_every_reason_and_accepted_on_every_border() -> None:
    pairs = policy.draw_manifests(Draws(b"manifests"))
    assert len(pairs) == policy.MANIFESTS
    refused = [not policy.client_accepts(*pair) for pair in pairs]
    assert sum(refused) == 20
    for manifest, limits in pairs:
        if manifest["epsilon"] == limits["epsilon"]:
            assert policy.client_accepts(manifest, limits)
        if manifest["epsilon"] is None or len(set(manifest["operators"])) < limits["operators"]:
            assert not policy.client_accepts(manifest, limits)


def test_the_certificates_of_the_texts_are_the_products() -> None:
    spec = show.spec()
    by_honest = {honest: show.certify(honest) for honest in (1000, 100, 30, 1)}
    sentence = "certified ε = {} for 1,000 honest users, {} for 100, {} for 30, and {} for one"
    assert sentence.format(*(shown(value, 2) for value in by_honest.values())) in HANDOUT
    assert by_honest[1] == pytest.approx(
        corrupted_bounds(spec, Setting(1000, 1), show.DELTA).epsilon, abs=1e-4
    )
    assert f"1. {shown(by_honest[1], 2)}." in GUIDE
    assert show.certify(0) == math.inf
    shared = calibrate("sgdl-shuffle", Target(0.25, 1e-6, 40, 40, max_value=1))
    bounds = {came: epsilon_bounds(shared, Setting(came, came), 1e-6) for came in (40, 30, 20, 10)}
    assert bounds[40].certified <= 0.25
    # From both sides: the certificate is the truth to three digits, so that the text may say what
    # is left.
    assert all(
        value.attained == pytest.approx(value.certified, rel=1e-3) for value in bounds.values()
    )
    left = [shown(bounds[came].certified, 2) for came in (30, 20, 10)]
    assert "leaves {} when 30 of them come, {} with 20, {} with 10".format(*left) in HANDOUT
    assert f"About .8 (certified {shown(bounds[20].certified, 3)})" in GUIDE
    careful = calibrate("sgdl-shuffle", Target(0.25, 1e-6, 20, 20, max_value=1))
    errors = standard_error(careful, 40), standard_error(shared, 40)
    assert (
        f"{errors[0]:.1f} and not {errors[1]:.1f}, {errors[0] / errors[1]:.2f} times as much"
        in GUIDE
    )


def test_the_guesses_of_the_texts_are_computed() -> None:
    alone, two, five, twenty = (shown(example(honest).success(), 3) for honest in (1, 2, 5, 20))
    assert float(example(1).success()) == 0.8
    assert alone == ".800"
    assert f"2. {two} (.8 alone, {five} with five, {twenty} with twenty)" in GUIDE
    assert f"right in {twenty} of rounds" in HANDOUT
    assert "(Without any message: .5.)" in HANDOUT


def test_a_plan_for_those_who_come_holds_and_every_other_is_worse() -> None:
    right = rounds.noise_plan(40, 20, (20, 0), rounds.EPSILON, rounds.DELTA)
    assert right["runs"]
    assert right["certified"] <= rounds.EPSILON
    assert not rounds.noise_plan(40, 20, (21, 0), rounds.EPSILON, rounds.DELTA)["runs"]
    fewer = rounds.noise_plan(40, 20, (19, 0), rounds.EPSILON, rounds.DELTA)
    assert fewer["error"] > right["error"] * (1 + 100 * checks.ROUNDING)
    counted = rounds.noise_plan(40, 20, (20, 1), rounds.EPSILON, rounds.DELTA)
    assert counted["error"] > right["error"] * (1 + 100 * checks.ROUNDING)


def test_the_cost_of_counting_on_fewer_is_the_products() -> None:
    plans = {
        users: calibrate(
            "sgdl-shuffle", Target(rounds.EPSILON, rounds.DELTA, users, users, max_value=1)
        )
        for users in (20, 40)
    }
    told = checks._check_noise_plan("40 users", 40, 20, 0, (20, 0))
    wanted = (
        standard_error(plans[20], 20),
        standard_error(plans[20], 40),
        standard_error(plans[40], 40),
    )
    assert told == pytest.approx(wanted, rel=1e-9)
    assert told[0] < told[1]
    assert told[2] < told[1]


@pytest.mark.parametrize("mix", list(Mix))
@pytest.mark.parametrize(
    "nodes", crowds.ROUTES, ids=lambda nodes: "-".join(node[0] for node in nodes)
)
def test_the_crowd_that_trying_leaves_is_the_one_that_the_threat_model_says(
    mix: Mix, nodes: tuple[str, ...]
) -> None:
    """docs/threat-model.md, "Flood (n-1)", and P1 of docs/mixing.md, as formulas."""
    for least in range(1, 8):
        for accounts in range(10):
            found = crowds.Situation(mix, nodes, least + 3, accounts, least).least
            if crowds.HONEST not in nodes:
                assert found == 0
            elif nodes[0] == crowds.HONEST:
                assert found == least + 3
            else:
                assert found == (1 if mix == Mix.PLAIN else max(1, least - accounts))


def test_drawn_crowds_have_every_answer_and_no_short_rule_gives_all() -> None:
    for seed in range(3):
        cases = crowds.draw_situations(Draws(bytes([seed])))
        assert len({(case.mix, case.nodes) for case in cases}) == 2 * len(crowds.ROUTES)
        verified = [
            case for case in cases if case.mix == Mix.VERIFIED and case.nodes[0] == crowds.CORRUPT
        ]
        left = [case.least for case in verified if crowds.HONEST in case.nodes]
        assert 1 in left
        assert max(left) > 1
        assert all(case.people > case.min_reports for case in cases)


def test_the_real_rounds_of_step_f_are_those_that_its_handout_says() -> None:
    assert [case.least for case in (entry.PLAIN, entry.VERIFIED, entry.ENROLLED)] == [
        1,
        rounds.USERS,
        1,
    ]
    assert entry.brief(f"node-2: node 1: user {'0a' * 32}: is not enrolled") == (
        "node-2: node 1: user 0a0a0a0a..: is not enrolled"
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "crowd returned NoneType where a whole number is expected"),
        (True, "crowd returned bool"),
        (10**6, "and fewer than you say can be left"),
        (-1, "and more than that are always left"),
    ],
)
def test_a_wrong_crowd_is_told_from_what_is_no_number(answer: object, said: str) -> None:
    with pytest.raises(CheckFailure, match=said):
        checks.check_crowd(saying(answer))


@pytest.mark.parametrize("answer", [None, 1, 0, "True"])
def test_an_acceptance_of_another_type_is_told_from_a_wrong_one(answer: object) -> None:
    with pytest.raises(
        CheckFailure,
        match=f"accept returned {type(answer).__name__} where True or False is expected",
    ):
        checks.check_policy(saying(answer))


def saying(answer: object) -> Any:
    """A run of a program that gives the same answer to every call."""
    return SimpleNamespace(draws=Draws(b"says"), program=SimpleNamespace(call=lambda *_: answer))


@pytest.mark.slow
def test_the_solution_takes_the_crowd_away_in_a_plain_round_and_not_in_a_verified_one() -> None:
    run = LabRun(
        lab(6),
        LABS / "solutions" / "lab06.py",
        Draws(b"crowd"),
        selects=lambda each: each.name == "F-rounds",
    )
    (done,) = (check for check in run_checks(run, Watcher()).checks if check.name == "F-rounds")
    assert done.outcome == "passed", done.message
    assert "stopped by node-2: node 1: the list has a claim that does not verify" in done.message
    assert (
        "is not enrolled for this round, the round's ε is spent all the same; verified, 19 enrolled"
        in done.message
    )


@pytest.mark.slow
def test_the_same_flood_meets_noise_of_nodes_in_a_real_round() -> None:
    seen, noisy = rounds.play_both_floods([0] * (rounds.USERS - 1), 2)
    assert sum(seen.board) == rounds.USERS
    assert noisy.epsilon is not None
    assert noisy.epsilon <= rounds.EPSILON == 1
    assert noisy.dummies > 0
    assert len(noisy.estimates) == rounds.SYMBOLS
    words = show._describe_noise(noisy, (19, 0, 0, 0))
    assert f"each node adds {noisy.dummies} messages" in words
    left = ", ".join(f"{count:.1f}" for count in (noisy.estimates[0] - 19, *noisy.estimates[1:]))
    assert f"({left})" in words
