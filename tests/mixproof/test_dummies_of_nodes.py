"""A whole verified round whose nodes add dummies, without anybody who cheats."""

from __future__ import annotations

import pytest
from mixing_cheats import spoiled_user
from mixing_dummies import DUMMIES, dummies_round, dummy_symbols, honest_dummies
from mixing_model import MESSAGES, NODES, USERS, World, find, honest_users, messages, symbols

from shuffledp_core.mixproof.claims import make_dummies_claim
from shuffledp_core.mixproof.group import multiply
from shuffledp_core.mixproof.terms import split_record
from shuffledp_core.sampling.randomness import system_random


@pytest.fixture(scope="module")
def world() -> World:
    return dummies_round().play()


def test_the_board_holds_every_message_and_every_dummy_once(world: World) -> None:
    of_users = [symbol for user in range(USERS) for symbol in symbols(user)]
    of_nodes = [symbol for node in range(1, NODES + 1) for symbol in dummy_symbols(node)]
    assert messages(world.board) == sorted(of_users + of_nodes)
    assert [find(world, node) for node in honest_dummies()] == [
        dummy_symbols(node) for node in range(1, NODES + 1)
    ]


def test_every_batch_holds_the_dummies_of_all_nodes(world: World) -> None:
    assert [header.count for header in world.headers] == [
        USERS * MESSAGES + NODES * DUMMIES
    ] * NODES
    assert world.analyst.chain.users == USERS


def test_a_node_finds_its_own_dummies_in_its_input_as_it_made_them(world: World) -> None:
    """P1 for a node's own dummies: what it would open is byte for byte what it sealed."""
    node = world.hops[NODES - 1]
    batch = node._input_batch
    base = world.terms.route.blinding[NODES - 1]
    mine = honest_dummies()[NODES - 1]
    for secret, message in zip(mine.secrets, mine.messages, strict=True):
        at = batch.index_of[multiply(secret, base)]
        content = batch.contents[at]
        assert content is not None
        key = multiply(secret, world.terms.route.blinding[-1])
        assert world.terms.open(world.terms.analyst, key, content) == split_record(message)[1]


@pytest.mark.parametrize("layer", range(2, NODES + 2))
def test_a_user_is_excluded_and_all_dummies_stay(layer: int) -> None:
    world = dummies_round(users=(*honest_users()[:-1], spoiled_user(USERS - 1, layer))).play()
    assert len(world.analyst.chain.excluded) == 1
    assert len(world.board) == (USERS - 1) * MESSAGES + NODES * DUMMIES
    assert [find(world, node) for node in honest_dummies()] == [
        dummy_symbols(node) for node in range(1, NODES + 1)
    ]


def test_claims_of_the_same_dummies_share_nothing(world: World) -> None:
    """Nothing in a claim shows the symbols to anyone who tries all of them."""
    claim = make_dummies_claim(
        world.terms, 1, dummy_symbols(1), lambda _: bytes(64), system_random
    ).claim
    first = honest_dummies()[0].claim
    assert not set(claim.key_list) & set(first.key_list)
    assert (claim.root, claim.proof) != (first.root, first.proof)


def test_the_number_of_dummies_is_the_round_s(world: World) -> None:
    with pytest.raises(ValueError, match="does not fit the round"):
        make_dummies_claim(world.terms, 1, [0], lambda _: bytes(64), system_random)
