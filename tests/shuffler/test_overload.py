"""Admission control of submissions: bounds, fairness between addresses, and retry-after."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from itertools import pairwise

import grpc
import pytest
from shuffler_world import World

from shuffledp_core.errors import BusyError
from shuffledp_core.transport.rpc_errors import error_of_call
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.overload import (
    FEWEST,
    MOST_WAIT_SECONDS,
    OVERBOOKING,
    PATIENCE_SECONDS,
    SubmissionLimit,
)

MOST = 256


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def peer(number: int) -> str:
    return f"ipv4:10.0.0.{number}:5000"


def limit_at(clock: Seconds, seconds: float) -> SubmissionLimit:
    """A limit after many calls that took that long each, one after the other."""
    limit = SubmissionLimit(MOST, clock)
    for _ in range(2048):
        with limit.hold(peer(1)):
            clock.now += seconds
    return limit


@pytest.mark.parametrize(
    ("seconds", "places"), [(0.001, MOST), (0.02, int(PATIENCE_SECONDS / 0.02)), (1.0, FEWEST)]
)
def test_places_are_the_work_of_the_patience(seconds: float, places: int) -> None:
    limit = limit_at(Seconds(), seconds)
    assert limit.places == pytest.approx(places, abs=1)
    assert limit.rate == pytest.approx(1 / seconds)


def test_an_idle_node_does_not_count_as_slow() -> None:
    clock = Seconds()
    limit = limit_at(clock, 0.01)
    clock.now += 86_400
    with limit.hold(peer(1)):
        clock.now += 0.01
    assert limit.rate == pytest.approx(100)


def test_one_address_gets_half_and_others_find_room() -> None:
    limit = SubmissionLimit(MOST, Seconds())
    with ExitStack() as stack:
        for _ in range(MOST // 2):
            stack.enter_context(limit.hold(peer(1)))
        with pytest.raises(BusyError):
            limit.require_room(peer(1))
        for number in range(2, 100):
            stack.enter_context(limit.hold(peer(number)))
        assert limit.under_way < MOST
    assert limit.under_way == 0
    limit.require_room(peer(1))


def test_refused_callers_are_told_different_times_somewhat_faster_than_the_node() -> None:
    clock = Seconds()
    limit = limit_at(clock, 0.02)
    with ExitStack() as stack:
        for _ in range(limit.places // 2 + 1):
            stack.enter_context(limit.hold(peer(1)))
        waits = []
        for _ in range(10_000):
            with pytest.raises(BusyError) as refusal:
                limit.require_room(peer(1))
            waits.append(refusal.value.wait_seconds)
    steps = [after - before for before, after in pairwise(waits[:1000])]
    assert steps == pytest.approx([0.02 / OVERBOOKING] * 999)
    assert max(waits) == pytest.approx(MOST_WAIT_SECONDS)


async def test_a_call_beyond_the_limit_is_refused_early_with_its_retry_after(world: World) -> None:
    await world.start(waiting_submissions=1)
    round_ = await world.open()
    submission = world.submission(round_)
    call = node_pb2.SubmitWholeRequest(header=submission.header, envelope=submission.envelope)
    stub = world.node("node-1", "client")
    outcomes = await asyncio.gather(
        *(stub.SubmitWhole(call) for _ in range(64)), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert 0 < len(refused) < len(outcomes)
    for status in refused:
        error = error_of_call(status, "node-1")
        assert isinstance(error, BusyError)
        assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 0 < error.wait_seconds <= MOST_WAIT_SECONDS
    assert (await world.status("node-1", round_.round_id)).accepted == 1
