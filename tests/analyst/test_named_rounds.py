"""Rounds that the operator names: a lost answer is asked for again, and opens nothing twice."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
from analyst_world import World, plan

from shuffledp_analyst.records import Records
from shuffledp_core import errors
from shuffledp_core.documents.signed import to_json
from shuffledp_proto.v1 import analyst_pb2


async def opened(world: World, name: str, **changes: Any) -> analyst_pb2.OpenRoundResponse:
    async with world.control() as stub:
        answer: analyst_pb2.OpenRoundResponse = await stub.OpenRound(
            analyst_pb2.OpenRoundRequest(plan=to_json(plan(**changes)), round_id=name)
        )
    return answer


async def test_a_named_round_is_opened_once_however_often_it_is_asked_for(world: World) -> None:
    name = secrets.token_hex(16)
    first, second = await asyncio.gather(opened(world, name), opened(world, name))
    assert first == second
    assert first.round_id == name
    assert world.accountant.ledger == {name: "reserved"}
    world.reports(name, 4)
    await world.end_submissions(name)
    assert (await world.ended(name)).accepted == 4
    assert await opened(world, name) == first  # also when it is over
    assert world.accountant.ledger == {name: "settled"}


async def test_a_name_stands_for_one_plan(world: World) -> None:
    name = secrets.token_hex(16)
    await opened(world, name)
    with pytest.raises(errors.RoundStateError, match="opened with another plan"):
        await opened(world, name, max_reports=99)


@pytest.mark.parametrize("name", ["short", "../" + "0" * 29, "G" * 32, "0" * 31 + "A"])
async def test_a_name_is_32_hex_digits(world: World, name: str) -> None:
    with pytest.raises(errors.UnknownRoundError, match="not a round identifier"):
        await opened(world, name)
    assert world.accountant.ledger == {}


async def test_a_named_round_that_was_refused_says_why_to_whoever_follows_it(world: World) -> None:
    name = secrets.token_hex(16)
    world.accountant.faults.add("refuses")
    with pytest.raises(errors.BudgetExceeded):
        await opened(world, name)
    with pytest.raises(errors.RoundStateError, match="ended before it was announced"):
        await opened(world, name)
    assert (await world.ended(name)).error == "BudgetExceeded"


async def test_a_named_round_is_found_again_after_a_restart(world: World) -> None:
    name = secrets.token_hex(16)
    first = await opened(world, name)
    await world.stop_analyst()
    await world.start_analyst()
    assert await opened(world, name) == first
    assert world.accountant.ledger == {name: "reserved"}


async def test_a_round_that_is_not_taken_up_yet_is_neither_unknown_nor_opened_again(
    world: World,
) -> None:
    name = secrets.token_hex(16)
    await opened(world, name)
    await world.stop_analyst()
    await world.start_analyst(resumed=False)
    with pytest.raises(errors.UnreachableError, match="has not resumed round"):
        await opened(world, name)
    with pytest.raises(errors.UnreachableError, match="has not resumed round"):
        await world.events(name)
    with pytest.raises(errors.UnknownRoundError):
        await world.events(secrets.token_hex(16))


async def test_a_round_whose_record_was_set_aside_is_not_opened_again(world: World) -> None:
    name = secrets.token_hex(16)
    await opened(world, name)
    await world.stop_analyst()
    Records(world.config().state).set_aside(name)
    await world.start_analyst()
    with pytest.raises(errors.RoundStateError, match="cannot be read; open a new round"):
        await opened(world, name)
    assert world.accountant.ledger == {name: "reserved"}
