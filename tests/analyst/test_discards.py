"""What devices are told of the nodes' discards, beside a result."""

from __future__ import annotations

from pathlib import Path

import msgspec
from analyst_world import World, plan
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from simulated_parties import ROUTE

from shuffledp_analyst.records import Records
from shuffledp_core.documents.models import Discard
from shuffledp_core.documents.signed import Signed, sign
from shuffledp_core.runtime.keys import verify_from
from shuffledp_proto.v1 import analyst_pb2


async def discards_of(world: World, round_id: str) -> dict[str, Discard]:
    """What a device is given beside the result, verified."""
    async with world.reading() as reading:
        answer = await reading.GetResult(analyst_pb2.GetResultRequest(round_id=round_id))
    signed = [Signed.from_bytes(data) for data in answer.discards]
    return {one.signer: verify_from(world.roster.party(one.signer), one, Discard) for one in signed}


async def test_devices_get_the_nodes_discards_of_a_failed_round(world: World) -> None:
    """Without them a device has only the analyst's word that a round failed, and must keep its
    evidence."""
    round_id = await world.open()
    await world.abort(round_id)
    assert (await world.ended(round_id)).outcome == "failed"
    found = await discards_of(world, round_id)
    assert {name: (one.round_id, one.node, one.forwarded) for name, one in found.items()} == {
        name: (round_id, name, False) for name in ROUTE
    }


async def test_a_discard_that_comes_late_is_passed_on_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, recovery_seconds=0.5)
    await world.start()
    try:
        round_id = await world.open()
        await world.nodes["node-2"].die()
        assert (await world.ended(round_id)).outcome == "failed"
        assert set(await discards_of(world, round_id)) == {"node-1", "node-3"}
        await world.nodes["node-2"].start()
        await world.happened.until(lambda: world.accountant.ledger[round_id] == "released")
        await world.stop_analyst()
        await world.start_analyst()
        assert set(await discards_of(world, round_id)) == set(ROUTE)
    finally:
        await world.close()


def test_a_padded_discard_does_not_keep_the_others_from_devices(tmp_path: Path) -> None:
    """A node signs its own text: a megabyte of blanks in it would make the answer longer than a
    device takes."""
    records, round_id, key = Records(tmp_path), "0" * 32, Ed25519PrivateKey.generate()
    records.create(round_id, plan())
    short = sign(Discard(round_id=round_id, node="node-1", forwarded=False), "node-1", key)
    padded = msgspec.structs.replace(short, body=short.body + " " * 2**20)
    records.files(round_id).keep_discards([short, padded])
    assert records.files(round_id).discards() == (short.to_bytes(),)
    assert records.files("f" * 32).discards() == ()
