"""A result goes into the public log before anyone is shown it, across restarts."""

from __future__ import annotations

from analyst_world import World

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import Result
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_proto.v1 import analyst_pb2


async def shown(world: World, round_id: str) -> Signed:
    async with world.reading() as stub:
        answer = await stub.GetResult(analyst_pb2.GetResultRequest(round_id=round_id))
    return Signed.from_bytes(answer.result)


async def test_a_published_result_is_logged_once(world: World) -> None:
    result = await world.whole_round()
    signed = await shown(world, result.round_id)
    assert from_json(signed.body, Result) == result
    assert world.accountant.logged == [(result.round_id, document_digest(signed))]


async def test_a_failed_result_is_not_logged(world: World) -> None:
    round_id = await world.open()
    await world.abort(round_id)
    await world.ended(round_id)
    assert world.accountant.logged == []


async def test_a_result_that_could_not_be_logged_is_logged_after_a_restart(world: World) -> None:
    await world.stop_analyst()
    world.options["recovery_seconds"] = 0.5
    await world.start_analyst()
    world.accountant.faults.add("no-log")
    # The operator is not kept waiting for ever: the result is shown without its proof.
    result = await world.whole_round()
    assert world.accountant.logged == []
    await world.stop_analyst()
    world.accountant.faults.clear()
    await world.start_analyst()
    await world.happened.until(lambda: bool(world.accountant.logged))
    signed = await shown(world, result.round_id)
    assert world.accountant.logged == [(result.round_id, document_digest(signed))]
