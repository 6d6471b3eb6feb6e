"""Room for envelopes: how many, how many bytes, one a credential, and none for who does not
send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from shuffledp_core.errors import BusyError
from shuffledp_shuffler.uploads import REPEATS, UploadLimits, Uploads

PLENTY = UploadLimits(places=100, size=10**9, line=100, seconds=60.0, rate=1.0)


async def settled(task: asyncio.Task[None]) -> bool:
    """Whether the task is done once everything else has had its turn."""
    for _ in range(10):
        await asyncio.sleep(0)
    return task.done()


async def hold(uploads: Uploads, length: int, leave: asyncio.Event) -> None:
    async with uploads.reserve(length):
        await leave.wait()


@pytest.mark.parametrize(
    ("bounds", "lengths"),
    [
        (UploadLimits(places=2, size=10**9, line=9, seconds=60.0, rate=1.0), (5, 5, 5)),
        (UploadLimits(places=9, size=10, line=9, seconds=60.0, rate=1.0), (5, 5, 1)),
        (UploadLimits(places=9, size=10, line=9, seconds=60.0, rate=1.0), (5, 3, 10**6)),
    ],
)
async def test_who_finds_no_room_waits_until_there_is(
    bounds: UploadLimits, lengths: tuple[int, int, int]
) -> None:
    uploads, leave, entered = Uploads(bounds), asyncio.Event(), asyncio.Event()
    first = [asyncio.create_task(hold(uploads, length, leave)) for length in lengths[:2]]

    async def third() -> None:
        async with uploads.reserve(lengths[2]):
            entered.set()

    waiting = asyncio.create_task(third())
    assert not await settled(waiting)
    assert not entered.is_set()
    leave.set()
    await asyncio.wait_for(waiting, 240)
    await asyncio.gather(*first)


async def test_an_envelope_longer_than_all_room_gets_in_alone() -> None:
    async with Uploads(UploadLimits(places=9, size=10, line=9, seconds=60.0, rate=1.0)).reserve(
        10**6
    ):
        pass


async def test_a_line_that_is_too_long_is_refused_at_once_and_given_up_waits_leave_no_trace() -> (
    None
):
    uploads, leave = (
        Uploads(UploadLimits(places=1, size=10, line=1, seconds=60.0, rate=1.0)),
        asyncio.Event(),
    )
    holder = asyncio.create_task(hold(uploads, 1, leave))
    await settled(holder)
    waiting = asyncio.create_task(hold(uploads, 1, leave))
    await settled(waiting)
    with pytest.raises(BusyError, match="already wait on this node"):
        await hold(uploads, 1, leave)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    leave.set()
    await holder
    await asyncio.wait_for(hold(uploads, 1, leave), 240)


async def test_a_credential_has_one_call_under_way_and_no_more_than_some_waiting() -> None:
    uploads = Uploads(PLENTY)
    async with AsyncExitStack() as stack:
        assert not await stack.enter_async_context(uploads.turn("round", "alice"))
        others = [asyncio.create_task(turn(uploads, "alice")) for _ in range(REPEATS - 1)]
        await settled(asyncio.create_task(asyncio.sleep(0)))
        with pytest.raises(BusyError, match="under way"):
            await turn(uploads, "alice")
        assert not await turn(uploads, "bob")
        assert not await turn(uploads, "alice", "another round")
        assert not any(other.done() for other in others)
    assert await asyncio.gather(*others) == [True] * (REPEATS - 1)
    assert not await turn(uploads, "alice")


async def turn(uploads: Uploads, credential: str, round_id: str = "round") -> bool:
    async with uploads.turn(round_id, credential) as repeated:
        return repeated


async def test_bytes_that_arrive_buy_time_and_silence_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shuffledp_shuffler.uploads.GRACE_SECONDS", 0.05)
    uploads = Uploads(UploadLimits(places=1, size=10, line=1, seconds=600.0, rate=10_000.0))

    async def stalls() -> AsyncIterator[tuple[int, bytes]]:
        yield 0, bytes(100)
        await asyncio.Event().wait()

    with pytest.raises(BusyError, match="100 of 500 bytes"):
        await asyncio.wait_for(uploads.gather(stalls(), 500), 240)

    async def comes() -> AsyncIterator[tuple[int, bytes]]:
        for offset in range(0, 500, 100):
            yield offset, bytes(100)

    assert await Uploads(PLENTY).gather(comes(), 500) == bytes(500)


async def test_no_upload_is_waited_for_longer_than_its_seconds() -> None:
    uploads = Uploads(UploadLimits(places=1, size=10, line=1, seconds=0.05, rate=1.0))

    async def stalls() -> AsyncIterator[tuple[int, bytes]]:
        await asyncio.Event().wait()
        yield 0, b""

    with pytest.raises(BusyError, match="0 of 500 bytes"):
        await asyncio.wait_for(uploads.gather(stalls(), 500), 240)


def test_messages_are_counted_until_they_are_answered() -> None:
    uploads = Uploads(UploadLimits(places=1, size=100, line=2, seconds=60.0, rate=1.0))
    assert uploads.begin_messages(1) == 1
    assert uploads.begin_messages(3) == 1
    assert uploads.begin_messages(1) == 0
    with pytest.raises(BusyError, match="2 submissions"):
        raise uploads.message_refusal()
    uploads.end_messages(1)
    assert uploads.begin_messages(2) == 1
