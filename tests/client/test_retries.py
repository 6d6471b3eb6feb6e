"""When and how long a party is waited for that cannot be reached, or asks to be left alone."""

from __future__ import annotations

import asyncio
import os

import pytest

from shuffledp_client.transport import Backoff, with_retries
from shuffledp_core.errors import BusyError, DifferentSubmissionError, UnreachableError
from shuffledp_core.sampling.randomness import RandomIntegers

QUICK = Backoff(attempts=3, first=0.01, longest=0.01)


async def test_only_an_unreachable_party_is_asked_again() -> None:
    calls: list[int] = []

    async def away() -> None:
        calls.append(1)
        raise UnreachableError("away")

    async def refusing() -> None:
        calls.append(1)
        raise DifferentSubmissionError("refused")

    with pytest.raises(UnreachableError):
        await with_retries(away, QUICK)
    assert len(calls) == 3
    with pytest.raises(DifferentSubmissionError):
        await with_retries(refusing, QUICK)
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("asked", "obeyed"), [(0.0, 0.0), (5.0, 5.0), (1e9, 60.0), (float("inf"), 60.0)]
)
async def test_who_asks_to_be_left_alone_is_for_a_minute_at_most(
    asked: float, obeyed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def busy() -> None:
        error = BusyError("busy")
        error.wait_seconds = asked
        raise error

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(BusyError):
        await with_retries(busy, Backoff(attempts=3, first=1.0, longest=1.0))
    assert len(slept) == 2
    assert all(0.5 <= pause - obeyed < 1 for pause in slept)  # the random time comes on top


@pytest.mark.parametrize(
    ("call_seconds", "asked", "calls", "took"),
    [
        (0.0, 0.0, 8, 7.0),  # attempts end it, long before the time does
        (60.0, 0.0, 3, 182.0),  # the fourth would begin two minutes after the first one failed
        (0.0, 60.0, 2, 61.0),  # as would the third here
        (0.0, 1e9, 2, 61.0),
    ],
)
async def test_no_attempt_begins_when_its_time_is_over(
    call_seconds: float, asked: float, calls: int, took: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, begun = 1000.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def away() -> None:
        nonlocal now
        begun.append(now - 1000)
        now += call_seconds
        error = UnreachableError("away")
        error.wait_seconds = asked
        raise error

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr("shuffledp_client.transport.monotonic", lambda: now)
    with pytest.raises(UnreachableError):
        await with_retries(away, Backoff(first=1.0, longest=1.0, within=100.0))
    assert len(begun) == calls
    assert took - 0.5 * (calls - 1) <= now - 1000 <= took  # of each pause half is drawn at random
    assert begun[-1] <= call_seconds + 100


def test_pauses_double_up_to_a_limit_and_are_jittered() -> None:
    pauses = list(Backoff(attempts=6, first=1.0, longest=4.0).pauses(RandomIntegers(os.urandom)))
    for pause, length in zip(pauses, [1, 2, 4, 4, 4], strict=True):
        assert length / 2 <= pause < length
    # Each is one of 2^16 shares of its length: that all five are the same one has a chance of
    # 2^-64.
    assert len({pause / length for pause, length in zip(pauses, [1, 2, 4, 4, 4], strict=True)}) > 1
