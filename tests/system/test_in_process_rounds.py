"""Rounds in one process: what they are against the product's own join of logs, and by hand."""

from __future__ import annotations

import hashlib
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from shuffledp_adversary.attacks.exchange.tampering import COPIES, copy, mark
from shuffledp_adversary.attacks.views import YES_NO, daily_answers, daily_totals
from shuffledp_adversary.in_process import Conduct, PlayedRound, plain_messages, play
from shuffledp_adversary.tracing.links import NOBODY, join_logs
from shuffledp_core.mechanisms import RRShuffle
from shuffledp_core.onion.geometry import Geometry
from shuffledp_core.onion.seeds import stream
from shuffledp_core.onion.suites import SUITES, suite_named
from shuffledp_core.sampling.arrays import RandomArrays

USERS = 40
SPEC = RRShuffle(max_value=3, randomise=Fraction(1, 2))


def played(
    conduct: Conduct | None = None, suite: str = "sealed-box", seed: int | None = None
) -> PlayedRound:
    geometry = Geometry.of(SPEC, suite, 3)
    answers = [user % 4 for user in range(USERS)]
    if seed is None:
        return play(geometry, plain_messages(geometry, SPEC, answers), conduct or Conduct())
    random = stream(seed.to_bytes(32, "big"))
    return play(
        geometry, plain_messages(geometry, SPEC, answers, random), conduct or Conduct(), random
    )


def board_of(one: PlayedRound) -> np.ndarray:
    return np.frombuffer(b"".join(one.board), dtype=np.uint8).reshape(-1, one.geometry.plain_bytes)


@pytest.mark.parametrize("suite", SUITES)
def test_the_board_holds_what_was_sent_and_all_logs_together_tell_whose_it_is(suite: str) -> None:
    one = played(suite=suite)
    assert Counter(one.board) == Counter(message for own in one.messages for message in own)
    links = join_logs(one.logs, board_of(one))
    assert all(
        message in one.messages[sender]
        for message, sender in zip(one.board, links.senders, strict=True)
    )
    for honest in (1, 2, 3):
        rest = {position: log for position, log in one.logs.items() if position != honest}
        assert (join_logs(rest, board_of(one)).senders == NOBODY).all()


def test_envelopes_are_those_of_the_entry_node_and_logs_name_what_was_sent_on() -> None:
    one = played()
    opens = suite_named(one.geometry.suite).opener(one.route[0][0], b"")
    assert all(
        len(opens(envelope)) == 3 * one.geometry.record_bytes(2) for envelope in one.envelopes
    )
    for position, log in one.logs.items():
        assert log.header.batch == hashlib.sha256(one.batches[position]).hexdigest()
        assert sorted(log.permutation.tolist()) == list(range(3 * USERS))


def test_a_node_that_sleeps_gives_everybody_away_by_place_and_no_other_does() -> None:
    """An honest node: each of 120 messages stays in place with chance 1/120.

    All of them with 1/120! < 1e-198.
    """
    asleep = played(Conduct(asleep=(2,)))
    without = {position: log for position, log in asleep.logs.items() if position != 2}
    placed = join_logs(without, board_of(asleep)).placed
    assert all(
        message in asleep.messages[sender]
        for message, sender in zip(asleep.board, placed, strict=True)
    )
    assert asleep.logs[2].permutation.tolist() == list(range(3 * USERS))
    assert played().logs[2].permutation.tolist() != list(range(3 * USERS))


def test_copies_are_dropped_by_the_next_node_unless_it_is_careless() -> None:
    guarded = played(Conduct(tampering={1: copy}))
    assert guarded.dropped == {1: 0, 2: COPIES - 1, 3: 0}
    careless = played(Conduct(tampering={1: copy}, careless=(2, 3)))
    message, times = Counter(careless.board).most_common(1)[0]
    assert times == COPIES
    assert message in careless.messages[0]
    assert played(Conduct(tampering={1: mark})).dropped == {1: 0, 2: 1, 3: 0}


def test_the_same_randomness_gives_the_same_round() -> None:
    assert played(seed=7).batches == played(seed=7).batches
    assert played(seed=7).batches != played(seed=8).batches


def test_views_come_out_the_same_from_the_same_draws() -> None:
    def draws(seed: int) -> RandomArrays:
        return RandomArrays(stream(seed.to_bytes(32, "big")))

    assert daily_answers(1, [9], 50, draws(1)) == daily_answers(1, [9], 50, draws(1))
    assert daily_answers(1, [9], 50, draws(1)) != daily_answers(1, [9], 50, draws(2))
    assert daily_totals(3, 0, [2, 5], 20, draws(1)) == daily_totals(3, 0, [2, 5], 20, draws(1))
    assert YES_NO.symbols == 2
