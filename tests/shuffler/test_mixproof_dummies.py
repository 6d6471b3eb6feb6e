"""Dummies of nodes in verified rounds: drawn once, brought to the entry node, checked by it and by
their owner."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path

import pytest
from mixing_cheats import flipped
from mixproof_world import MixproofRound, open_mixproof
from shuffler_world import World
from small_disk import SmallDisk
from structlog.testing import capture_logs

from shuffledp_core.documents.models import BatchHeader
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    BadClaimError,
    DiskError,
    InvalidSubmissionError,
    NodeFault,
    RoundStateError,
)
from shuffledp_core.mechanisms import NodeHistogram
from shuffledp_core.mixproof.claiming import pack_dummies_claim
from shuffledp_core.mixproof.claims import (
    PreparedClaim,
    make_dummies_claim,
    seal_record,
    sign_claim,
)
from shuffledp_core.mixproof.group import random_scalar
from shuffledp_core.onion.layers import binding
from shuffledp_core.onion.suites import suite_named
from shuffledp_core.runtime.keys import verify_from
from shuffledp_core.sampling.randomness import system_random
from shuffledp_proto.v1 import node_pb2

SPEC = NodeHistogram(symbols=3, noise_epsilon=Fraction(1), mean=2, dummies=8)
FAILED, DONE = node_pb2.ROUND_PHASE_FAILED, node_pb2.ROUND_PHASE_DONE


def folder(world: World, name: str, round_: MixproofRound) -> Path:
    return world.folder / "state" / name / "rounds" / round_.round.round_id


def pack_dummies(round_: MixproofRound, prepared: PreparedClaim) -> bytes:
    """What a node sends for a claim of its dummies."""
    seal = suite_named("sealed-box").sealer(
        round_.round.public_keys()[0], binding(round_.round.round_id, 1)
    )
    return pack_dummies_claim(prepared.claim) + seal(prepared.submission)


def drawn_again(world: World, round_: MixproofRound, position: int = 2) -> PreparedClaim:
    sign = world.deployment.identity_of(world.names[position - 1]).sign_bytes
    return make_dummies_claim(round_.terms, position, [0] * SPEC.dummies, sign, system_random)


async def open_with_users(world: World, users: int = 3) -> MixproofRound:
    await world.start()
    await world.start_analyst()
    round_ = await open_mixproof(world, SPEC)
    for _ in range(users):
        await round_.send(round_.submission(world.user()))
    return round_


async def test_a_round_has_the_dummies_of_all_nodes_and_of_no_other_party(world: World) -> None:
    round_ = await open_with_users(world)
    await round_.bring(await round_.dummies("node-2"))
    await world.close_round("node-1", round_.round.round_id)
    headers = []
    for name in world.names:
        status = await world.ended(name, round_.round.round_id)
        assert status.phase == DONE, status.reason
        headers.append(Signed.from_bytes(status.header))
    route = [world.roster.party(name) for name in world.names]
    counted = [verify_from(*pair, BatchHeader).records for pair in zip(route, headers, strict=True)]
    assert counted == [3 + len(world.names) * SPEC.dummies] * len(world.names)


async def test_a_node_draws_once_also_when_it_is_killed_before_its_dummies_are_sent(
    world: World,
) -> None:
    round_ = await open_with_users(world)
    for name in world.names:
        first = await round_.dummies(name)
        assert (folder(world, name, round_) / "dummies").read_bytes() == first
        await world.hang_up()
        await world.stop(name)
        await world.start(name)
        assert await round_.dummies(name) == first


@pytest.mark.parametrize("full", ["node-1", "node-2"])
async def test_a_full_disk_delays_the_dummies_and_does_not_end_the_round(
    world: World, small_disk: SmallDisk, full: str
) -> None:
    """Of the node that draws them, or of the entry node, which keeps them."""
    state = world.folder / "state"
    state.mkdir()
    (state / full).symlink_to(small_disk.path)
    round_ = await open_with_users(world)
    small_disk.fill()
    with pytest.raises(DiskError, match="No space left"):
        await round_.bring(await round_.dummies("node-2"))
    small_disk.make_room()
    await round_.bring(await round_.dummies("node-2"))
    # The entry node draws its own when it mixes, with room for the close alone.
    small_disk.fill(free_pages=2 if full == "node-1" else 0)
    with capture_logs() as log:
        try:
            await world.close_round("node-1", round_.round.round_id)
        except DiskError:
            small_disk.make_room()
            await world.close_round("node-1", round_.round.round_id)
        async with asyncio.timeout(240):  # only a node that does neither takes so long
            while not any("No space left" in str(entry) for entry in log):  # noqa: ASYNC110 - a log
                await asyncio.sleep(0)
        small_disk.make_room()
        for name in world.names:
            status = await world.ended(name, round_.round.round_id)
            assert status.phase == DONE, status.reason


async def test_a_node_does_not_draw_again_what_its_disk_lost(world: World) -> None:
    round_ = await open_with_users(world)
    await round_.dummies("node-2")
    file = folder(world, "node-2", round_) / "dummies"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(NodeFault, match="the disk of this node is damaged"):
        await round_.dummies("node-2")


async def test_the_entry_node_takes_what_is_claimed_by_its_node_and_opens(world: World) -> None:
    round_ = await open_with_users(world)
    good = await round_.dummies("node-2")
    of_entry = await round_.dummies("node-1")
    for data, error, words in (
        (flipped(good), InvalidSubmissionError, "does not open"),
        (flipped(good[:64]) + good[64:], BadClaimError, "no claim"),
        (good[:-1], BadClaimError, "another node on this round"),
        (b"", BadClaimError, "no claim"),
        (of_entry, BadClaimError, "another node on this round"),
        (
            pack_dummies(round_, drawn_again(world, round_))[
                : round_.round.geometry.dummies_claim_bytes
            ]
            + good[round_.round.geometry.dummies_claim_bytes :],
            BadClaimError,
            "node 2: the records do not match the claim",
        ),
    ):
        with pytest.raises(error, match=words):
            await round_.bring(data)
    await round_.bring(good)
    await round_.bring(good)
    with pytest.raises(BadClaimError, match="node 2: sends different dummies than before"):
        await round_.bring(pack_dummies(round_, drawn_again(world, round_)))
    with pytest.raises(RoundStateError, match="submissions go to the entry node"):
        await round_.bring(good, "node-2")


async def test_a_round_is_not_closed_while_the_dummies_of_a_node_are_missing(
    world: World,
) -> None:
    round_ = await open_with_users(world)
    with pytest.raises(RoundStateError, match="cannot be mixed without the dummies of node-2"):
        await world.close_round("node-1", round_.round.round_id)
    data = await round_.dummies("node-2")
    await round_.bring(data)
    await world.close_round("node-1", round_.round.round_id)
    assert (await world.ended("node-2", round_.round.round_id)).phase == DONE
    await round_.bring(data)  # a repetition, however late


async def test_a_node_forwards_nothing_if_the_list_has_other_dummies_of_its_own(
    world: World,
) -> None:
    """As a node finds it whose disk was restored after it drew."""
    round_ = await open_with_users(world)
    await round_.bring(pack_dummies(round_, drawn_again(world, round_)))
    await round_.dummies("node-2")
    await world.close_round("node-1", round_.round.round_id)
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "NodeFault")
    assert "did not draw" in status.reason
    assert world.sink.batches == {}


async def test_a_node_that_drew_nothing_forwards_nothing(world: World) -> None:
    round_ = await open_with_users(world)
    await round_.bring(pack_dummies(round_, drawn_again(world, round_)))
    await world.close_round("node-1", round_.round.round_id)
    status = await world.ended("node-2", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "NodeFault")
    assert world.sink.batches == {}


async def test_a_node_that_claims_a_users_key_is_named_and_the_entry_node_is_not(
    world: World,
) -> None:
    """A node and a user who work together; a list with both claims would convict node 1."""
    round_ = await open_with_users(world)
    user = world.user()
    secrets = [random_scalar(system_random) for _ in range(SPEC.dummies)]
    records = [seal_record(round_.terms, secret, 0) for secret in secrets]
    of_user = sign_claim(
        round_.terms, records[:1], secrets[:1], user.key.private_bytes_raw(), system_random
    )
    await round_.send(round_.submission(user, of_user))
    seed = world.deployment.identity_of("node-2").key.private_bytes_raw()
    await round_.bring(
        pack_dummies(round_, sign_claim(round_.terms, records, secrets, seed, system_random))
    )
    await world.close_round("node-1", round_.round.round_id)
    status = await world.ended("node-1", round_.round.round_id)
    assert (status.phase, status.error) == (FAILED, "BadClaimError")
    assert status.reason == "node 2: claims a key that another party claims"


async def test_nodes_of_rounds_without_dummies_send_none(world: World) -> None:
    await world.start()
    verified = await open_mixproof(world)
    with pytest.raises(RoundStateError, match="has no dummies of nodes"):
        await verified.dummies("node-1")
    with pytest.raises(RoundStateError, match="has no dummies of nodes"):
        await verified.bring(b"")
    plain = await world.open(SPEC)
    other = MixproofRound(world, plain, verified.terms)
    with pytest.raises(RoundStateError, match="has no dummies of nodes"):
        await other.dummies("node-2")


async def test_nothing_of_the_dummies_is_left_of_a_deleted_round(world: World) -> None:
    round_ = await open_with_users(world)
    await round_.bring(await round_.dummies("node-2"))
    await world.close_round("node-1", round_.round.round_id)
    for name in world.names:
        await world.ended(name, round_.round.round_id)
        await world.delete(name, round_.round.round_id)
        assert not folder(world, name, round_).exists()
