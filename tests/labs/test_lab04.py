"""Lab 4: its truth against the product's own attack, its laws against the accountant's, the
handout's numbers."""

from __future__ import annotations

import asyncio
import hashlib
import math
from fractions import Fraction
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shuffledp_adversary.attacks.exchange.tampering import drop
from shuffledp_adversary.in_process import Conduct
from shuffledp_adversary.tracing.likelihood import log_likelihood
from shuffledp_adversary.tracing.links import join_logs
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import KRRHistogram, RRShuffle
from shuffledp_labs.errors import CheckFailure
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab04_onion import LAB, rounds, show
from shuffledp_labs.lab04_onion.capturing import NODES, capture
from shuffledp_labs.lab04_onion.checks import (
    ACCOMPLICES,
    HOPS,
    _absent,
    _prior,
    _telling,
    judge_links,
    judge_sleeper,
)
from shuffledp_labs.lab04_onion.replay import ReplayedClaims, replay
from shuffledp_labs.lab04_onion.rounds import NOBODY, SUM, USERS, AdversaryView
from shuffledp_privacy.bounds import Setting, corrupted_bounds

SOLUTION = Path(__file__).parents[2] / "labs" / "solutions" / "lab04.py"


def draws(seed: int = 1) -> Draws:
    return Draws(seed.to_bytes(32, "big"))


def handout() -> str:
    return " ".join(LAB.file("handout.md").read_text().split())


# -------------------------------------------------------------------- numbers


def test_the_numbers_of_the_picture_s_round_are_exact() -> None:
    table = rounds.likelihoods(rounds.krr(show.SPEC.symbols, show.SPEC.blanket))
    right = rounds.success(show.PRIOR, table)
    assert right == Fraction(25, 27)
    assert sum(show.PRIOR) == 1
    assert all(share * show.USERS == int(share * show.USERS) for share in show.PRIOR)
    local = corrupted_bounds(show.SPEC, Setting(users=1, honest=1, max_distance=8), 0.0).epsilon
    assert local == pytest.approx(math.log(100), rel=1e-9)
    text = handout()
    assert "Forty users send three messages each over three to five nodes" in text
    assert (USERS, SUM.messages_per_user, HOPS) == (40, 3, (3, 4, 5))
    assert f"makes the true value {round(math.exp(local))} times as likely" in text
    assert f"probability 25/27 = {float(right):.1%}" in text
    assert f"ε_L = ln 100 = {local:.2f}" in text
    assert f"held by {float(max(show.PRIOR)):.0%}" in text
    assert f"plays a round of {show.USERS} people with {show.SPEC.symbols} possible values" in text


def test_an_honest_node_leaves_all_own_messages_in_place_with_probability_below_1e_18() -> None:
    messages, own = USERS * SUM.messages_per_user, ACCOMPLICES * SUM.messages_per_user
    chance = Fraction(math.factorial(messages - own), math.factorial(messages))
    assert chance < Fraction(1, 10**18)
    (check,) = [check for check in LAB.checks if check.name == "C-slept"]
    assert (
        2 * 8 * chance < check.chance <= 1e-9
    )  # at most two nodes without a log in each of eight rounds
    assert f"all nine of {messages} in their positions with probability below 1e-18" in handout()
    assert own == 9


# -------------------------------------------------------------------- rounds


@pytest.mark.parametrize("hops", [3, 5])
def test_the_truth_is_what_the_product_s_own_join_finds_with_all_logs_and_with_fewer_nothing(
    hops: int,
) -> None:
    one = rounds.play_drawn_round(draws(hops), hops)
    board = np.frombuffer(b"".join(one.board), dtype=np.uint8).reshape(-1, one.geometry.plain_bytes)
    assert (
        join_logs(one.logs, board).senders.tolist() == rounds.seen_by(one, range(1, hops + 1)).truth
    )
    for honest in range(1, hops + 1):
        rest = {position: log for position, log in one.logs.items() if position != honest}
        assert set(join_logs(rest, board).senders.tolist()) == {NOBODY}


def test_where_onions_were_dropped_the_truth_is_still_the_join_s() -> None:
    one = rounds.play_drawn_round(draws(), 4, Conduct(tampering={2: drop}))
    board = np.frombuffer(b"".join(one.board), dtype=np.uint8).reshape(-1, one.geometry.plain_bytes)
    assert len(one.board) == USERS * 3 - 1
    assert join_logs(one.logs, board).senders.tolist() == rounds.seen_by(one, (1, 2, 3, 4)).truth


def test_logs_cross_to_the_student_as_the_handout_says() -> None:
    one = rounds.play_drawn_round(draws(), 3)
    seen = rounds.seen_by(one, (1, 3))
    assert set(seen.logs) == {1, 3}
    assert seen.missing == (2,)
    assert seen.logs[1]["incoming"] == [
        hashlib.sha256(envelope).digest()[:16] for envelope in one.envelopes
    ]
    assert seen.logs[3]["outgoing"] == [
        hashlib.sha256(message).digest()[:16] for message in seen.board
    ]
    assert sorted(seen.logs[1]["permutation"]) == list(range(120))


def test_trails_lead_from_node_to_node() -> None:
    one = rounds.play_drawn_round(draws(), 4)
    for user in (0, 17):
        for message, trail in zip(one.messages[user], rounds.trails(one, [user]), strict=True):
            assert trail[-1] == hashlib.sha256(message).digest()[:16]
            for position in (2, 3, 4):
                assert trail[position - 2] in {row.tobytes() for row in one.logs[position].incoming}


def test_the_same_draws_give_the_same_round() -> None:
    assert rounds.play_drawn_round(draws(), 3).board == rounds.play_drawn_round(draws(), 3).board
    assert rounds.play_drawn_round(draws(), 3).board != rounds.play_drawn_round(draws(2), 3).board


def test_absent_nodes_are_no_neighbours_and_never_the_first() -> None:
    for seed in range(50):
        for hops in (3, 4, 5):
            absent = _absent(draws(seed), hops)
            assert 1 <= len(absent) <= 2
            assert min(absent) > 1
            assert all(right - left > 1 for left, right in combinations(absent, 2))


# -------------------------------------------------------------------- laws and guesses


def test_the_laws_are_the_product_s() -> None:
    for spec, own in (
        (rounds.krr(5, Fraction(2, 7)), KRRHistogram(symbols=5, blanket=Fraction(2, 7))),
        (rounds.rr(4, Fraction(3, 5)), RRShuffle(max_value=4, randomise=Fraction(3, 5))),
    ):
        table = rounds.likelihoods(spec)
        logs = log_likelihood(own, np.arange(len(table)))
        assert np.allclose(np.exp(logs), np.array(table, dtype=float), rtol=1e-12)
        assert [sum(column) for column in zip(*table, strict=True)] == [1] * own.domain


def test_a_tie_has_two_best_guesses_and_nothing_heard_leaves_the_prior() -> None:
    table = rounds.likelihoods(rounds.krr(3, Fraction(3, 4)))
    half = [Fraction(1, 2), Fraction(1, 2), Fraction(0)]
    assert rounds.best_guesses(2, half, table) == {0, 1}
    assert rounds.best_guesses(0, half, table) == {0}
    assert rounds.best_guesses(None, [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)], table) == {1}


def test_instances_are_drawn_until_no_short_cut_guesses_right() -> None:
    """Certain answers need no prior: such a specification tells nobody apart."""
    prior = [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)]
    assert not _telling(rounds.krr(3, Fraction(1, 100)), prior)
    assert _telling(rounds.krr(3, Fraction(4, 5)), prior)
    shares = _prior(draws(), 6)
    assert sum(shares) == 1
    assert len(set(shares)) == 6


# -------------------------------------------------------------------- claims


def seen(*missing: int) -> AdversaryView:
    return AdversaryView(
        3, {position: {} for position in (1, 2, 3) if position not in missing}, [b"a", b"b"], [0, 1]
    )


@pytest.mark.parametrize(
    ("claims", "where", "said"),
    [
        (None, seen(), "NoneType"),
        ((0, 1.0), seen(), "a list with float, int where a list of whole numbers"),
        ((0,), seen(), "1 claims for 2 messages"),
        ((0, 0), seen(), "1 of 2 claims name the wrong"),
        ((0, -1), seen(), "leaves 1 of 2"),
        ((0, -1), seen(2), "in 1 of 2 cases where the logs prove nothing, 0 of them wrongly"),
    ],
)
def test_a_claim_that_is_wrong_or_not_proved_is_refused(
    claims: object, where: AdversaryView, said: str
) -> None:
    with pytest.raises(CheckFailure, match=said):
        judge_links(claims, where)


def test_claims_that_the_logs_prove_pass() -> None:
    assert judge_links((0, 1), seen()) == 2
    assert judge_links((-1, -1), seen(1)) == 0


@pytest.mark.parametrize(
    ("found", "asleep", "said"),
    [
        (None, 0, "returned NoneType where the position of a node or 0 is expected"),
        (True, 1, "returned bool"),
        (2, 3, "node 2 slept, and it did not"),
        (2, 0, "node 2 slept, and it did not"),
        (0, 3, "no node slept, and one did"),
    ],
)
def test_a_node_that_did_not_sleep_is_told_from_what_names_none(
    found: object, asleep: int, said: str
) -> None:
    with pytest.raises(CheckFailure, match=said):
        judge_sleeper(found, asleep, "a round")


def test_the_node_that_slept_or_none_passes() -> None:
    judge_sleeper(3, 3, "a round")
    judge_sleeper(0, 0, "a round")


def test_the_chance_that_an_honest_node_only_keeps_the_order_is_the_handout_s() -> None:
    own = ACCOMPLICES * SUM.messages_per_user
    assert f"1 in {own}! = {math.factorial(own):,}" in handout()


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    found = [show.TracingShares((1, 2), 0.0, 0.25), show.TracingShares((1, 2, 3), 1.0, 0.93)]
    show.draw(found, 0.25, tmp_path / "onion.png")
    assert (tmp_path / "onion.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", [(1, 2, 3), (2, 3)], ids=str)
def test_a_real_round_is_captured_with_its_truth(corrupt: tuple[int, ...], tmp_path: Path) -> None:
    values = [user % 4 for user in range(USERS)]
    captured = asyncio.run(capture(tmp_path / "system", corrupt, values))
    assert captured.hops == NODES
    assert tuple(captured.logs) == corrupt
    assert sorted(captured.truth) == sorted(user for user in range(USERS) for _ in range(3))
    solution: dict[str, object] = {}
    exec(compile(SOLUTION.read_text(), str(SOLUTION), "exec"), solution)  # noqa: S102 - our own
    link = solution["link"]
    assert callable(link)
    assert judge_links(link(captured.logs, captured.board), captured) == (
        120 if len(corrupt) == NODES else 0
    )


def test_a_student_s_link_is_compared_with_the_product_s_join_on_any_round() -> None:
    one = rounds.play_drawn_round(draws(), 3)
    board = np.frombuffer(b"".join(one.board), dtype=np.uint8).reshape(-1, one.geometry.plain_bytes)
    manifest = SimpleNamespace(geometry=one.geometry)
    captured: Any = SimpleNamespace(manifest=manifest, logs=one.logs, board=board)
    assert replay(SOLUTION, captured) == ReplayedClaims(120, 120, 120, 120)
    assert replay(SOLUTION, captured, frozenset({1, 3})) == ReplayedClaims(120, 0, 0, 0)
    with pytest.raises(UsageError, match="not of"):
        replay(SOLUTION, captured, frozenset({4}))


def test_files_of_the_lab_are_there() -> None:
    names = {entry.name for entry in files("shuffledp_labs.lab04_onion").iterdir()}
    assert {
        "handout.md",
        "work.py",
        "predict.toml",
        "report.md",
        "instructor.md",
        "picture.svg",
    } <= names
