"""The line of the log that ends a round says how long each stage took."""

from __future__ import annotations

from analyst_world import World
from structlog.testing import capture_logs

from shuffledp_analyst.progress import ACCEPTING, CERTIFYING, DECODING, Event, Progress


async def test_a_published_round_logs_the_seconds_of_its_stages(world: World) -> None:
    with capture_logs() as log:
        result = await world.whole_round()
        ended = [line for line in log if line["event"] == "published"]
    assert [line["round"] for line in ended] == [result.round_id]
    assert {ACCEPTING, DECODING, CERTIFYING} <= set(ended[0]["seconds"])
    assert all(seconds >= 0 for seconds in ended[0]["seconds"].values())


async def test_a_failed_round_logs_the_stages_that_it_finished(world: World) -> None:
    with capture_logs() as log:
        round_id = await world.open()
        await world.abort(round_id)
        await world.ended(round_id)
        ended = [line for line in log if line["event"] == "round failed"]
    assert [set(line["seconds"]) for line in ended] == [set()]


def test_stages_that_are_not_over_have_no_duration() -> None:
    progress = Progress()
    progress.report(Event(ACCEPTING, total=9))
    progress.report(Event("mixing", "node-1", 3, 3, 1.23456))
    assert progress.durations() == {"mixing node-1": 1.235}
