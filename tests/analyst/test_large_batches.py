"""Batches larger than one message of gRPC: repeated, refused, replaced."""

from __future__ import annotations

import contextlib

import pytest
from analyst_world import World

from shuffledp_core import errors
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import (
    BatchHeader,
)
from shuffledp_core.documents.signed import Signed
from shuffledp_core.transport.chunks import CHUNK_BYTES

LARGE_REPORTS = 380
"""Times 600 bits of 17 bytes: a batch larger than a connection buffers, smaller than what a refusal
lets in.
"""


async def large_batch(world: World, round_id: str) -> bytes:
    """Fills a round of 600 bits each and ends its submissions.

    What the last node will deliver, if it is not silent.
    """
    sent = [world.report(round_id, [1] * 600) for _ in range(LARGE_REPORTS)]
    await world.end_submissions(round_id)
    return b"".join(message for messages in sent for message in messages)


async def test_a_large_batch_can_be_repeated_whatever_became_of_it(world: World) -> None:
    """The sender is still writing when the analyst knows the answer."""
    world.last.faults.add("silent")
    world.nodes["node-2"].faults.add("late")
    round_id = await world.open(size=600, max_reports=400)
    data = await large_batch(world, round_id)
    await world.happened.until(lambda: world.entry.rounds[round_id].forwarded)
    records = LARGE_REPORTS * 600
    fields = {"round_id": round_id, "position": 4, "users": LARGE_REPORTS, "records": records}
    header = BatchHeader(**fields, digest=digest(data))  # type: ignore[arg-type]
    signed = world.deployment.identity_of("node-3").sign(header)
    for _ in range(3):
        await world.add_batch("node-3", signed, data, CHUNK_BYTES)
    world.last.done(round_id, LARGE_REPORTS, data)
    world.nodes["node-2"].done(round_id, LARGE_REPORTS, b"")
    assert (await world.ended(round_id)).outcome == "published"
    await world.add_batch("node-3", signed, data, CHUNK_BYTES)


async def test_a_large_batch_that_is_refused_hears_why(world: World) -> None:
    round_id = await world.open(size=600, max_reports=400)
    data = bytes(LARGE_REPORTS * 600 * 17)
    header = BatchHeader(round_id=round_id, position=4, users=3, records=1800, digest="00")
    for signer, error in (("node-3", errors.RoundStateError), ("node-1", errors.AccessDenied)):
        signed = world.deployment.identity_of(signer).sign(header)
        with pytest.raises(error):
            await sent_until_heard(world, signer, signed, data)


async def sent_until_heard(world: World, signer: str, header: Signed, data: bytes) -> None:
    """As a node does it: the refusal of a stream that is still being written may be lost, and it is
    sent again."""
    while True:
        with contextlib.suppress(errors.UnreachableError):
            return await world.add_batch(signer, header, data, CHUNK_BYTES)
