"""Pages of the analyst's rounds: in order, bounded, and complete although a record is damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from analyst_world import World, plan

from shuffledp_analyst.listing import MOST_ROUNDS, UNREADABLE, page_of_rounds
from shuffledp_analyst.records import Records
from shuffledp_core.errors import AccessDenied, UnknownRoundError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import analyst_pb2


def recorded(folder: Path, count: int) -> tuple[Records, list[str]]:
    """So many open rounds, a second apart; newest first."""
    records, names = Records(folder), [f"{number:032x}" for number in range(count)]
    for number, name in enumerate(names):
        records.create(name, plan())
        os.utime(folder / "rounds" / name / "plan.json", (number, number))
    return records, names[::-1]


def test_pages_follow_each_other_newest_first_and_none_is_longer_than_the_bound(
    tmp_path: Path,
) -> None:
    records, names = recorded(tmp_path, MOST_ROUNDS + 5)
    first, more = page_of_rounds(records, "", 10**9)
    assert more
    assert [one.round_id for one in first] == names[:MOST_ROUNDS]
    assert (first[0].outcome, first[0].mechanism, first[0].opened_at) == (
        "running",
        "rr-shuffle",
        1000 * len(names) - 1000,
    )
    second, more = page_of_rounds(records, first[-1].round_id, 0)
    assert not more
    assert [one.round_id for one in second] == names[MOST_ROUNDS:]


def test_a_damaged_record_hides_no_other_round(tmp_path: Path) -> None:
    records, names = recorded(tmp_path, 3)
    (tmp_path / "rounds" / names[0] / "plan.json").write_bytes(b"{")
    (tmp_path / "rounds" / names[1] / "result.json").write_bytes(b"\xff" * 10)
    page, _ = page_of_rounds(records, "", 0)
    assert {one.round_id: one.outcome for one in page} == dict(
        zip(names, [UNREADABLE, UNREADABLE, "running"], strict=True)
    )
    assert [one.round_id for one in page_of_rounds(records, page[0].round_id, 1)[0]] == [
        page[1].round_id
    ]


@pytest.mark.parametrize("after", ["nonsense", "ff" * 16, "../../etc"])
def test_a_page_after_no_round_is_refused(tmp_path: Path, after: str) -> None:
    records, _ = recorded(tmp_path, 1)
    with pytest.raises(UnknownRoundError):
        page_of_rounds(records, after, 0)


async def test_a_viewer_lists_rounds_and_ends_none(world: World) -> None:
    round_id = await world.open()
    async with world.control("viewer") as stub:
        page = await stub.ListRounds(analyst_pb2.ListRoundsRequest(limit=1))
        assert [one.round_id for one in page.rounds] == [round_id]
        for refused in (
            stub.EndSubmissions(analyst_pb2.EndSubmissionsRequest(round_id=round_id)),
            stub.AbortRound(analyst_pb2.AbortRoundRequest(round_id=round_id, reason="none")),
        ):
            with pytest.raises(AccessDenied, match="allowed: operator"):
                async with translate_errors("analyst"):
                    await refused
