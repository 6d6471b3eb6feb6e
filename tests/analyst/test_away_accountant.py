"""Rounds whose accountant is away when they are to be settled."""

from __future__ import annotations

from pathlib import Path

import pytest
from analyst_world import World

from shuffledp_core import errors


async def test_an_accountant_that_restarts_at_the_settlement_is_asked_again(world: World) -> None:
    world.accountant.faults.add("dies-at-settlement")
    assert (await world.whole_round()).outcome == "published"


async def test_a_decoded_round_waits_longer_for_its_accountant_than_for_a_node(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, recovery_seconds=0.5)
    await world.start()
    try:
        round_id = await world.open()
        world.reports(round_id, 5)
        world.accountant.faults.add("away-at-settlement")
        await world.end_submissions(round_id)
        # The pauses between four calls last 1.4 seconds.
        await world.happened.until(lambda: world.accountant.settlements == 4 * [round_id])
        world.accountant.faults.clear()
        assert (await world.ended(round_id)).outcome == "published"
        assert world.accountant.ledger == {round_id: "settled"}
    finally:
        await world.close()


async def test_an_accountant_that_stays_away_at_the_settlement_fails_the_round(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, settle_seconds=0.5)
    await world.start()
    try:
        round_id = await world.open()
        world.reports(round_id, 5)
        await world.accountant.die()
        await world.end_submissions(round_id)
        result = await world.ended(round_id)
        assert (result.outcome, result.error) == ("failed", "UnreachableError")
        with pytest.raises(errors.UnknownRoundError):
            await world.board(round_id)
    finally:
        await world.close()
