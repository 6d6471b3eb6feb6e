"""`make soak`, `python -m bench.soak --minutes 10`: all attacks at once, beside honest rounds.

A system of local processes is attacked repeatedly by devices without a credential, by strangers, by
a malicious broker and by a malicious node. `--without broker,node` leaves some of them out. The
exit code is 1 if an honest submission was lost or refused, a process died or took more memory than
its container has, or memory, descriptors or files grew from round to round.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console

from bench.machine import machine
from bench.soak.attacks import ATTACKS, BROKER, NODE
from bench.soak.watch import SystemWatch
from shuffledp.progress import Stages
from shuffledp_core.errors import ShuffleDPError
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.load.run import LoadTest
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.sealing import sealing_pool, warm

USERS = 200
"""Honest devices, each with a connection of its own."""

RATE = 20.0
"""Of their arrivals, a second."""

HONEST_NODES = 3
HOSTILE_NODE = f"node-{HONEST_NODES + 1}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long rounds are begun")
    parser.add_argument(
        "--without", default="", help=f"attacks to leave out, of {', '.join(ATTACKS)}"
    )
    return parser.parse_args()


async def soak(minutes: float, attacks: Sequence[str]) -> bool:
    """Attack the system and print the cost; returns True if it withstood."""
    with tempfile.TemporaryDirectory(prefix="shuffledp-") as folder, sealing_pool() as pool:
        programs = {HOSTILE_NODE: ["bench.soak.hostile_node"]} if NODE in attacks else {}
        if BROKER in attacks:
            programs["broker"] = ["bench.soak.hostile_broker"]
        os.environ.setdefault("MALLOC_ARENA_MAX", "2")  # as in deploy/compose.yaml
        local = LocalSystem(
            Path(folder) / "system",
            nodes=HONEST_NODES + 1,
            budget=LocalBudget(1e9, 0.5),
            programs=programs,
            forked=False,  # the memory of each is watched
        )
        async with local as system, _run_siege(system, attacks) as waves:
            await warm(pool)
            watch = SystemWatch(system)
            watching = asyncio.ensure_future(watch.run())
            rounds, end = 0, time.monotonic() + 60 * minutes
            try:
                while time.monotonic() < end:
                    rounds += 1
                    await _honest_round(system, Path(folder) / f"corpus-{rounds}", pool, watch)
                    await asyncio.to_thread(watch.after_round)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            print(
                "  waves of attacks: "
                f"{', '.join(f'{name} {number}' for name, number in sorted(waves.items()))}"
            )
            return watch.show()


@asynccontextmanager
async def _run_siege(system: LocalSystem, attacks: Sequence[str]) -> AsyncIterator[Counter[str]]:
    """Attack while the block runs, and count the waves of each attack."""
    command = [
        sys.executable,
        "-m",
        "shuffledp_sim.system.child",
        "bench.soak.attacks",
        str(system.folder),
        *attacks,
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL)
    waves: Counter[str] = Counter()

    async def count() -> None:
        while process.stdout is not None and (line := await process.stdout.readline()):
            waves[line.decode().strip()] += 1

    counting = asyncio.ensure_future(count())
    try:
        yield waves
        if process.returncode is not None:
            raise RuntimeError(
                "the attackers' process ended by itself; run `python -m bench.soak.attacks` to "
                "see why"
            )
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await counting


async def _honest_round(
    system: LocalSystem, corpus: Path, pool: ProcessPoolExecutor, watch: SystemWatch
) -> None:
    options = LoadOptions(
        users=USERS, connections=USERS, rate=RATE, mechanism="rr-shuffle", max_value=9, epsilon=2.0
    )
    plan = options.plan(system)
    began = time.perf_counter()
    try:
        async with control_of(system.deployment) as control:
            route = system.route[:HONEST_NODES]
            opened = await open_round(control, msgspec.structs.replace(plan, route=route))
        named = replace(options, keys=corpus, round_id=opened.round_id)
        pids = {name: process.pid for name, process in system.processes.items()}
        stages = Stages(Console(quiet=True))
        finding = await LoadTest(system, pids, named, corpus, pool, stages).run()
    except ShuffleDPError as error:
        watch.record_failure(f"{type(error).__name__}: {error}")
        return
    watch.took(finding.report, time.perf_counter() - began)


def main() -> None:
    """Run the soak test; exit code 0 if the system withstood all attacks."""
    options = _options()
    left_out = {name for name in options.without.split(",") if name}
    if unknown := left_out - set(ATTACKS):
        sys.exit(f"unknown attack {unknown.pop()}; choose from {', '.join(ATTACKS)}")
    print(machine())
    attacks = [name for name in ATTACKS if name not in left_out]
    print(
        f"\nsoak: {options.minutes:g} minutes, {USERS} honest devices a round; "
        f"{', '.join(attacks)}",
        flush=True,
    )
    sys.exit(0 if asyncio.run(soak(options.minutes, attacks)) else 1)


if __name__ == "__main__":
    main()
