"""What is at work beside the life of a round, and how its failure is the round's."""

from __future__ import annotations

import asyncio

import pytest
from analyst_world import HANG_SECONDS, World

from shuffledp_analyst.running import RunningRound


async def test_a_node_that_accuses_records_of_a_plain_round_ends_it(world: World) -> None:
    world.last.faults.add("accuses")
    result = await world.ended(await world.open())
    assert (result.error, "accuses records in a plain round" in (result.reason or "")) == (
        "NodeFault",
        True,
    )


@pytest.mark.parametrize(
    "function",
    ["shuffledp_analyst.watching._trace", "shuffledp_analyst.running.RunningRound.mixing"],
)
async def test_a_failure_that_nobody_foresaw_ends_the_round_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Also in what runs beside the round, which would wait for its deadline, and then say something
    else."""

    def failing(_: RunningRound, *__: str) -> None:
        raise ZeroDivisionError

    world.last.faults.add("accuses")
    monkeypatch.setattr(
        "shuffledp_analyst.watching._require_provable", lambda _running, _name: None
    )
    monkeypatch.setattr(function, failing)
    async with asyncio.timeout(HANG_SECONDS):  # below the round's own deadline
        result = await world.ended(await world.open())
    assert (result.error, "ZeroDivisionError" in (result.reason or "")) == ("RoundFailed", True)
