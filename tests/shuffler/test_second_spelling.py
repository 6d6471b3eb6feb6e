"""Attacks on running nodes with a second spelling of a group element: bit 255 set, which libsodium
1.0.18 ignores."""

from __future__ import annotations

from typing import Any

import pytest
from mixing_spellings import ShareRespeller, respelled
from mixproof_world import MixproofRound, open_mixproof
from shuffler_world import User, World
from test_mixproof_nodes import DONE, accused

from shuffledp_core.errors import BadBlameError, BadClaimError
from shuffledp_core.mixproof import acceleration, batches
from shuffledp_core.mixproof.claims import PreparedClaim, seal_record, sign_claim
from shuffledp_core.mixproof.evidence import Trace
from shuffledp_core.mixproof.group import WIDTH, random_scalar
from shuffledp_core.mixproof.history import Accusation, Inquiry, unpack_document
from shuffledp_core.mixproof.hops import Hop
from shuffledp_core.sampling.randomness import system_random
from shuffledp_shuffler.mixproof import mixing

WHEEL = acceleration.points()


@pytest.fixture(params=["libsodium", "accelerator"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that the entry node computes with."""
    if request.param == "accelerator" and WHEEL is None:
        pytest.skip("shuffledp-accel is not installed: make accel, where cargo is")
    monkeypatch.setattr(
        batches, "points", lambda: WHEEL if request.param == "accelerator" else None
    )


def respelling_last_node(*given: Any) -> Hop:
    """The last node accuses a record that opens; node 1 is honest."""
    position = given[2]
    return (ShareRespeller if position == 2 else Hop)(*given)


async def test_a_last_node_that_spells_its_share_in_a_second_way_learns_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accuses an honest user's record, to have node 1 show whose it is and the round read it."""
    await world.start()
    await world.start_analyst()
    monkeypatch.setattr(mixing, "Hop", respelling_last_node)
    round_ = await open_mixproof(world)
    for _ in range(3):
        await round_.send(round_.submission(world.user()))
    await world.close_round("node-1", round_.round.round_id)
    await accused(world, round_)
    shown = await round_.accusation("node-2")
    accusation = unpack_document(shown, Accusation)
    inquiry = Inquiry(2, accusation.history.headers, (), (Trace(accusation.accused[0]),))
    with pytest.raises(BadBlameError, match=r"node 2: .* is not a group element"):
        await round_.ask(1, inquiry)
    with pytest.raises(BadBlameError, match=r"node 2: .* is not a group element"):
        await round_.transcript(shown)
    assert world.sink.batches == {}


def with_second_spelling(round_: MixproofRound, user: User, *, both: bool) -> PreparedClaim:
    """A claim whose second key is spelled in the second way: of a key of its own, or `both` ways of
    the first."""
    first = random_scalar(system_random)
    second = first if both else random_scalar(system_random)
    count = round_.terms.messages_per_user
    secrets = [first, second, *(random_scalar(system_random) for _ in range(count - 2))]
    records = [seal_record(round_.terms, secret, 0) for secret in secrets]
    records[1] = respelled(records[1][:WIDTH]) + records[1][WIDTH:]
    return sign_claim(round_.terms, records, secrets, user.key.private_bytes_raw(), system_random)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "both", [True, False], ids=["one key in two spellings", "a key in the second spelling"]
)
async def test_a_claim_with_a_second_spelling_gets_no_receipt_whichever_library_checks_it(
    world: World, *, both: bool
) -> None:
    """Node 1 would be named: for a key that stands twice in its batch, or by a node 2 whose library
    is strict."""
    await world.start()
    await world.start_analyst()
    round_, cheat = await open_mixproof(world), world.user()
    name = cheat.key.public_key().public_bytes_raw().hex()
    with pytest.raises(BadClaimError, match=f"user {name}: .* is not a group element"):
        await round_.send(round_.submission(cheat, with_second_spelling(round_, cheat, both=both)))
    for _ in range(3):
        await round_.send(round_.submission(world.user()))
    await world.close_round("node-1", round_.round.round_id)
    assert (await world.ended("node-2", round_.round.round_id)).phase == DONE
