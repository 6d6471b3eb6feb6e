"""A whole verified round in memory, without anybody who cheats."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from mixing_cheats import spoiled_user
from mixing_model import MESSAGES, NODES, USERS, World, find, honest_users, messages, symbols

from shuffledp_core.errors import RoundStateError
from shuffledp_core.mixproof import hops
from shuffledp_core.mixproof.chain import Chain, follow
from shuffledp_core.mixproof.claims import ClaimList
from shuffledp_core.mixproof.evidence import Transcript
from shuffledp_core.mixproof.group import WIDTH
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.terms import MixTerms


@pytest.fixture(scope="module")
def world() -> World:
    return World().play()


def test_the_board_holds_every_message_of_every_user_once(world: World) -> None:
    assert messages(world.board) == sorted(
        symbol for user in range(USERS) for symbol in symbols(user)
    )
    assert [find(world, user) for user in honest_users()] == [
        symbols(user) for user in range(USERS)
    ]


def test_no_record_keeps_its_key_or_its_place_along_the_route(world: World) -> None:
    batches = [hop.release(world.random)[1] for hop in world.hops]
    keys = [{record[:WIDTH] for record in batch} for batch in batches]
    assert not keys[0] & keys[1]
    assert not keys[1] & keys[2]
    assert [len(batch) for batch in batches] == [USERS * MESSAGES] * NODES


def test_every_record_of_a_hop_has_the_length_that_the_page_says(world: World) -> None:
    for position, hop in enumerate(world.hops, start=2):
        layers = max(0, NODES + 1 - position)
        assert {len(record) for record in hop.release(world.random)[1]} == {
            32 + 16 * layers + 16 + 1 + 64
        }


def test_a_node_gives_the_same_output_again_and_nothing_after_it_has_erased() -> None:
    world = World().play()
    hop = world.hops[1]
    assert hop.release(world.random) == hop.release(world.random)
    hop.erase()
    with pytest.raises(RoundStateError, match="no batch"):
        hop.release(world.random)


def test_a_node_follows_the_headers_once_however_many_records_it_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed: list[int] = []

    def counted(
        terms: MixTerms, listed: ClaimList, headers: Sequence[Header], seen: Sequence[Transcript]
    ) -> Chain:
        followed.append(len(headers))
        return follow(terms, listed, headers, seen)

    monkeypatch.setattr(hops, "follow", counted)
    world = World(users=(*honest_users()[:-2], spoiled_user(6, 3), spoiled_user(7, 3))).play()
    assert len(world.analyst.chain.excluded) == 2
    received = [1, 2, 3]
    asked = [2, 2]  # nodes 2 and 1, of two records and two users
    assert sorted(followed) == sorted(received + asked)


def test_the_secrets_of_a_node_are_in_no_log() -> None:
    secret = World().hops[1]._secrets
    assert repr(secret) == "NodeSecret()"
