"""Cost of a submission at the entry node, relative to a bare gRPC server.

The node gets submissions in one message, as from a device whose envelope fits, and others as a
stream; the bare server takes streams. All get the same bytes over the same TLS from the same
driver, in turn, so that other load on the machine affects all of them equally. The driver keeps
some calls going; it takes a processor of its own, so that rates compare the servers less sharply
than their processor time does. Once on few connections, and once on a thousand.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from bench.machine import processor_seconds, resident
from shuffledp_client.submission import PreparedSubmission, check_receipt
from shuffledp_client.verification import CheckedRound
from shuffledp_core.documents.models import Party
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.transport.tls import CLIENT, channel_to
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_proto.v1 import batch_pb2, node_pb2, node_pb2_grpc
from shuffledp_sim.load.connections import allow_open_files
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.fleet import enrolled_users, verified_for
from shuffledp_sim.users.sealing import seal_users, sealing_pool, warm


@dataclass(frozen=True)
class Load:
    """Number of users per turn of each server; the first of `turns` is a warm-up, not counted."""

    users: int
    turns: int
    connections: int
    under_way: int

    @property
    def users_per_way(self) -> int:
        """Number of users for each way to submit, over all turns."""
        return self.users * self.turns


FEW = Load(users=500, turns=8, connections=32, under_way=64)
MANY = Load(users=2_000, turns=6, connections=1_000, under_way=200)
"""10,000 users that count, after 2,000. With more under way the node begins to send those away that
send slowly.
"""

AT_ONCE = 100
"""Connections that shake hands at a time."""

STREAMS = 4
"""Over which a gateway brings what it has."""

TOGETHER = 8
"""Submissions that it brings in one message: what usually waits while one is sent."""

T = TypeVar("T")

Call = Callable[["node_pb2_grpc.NodeAsyncStub"], Awaitable[bytes]]
"""One submission, its request made already: sends it and gives the receipt."""


@dataclass
class Server:
    """An entry node under test: its connections, its process, and the measurements of each turn."""

    load: Load
    stubs: list[node_pb2_grpc.NodeAsyncStub]
    pid: int
    rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    driver: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    async def turn(self, calls: Sequence[Call]) -> list[bytes]:
        """Run one turn; returns the answers.

        Records submissions per second, processor seconds per submission, and resident bytes before.
        """
        places = asyncio.Semaphore(self.load.under_way)

        async def call_one(number: int) -> bytes:
            async with places:
                return await calls[number](self.stubs[number % len(self.stubs)])

        return await self.measure(
            len(calls), asyncio.gather(*(call_one(number) for number in range(len(calls))))
        )

    async def long_streams(self, submissions: Sequence[PreparedSubmission]) -> list[bytes]:
        """Run one `turn` over `STREAMS` streams, each with its part of the submissions."""

        async def call_stream(number: int) -> list[bytes]:
            part = submissions[number::STREAMS]
            requests = [
                together(part[start : start + TOGETHER]) for start in range(0, len(part), TOGETHER)
            ]
            return [
                answer.receipt
                async for response in self.stubs[number].SubmitMany(iter(requests), timeout=60.0)
                for answer in response.answers
            ]

        parts = await self.measure(
            len(submissions), asyncio.gather(*(call_stream(number) for number in range(STREAMS)))
        )
        return [parts[index % STREAMS][index // STREAMS] for index in range(len(submissions))]

    async def measure(self, submissions: int, work: Awaitable[list[T]]) -> list[T]:
        """Run the work and record its cost; returns its result."""
        self.memory.append(resident(self.pid))
        before = processor_seconds(self.pid)
        driver_before = time.process_time()
        began = time.perf_counter()
        answers = await work
        self.rates.append(submissions / (time.perf_counter() - began))
        self.processor.append((processor_seconds(self.pid) - before) / submissions)
        self.driver.append((time.process_time() - driver_before) / submissions)
        return answers

    def bytes_a_user(self) -> float:
        """Resident bytes per user: the least-squares slope after the warm-up."""
        after = [*self.memory[2:], resident(self.pid)]
        return float(np.polyfit(self.load.users * np.arange(len(after)), after, 1)[0])


def _header(submission: PreparedSubmission) -> node_pb2.SubmissionHeader:
    return node_pb2.SubmissionHeader(
        round_id=submission.round_id,
        credential=submission.credential.to_bytes(),
        claim=submission.claim.to_bytes(),
    )


def stream_call(submission: PreparedSubmission) -> Call:
    """A submission as a stream of two messages."""
    chunk = batch_pb2.Chunk(offset=0, data=submission.envelope)
    requests = [
        node_pb2.SubmitRequest(header=_header(submission)),
        node_pb2.SubmitRequest(chunk=chunk),
    ]

    async def stream() -> AsyncIterator[node_pb2.SubmitRequest]:
        for request in requests:
            yield request

    async def call(stub: node_pb2_grpc.NodeAsyncStub) -> bytes:
        return (await stub.Submit(stream(), timeout=60.0)).receipt

    return call


def whole_call(submission: PreparedSubmission) -> Call:
    """A submission in one message."""
    request = node_pb2.SubmitWholeRequest(header=_header(submission), envelope=submission.envelope)

    async def call(stub: node_pb2_grpc.NodeAsyncStub) -> bytes:
        return (await stub.SubmitWhole(request, timeout=60.0)).receipt

    return call


def together(some: Sequence[PreparedSubmission]) -> node_pb2.SubmitManyRequest:
    """Join submissions into one message of a long stream."""
    wholes = [
        node_pb2.SubmitWholeRequest(header=_header(submission), envelope=submission.envelope)
        for submission in some
    ]
    return node_pb2.SubmitManyRequest(submissions=wholes)


async def sealed_submissions(
    system: LocalSystem, pool: ProcessPoolExecutor, users: int
) -> tuple[CheckedRound, list[PreparedSubmission]]:
    """Open a round for `users` users of the load test, and seal a submission of each."""
    async with control_of(system.deployment) as control:
        opened = await open_round(control, LoadOptions(users=users).plan(system))
    verified = verified_for(system, to_json(opened.announcement), opened.round_id)
    values = np.arange(users, dtype=np.int64) % verified.mechanism.domain
    loop = asyncio.get_running_loop()
    pieces = [
        loop.run_in_executor(pool, seal_users, verified, chunk)
        for chunk in enrolled_users(system, verified, values)
    ]
    return verified, [submission for piece in await asyncio.gather(*pieces) for submission in piece]


async def compare(load: Load) -> None:
    """Print rates, processor time and memory of all servers, and their ratios."""
    every = 3 * load.users_per_way
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        async with (
            LocalSystem(
                Path(folder), nodes=3, budget=LocalBudget(1e6, 1e-3), forked=False
            ) as system,
            AsyncExitStack() as stack,
        ):
            await warm(pool)
            verified, prepared = await sealed_submissions(system, pool, every)
            entry = verified.entry
            single = [whole_call(p) for p in prepared[: load.users_per_way]]
            stream = [stream_call(p) for p in prepared[load.users_per_way : 2 * load.users_per_way]]
            many = prepared[2 * load.users_per_way :]
            node = await _connect(stack, system, entry, system.processes[entry.name].pid, load)
            same, long = (Server(load, node.stubs, node.pid) for _ in range(2))
            first = slice(load.users)
            receipts = await node.turn(single[first])
            others = await same.turn(stream[first])
            brought = await long.long_streams(many[first])
            bare = await _bare(stack, system, entry, len(receipts[0]), load)
            await bare.turn(stream[first])
            for begin in range(load.users, load.users_per_way, load.users):
                turn = slice(begin, begin + load.users)
                receipts += await node.turn(single[turn])
                await bare.turn(stream[turn])
                others += await same.turn(stream[turn])
                brought += await long.long_streams(many[turn])
            for submission, receipt in zip(prepared, receipts + others + brought, strict=True):
                check_receipt(submission, entry, Signed.from_bytes(receipt))
            ways = {"in one message": node, "as a stream": same, "many in a stream": long}
            _show(ways, bare, verified.geometry.envelope_bytes)


async def _bare(
    stack: AsyncExitStack, system: LocalSystem, entry: Party, receipt_bytes: int, load: Load
) -> Server:
    config = str(system.folder / f"{entry.name}.toml")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shuffledp_sim.system.child",
        "bench.bare_server",
        config,
        str(receipt_bytes),
        stdout=PIPE,
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    port = int(await process.stdout.readline()) if process.stdout else 0
    there = msgspec.structs.replace(entry, address=f"127.0.0.1:{port}")
    return await _connect(stack, system, there, process.pid, load)


async def _connect(
    stack: AsyncExitStack, system: LocalSystem, party: Party, pid: int, load: Load
) -> Server:
    keys, roster = system.deployment.keys_of(CLIENT), system.deployment.roster
    channels = [
        await stack.enter_async_context(channel_to(party, keys, roster, own_connection=True))
        for _ in range(load.connections)
    ]
    for begin in range(0, len(channels), AT_ONCE):
        await asyncio.gather(
            *(channel.channel_ready() for channel in channels[begin : begin + AT_ONCE])
        )
    return Server(load, [node_pb2_grpc.NodeStub(channel) for channel in channels], pid)


def _show(ways: dict[str, Server], bare: Server, envelope_bytes: int) -> None:
    load = bare.load
    print(
        f"  {load.connections:,} connections, {load.users_per_way:,} users each, envelopes of "
        f"{envelope_bytes:,} bytes; medians of {load.turns - 1} turns"
    )
    print(
        "                       submissions/s   processor ms each   the driver's   bytes kept a "
        "user"
    )
    for name, server in (*ways.items(), ("bare stream server", bare)):
        spent = 1000 * statistics.median(server.processor[1:])
        driver = 1000 * statistics.median(server.driver[1:])
        rate = statistics.median(server.rates[1:])
        print(
            f"  {name:<20} {rate:>14,.0f} {spent:>19.2f} {driver:>14.2f} "
            f"{server.bytes_a_user():>19,.0f}"
        )
    for name, server in ways.items():
        rate = statistics.median(
            a / b for a, b in zip(server.rates[1:], bare.rates[1:], strict=True)
        )
        cost = statistics.median(
            a / b for a, b in zip(server.processor[1:], bare.processor[1:], strict=True)
        )
        print(f"  {name}, / the bare server: rate {rate:.2f}, processor time {cost:.2f}")


def run() -> None:
    """Compare the servers on few connections and on many."""
    for load in (FEW, MANY):
        allow_open_files(2 * load.connections)
        asyncio.run(compare(load))
