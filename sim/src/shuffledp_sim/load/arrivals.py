"""Open-loop driver: users arrive at given times, and each one's outcome and latency are recorded.

Open loop: arrivals do not wait for answers, as real users do not wait for each other. Each latency
counts from the moment at which the user *meant* to start. A driver that waits for a slow server
before it sends the next request, or that counts from when it really sent, leaves out just the
waiting that the users of a slow server see ("coordinated omission": G. Tene, How NOT to Measure
Latency, 2015).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp_sim.load.process import ArrivalProcess

Seconds = NDArray[np.float64]


def arrival_times(
    process: ArrivalProcess, rate: float, count: int, random: np.random.Generator
) -> Seconds:
    """Planned starting times: shape (count,), in seconds from the start, ascending.

    Args:
        process: the arrival process.
        rate: users a second, above 0; the mean of the process.
        count: users.
        random: draws the gaps; nothing secret depends on it.
    """
    # Written so that NaN is refused.
    if not rate > 0:
        raise ValueError(f"a rate is above 0, not {rate}")
    gaps = (
        random.exponential(1 / rate, count)
        if process is ArrivalProcess.POISSON
        else np.full(count, 1 / rate)
    )
    return np.cumsum(gaps)


@dataclass(frozen=True)
class Timeline:
    """Times and outcome of each user.

    All arrays have shape (users,), seconds since the arrivals began.

    Attributes:
        intended: when the user meant to start.
        started: when the driver really started it.
        finished: when the answer was there and checked.
        outcomes: the answers of `send`.
    """

    intended: Seconds
    started: Seconds
    finished: Seconds
    outcomes: tuple[str, ...]

    @property
    def latency(self) -> Seconds:
        """Seconds from the planned start to the answer, with the driver's delay."""
        return self.finished - self.intended

    @property
    def lateness(self) -> Seconds:
        """Seconds by which the driver started each user late.

        When this is no longer small, the driver is the bottleneck and not the server.
        """
        return self.started - self.intended


async def drive(
    intended: Seconds,
    send: Callable[[int], Awaitable[str]],
    progress: Callable[[int, int], None] | None = None,
) -> Timeline:
    """Start `send(user)` at each planned time, whether or not earlier ones have ended.

    Returns when all are over.

    Args:
        intended: shape (users,), rising, seconds from now.
        send: one user's whole call; returns its outcome and raises only what should end the test.
        progress: called with the number of calls that are over, and their total.

    Raises:
        RuntimeError: a `send` ended without an outcome; such a test would count fewer users than
            arrived.
    """
    loop = asyncio.get_running_loop()
    users, over = len(intended), 0
    started = np.full(users, np.nan)
    finished = np.full(users, np.nan)
    outcomes = [""] * users
    began = loop.time()

    async def call(user: int) -> None:
        nonlocal over
        started[user] = loop.time() - began
        outcomes[user] = await send(user)
        finished[user] = loop.time() - began
        over += 1
        if progress is not None:
            progress(over, users)

    async with asyncio.TaskGroup() as group:
        for user, moment in enumerate(intended.tolist()):
            await asyncio.sleep(max(0.0, began + moment - loop.time()))
            group.create_task(call(user))
    if not all(outcomes):  # a task group passes over tasks that were cancelled from inside
        raise RuntimeError(
            f"{outcomes.count('')} users have no outcome: their calls were cancelled from outside"
        )
    return Timeline(intended, started, finished, tuple(outcomes))
