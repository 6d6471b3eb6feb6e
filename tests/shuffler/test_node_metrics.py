"""What a node counts: each thing once, whatever is repeated. About five seconds."""

from __future__ import annotations

import pytest
from shuffler_world import World

from shuffledp_core.errors import DifferentSubmissionError, TooFewReportsError


def figure(world: World, name: str, series: str, **labels: str) -> float | None:
    """A sample of the page that the node would show now."""
    return world.running[name].service.metrics.registry.get_sample_value(
        f"shuffledp_{series}", labels
    )


async def test_a_repeated_submission_counts_once_and_a_refused_one_by_its_class(
    world: World,
) -> None:
    await world.start()
    round_ = await world.open()
    user = world.user()
    submission = world.submission(round_, user)
    for _ in range(3):
        await world.submit(submission)
    with pytest.raises(DifferentSubmissionError):
        await world.submit(world.submission(round_, user))
    assert figure(world, "node-1", "node_submissions_accepted_total") == 1
    refusals = {"method": "SubmitWhole", "reason": "DifferentSubmissionError"}
    assert figure(world, "node-1", "refusals_total", **refusals) == 1
    assert figure(world, "node-1", "node_rounds", phase="open") == 1
    assert figure(world, "node-1", "node_open_submissions") == 1
    assert figure(world, "node-1", "node_spool_bytes", file="envelopes") == len(submission.envelope)


async def test_the_work_of_a_round_is_counted_at_every_node(world: World) -> None:
    await world.start_analyst()
    await world.start()
    round_ = await world.open()
    users, width = 3, round_.geometry
    for _ in range(users):
        await world.submit(world.submission(round_))
    await world.close_round("node-1", round_.round_id)
    records = users * width.messages_per_user
    sizes = {
        1: users * width.envelope_bytes,
        2: records * width.record_bytes(2),
        3: records * width.record_bytes(3),
    }
    for place, name in enumerate(world.names, 1):
        await world.ended(name, round_.round_id)
        assert figure(world, name, "node_batch_bytes_total", direction="in") == sizes[place]
        assert figure(world, name, "node_batch_bytes_total", direction="out") == sizes[place + 1]
        assert figure(world, name, "node_rounds_ended_total", outcome="done") == 1
        for phase in ("mixing", "relaying"):
            assert figure(world, name, "node_records_total", phase=phase) == records
            assert figure(world, name, "node_pool_records", phase=phase) == 0
        assert figure(world, name, "node_open_submissions") == 0
        await world.delete(name, round_.round_id)
        assert figure(world, name, "node_rounds", phase="done") == 0
        assert figure(world, name, "node_rounds_ended_total", outcome="deleted") is None


async def test_a_round_that_fails_or_is_given_up_counts_under_its_outcome(world: World) -> None:
    await world.start()
    failed, given_up = await world.open(), await world.open()
    with pytest.raises(TooFewReportsError):
        await world.close_round("node-1", failed.round_id)
    for round_ in (failed, given_up):
        await world.delete("node-1", round_.round_id)
    assert figure(world, "node-1", "node_rounds_ended_total", outcome="TooFewReportsError") == 1
    assert figure(world, "node-1", "node_rounds_ended_total", outcome="deleted") == 1


async def test_a_node_measures_its_workers_one_by_one_and_together(world: World) -> None:
    await world.start("node-1", workers=2)
    node = world.running["node-1"].node
    await node.warm(with_rate=True)
    for workers in ("one", "all"):
        rate = figure(world, "node-1", "node_peel_capacity_records_per_second", workers=workers)
        assert rate is not None
        assert rate > 0
    memory = figure(world, "node-1", "node_workers_resident_bytes")
    assert memory is not None
    assert memory > 2e6, "two processes with an interpreter each"
