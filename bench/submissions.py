"""The entry node against a bare gRPC server: what taking a submission costs above letting its bytes in.

Both get the same bytes over the same TLS from the same driver, in turn, so that what else the machine does touches both
alike. The driver keeps `UNDER_WAY` calls going; it takes a processor of its own, so that rates compare the two servers
less sharply than their processor time does.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench.machine import processor_seconds, resident
from shuffledp_client.submission import PreparedSubmission, check_receipt
from shuffledp_core.documents.models import Party
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.transport.tls import CLIENT, channel_to
from shuffledp_ops.rounds.running import control_of, open_round
from shuffledp_proto.v1 import batch_pb2, node_pb2, node_pb2_grpc
from shuffledp_sim.load.options import LoadOptions
from shuffledp_sim.system.processes import LocalBudget, LocalSystem
from shuffledp_sim.users.fleet import enrolled_users, verified_for
from shuffledp_sim.users.sealing import seal_users, sealing_pool, warm

USERS = 500
"""In one turn."""

TURNS = 8
"""Of each server; the first warms up and is not counted."""

CONNECTIONS = 32
UNDER_WAY = 64


@dataclass
class Server:
    """One of the two: its calls, its process, and what each counted turn cost."""

    stubs: list[node_pb2_grpc.NodeAsyncStub]
    pid: int
    rates: list[float]
    processor: list[float]
    memory: list[int]

    async def turn(self, requests: Sequence[list[node_pb2.SubmitRequest]]) -> list[bytes]:
        """The answers; notes submissions a second, processor seconds of each, and resident bytes before it."""
        places = asyncio.Semaphore(UNDER_WAY)

        async def one(number: int) -> bytes:
            async with places:
                call = self.stubs[number % len(self.stubs)].Submit(_stream(requests[number]), timeout=60.0)
                return (await call).receipt

        self.memory.append(resident(self.pid))
        before, began = processor_seconds(self.pid), time.perf_counter()
        answers = await asyncio.gather(*(one(number) for number in range(len(requests))))
        self.rates.append(len(requests) / (time.perf_counter() - began))
        self.processor.append((processor_seconds(self.pid) - before) / len(requests))
        return answers

    def bytes_a_user(self) -> float:
        """Slope of the resident memory over the turns after the warm-up, by user (least squares)."""
        after = [*self.memory[2:], resident(self.pid)]
        return float(np.polyfit(USERS * np.arange(len(after)), after, 1)[0])


async def _stream(requests: list[node_pb2.SubmitRequest]) -> AsyncIterator[node_pb2.SubmitRequest]:
    for request in requests:
        yield request


def _requests(one: PreparedSubmission) -> list[node_pb2.SubmitRequest]:
    header = node_pb2.SubmissionHeader(
        round_id=one.round_id, credential=one.credential.to_bytes(), claim=one.claim.to_bytes()
    )
    chunk = batch_pb2.Chunk(offset=0, data=one.envelope)
    return [node_pb2.SubmitRequest(header=header), node_pb2.SubmitRequest(chunk=chunk)]


async def compare() -> None:
    """Prints rates, processor time and memory of both, and their ratios."""
    with tempfile.TemporaryDirectory() as folder, sealing_pool() as pool:
        async with (
            LocalSystem(Path(folder), nodes=3, budget=LocalBudget(1e6, 1e-3)) as system,
            AsyncExitStack() as stack,
        ):
            await warm(pool)
            control = await stack.enter_async_context(control_of(system.deployment))
            opened = await open_round(control, LoadOptions(users=USERS * TURNS).plan(system))
            verified = verified_for(system, to_json(opened.announcement), opened.round_id)
            values = np.arange(USERS * TURNS, dtype=np.int64) % verified.mechanism.domain
            loop = asyncio.get_running_loop()
            pieces = [
                loop.run_in_executor(pool, seal_users, verified, users)
                for users in enrolled_users(system, verified, values)
            ]
            prepared = [submission for piece in await asyncio.gather(*pieces) for submission in piece]
            requests = [_requests(submission) for submission in prepared]
            entry = verified.entry
            node = await _connected(stack, system, entry, system.processes[entry.name].pid)
            receipts = await node.turn(requests[:USERS])
            bare = await _bare(stack, system, entry, len(receipts[0]))
            await bare.turn(requests[:USERS])
            for begin in range(USERS, len(requests), USERS):
                receipts += await node.turn(requests[begin : begin + USERS])
                await bare.turn(requests[begin : begin + USERS])
            for one, receipt in zip(prepared, receipts, strict=True):
                check_receipt(one, entry, Signed.from_bytes(receipt))
            _show(node, bare, verified.geometry.envelope_bytes)


async def _bare(stack: AsyncExitStack, system: LocalSystem, entry: Party, receipt_bytes: int) -> Server:
    config = str(system.folder / f"{entry.name}.toml")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shuffledp_sim.system.child", "bench.bare_server", config, str(receipt_bytes), stdout=PIPE
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    port = int(await process.stdout.readline()) if process.stdout else 0
    return await _connected(stack, system, msgspec.structs.replace(entry, address=f"127.0.0.1:{port}"), process.pid)


async def _connected(stack: AsyncExitStack, system: LocalSystem, party: Party, pid: int) -> Server:
    keys, roster = system.deployment.keys_of(CLIENT), system.deployment.roster
    channels = [
        await stack.enter_async_context(channel_to(party, keys, roster, own_connection=True))
        for _ in range(CONNECTIONS)
    ]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    return Server([node_pb2_grpc.NodeStub(channel) for channel in channels], pid, [], [], [])


def _show(node: Server, bare: Server, envelope_bytes: int) -> None:
    print(f"  {USERS * TURNS:,} users, envelopes of {envelope_bytes:,} bytes; medians of {TURNS - 1} turns")
    print("                       submissions/s   processor ms each   bytes kept a user")
    for name, one in (("entry node", node), ("bare gRPC server", bare)):
        spent = 1000 * statistics.median(one.processor[1:])
        print(f"  {name:<20} {statistics.median(one.rates[1:]):>14,.0f} {spent:>19.2f} {one.bytes_a_user():>19,.0f}")
    rate = statistics.median(a / b for a, b in zip(node.rates[1:], bare.rates[1:], strict=True))
    cost = statistics.median(a / b for a, b in zip(node.processor[1:], bare.processor[1:], strict=True))
    print(f"  accepted submissions a second / those of the bare server: {rate:.2f}")
    print(f"  processor time of a submission / that of the bare server: {cost:.2f}")


def run() -> None:
    """All of the above."""
    asyncio.run(compare())
