"""The entry node beyond its capacity: receipts per second as more and more users arrive.

The node's process is suspended and resumed, so that it gets a share of a processor and a single
load generator can offer ten times the node's capacity. Users arrive in an open loop, each with its
own submission, and ask again as real devices do. Compared is the rate of receipts at 1, 2, 5 and 10
times the capacity, which is measured first, with some calls under way all the time. `used` is the
node's processor time divided by its share of one processor: above 100%, since its threads run on
several.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import structlog

from bench.machine import processor_seconds
from bench.submissions import sealed_submissions
from shuffledp_client.submission import PreparedSubmission
from shuffledp_client.transport import Backoff, with_retries
from shuffledp_core.errors import BusyError, UnreachableError
from shuffledp_sim.load.arrivals import Timeline, arrival_times, drive
from shuffledp_sim.load.connections import EntryConnections, allow_open_files, connect_users
from shuffledp_sim.load.process import ArrivalProcess
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.sealing import sealing_pool, warm

FACTORS: Final = (1, 2, 5, 10)
"""Offered rates, as multiples of the capacity."""

SHARE: Final = 0.1
"""Share of the time in which the entry node may run."""

PERIOD: Final = 0.05
"""Seconds of one stop and one run."""

CALIBRATION: Final = 300
"""Users that show the capacity, after half as many that warm up."""

UNDER_WAY: Final = 64
"""Calls that are kept going while the capacity is measured."""

SECONDS: Final = 4.0
"""Seconds of arrivals at each rate."""

CONNECTIONS: Final = 200

MOST_USERS: Final = 9_000


_THROTTLE: Final = """
import os, signal, sys, time
pid, run, pause = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
while os.getppid() == int(sys.argv[4]):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(pause)
    os.kill(pid, signal.SIGCONT)
    time.sleep(run)
"""


@contextmanager
def throttle(pid: int) -> Iterator[None]:
    """Context that lets a process run only for `SHARE` of the time."""
    # A process of its own: the driver's loop is late just when it has most to send.
    times = [str(SHARE * PERIOD), str((1 - SHARE) * PERIOD)]
    command = [sys.executable, "-c", _THROTTLE, str(pid), *times, str(os.getpid())]
    process = subprocess.Popen(command)  # noqa: S603 - our own program and numbers
    try:
        yield
    finally:
        process.kill()
        process.wait()
        os.kill(pid, signal.SIGCONT)


@dataclass
class Arrivals:
    """Users that arrive at a constant rate, and the outcomes of their calls."""

    submissions: Sequence[PreparedSubmission]
    connections: EntryConnections
    pid: int
    spent: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    first_answers: list[float] = field(default_factory=list)

    async def submit(self, user: int) -> str:
        """Submits as a device does: `accepted`, or the reason of the last failure."""
        began = time.perf_counter()
        answered = False

        async def ask() -> None:
            nonlocal answered
            entries = self.connections.entries
            try:
                await entries[user % len(entries)].submit(self.submissions[user])
                self.outcomes["accepted"] += 1
                self.spent.append(processor_seconds(self.pid))
            except UnreachableError as error:
                kind = "busy" if isinstance(error, BusyError) else "closed or cancelled"
                self.outcomes[kind] += 1
                if kind != "busy":
                    self.reasons[str(error)] += 1
                raise
            finally:
                if not answered:
                    answered = True
                    self.first_answers.append(time.perf_counter() - began)

        try:
            await with_retries(ask, Backoff())
        except UnreachableError as error:
            return f"unanswered: {error}"
        return "accepted"


async def measure_capacity(
    connections: EntryConnections, submissions: Sequence[PreparedSubmission]
) -> float:
    """Receipts per second with `UNDER_WAY` calls in progress all the time."""
    places = asyncio.Semaphore(UNDER_WAY)

    async def call(user: int) -> None:
        async with places:
            await connections.entries[user % len(connections.entries)].submit(submissions[user])

    warming = CALIBRATION // 2
    await asyncio.gather(*map(call, range(warming)))
    began = time.perf_counter()
    await asyncio.gather(*map(call, range(warming, len(submissions))))
    return CALIBRATION / (time.perf_counter() - began)


def show(factor: int, rate: float, arrivals: Arrivals, timeline: Timeline, before: float) -> None:
    """Print a table row; `before` is the node's processor time when the first user arrived."""
    accepted = np.array([outcome == "accepted" for outcome in timeline.outcomes])
    finished = timeline.finished[accepted]
    within = np.count_nonzero(finished <= SECONDS) / SECONDS
    most = np.quantile(finished, 0.9)
    taken = np.count_nonzero(finished <= most)
    fraction = taken / most
    spent = arrivals.spent[taken - 1] - before
    calls = arrivals.outcomes
    print(
        f"  {factor:>3} {rate:>9,.0f} {within:>10,.0f} {fraction:>10,.0f}"
        f" {np.median(arrivals.first_answers):>10.2f}"
        f" {np.median(timeline.latency[accepted]):>10.2f}"
        f" {calls['busy']:>8,} {calls['closed or cancelled']:>8,}"
        f" {np.count_nonzero(~accepted):>8,} {1000 * spent / taken:>9.2f}"
        f" {spent / (SHARE * most):>8.0%}"
        f" {np.quantile(timeline.lateness, 0.99):>8.2f}",
        flush=True,
    )
    for reason, count in arrivals.reasons.most_common(3):
        print(f"      {count:,} times: {reason}", flush=True)


async def compare() -> None:
    """Prints the capacity, and a row for each rate."""
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        system = LocalSystem(Path(folder), nodes=3, budget=LocalBudget(1e6, 1e-3), forked=False)
        async with system:
            await warm(pool)
            verified, prepared = await sealed_submissions(system, pool, MOST_USERS)
            pid = system.processes[verified.entry.name].pid
            async with connect_users(
                system.deployment, verified, CONNECTIONS, lambda _done, _all: None
            ) as connections:
                with throttle(pid):
                    taken = CALIBRATION + CALIBRATION // 2
                    capacity = await measure_capacity(connections, prepared[:taken])
                    print(f"  capacity at {SHARE:.0%} of a processor: {capacity:,.0f} a second")
                    print(
                        "  times   offered   in the window  to 90%  first answer s  median wait s"
                        "  busy  closed  given up  node ms/receipt  used  driver late s"
                    )
                    for factor in FACTORS:
                        rate = factor * capacity
                        users = min(round(rate * SECONDS), MOST_USERS - taken)
                        arrivals = Arrivals(prepared[taken : taken + users], connections, pid)
                        taken += users
                        intended = arrival_times(
                            ArrivalProcess.POISSON, rate, users, np.random.default_rng(factor)
                        )
                        before = processor_seconds(pid)
                        timeline = await drive(intended, arrivals.submit)
                        show(factor, rate, arrivals, timeline, before)


def run() -> None:
    """Run all measurements of this module."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    allow_open_files(2 * CONNECTIONS)
    asyncio.run(compare())


if __name__ == "__main__":
    run()
